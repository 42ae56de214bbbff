"""The reading half of `format("headrace")`, as Spark's Python API wants it.

Spark makes readers in several processes: one that plans, which for a stream lives as long as the query, and one per
task. They get there pickled, so a reader holds options, and connects when it is asked for something.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headrace_spark.source.offsets import (
    from_document,
    made_anew,
    to_document,
    topic_ids_in,
    without_topics,
)
from headrace_spark.source.options import SourceOptions
from headrace_spark.source.plain_errors import without_traceback
from headrace_spark.source.planner import Planner
from headrace_spark.source.range_reader import read_range
from headrace_spark.source.ranges import backlog, check_starts, limit_ends, past_expired

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from headrace_spark.source.offsets import Document, Offsets, TopicIds
    from headrace_spark.source.ranges import OffsetRange


class RangePartition(InputPartition):
    """What a task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(tuple(wanted))
        self.wanted = wanted


class BatchReader(DataSourceReader):
    """For `spark.read`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        """In the planner's process: what the query reads, cut into tasks.

        Raises ValueError, DataLoss, ClientError, Refusal.
        """
        planner = Planner(self._options)
        try:
            return [RangePartition(wanted) for wanted in planner.batch_ranges()]
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the records of its range."""
        return _read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """For `spark.readStream`.

    Every method that asks the cluster raises ValueError, DataLoss, ClientError or Refusal.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._given = dict(options)
        self._schema = schema
        self._planner: Planner | None = None
        self._target: Offsets | None = None  # where an available-now query ends
        self._target_ids: TopicIds = {}
        self._latest: Offsets = {}
        self._last_batch_s = float("-inf")

    @cached_property
    def _options(self) -> SourceOptions:
        """Not read in the constructor, where it belongs: Spark hides errors from there behind one of its own."""
        return SourceOptions.parse(self._given).for_stream(self._schema)

    # In the planner's process.

    @without_traceback
    def initialOffset(self) -> Document:  # noqa: N802 - Spark's names, here and below
        """Where a query without a checkpoint starts."""
        planner = self._connected()
        return to_document(planner.initial_offsets(), planner.topic_ids)

    @without_traceback
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options say about the size of a batch."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note where an available-now query ends: at what there is now."""
        planner = self._connected()
        self._target = planner.latest_offsets()
        self._target_ids = planner.topic_ids

    @without_traceback
    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:  # noqa: N802
        """The end of the next batch. Losses are told here, before Spark writes the batch into its checkpoint."""
        planner = self._connected()
        starts, bounds, topic_ids = planner.available_offsets(from_document(start), topic_ids_in(start))
        check_starts(starts, bounds, planner.losses)
        self._latest = {name: bound.end for name, bound in bounds.items()}
        ends = self._within_target(self._latest, topic_ids)
        if not isinstance(limit, ReadAllAvailable):
            starts = past_expired(starts, bounds)
            if self._is_too_little(sum(backlog(starts, ends).values())):
                return start
            if isinstance(limit, ReadMaxRows):
                ends = limit_ends(starts, ends, limit.max_rows)
        return to_document(ends, topic_ids)

    def reportLatestOffset(self) -> Document | None:  # noqa: N802
        """What there was when the last batch was planned; Spark shows it beside what was read."""
        return to_document(self._latest) or None

    @without_traceback
    def partitions(self, start: Document, end: Document) -> Sequence[InputPartition]:
        """What the batch between these offsets reads, cut into tasks."""
        if start == end:
            return []  # so Spark asks when it restarts a query
        end_ids = topic_ids_in(end)
        # What the batch before read of a topic says nothing about another one of its name.
        starts = without_topics(from_document(start), made_anew(topic_ids_in(start), end_ids))
        ranges = self._connected().stream_ranges(starts, from_document(end), end_ids)
        return [RangePartition(wanted) for wanted in ranges]

    def commit(self, end: Document) -> None:
        """Nothing to keep: Spark's checkpoint has it, and `report_progress` tells the consumer group, in time."""

    def stop(self) -> None:
        """The query has ended: close the connection."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    # In a task's process.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of the task's range."""
        return _read(self._options, partition)

    # Inside.

    def _connected(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

    def _within_target(self, ends: Offsets, topic_ids: TopicIds) -> Offsets:
        """Not beyond what there was when an available-now query began; of a topic that was made anew since, what there
        is now.
        """
        if self._target is None:
            return ends
        anew = made_anew(self._target_ids, topic_ids)
        self._target |= {name: end for name, end in ends.items() if name.topic in anew}
        self._target_ids = topic_ids
        return {name: min(end, self._target[name]) for name, end in ends.items() if name in self._target}

    def _is_too_little(self, waiting: int) -> bool:
        """True if a batch is better put off: few records, and the last batch is not long ago."""
        least = self._options.min_offsets_per_trigger
        now_s = time.monotonic()
        is_due = now_s - self._last_batch_s >= self._options.max_trigger_delay_ms / 1000
        # An available-now query would end with these records unread.
        if least is None or self._target is not None or is_due or waiting >= least:
            self._last_batch_s = now_s
            return False
        return True


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, RangePartition):
        return read_range(options, partition.wanted)
    return iter(())  # Spark's stand-in where there are no partitions at all

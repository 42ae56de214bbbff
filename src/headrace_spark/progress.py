"""Shows Kafka's tools how far Spark's queries are: commits each finished batch to a consumer group.

A source's own `commit` would not do: Spark calls it one batch late, and never for the last batch of an available-now
query. So this listens to the query's progress, in the driver. Spark's checkpoint alone decides what is read next; the
group is for people and their lag alarms.
"""

from __future__ import annotations

import logging
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.groups.group_offsets import CommittedOffset, GroupMetadata, commit_offsets
from headrace.model.names import Offset
from headrace_spark.blocking import BlockingCluster
from headrace_spark.kafka_options import parse_kafka_options
from headrace_spark.source.offsets import parse_offsets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
    )

    from headrace_spark.kafka_options import KafkaOptions
    from headrace_spark.source.offsets import Offsets

log = logging.getLogger(__name__)

GROUP_PREFIX: Final = "pipeline."
COMMIT_FOR_S: Final = 5.0  # a commit that fails is made up for by the next batch's; events should not pile up behind it
DRAIN_MS: Final = 10_000  # for events that Spark has not delivered yet

# Spark tells a Python source's class in the JVM and nothing else of it: not its name, not its options.
_PYTHON_SOURCE: Final = "PythonMicroBatchStream"


def report_progress(
    spark: SparkSession,
    bootstrap_servers: str,
    *,
    group: str | None = None,
    queries: Collection[str] | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> ProgressReporter:
    """Commit the progress of this session's queries that read `format("headrace")`, from now on.

        with report_progress(spark, "127.0.0.1:9092"):
            orders.writeStream.queryName("orders-to-lake") …  # `headrace groups describe` shows pipeline.orders-to-lake

    Call it before the queries start, and `close` the result, or use it in a `with` block.

    Each query has the group `pipeline.<its name>` (its id, if it has no name). With `group`, all of them share that
    one: it stands at the lowest offset that they have, so that every query has what the group has passed.
    `queries` picks those of these names, and a shared group waits until all of them have reported. `options` are the
    source's that say how to come in: `kafka.security.protocol` and so on.

    A cluster that cannot be reached is a warning in the log, and ends no query. Raises ValueError if
    `bootstrap_servers` is not `host:port`, or several of them with commas between.
    """
    given = {**{name.lower(): value for name, value in options.items()}, "kafka.bootstrap.servers": bootstrap_servers}
    reporter = ProgressReporter(spark, parse_kafka_options(given), group, queries)
    spark.streams.addListener(reporter)
    return reporter


class ProgressReporter(StreamingQueryListener):
    """Never ends a query: what fails here is a warning in the log, and is tried again with the next batch."""

    def __init__(
        self, spark: SparkSession, kafka: KafkaOptions, group: str | None, queries: Collection[str] | None
    ) -> None:
        settings = ClusterSettings(
            client_id="headrace-spark-progress",
            request_timeout_s=COMMIT_FOR_S,
            retry_for_s=COMMIT_FOR_S,
            security=kafka.settings.security,
        )
        self._session = spark
        self._blocking = BlockingCluster(kafka.bootstrap_servers, settings)
        self._group = group
        self._queries = None if queries is None else frozenset(queries)
        self._lock = threading.Lock()  # Spark calls from several threads
        self._names: dict[str, str] = {}  # of queries that run, by run id
        self._positions: dict[str, GroupPosition] = {}
        if group is not None:
            self._positions[group] = GroupPosition(self._queries or ())
        self._coordinators: dict[str, Coordinator] = {}
        self._has_warned = False

    def __enter__(self) -> ProgressReporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """After what is finished has been committed."""
        try:
            # Spark tells of a batch some time after it, even after the query's end.
            self._session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(DRAIN_MS)
            self._session.streams.removeListener(self)
        except Exception as trouble:  # noqa: BLE001 - the session may be gone
            log.debug("the listener could not be taken back: %s", trouble)
        self._blocking.close()

    # What Spark calls.

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Spark calls it: from now on the query's group waits for it."""
        name = event.name or str(event.id)
        if self._queries is None or name in self._queries:
            with self._lock:
                self._names[str(event.runId)] = name
                self._position(name).expect(name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Spark calls it after each batch: commits what the query has read."""
        progress = event.progress
        name = progress.name or str(progress.id)
        if self._queries is not None and name not in self._queries:
            return
        offsets = lowest_of(_headrace_offsets(progress.sources))
        with self._lock:
            position = self._position(name)
            position.reached(name, offsets)
            lowest = position.lowest()
        if lowest:
            self._commit(self._group_of(name), lowest)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Spark calls it if there was nothing to read: the group need not wait for this query."""
        self._is_silent(str(event.runId))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Spark calls it at the end of a query."""
        if event.exception is None:
            self._is_silent(str(event.runId))
        self._names.pop(str(event.runId), None)

    # Inside.

    def _is_silent(self, run_id: str) -> None:
        """The group must not wait for a query that has nothing to read and reports nothing."""
        with self._lock:
            name = self._names.get(run_id)
            if name is not None:
                self._position(name).excuse(name)

    def _group_of(self, query: str) -> str:
        return self._group or GROUP_PREFIX + query

    def _position(self, query: str) -> GroupPosition:
        return self._positions.setdefault(self._group_of(query), GroupPosition())

    def _commit(self, group: str, offsets: Offsets) -> None:
        try:
            self._blocking.run(self._commit_to(group, offsets))
            self._has_warned = False
        except Exception as trouble:  # noqa: BLE001 - see the class
            if not self._has_warned:
                log.warning(
                    "the progress of group %r could not be committed, so its lag is not current: %s", group, trouble
                )
            self._has_warned = True

    async def _commit_to(self, group: str, offsets: Offsets) -> None:
        coordinator = self._coordinators.get(group)
        if coordinator is None:
            coordinator = Coordinator(self._blocking.cluster, CoordinatorKind.GROUP, group)
            self._coordinators[group] = coordinator
        committed = {name: CommittedOffset(Offset(offset)) for name, offset in offsets.items()}
        await commit_offsets(coordinator, GroupMetadata(group), committed)


class GroupPosition:
    """How far the queries of one group are."""

    def __init__(self, queries: Iterable[str] = ()) -> None:
        # None: it has not told yet. What it has read is unknown, so nothing can be committed.
        self._offsets: dict[str, Offsets | None] = dict.fromkeys(queries)

    def expect(self, query: str) -> None:
        """It runs, and will tell how far it is."""
        self._offsets.setdefault(query, None)

    def reached(self, query: str, offsets: Offsets) -> None:
        """It has read all before these offsets."""
        self._offsets[query] = offsets

    def excuse(self, query: str) -> None:
        """It has nothing to tell."""
        if self._offsets.get(query) is None:
            self._offsets[query] = {}

    def lowest(self) -> Offsets:
        """What all queries have read, partition by partition; nothing while one has not told yet."""
        known = [offsets for offsets in self._offsets.values() if offsets is not None]
        return lowest_of(known) if len(known) == len(self._offsets) else {}


def lowest_of(positions: Iterable[Offsets]) -> Offsets:
    """Partition by partition, among those who read it."""
    lowest: Offsets = {}
    for offsets in positions:
        for name, offset in offsets.items():
            lowest[name] = min(offset, lowest.get(name, offset))
    return lowest


def _headrace_offsets(sources: Iterable[SourceProgress]) -> Iterable[Offsets]:
    """The ends of those sources that are ours, as far as that can be told.

    Progress names a source by its class in the JVM, which all Python sources share. Ours are those whose offsets have
    our form, topics and partitions. The official connector's offsets have it too, but it is no Python source.
    """
    for source in sources:
        if _PYTHON_SOURCE in source.description and source.endOffset:
            try:
                yield parse_offsets(source.endOffset)
            except ValueError:
                continue

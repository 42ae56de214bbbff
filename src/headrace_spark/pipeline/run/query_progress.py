"""What Spark tells of a query's batches, as the few numbers that people look at."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace_spark.source.offsets import from_document, made_anew, parse_offsets, topic_ids_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from headrace_spark.pipeline.status.query_status import QueryStatus
    from headrace_spark.source.offsets import Offsets, TopicIds


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One finished batch."""

    query: str
    batch_id: int
    at: str
    rows: int
    rows_per_s: float
    batch_ms: int
    lag: int | None
    state_rows: int
    state_bytes: int
    late_rows: int = 0
    """Dropped by the operators that keep state, because the watermark had passed them."""
    topics_made_anew: tuple[str, ...] = ()
    """Read from their beginning: they are not those that the batch before had read."""


class ProgressReader:
    """Follows one query. Each batch is reported once."""

    def __init__(self, query: StreamingQuery, status: QueryStatus) -> None:
        self._query = query
        self._batch_id = -1  # the last that was reported
        self.status = status

    def take(self) -> list[BatchProgress]:
        """The batches that were finished since the last call; `status` follows them."""
        batches = []
        for reported in self._query.recentProgress:
            progress = progress_of(self.status.sink, reported)
            if progress.batch_id <= self._batch_id:
                continue
            if _is_idle(reported):
                # No batch, just a sign of life; what it says of the lag is news all the same.
                self.status = replace(self.status, lag=progress.lag, rows_per_s=0.0, is_failing=False)
                continue
            self._batch_id = progress.batch_id
            self.status = _advanced(self.status, progress)
            batches.append(progress)
        return batches


def progress_of(name: str, reported: Mapping[str, Any]) -> BatchProgress:
    """One of Spark's progress reports of the query of this name."""
    operators = reported["stateOperators"]
    return BatchProgress(
        query=name,
        batch_id=reported["batchId"],
        at=reported["timestamp"],
        rows=reported["numInputRows"],
        rows_per_s=round(reported["processedRowsPerSecond"] or 0.0, 1),
        batch_ms=reported["batchDuration"],
        lag=lag_of(reported["sources"]),
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        late_rows=sum(operator["numRowsDroppedByWatermark"] for operator in operators),
        topics_made_anew=topics_made_anew(reported["sources"]),
    )


def lag_of(sources: list[Mapping[str, Any]]) -> int | None:
    """Records between what was read and what there is; None if a source does not say, or none is there to say it."""
    if not sources:
        return None
    lag = 0
    for source in sources:
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if end is None or latest is None:
            return None
        lag += sum(max(0, offset - end.get(name, 0)) for name, offset in latest.items())
    return lag


def topics_made_anew(sources: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """Those that have another id at the batch's end than at its start."""
    found: set[str] = set()
    for source in sources:
        found |= made_anew(_topic_ids(source["startOffset"]), _topic_ids(source["endOffset"]))
    return tuple(sorted(found))


def _topic_ids(reported: Any) -> TopicIds:
    try:
        return topic_ids_in(json.loads(reported) if isinstance(reported, str) else reported)
    except ValueError:
        return {}  # another source's form


def _offsets(reported: Any) -> Offsets | None:
    """Spark gives them as text or read already, or not at all; other sources have other forms."""
    try:
        return parse_offsets(reported) if isinstance(reported, str) else from_document(reported)
    except ValueError:
        return None


def _is_idle(reported: Mapping[str, Any]) -> bool:
    """Spark reports every ten seconds that there was nothing to do, under the number of the batch to come."""
    return "addBatch" not in reported["durationMs"]


def _advanced(status: QueryStatus, progress: BatchProgress) -> QueryStatus:
    return replace(
        status,
        batch_id=progress.batch_id,
        rows=status.rows + progress.rows,
        rows_per_s=progress.rows_per_s,
        batch_ms=progress.batch_ms,
        lag=progress.lag,
        state_rows=progress.state_rows,
        state_bytes=progress.state_bytes,
        is_failing=False,
        late_rows=status.late_rows + progress.late_rows,
        topics_made_anew=tuple(sorted({*status.topics_made_anew, *progress.topics_made_anew})),
    )

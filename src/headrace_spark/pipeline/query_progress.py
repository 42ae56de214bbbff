"""What Spark tells of a query's batches, as the few numbers that people look at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace_spark.source_offsets import from_document, parse_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from headrace_spark.pipeline.query_state import QueryState
    from headrace_spark.source_offsets import Offsets


@dataclass(frozen=True, slots=True)
class Progress:
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


class ProgressReader:
    """Follows one query. Each batch is told once."""

    def __init__(self, query: StreamingQuery, state: QueryState) -> None:
        self._query = query
        self._batch_id = -1  # the last that was told
        self.state = state

    def take(self) -> list[Progress]:
        batches = []
        for told in self._query.recentProgress:
            progress = progress_of(self.state.sink, told)
            if progress.batch_id <= self._batch_id:
                continue
            if _is_idle(told):
                # No batch, just a sign of life; what it says of the lag is news all the same.
                self.state = replace(self.state, lag=progress.lag, rows_per_s=0.0, is_failing=False)
                continue
            self._batch_id = progress.batch_id
            self.state = _advanced(self.state, progress)
            batches.append(progress)
        return batches


def progress_of(name: str, told: Mapping[str, Any]) -> Progress:
    operators = told["stateOperators"]
    return Progress(
        query=name,
        batch_id=told["batchId"],
        at=told["timestamp"],
        rows=told["numInputRows"],
        rows_per_s=round(told["processedRowsPerSecond"] or 0.0, 1),
        batch_ms=told["batchDuration"],
        lag=lag_of(told["sources"]),
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
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


def _offsets(told: Any) -> Offsets | None:
    """Spark gives them as text or read already, or not at all; other sources have other forms."""
    try:
        return parse_offsets(told) if isinstance(told, str) else from_document(told)
    except ValueError:
        return None


def _is_idle(told: Mapping[str, Any]) -> bool:
    """Spark reports every ten seconds that there was nothing to do, under the number of the batch to come."""
    return "addBatch" not in told["durationMs"]


def _advanced(state: QueryState, progress: Progress) -> QueryState:
    return replace(
        state,
        batch_id=progress.batch_id,
        rows=state.rows + progress.rows,
        rows_per_s=progress.rows_per_s,
        batch_ms=progress.batch_ms,
        lag=progress.lag,
        state_rows=progress.state_rows,
        state_bytes=progress.state_bytes,
        is_failing=False,
    )

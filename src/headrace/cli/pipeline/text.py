"""How a pipeline's run is shown. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.terminal.output import bytes_text, duration_text, facts_text, moment_text, table
from headrace_spark.pipeline.status.run_status import RunState

if TYPE_CHECKING:
    from datetime import datetime

    from headrace_spark.pipeline.status.query_status import QueryStatus
    from headrace_spark.pipeline.status.run_status import RunStatus

UNKNOWN = "unknown"


def run_facts(run: RunStatus, now: datetime) -> dict[str, Any]:
    """All that is known, ready for JSON."""
    return {**run.to_json(), "is_alive": run.is_alive(now)}


def run_row(run: RunStatus, now: datetime) -> tuple[object, ...]:
    """NAME, STATE, QUERIES, ROWS/S, LAG, SINCE, WHERE."""
    is_alive = run.is_alive(now)
    speeds = [query.rows_per_s for query in run.queries if query.rows_per_s is not None]
    return (
        run.name,
        state_text(run, now),
        len(run.queries),
        round(max(speeds)) if speeds and is_alive else None,
        _lag(run),
        moment_text(_ms(run.started_at)),
        run.where,
    )


def state_text(run: RunStatus, now: datetime) -> str:
    if run.state.is_over or run.is_alive(now):
        return str(run.state)
    return f"{run.state}, {silence_text(run, now)}"


def silence_text(run: RunStatus, now: datetime) -> str:
    return f"no sign of life for {duration_text(int(run.silent_s(now) * 1000))}"


def status_text(run: RunStatus, now: datetime) -> str:
    facts: list[tuple[str, object]] = [
        ("Pipeline", run.name),
        ("State", state_text(run, now)),
        ("Where", run.where),
        ("Master", run.master),
        ("Started", moment_text(_ms(run.started_at))),
        ("Ended" if run.state.is_over else "Last seen", moment_text(_ms(run.updated_at))),
    ]
    if run.restarts:
        facts.append(("Restarts", run.restarts))
    if run.error:
        facts.append(("Error" if run.state is RunState.FAILED else "Last error", _error_text(run)))
    lines = [facts_text(facts)]
    if run.queries:
        lines += ["", table(_QUERY_COLUMNS, [_query_row(query) for query in run.queries])]
    lines += [_failing_text(query) for query in run.queries if query.is_failing]
    lines += [
        f"{query.sink}: topic {topic!r} was deleted and made anew, and is read from its beginning"
        for query in run.queries
        for topic in query.topics_made_anew
    ]
    return "\n".join(lines)


_QUERY_COLUMNS = (
    *("QUERY", "STATE", "BATCH", "ROWS", "ROWS/S", "LAG", "BATCH TIME"),
    *("LATE ROWS", "RESTARTS", "STATE ROWS", "STATE SIZE"),
)


def _query_row(query: QueryStatus) -> tuple[object, ...]:
    return (
        query.sink,
        _health(query),
        query.batch_id,
        query.rows,
        None if query.rows_per_s is None else round(query.rows_per_s),
        UNKNOWN if query.lag is None else query.lag,
        None if query.batch_ms is None else duration_text(query.batch_ms),
        query.late_rows,
        query.restarts,
        query.state_rows or None,
        bytes_text(query.state_bytes) if query.state_rows else None,
    )


def _health(query: QueryStatus) -> str | None:
    if query.is_failing:
        return "failing"
    return None if query.rows_per_s is None else "ok"  # without a word of it in this attempt nothing is known


def _error_text(run: RunStatus) -> str:
    when = "" if run.error_at is None else f"{moment_text(_ms(run.error_at))} "
    where = "" if run.error_in is None else f"in {run.error_in}"
    place = f"{when}{where}".strip()
    return f"{place}: {run.error}" if place else str(run.error)


def _failing_text(query: QueryStatus) -> str:
    """The error that a query has not got over; it may be another than the run's last."""
    when = "" if query.error_at is None else f" at {moment_text(_ms(query.error_at))}"
    where = "" if query.error_batch is None else f" in batch {query.error_batch}"
    return f"{query.sink} failed{when}{where}: {query.error}"


def _lag(run: RunStatus) -> int | str | None:
    """The way of the slowest query; the others read the same topics. Not known of all is not known."""
    if any(query.lag is None for query in run.queries):
        return UNKNOWN
    return max((query.lag for query in run.queries if query.lag is not None), default=None)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)

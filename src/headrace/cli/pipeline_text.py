"""How a pipeline's run is shown. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.output import bytes_text, duration_text, facts_text, moment_text, table

if TYPE_CHECKING:
    from datetime import datetime

    from headrace_spark.pipeline.state import RunState


def run_facts(run: RunState, now: datetime) -> dict[str, Any]:
    """All that is known, ready for JSON."""
    return {**run.to_json(), "is_alive": run.is_alive(now)}


def run_row(run: RunState, now: datetime) -> tuple[object, ...]:
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
        run.place,
    )


def state_text(run: RunState, now: datetime) -> str:
    if run.state.is_over or run.is_alive(now):
        return str(run.state)
    return f"{run.state}, {silence_text(run, now)}"


def silence_text(run: RunState, now: datetime) -> str:
    return f"no sign of life for {duration_text(int(run.silent_s(now) * 1000))}"


def status_text(run: RunState, now: datetime) -> str:
    facts: list[tuple[str, object]] = [
        ("Pipeline", run.name),
        ("State", state_text(run, now)),
        ("Where", run.place),
        ("Master", run.master),
        ("Started", moment_text(_ms(run.started_at))),
        ("Ended" if run.state.is_over else "Last seen", moment_text(_ms(run.updated_at))),
    ]
    if run.restarts:
        facts.append(("Restarts", run.restarts))
    if run.error:
        facts.append(("Error", run.error))
    lines = [facts_text(facts)]
    if run.queries:
        rows = [
            (
                query.sink,
                query.batch_id,
                query.rows,
                None if query.rows_per_s is None else round(query.rows_per_s),
                query.lag,
                None if query.batch_ms is None else duration_text(query.batch_ms),
                query.state_rows or None,
                bytes_text(query.state_bytes) if query.state_rows else None,
            )
            for query in run.queries
        ]
        columns = ("QUERY", "BATCH", "ROWS", "ROWS/S", "LAG", "BATCH TIME", "STATE ROWS", "STATE SIZE")
        lines += ["", table(columns, rows)]
    return "\n".join(lines)


def _lag(run: RunState) -> int | None:
    """The way of the slowest query; the others read the same topics."""
    lags = [query.lag for query in run.queries if query.lag is not None]
    return max(lags) if lags else None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)

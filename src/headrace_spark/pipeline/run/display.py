"""How a run looks: a live table for people, lines of JSON for programs.

On stdout stands what the pipeline says: JSON lines, or the rows of a console sink. The live table is talk, on stderr.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace_spark.pipeline.status.run_status import RunState

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.table import Table

    from headrace_spark.pipeline.file.spec import Pipeline
    from headrace_spark.pipeline.run.failures import PipelineFailure
    from headrace_spark.pipeline.run.query_progress import BatchProgress
    from headrace_spark.pipeline.status.run_status import RunStatus

UNKNOWN = "-"


class JsonLines:
    """Every line is an object with `event` and `pipeline`; those about a batch also have `query` and `batch_id`."""

    def __init__(self, pipeline: Pipeline, answer: Callable[[str], None]) -> None:
        self._name = pipeline.name
        self._answer = answer
        self._state: RunState | None = None

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def tell(self, run: RunStatus) -> None:
        """An event `state`, if the state has changed."""
        if run.state == self._state:
            return
        self._state = run.state
        error = {"error": run.error} if run.error and run.state in {RunState.DEGRADED, RunState.FAILED} else {}
        self._print("state", state=run.state, run_id=run.run_id, **error)

    def batch(self, progress: BatchProgress) -> None:
        """An event `batch`."""
        self._print("batch", **asdict(progress))

    def rows(self, query: str, batch_id: int, rows: list[dict[str, Any]], more_count: int) -> None:
        """An event `rows`: what a console sink shows."""
        self._print("rows", query=query, batch_id=batch_id, rows=rows, more=more_count)

    def restarting(self, failure: PipelineFailure, pause_s: float) -> None:
        """An event `restart`."""
        self._print(
            "restart",
            query=failure.query,
            batch_id=failure.batch_id,
            error=str(failure),
            details=failure.details,
            pause_s=pause_s,
        )

    def _print(self, event: str, **facts: Any) -> None:
        self._answer(json.dumps({"event": event, "pipeline": self._name, **facts}, ensure_ascii=False))


class LiveTable:
    """One row for each query, drawn anew as things change. Without a terminal, only as it was at the end."""

    def __init__(self, pipeline: Pipeline, answer: Callable[[str], None]) -> None:
        from rich.console import Console  # noqa: PLC0415 - only for people
        from rich.live import Live  # noqa: PLC0415

        self._pipeline = pipeline
        self._answer = answer
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._last: RunStatus | None = None

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        if not self._console.is_terminal:
            self._console.line()  # rich leaves the last line open there

    def tell(self, run: RunStatus) -> None:
        """Draw the table anew, if something in it has changed."""
        if self._last is None or (self._last.state, self._last.queries) != (run.state, run.queries):
            self._last = run
            self._live.update(_table(run), refresh=True)

    def batch(self, progress: BatchProgress) -> None:
        """The table has it already."""

    def rows(self, query: str, batch_id: int, rows: list[dict[str, Any]], more_count: int) -> None:
        """What a console sink shows, above the table."""
        lines = [f"{self._pipeline.name}, {query}, batch {batch_id}:"]
        lines += ["  " + json.dumps(row, ensure_ascii=False) for row in rows]
        if more_count:
            lines.append(f"  … and {more_count:,} more")
        if sys.stdout.isatty():
            self._console.print("\n".join(lines), markup=False, highlight=False)  # above the table, not through it
        else:
            self._answer("\n".join(lines))

    def restarting(self, failure: PipelineFailure, pause_s: float) -> None:
        """One sentence above the table: what failed, and when it goes on."""
        where = f" in {failure.query}" if failure.query else ""
        more = f" (more in {failure.details})" if failure.details else ""
        text = f"failed{where}: {failure}{more}; starting again in {pause_s:g} s"
        self._console.print(text, markup=False, highlight=False)


def _table(run: RunStatus) -> Table:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=f"{run.name}: {run.state}", title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("QUERY", overflow="fold")
    for title in ("BATCH", "ROWS", "ROWS/S", "LAG", "LATE", "TIME", "STATE"):
        table.add_column(title, justify="right")
    for query in run.queries:
        table.add_row(
            f"{query.sink} (failing)" if query.is_failing else query.sink,
            _number(query.batch_id),
            _number(query.rows),
            _number(None if query.rows_per_s is None else round(query.rows_per_s)),
            _number(query.lag),
            _number(query.late_rows),
            UNKNOWN if query.batch_ms is None else f"{query.batch_ms / 1000:.1f} s",
            f"{query.state_rows:,} rows, {query.state_bytes / 1e6:.1f} MB" if query.state_rows else UNKNOWN,
        )
    return table


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"

"""What `headrace export` and `headrace import` share: Spark, a bar, complaints."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from headrace.cli.terminal.complaints import FAILED, INTERRUPTED, NOT_FOUND, Complaint, Interrupted
from headrace.cli.terminal.output import talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

INSTALL_SPARK = "pip install 'headrace[spark]'"

master_option = click.option(
    "--master", default="local[*]", show_default=True, help="Where Spark runs: this machine, or a cluster's address."
)


class ShowProgress(Protocol):
    """How far it is: of a total, with the rows and bytes so far."""

    def __call__(self, done: float, total: float, rows: int, record_bytes: int) -> None: ...


@contextmanager
def spark_session(app_name: str, master: str) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from headrace_spark.java import JavaUnsuitable
    from headrace_spark.session import start_session

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active  # whoever started it stops it
        return
    if sys.stderr.isatty():
        talk("starting Spark…")
    try:
        # Two attempts at one piece of work would be in each other's way, and none of it is slow by chance.
        spark = start_session(app_name, master=master, conf={"spark.speculation": "false"})
    except JavaUnsuitable as unsuitable:
        raise Complaint(str(unsuitable)) from unsuitable
    except Exception as error:
        if type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise Complaint(f"Spark does not start on {master!r}: {_first_line(error)}") from error
        raise
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def failures_told(go_on: str) -> Iterator[None]:
    """Say in words what stops the work. Ctrl-C too: `go_on` tells how to take it up again.

    Around every import of `headrace_spark`, too: what that needs may not be installed.
    """
    from headrace_spark.offline.errors import OfflineFailed

    try:
        yield
    except OfflineFailed as failed:
        raise Complaint(str(failed), failed.hint or go_on, NOT_FOUND if failed.is_not_found else FAILED) from failed
    except ModuleNotFoundError as missing:
        raise Complaint(f"this command needs {missing.name}, which is not installed", INSTALL_SPARK) from missing
    except KeyboardInterrupt as stop:
        talk(go_on)
        raise Interrupted(INTERRUPTED) from stop


@contextmanager
def progress_of(label: str) -> Iterator[ShowProgress]:
    """A bar with rows, MB/s and the time that is left. Nothing unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total, rows, record_bytes: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(label),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[speed]:.0f} MB/s"),
        TimeRemainingColumn(),
    )
    started_s = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, rows=0, speed=0.0)

        def show(done: float, total: float, rows: int, record_bytes: int) -> None:
            speed = record_bytes / 1e6 / max(time.monotonic() - started_s, 1e-3)
            bar.update(task, completed=done, total=total, rows=rows, speed=speed)

        yield show


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

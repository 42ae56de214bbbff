"""`headrace demo`: a tour of the commands, on a node of its own.

Every step is a real command in a process of its own, printed before it runs, so that whatever is seen can be typed.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from headrace.cli.complaints import TERMINATED, Complaint, Interrupted
from headrace.cli.options import BOOTSTRAP_SERVER_VARIABLE, HELP
from headrace.cli.output import talk

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES: Final = "headrace.cli.samples"
ORDERS_FILE: Final = "orders.txt"
PIPELINE_FILE: Final = "orders-per-minute.toml"
SPARK_MODULES: Final = ("pyspark", "pyarrow")  # the rest of the extra comes with them
ANY_PORT: Final = "127.0.0.1:0"
STOP_S: Final = 30.0  # against hangs; a node flushes its logs and is gone in a fraction of a second
_READY = re.compile(r"is ready: kafka://(\S+)")


class Step(NamedTuple):
    """Something to show: why, and the command for it. `stdin` is a file of the tour."""

    reason: str
    arguments: tuple[str, ...]
    stdin: str | None = None

    @property
    def line(self) -> str:
        """As one would type it."""
        return f"headrace {shlex.join(self.arguments)}" + (f" < {self.stdin}" if self.stdin else "")


FIRST_STEPS: Final = (
    Step("A topic with three partitions.", ("topics", "create", "--name", "orders", "--partitions", "3")),
    Step(
        "Eleven orders; what stands before the | is the key. One came twice, and two are wrong.",
        ("produce", "--topic", "orders", "--key-separator", "|"),
        stdin=ORDERS_FILE,
    ),
    Step("Read what is in one partition.", ("consume", "--topic", "orders", "--partition", "2")),
    Step(
        "Read as a group, which remembers its place.",
        ("consume", "--topic", "orders", "--group", "billing", "--max-messages", "3"),
    ),
    Step("How far is the group behind?", ("lag", "--group", "billing")),
)

SPARK_STEPS: Final = (
    Step(
        "A pipeline on Spark: orders in, sums per minute out. Spark takes some seconds to start.",
        ("pipeline", "run", PIPELINE_FILE),
    ),
    Step(
        "What came out, exactly once.",
        ("consume", "--topic", "orders-per-minute", "--isolation", "read-committed"),
    ),
    Step(
        "The wrong orders, each with the reason in its headers.",
        ("consume", "--topic", "orders-per-minute.dead-letters", "--show", "value,headers"),
    ),
    Step("Spark's own place, as every Kafka tool sees it.", ("lag", "--group", "pipeline.orders-per-minute")),
)


@click.command("demo", context_settings=HELP)
@click.option("--stay", is_flag=True, help="Leave the node running after the tour, until Ctrl-C.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the node's data and the tour's files here. Default: a temporary place, removed at the end.",
)
def command(stay: bool, directory: Path | None) -> None:
    """Take a tour: start a node, write, read, and run a pipeline on Spark.

    The node is a new one on free ports; nothing that runs already is touched.
    """
    signal.signal(signal.SIGTERM, _tidy_up)
    with _place(directory) as home, _node(home) as address:
        for name in (ORDERS_FILE, PIPELINE_FILE):
            (home / name).write_text(files(SAMPLES).joinpath(name).read_text())
        for step in FIRST_STEPS:
            _show(step, home, address)
        if all(find_spec(name) for name in SPARK_MODULES):
            for step in SPARK_STEPS:
                _show(step, home, address)
        else:
            talk("\nThe tour goes on with a pipeline on Spark after: pip install 'headrace[spark]'")
        if stay:
            _stay(home, address)


def _tidy_up(*_: object) -> None:
    """SIGTERM must not leave the node behind."""
    raise Interrupted(TERMINATED)


@contextmanager
def _place(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="headrace-demo-") as temporary:
            yield Path(temporary)
        return
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise Complaint(f"{directory} is not empty; expected a new place for the tour", "give another --dir")
    yield directory.resolve()


@contextmanager
def _node(home: Path) -> Iterator[str]:
    command = [*_headrace(), "serve", "--data-dir", str(home / "data"), "--listen", ANY_PORT, "--http", ANY_PORT]
    with (home / "node.log").open("w") as log:
        node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603 - our own command
    try:
        assert node.stdout is not None
        ready = _READY.search(node.stdout.readline())
        if ready is None:
            raise Complaint(f"the node did not start:\n{(home / 'node.log').read_text()}")
        yield ready[1]
    finally:
        node.terminate()
        try:
            node.wait(STOP_S)
        except subprocess.TimeoutExpired:
            node.kill()


def _show(step: Step, home: Path, address: str) -> None:
    talk(f"\n# {step.reason}")
    click.secho(f"$ {step.line}", bold=True, err=True)
    with (home / step.stdin if step.stdin else Path(os.devnull)).open("rb") as stdin:
        ended = subprocess.run(  # noqa: S603 - our own command
            [*_headrace(), *step.arguments],
            stdin=stdin,
            cwd=home,
            env={**os.environ, BOOTSTRAP_SERVER_VARIABLE: address},
            check=False,
        )
    if ended.returncode:
        raise Complaint(f"the tour ends here: that command failed with exit code {ended.returncode}")


def _stay(home: Path, address: str) -> None:
    talk(f"\nThe node stays until Ctrl-C, with its files in {home}. To use it from another terminal:")
    talk(f"$ export {BOOTSTRAP_SERVER_VARIABLE}={address}")
    with suppress(KeyboardInterrupt):
        signal.pause()


def _headrace() -> list[str]:
    return [sys.executable, "-m", "headrace"]

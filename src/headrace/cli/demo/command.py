"""`headrace demo`: a tour of the commands, on a cluster of its own, one node of which is killed on the way.

Every step is a real command in a process of its own, printed before it runs, so that whatever is seen can be typed.
"""

from __future__ import annotations

import os
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

from headrace.cli.terminal.complaints import TERMINATED, Complaint, Interrupted
from headrace.cli.terminal.options import BOOTSTRAP_SERVER_VARIABLE, COMMAND_CONFIG_VARIABLE, HELP
from headrace.cli.terminal.output import talk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.cli.demo.nodes import DemoNodes

SAMPLES: Final = "headrace.cli.samples"
ORDERS_FILE: Final = "orders.txt"
PIPELINE_FILE: Final = "orders-per-minute.toml"
SPARK_MODULES: Final = ("pyspark", "pyarrow")  # the rest of the extra comes with them
ONE_NODE, THREE_NODES = "1", "3"


class Step(NamedTuple):
    """Something to show: why, and the command for it. `stdin` is a file of the tour."""

    reason: str
    arguments: tuple[str, ...]
    stdin: str | None = None
    exit_code: int = 0

    @property
    def line(self) -> str:
        """As one would type it."""
        return f"headrace {shlex.join(self.arguments)}" + (f" < {self.stdin}" if self.stdin else "")


CLUSTER_STEPS: Final = (Step("Who is there?", ("cluster", "status")),)

FIRST_STEPS: Final = (
    Step("A topic with three partitions.", ("topics", "create", "--name", "orders", "--partitions", "3")),
    Step("Who leads each of them, and who has all of it?", ("topics", "describe", "--name", "orders")),
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

PAYMENTS: Final = Step(
    "Now for what a cluster is for: a leader dies under load. A topic with three copies, of which two must agree.",
    ("topics", "create", "--name", "payments", "--partitions", "3", "--config", "min.insync.replicas=2"),
)

LOSS_STEPS: Final = (
    Step("What others see of the loss. Exit code 3 says that something is wrong.", ("cluster", "status"), exit_code=3),
    Step("The group goes on.", ("lag", "--group", "audit")),
)

RETURN_STEPS: Final = (
    Step(
        "The node has its copies again, but leads nothing. It would within minutes; this does it now.",
        ("cluster", "elect-leaders", "--topic", "payments"),
    ),
    Step("All is as it was.", ("topics", "describe", "--name", "payments")),
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
@click.option(
    "--nodes",
    "node_count",
    type=click.Choice([ONE_NODE, THREE_NODES]),
    default=THREE_NODES,
    show_default=True,
    help="Three, of which one is killed and comes back; or one, for a short tour.",
)
@click.option("--stay", is_flag=True, help="Leave the nodes running after the tour, until Ctrl-C.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the nodes' data and the tour's files here. Default: a temporary place, removed at the end.",
)
def command(node_count: str, stay: bool, directory: Path | None) -> None:
    """Take a tour: start a cluster, write, read, kill a leader under load, and run a pipeline on Spark.

    The nodes are new ones on free ports; nothing that runs already is touched. Ctrl-C ends them all.
    """
    from headrace.cli.demo.nodes import DemoNodes

    signal.signal(signal.SIGTERM, _tidy_up)
    is_cluster = node_count == THREE_NODES
    with _place(directory) as home:
        for name in (ORDERS_FILE, PIPELINE_FILE):
            (home / name).write_text(files(SAMPLES).joinpath(name).read_text())
        talk("Starting three nodes, each a process of its own." if is_cluster else "Starting a node.")
        with DemoNodes(home, int(node_count)) as nodes:
            _take(nodes, (*CLUSTER_STEPS, *FIRST_STEPS) if is_cluster else FIRST_STEPS)
            if is_cluster:
                _lose_and_recover(nodes)
            _run_pipeline(nodes)
            if stay:
                _stay(nodes)


def _lose_and_recover(nodes: DemoNodes) -> None:
    from headrace.cli.demo.leader_loss import lose_a_leader

    _take(nodes, [PAYMENTS])
    lose_a_leader(nodes, lambda: _take(nodes, LOSS_STEPS))
    signal.signal(signal.SIGTERM, _tidy_up)  # asyncio has taken its own handler away, and ours with it
    _take(nodes, RETURN_STEPS)


def _run_pipeline(nodes: DemoNodes) -> None:
    if all(find_spec(name) for name in SPARK_MODULES):
        _take(nodes, SPARK_STEPS)
    else:
        talk("\nThe tour goes on with a pipeline on Spark after: pip install 'headrace[spark]'")


def _tidy_up(*_: object) -> None:
    """SIGTERM must not leave nodes behind."""
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


def _take(nodes: DemoNodes, steps: Iterable[Step]) -> None:
    for step in steps:
        _show(step, nodes.home, nodes.bootstrap_servers)


def _show(step: Step, home: Path, address: str) -> None:
    talk(f"\n# {step.reason}")
    click.secho(f"$ {step.line}", bold=True, err=True)
    with (home / step.stdin if step.stdin else Path(os.devnull)).open("rb") as stdin:
        ended = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "headrace", *step.arguments],
            stdin=stdin,
            cwd=home,
            env={**os.environ, BOOTSTRAP_SERVER_VARIABLE: address, COMMAND_CONFIG_VARIABLE: ""},
            check=False,
        )
    if ended.returncode != step.exit_code:
        raise Complaint(f"the tour ends here: that command failed with exit code {ended.returncode}")


def _stay(nodes: DemoNodes) -> None:
    talk(f"\nThe nodes stay until Ctrl-C, with their files in {nodes.home}. To use them from another terminal:")
    talk(f"$ export {BOOTSTRAP_SERVER_VARIABLE}={nodes.bootstrap_servers}")
    with suppress(KeyboardInterrupt):
        signal.pause()

"""`headrace consume --follow` while no node is there: it waits, says so once, and goes on where it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.clients.clusters import wait_until
from tests.clients.commands import call, environment
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

_LESS_PATIENCE = """
import sys
from headrace.cli import app
from headrace.cli.messages import absent_nodes
from headrace.cli.terminal import session
session.RETRY_FOR_S = 3.0
absent_nodes.HICCUP_S = 3.5
sys.exit(app.run(sys.argv[1:]))
"""
IMPATIENT = (sys.executable, "-c", _LESS_PATIENCE)
"""The command, with less patience: whoever says that it waits would have given up by then."""

AWAY = "no node of the cluster answers; waiting until one does"
BACK = "the cluster answers again"


class Follower:
    """`consume --follow` in a process of its own; its lines go to files that can be looked at any time."""

    def __init__(self, home: Path, node: NodeProcess, topic: str, *arguments: str) -> None:
        self._out = home / new_name("out")
        self._talk = home / new_name("talk")
        with self._out.open("w") as out, self._talk.open("w") as talk:
            self.running = subprocess.Popen(
                [*IMPATIENT, "consume", "--topic", topic, "--follow", *arguments],
                stdout=out,
                stderr=talk,
                env=environment(node.bootstrap_servers),
            )

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.running.kill()
        self.running.wait(PATIENCE_S)

    def wait_until_it_says(self, line: str) -> None:
        wait_until(lambda: line in self.talk or self.running.poll() is not None, f"it says {line!r}, or ends")
        assert line in self.talk

    def stop(self, number: signal.Signals) -> int:
        self.running.send_signal(number)
        return self.running.wait(PATIENCE_S)

    @property
    def lines(self) -> list[str]:
        return sorted(self._out.read_text().splitlines())

    @property
    def talk(self) -> list[str]:
        return self._talk.read_text().splitlines()


@pytest.fixture
def node(start_node: Callable[[dict[str, str]], NodeProcess]) -> NodeProcess:
    return start_node({"group.initial.rebalance.delay.ms": "0"})


def send(node: NodeProcess, topic: str, text: str) -> list[str]:
    """A message to each of two partitions."""
    for partition in "01":
        sent = call(
            node.bootstrap_servers, "produce", "--topic", topic, "--partition", partition, stdin=f"{text} {partition}"
        )
        assert sent.code == 0, sent.talk
    return [f"{text} 0", f"{text} 1"]


WAYS = {
    "alone": [],
    "chosen partitions": ["--partition", "0", "--partition", "1"],
    "by time": ["--order", "time"],
    "at least once": ["--group", "at-least"],
    "at most once": ["--group", "at-most", "--delivery", "at-most-once"],
}


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_whoever_follows_waits_for_the_cluster_and_loses_and_repeats_nothing(
    node: NodeProcess, tmp_path: Path, ending: str
) -> None:
    topic = node.create_topic(new_name(), partitions=2)
    copies = node.create_topic(new_name("copies"), partitions=2)
    early = send(node, topic, "early")
    with ExitStack() as stack:
        readers = [stack.enter_context(Follower(tmp_path, node, topic, *way)) for way in WAYS.values()]
        copier = stack.enter_context(Follower(tmp_path, node, topic, "--group", "copiers", "--to-topic", copies))
        watcher = stack.enter_context(Follower(tmp_path, node, copies, "--isolation", "read-committed"))
        everybody = [*readers, watcher]
        for follower in everybody:
            wait_until(lambda it=follower: it.lines == early, "it reads")
        getattr(node, ending)()
        for follower in (*everybody, copier):
            follower.wait_until_it_says(AWAY)
        node.start()
        late = send(node, topic, "late")
        for follower in everybody:
            wait_until(lambda it=follower: len(it.lines) >= 4, "it goes on")
            assert follower.lines == [*early, *late]
        for follower in (*everybody, copier):
            follower.wait_until_it_says(BACK)
            assert follower.stop(signal.SIGTERM) == 143
            assert (follower.talk.count(AWAY), follower.talk.count(BACK)) == (1, 1)
            assert not [line for line in follower.talk if line.startswith("error")]
        assert "copied 4 messages" in copier.talk
    for way in ("at-least", "at-most", "copiers"):
        rest = call(node.bootstrap_servers, "consume", "--topic", topic, "--group", way)
        assert (rest.code, rest.lines) == (0, [])


@pytest.mark.parametrize(("stop", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_whoever_waits_can_be_stopped(node: NodeProcess, tmp_path: Path, stop: signal.Signals, exit_code: int) -> None:
    topic = node.create_topic(new_name(), partitions=2)
    early = send(node, topic, "early")
    with (
        Follower(tmp_path, node, topic) as alone,
        Follower(tmp_path, node, topic, "--group", "g") as member,
    ):
        for follower in (alone, member):
            wait_until(lambda it=follower: it.lines == early, "it reads")
        node.stop()
        for follower in (alone, member):
            follower.wait_until_it_says(AWAY)
            assert follower.stop(stop) == exit_code
            assert follower.talk[-1] == "read 2 messages"

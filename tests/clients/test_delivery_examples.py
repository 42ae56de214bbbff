"""The examples of docs/delivery.md do what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.clients.nodes import PATIENCE_S, NodeProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.told_blocks import ToldBlocks

pytest_plugins = ["tests.docs.told_blocks"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "delivery"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A group's first members need not wait for others, so that the examples are quick."""
    running = NodeProcess(tmp_path_factory.mktemp("node"), {"group.initial.rebalance.delay.ms": "0"}).start()
    try:
        yield running
    finally:
        running.stop()


def lines_of(example: str, node: NodeProcess) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{example}.py"), node.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


LINES = {
    "at_most_once": "at most once: 5 of 30 orders lost [15, 16, 17, 18, 19], 0 repeated []",
    "at_least_once": "at least once: 0 of 30 orders lost [], 5 repeated [10, 11, 12, 13, 14]",
    "exactly_once": "exactly once: 0 of 30 orders lost [], 0 repeated []",
}


def test_a_consumer_that_crashes_keeps_its_promise(node: NodeProcess, told_blocks: ToldBlocks) -> None:
    run = set()
    for block in told_blocks.take_all():
        (command,) = block.commands
        example = command.line.removeprefix("python examples/delivery/").removesuffix(".py")
        assert lines_of(example, node) == [LINES[example]]
        assert command.shown == LINES[example] + "\n"
        run.add(example)
    assert run == set(LINES)


def test_the_command_keeps_the_same_promises(node: NodeProcess) -> None:
    found = [
        re.fullmatch(r"(.*): (\d+) of 30 orders lost .*, (\d+) repeated .*", line)
        for line in lines_of("with_the_command", node)
    ]
    counts = {match[1]: (int(match[2]), int(match[3])) for match in found if match is not None}
    assert list(counts) == ["at most once", "at least once", "exactly once"]
    assert counts["at most once"][0] > 0
    assert counts["at most once"][1] == 0
    assert counts["at least once"] == (0, 5)
    assert counts["exactly once"] == (0, 0)

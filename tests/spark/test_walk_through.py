"""docs/walk-through.md is true: every command in it is run as it stands, and prints what the page shows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from headrace.cli.demo.command import FIRST_STEPS, ORDERS_FILE, PIPELINE_FILE, SAMPLES, SPARK_STEPS
from tests.docs.blocks import ROOT, blocks_of
from tests.docs.terminal import Terminal, masked

if TYPE_CHECKING:
    from tests.clients.nodes import NodeProcess
    from tests.docs.told_blocks import ToldBlocks

pytestmark = pytest.mark.xdist_group("spark")
pytest_plugins = ["tests.clients.node_fixtures", "tests.docs.told_blocks"]

SAMPLES_DIRECTORY: Final = ROOT / "src" / Path(*SAMPLES.split("."))


@pytest.mark.timeout(2400)  # several commands start a JVM
def test_every_command_prints_what_the_page_shows(
    own_node: NodeProcess, tmp_path: Path, told_blocks: ToldBlocks
) -> None:
    terminal = Terminal(tmp_path / "laptop", own_node.bootstrap_servers)
    for name in (ORDERS_FILE, PIPELINE_FILE):
        shutil.copy(SAMPLES_DIRECTORY / name, terminal.home)
    for block in told_blocks.take_all():
        terminal.follow(block)


def test_the_files_on_the_page_are_those_of_the_demo(told_blocks: ToldBlocks) -> None:
    assert told_blocks.take("tea|").text == (SAMPLES_DIRECTORY / ORDERS_FILE).read_text()
    assert told_blocks.take("# How much is sold").text == (SAMPLES_DIRECTORY / PIPELINE_FILE).read_text()


def test_commands_of_the_front_page_are_shown_to_work(told_blocks: ToldBlocks) -> None:
    """By the demo or by the walk-through, which are both run."""
    walked = {command.line for block in blocks_of("docs/walk-through.md") for command in block.commands}
    shown = {step.line for step in (*FIRST_STEPS, *SPARK_STEPS)} | walked
    on_front_page = {command.line for block in told_blocks.take_all() for command in block.commands}
    assert on_front_page
    assert on_front_page <= shown


def test_what_varies_is_masked_and_nothing_else() -> None:
    assert masked("sent 3 messages (41 B) in 0.01 s: 356 messages/s") == masked(
        "sent 3 messages (41 B) in 12 s: 4,001 messages/s"
    )
    assert masked("sent 3 messages (41 B) in 0.01 s: 1 messages/s") != masked(
        "sent 4 messages (41 B) in 0.01 s: 1 messages/s"
    )
    assert masked(" sums   0   11   23   0   3   1.2 s   7 rows, 0.1 MB") == masked(
        " sums   0   11    2   0   3    12.0 s   7 rows, 11.0 MB"
    )
    assert masked(" sums   0   11   23   0   3   1.2 s   7 rows, 0.1 MB") != masked(
        " sums   0   11   23   1   3   1.2 s   7 rows, 0.1 MB"
    )

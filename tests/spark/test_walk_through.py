"""docs/walk-through.md is true: every command in it is run as it stands, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from headrace.cli.demo.command import FIRST_STEPS, ORDERS_FILE, PIPELINE_FILE, SAMPLES, SPARK_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.nodes import NodeProcess

pytestmark = pytest.mark.xdist_group("spark")
pytest_plugins = ["tests.clients.node_fixtures"]

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "walk-through.md"
SAMPLES_DIRECTORY: Final = ROOT / "src" / Path(*SAMPLES.split("."))
PATIENCE_S: Final = 600.0  # for one command, against hangs only; some start a JVM
COLUMNS: Final = "100"  # how wide the page's tables are

# What differs from run to run, and what stands for it when two texts are compared.
VARIABLE: Final = (
    (r"^WARNING: Using incubator modules: .*\n", ""),  # by Java, where it is the machine's own
    (r"^( \S+ +\d+ +\d+ +)[\d,]+( +\d+ +\d+ +[\d.]+ s )", r"\1(rate)\2"),  # a query in the pipeline's table
    (r"rows, [\d.]+ MB", "rows, (size)"),
    (r"[\d,.]+ (?:MB|messages)/s", "(rate)"),
    (r"[\d.]+ (?:s|min)\b", "(duration)"),
    (r"(headrace-dlq-at=)[\dT:.-]+Z", r"\1(moment)"),
    (r"^(files: .* files?,) [\d.]+ \w+", r"\1 (size)"),
    (r" {2,}", "  "),  # columns are as wide as what is in them
    (r"─+", "─"),
    (r"[ \t]+$", ""),
)


class Command(NamedTuple):
    line: str
    output: str


def blocks(page: Path, language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return found


def commands(page: Path) -> Iterator[Command]:
    """What stands after `$`, and the lines up to the next one."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            yield Command(line, output)


def masked(text: str) -> str:
    for pattern, stand_in in VARIABLE:
        text = re.sub(pattern, stand_in, text, flags=re.MULTILINE)
    return text.strip()


@pytest.fixture
def shell_environment(own_node: NodeProcess, tmp_path: Path) -> dict[str, str]:
    """`headrace` and `python` as in an activated environment, and a node where they look for one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, arguments in {"headrace": "-m headrace", "python": ""}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HEADRACE_BOOTSTRAP_SERVER": own_node.bootstrap_servers,
        "COLUMNS": COLUMNS,
    }


@pytest.mark.timeout(2400)  # several commands start a JVM
def test_every_command_prints_what_the_page_shows(shell_environment: dict[str, str], tmp_path: Path) -> None:
    place = tmp_path / "laptop"
    place.mkdir()
    for name in (ORDERS_FILE, PIPELINE_FILE):
        shutil.copy(SAMPLES_DIRECTORY / name, place)
    for command in commands(PAGE):
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.line],
            cwd=place,
            env=shell_environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ran.returncode == 0, f"$ {command.line}\n{ran.stdout}"
        assert masked(ran.stdout) == masked(command.output), f"$ {command.line}\n{ran.stdout}"


def test_the_files_on_the_page_are_those_of_the_demo() -> None:
    assert blocks(PAGE, "text") == [(SAMPLES_DIRECTORY / ORDERS_FILE).read_text()]
    assert blocks(PAGE, "toml") == [(SAMPLES_DIRECTORY / PIPELINE_FILE).read_text()]


def test_commands_of_the_front_page_are_shown_to_work() -> None:
    """By the demo or by the walk-through, which are both run."""
    shown = {step.line for step in (*FIRST_STEPS, *SPARK_STEPS)} | {command.line for command in commands(PAGE)}
    on_front_page = {command.line for command in commands(ROOT / "README.md")}
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

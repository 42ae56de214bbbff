"""What the pages tell those who work on Headrace: commands that take minutes or hours are run small, or as far as their
arguments are understood."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from headrace.simulation.__main__ import main as simulate
from tests.docs.blocks import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.docs.told_blocks import ToldBlocks

pytest_plugins = ["tests.docs.told_blocks"]

PATIENCE_S = 120.0


def run_here(*arguments: str, **environment: str) -> None:
    ran = subprocess.run(
        arguments,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, f"{shlex.join(arguments)}\n{ran.stdout}"


def test_make_knows_what_it_is_told(told_blocks: ToldBlocks) -> None:
    for block in told_blocks.take_all():
        for command in block.commands:
            words = shlex.split(command.line)
            if words[0] == "make":
                run_here("make", "--dry-run", *words[1:])


def test_the_simulator_takes_its_options(
    told_blocks: ToldBlocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one short seed instead of many long ones."""
    monkeypatch.chdir(tmp_path)
    for command in told_blocks.take("python -m headrace.simulation").commands:
        _, _, _, *options = shlex.split(command.line)
        assert simulate([*options, "--seeds", "1", "--trouble", "2"]) == 0, command.line


def test_a_campaign_is_found_where_it_is_told_to_be(told_blocks: ToldBlocks) -> None:
    (command,) = told_blocks.take("HEADRACE_ROUNDS=").commands
    variable, program, *arguments = shlex.split(command.line)
    assert program == "pytest"
    name, _, value = variable.partition("=")
    run_here(sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments, **{name: value})

"""A command imports only what it needs: start-up time is what a user of a command line feels first."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.cli.app import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {
    "rich",
    "pydantic",
    "cramjam",
    "prometheus_client",
    "h11",
    "headrace.broker",
    "headrace.storage",
    "headrace.servers",
}
NOBODY = "127.0.0.1:1"  # nothing listens on port 1


def loaded_by(*arguments: str) -> set[str]:
    """Names of all modules that one run of the command imports, and of the packages around them."""
    command = [sys.executable, "-X", "importtime", "-m", "headrace", *arguments]
    trace = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr
    modules = {line.rpartition("|")[2].strip() for line in trace.splitlines() if line.startswith("import time:")}
    return modules | {name.rsplit(".", depth)[0] for name in modules for depth in range(1, name.count(".") + 1)}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_needs_next_to_nothing(arguments: list[str]) -> None:
    loaded = loaded_by(*arguments)
    assert "headrace.cli.app" in loaded
    assert not loaded & (HEAVY | {"asyncio", "headrace.client", "headrace.wire"})


def test_a_node_loads_no_more_than_its_settings_ask_for(tmp_path: Path) -> None:
    place = ["--data-dir", str(tmp_path / "data"), "--http", "off"]
    loaded = loaded_by("serve", *place, "--node-id", "4", "--voters", "1@127.0.0.1:1")  # not among them: refused
    assert "headrace.cli.serve.node_process" in loaded
    assert not loaded & {"jwt", "cryptography", "urllib.request", "prometheus_client"}


@pytest.mark.parametrize(
    "arguments",
    [["topics", "list"], ["cluster", "status"], ["configs", "describe", "--topic", "t"], ["consume", "--topic", "t"]],
)
def test_a_question_needs_the_client_alone(arguments: list[str]) -> None:
    loaded = loaded_by("--bootstrap-server", NOBODY, *arguments)
    assert "headrace.client.connections.cluster" in loaded
    assert not loaded & HEAVY

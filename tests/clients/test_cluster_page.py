"""docs/cluster.md is true: its commands run as they stand, and print what the page shows, numbers aside."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.clients.clusters import wait_until
from tests.clients.commands import COMMAND, call, call_here, environment
from tests.clients.dev_clusters import DevCluster, dev_cluster
from tests.clients.nodes import PATIENCE_S
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("cluster")

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
VICTIM = 2

# What differs from run to run, and what stands for it when two texts are compared.
VARIABLE = (
    (r"^(Cluster: +)\S+$", r"\1(id)"),
    (r"[\d.]+ (?:B|KB)\b", "(size)"),
    (r"\b(?:controller|voter)( +\d+ +\d+ +\d+)$", r"(role)\1"),
    (r"\d[\d.,:]*", "N"),
    (r" {2,}", "  "),  # columns are as wide as what is in them
    (r"[ \t]+$", ""),
)


class Block(NamedTuple):
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL):
        yield Block(language, text)


def masked(text: str) -> str:
    for pattern, stand_in in VARIABLE:
        text = re.sub(pattern, stand_in, text, flags=re.MULTILINE)
    return text.strip()


def run_console(text: str, shell_environment: dict[str, str]) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            env=shell_environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ran.returncode == 0, f"$ {line}\n{ran.stdout}"
        assert masked(ran.stdout) == masked(shown), f"$ {line}\n{ran.stdout}"
        assert ("exit code 3" in ran.stdout) == ("exit code 3" in shown)


@pytest.fixture
def headrace_on_path(tmp_path: Path) -> str:
    """A directory with `headrace`, as in an activated environment."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "headrace"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace "$@"\n')
    program.chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


def is_loss_told(cluster: DevCluster) -> bool:
    """By each that is left: a command asks any of them. A voter falls silent a little later than it is missed."""
    others = [address for place, address in enumerate(cluster.addresses.split(","), 1) if place != VICTIM]
    return all(
        call_here(address, "cluster", "under-replicated").code != 0
        and "silent:" in call_here(address, "cluster", "status").out
        for address in others
    )


def is_whole(cluster: DevCluster) -> bool:
    """As each node tells it."""
    return all(call_here(it, "cluster", "under-replicated").code == 0 for it in cluster.addresses.split(","))


@pytest.mark.timeout(300)
def test_every_command_prints_what_the_page_shows(headrace_on_path: str, tmp_path: Path) -> None:
    revived: list[subprocess.Popen[bytes]] = []
    with dev_cluster(tmp_path) as cluster:
        shell_environment = {**environment(cluster.addresses), "PATH": headrace_on_path}
        try:
            for language, text in blocks():
                if language == "console":
                    run_console(text, shell_environment)
                elif text.startswith("kill -9"):
                    os.kill(cluster.pid_of(VICTIM), signal.SIGKILL)
                    wait_until(lambda: is_loss_told(cluster), "the loss is noticed")
                elif text.startswith(f"headrace serve --node-id {VICTIM}"):
                    revived.append(start_as_told(cluster, tmp_path))
                    wait_until(lambda: is_whole(cluster), "all copies are in sync again")
        finally:
            for running in revived:
                running.terminate()
                running.wait(PATIENCE_S)
    assert revived


def start_as_told(cluster: DevCluster, home: Path) -> subprocess.Popen[bytes]:
    """With the command that `headrace dev` has printed."""
    (line,) = re.findall(rf"^  headrace (serve --node-id {VICTIM} .*)$", cluster.log_path.read_text(), re.MULTILINE)
    with (home / "revived.log").open("wb") as log:
        return subprocess.Popen([*COMMAND, *shlex.split(line)], stdout=log, stderr=log)


@pytest.mark.timeout(300)
def test_three_machines_make_a_cluster(tmp_path: Path) -> None:
    """Its commands, with addresses of this machine in place of theirs."""
    (text,) = (text for _, text in blocks() if text.startswith("headrace serve --node-id 1"))
    addresses = sorted(set(re.findall(r"10\.0\.0\.\d:\d+", text)))
    local = {told: f"127.0.0.1:{port}" for told, port in zip(addresses, free_ports(len(addresses)), strict=True)}
    for told, here in local.items():
        text = text.replace(told, here)
    nodes = []
    try:
        for number, line in enumerate(text.splitlines()):
            arguments = shlex.split(line.replace("/var/lib/headrace", str(tmp_path / str(number))))[1:]
            with (tmp_path / f"{number}.log").open("wb") as log:
                nodes.append(subprocess.Popen([*COMMAND, *arguments], stdout=log, stderr=log))
        wait_until(
            lambda: all("is ready" in (tmp_path / f"{number}.log").read_text() for number in range(3)), "all are ready"
        )
        bootstrap = local["10.0.0.3:9092"]
        assert call(bootstrap, "topics", "create", "--name", "events").code == 0
        describe = ("topics", "describe", "--name", "events")
        wait_until(lambda: call_here(bootstrap, *describe).code == 0, "who is asked knows the topic")
        (line,) = call(bootstrap, *describe).lines
        assert re.fullmatch(r"Partition 0: Leader=\d, ISR=\[\d,\d,\d\]", line)
    finally:
        for running in nodes:
            running.terminate()
        codes = [running.wait(PATIENCE_S) for running in nodes]
    assert codes == [0, 0, 0]

"""docs/cluster.md is true: its commands run as they stand, and print what the page shows, numbers aside."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.clients.clusters import wait_until
from tests.clients.commands import COMMAND, call, call_here
from tests.clients.dev_clusters import DevCluster, dev_cluster
from tests.clients.nodes import PATIENCE_S
from tests.docs.terminal import NUMBERS, Terminal, masked
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.docs.blocks import Block
    from tests.docs.told_blocks import ToldBlocks

pytestmark = pytest.mark.xdist_group("cluster")
pytest_plugins = ["tests.docs.told_blocks"]

VICTIM = 2


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
def test_every_command_prints_what_the_page_shows(tmp_path: Path, told_blocks: ToldBlocks) -> None:
    revived: list[subprocess.Popen[bytes]] = []
    with dev_cluster(tmp_path) as cluster:
        terminal = Terminal(tmp_path / "reader", cluster.addresses)
        try:
            for block in told_blocks.take_all():
                if block.first_line == "$ headrace dev --nodes 3":
                    assert masked(cluster.ready, NUMBERS) == masked(block.commands[0].shown, NUMBERS)
                elif block.text.startswith("kill -9"):
                    os.kill(cluster.pid_of(VICTIM), signal.SIGKILL)
                    wait_until(lambda: is_loss_told(cluster), "the loss is noticed")
                elif block.text.startswith(f"headrace serve --node-id {VICTIM}"):
                    revived.append(start_as_told(cluster, tmp_path))
                    wait_until(lambda: is_whole(cluster), "all copies are in sync again")
                else:
                    printed = terminal.follow(block, NUMBERS)
                    assert printed.count("exit code 3") == block.text.count("exit code 3")
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


@contextmanager
def three_machines(block: Block, home: Path) -> Iterator[dict[str, str]]:
    """Nodes started by the block's commands; addresses of this machine, by those on the page that they stand for."""
    text = block.text
    addresses = sorted(set(re.findall(r"10\.0\.0\.\d:\d+", text)))
    local = {told: f"127.0.0.1:{port}" for told, port in zip(addresses, free_ports(len(addresses)), strict=True)}
    for told, here in local.items():
        text = text.replace(told, here)
    nodes, logs = [], []
    try:
        for number, line in enumerate(text.splitlines()):
            http = [] if "--http" in line else ["--http", "off"]
            arguments = shlex.split(line.replace("/var/lib/headrace", str(home / str(number))))[1:]
            logs.append(home / f"{number}.log")
            with logs[-1].open("wb") as log:
                nodes.append(subprocess.Popen([*COMMAND, *arguments, *http], stdout=log, stderr=log))
        wait_until(lambda: all("is ready" in log.read_text() for log in logs), "all are ready")
        yield local
    finally:
        for running in nodes:
            running.terminate()
        codes = [running.wait(PATIENCE_S) for running in nodes]
    assert codes == [0, 0, 0]


@pytest.mark.timeout(300)
def test_three_machines_make_a_cluster(tmp_path: Path, told_blocks: ToldBlocks) -> None:
    with three_machines(told_blocks.take("headrace serve --node-id 1"), tmp_path) as local:
        bootstrap = local["10.0.0.3:9092"]
        assert call(bootstrap, "topics", "create", "--name", "events").code == 0
        describe = ("topics", "describe", "--name", "events")
        wait_until(lambda: call_here(bootstrap, *describe).code == 0, "who is asked knows the topic")
        (line,) = call(bootstrap, *describe).lines
        assert re.fullmatch(r"Partition 0: Leader=\d, ISR=\[\d,\d,\d\]", line)


@pytest.mark.timeout(300)
def test_three_nodes_found_a_cluster(tmp_path: Path, told_blocks: ToldBlocks) -> None:
    with three_machines(told_blocks.take("headrace serve --node-id 1"), tmp_path) as local:
        bootstrap = local["10.0.0.3:9092"]
        wait_until(lambda: call_here(bootstrap, "cluster", "status").code == 0, "it is healthy")
        assert "3 of 3 voters" in call_here(bootstrap, "cluster", "status").out

"""What the pages do with several nodes: their commands run as they stand, and print what is shown, numbers aside."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.clients.clusters import wait_until
from tests.clients.commands import COMMAND, call_here
from tests.clients.dev_clusters import dev_cluster
from tests.clients.nodes import PATIENCE_S
from tests.docs.terminal import NUMBERS, Terminal, masked
from tests.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.told_blocks import ToldBlocks

pytestmark = pytest.mark.xdist_group("cluster")
pytest_plugins = ["tests.docs.told_blocks"]


def test_three_nodes_are_as_easy(tmp_path: Path, told_blocks: ToldBlocks) -> None:
    starts = []
    with dev_cluster(tmp_path) as cluster:
        terminal = Terminal(tmp_path / "reader", cluster.addresses)
        for block in told_blocks.take_all():
            first, *others = block.commands
            if first.line == "headrace dev --nodes 3":
                assert masked(cluster.ready, NUMBERS) == masked(first.shown, NUMBERS)
                starts.append(block)
                terminal.follow_commands(others, NUMBERS)
            else:
                terminal.follow_commands([first, *others], NUMBERS)
    assert len(starts) == 2


def has_four(addresses: str) -> bool:
    """As each node tells it."""
    return all(call_here(it, "cluster", "status").out.count(" up ") == 4 for it in addresses.split(","))


def test_a_fourth_node_takes_its_share(tmp_path: Path, told_blocks: ToldBlocks) -> None:
    with dev_cluster(tmp_path) as cluster:
        terminal = Terminal(tmp_path / "reader", cluster.addresses)
        terminal.type("headrace topics create --name events --partitions 6 --replication-factor 3")
        host, _, port = cluster.addresses.split(",")[0].partition(":")
        meeting = f"{host}:{int(port) + 1}"  # `headrace dev` has its nodes meet one port further
        clients, nodes = free_ports(2)
        options = ["--listen", f"127.0.0.1:{clients}", "--cluster-listen", f"127.0.0.1:{nodes}", "--join", meeting]
        with (tmp_path / "fourth.log").open("wb") as log:
            fourth = subprocess.Popen(
                [
                    *COMMAND,
                    "serve",
                    "--node-id",
                    "4",
                    "--data-dir",
                    str(tmp_path / "fourth"),
                    "--http",
                    "off",
                    *options,
                ],
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(lambda: "is ready" in (tmp_path / "fourth.log").read_text(), "the fourth node is let in")
            wait_until(lambda: has_four(cluster.addresses), "each node knows of it")
            terminal.follow(told_blocks.take("$ headrace cluster rebalance --dry-run"), NUMBERS)
        finally:
            fourth.terminate()
            assert fourth.wait(PATIENCE_S) == 0

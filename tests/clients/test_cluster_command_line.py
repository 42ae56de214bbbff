"""`headrace cluster …` and `headrace dev` against three nodes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cli.cluster.command import UNHEALTHY
from headrace.cli.terminal.complaints import FAILED, INTERRUPTED, NOT_FOUND, USAGE
from headrace.client.admin.admin import Admin
from headrace.client.admin.cluster import ClusterAdmin
from headrace.client.connections.cluster import ClusterSettings, system_cluster
from headrace.model.errors import ErrorCode, Refusal
from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import COMMAND, Ran, call, call_here
from tests.clients.dev_clusters import DevCluster, dev_cluster, free_base
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("cluster")

NUMBERS = [str(number) for number in range(500)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def here(cluster: ClusterProcesses, *arguments: str) -> Ran:
    return call_here(cluster.bootstrap_servers, *arguments)


def headrace(cluster: ClusterProcesses, *arguments: str, stdin: str = "") -> Ran:
    """A command that must succeed."""
    ran = call(cluster.bootstrap_servers, *arguments, stdin=stdin) if stdin else here(cluster, *arguments)
    assert ran.code == 0, ran.talk
    return ran


def nodes(cluster: ClusterProcesses) -> dict[int, Any]:
    told = json.loads(headrace(cluster, "cluster", "nodes", "--format", "json").out)
    return {node["node_id"]: node for node in told}


def test_a_drained_node_has_nothing_that_others_can_have(cluster: ClusterProcesses) -> None:
    topic = cluster.create_topic(new_name("drained"), [[1], [1], [2], [3]])
    headrace(cluster, "produce", "--topic", topic, stdin="\n".join(NUMBERS))
    headrace(cluster, "cluster", "drain", "--node", "1", "--wait", "--at-once", "1", "--throttle", "100000000")
    # Each node tells what it has applied, and the commands ask any of them.
    wait_until(lambda: all(1 not in it for _, it, _ in cluster.partitions(topic).values()), "node 1 has none of it")
    assert nodes(cluster)[1]["is_draining"]
    wait_until(lambda: nodes(cluster)[1]["leads"] == 0, "node 1 leads nothing")
    fresh = new_name("fresh")
    headrace(cluster, "topics", "create", "--name", fresh, "--partitions", "4", "--replication-factor", "2")
    assert all(1 not in replicas for _, replicas, _ in cluster.partitions(fresh).values())
    assert sorted(headrace(cluster, "consume", "--topic", topic).lines, key=int) == NUMBERS

    headrace(cluster, "cluster", "drain", "--node", "1", "--undo")
    plan = json.loads(headrace(cluster, "cluster", "rebalance", "--dry-run", "--format", "json").out)
    assert plan
    assert all(move["to"] == [1] for move in plan)
    headrace(cluster, "cluster", "rebalance", "--wait")
    assert "nothing has to move" in headrace(cluster, "cluster", "rebalance", "--dry-run").talk
    loads = [node["replicas"] for node in nodes(cluster).values()]
    assert max(loads) - min(loads) <= 1
    assert sorted(headrace(cluster, "consume", "--topic", topic).lines, key=int) == NUMBERS
    headrace(cluster, "cluster", "elect-leaders")
    assert "nobody had to be elected" in headrace(cluster, "cluster", "elect-leaders").talk


def test_what_cannot_be_drained(cluster: ClusterProcesses) -> None:
    unknown = here(cluster, "cluster", "drain", "--node", "77")
    assert unknown.code == NOT_FOUND
    assert "there is no node 77" in unknown.talk
    contradiction = here(cluster, "cluster", "drain", "--node", "1", "--undo", "--wait")
    assert contradiction.code == USAGE
    hasty = here(cluster, "cluster", "rebalance", "--throttle", "1000")
    assert hasty.code == USAGE
    assert "need --wait" in hasty.talk


def test_a_lost_node_is_told_of_until_it_is_back(cluster: ClusterProcesses) -> None:
    shared = cluster.create_topic(new_name("shared"), [[3, 1]])
    alone = cluster.create_topic(new_name("alone"), [[3]])
    cluster.kill(3)

    def status() -> Any:
        ran = here(cluster, "cluster", "status", "--format", "json")
        facts = json.loads(ran.out)
        assert ran.code == (0 if facts["is_healthy"] else UNHEALTHY)
        return facts

    def knows(node_id: int) -> bool:
        told = json.loads(call_here(cluster.address(node_id), "cluster", "status", "--format", "json").out)
        # The first may be offline for a node that merely doubts node 3; the second is decided.
        return f"{alone}-0" in told["offline_partitions"] and f"{shared}-0" in told["under_replicated_partitions"]

    # Each node tells what it has applied, and the commands below ask any of them.
    wait_until(lambda: knows(1) and knows(2), "both others know what is offline without it, and what lacks a replica")
    told = here(cluster, "cluster", "under-replicated", "--format", "json")
    assert told.code == UNHEALTHY
    lacking = {it["topic"]: it for it in json.loads(told.out)}
    assert (lacking[shared]["leader"], lacking[shared]["missing"]) == (1, [3])
    assert [node["is_away"] for node in status()["nodes"]] == [False, False, True]
    assert "node 3 is away" in here(cluster, "cluster", "status").out
    (described,) = json.loads(headrace(cluster, "topics", "describe", "--name", shared, "--format", "json").out)[
        "partitions"
    ]
    assert (described["isr"], described["offline_replicas"]) == ([1], [3])
    refused = here(cluster, "cluster", "elect-leaders", "--topic", shared)
    assert refused.code == FAILED
    assert "node 3 is away; node 1 leads meanwhile" in refused.out
    stuck = headrace(cluster, "cluster", "rebalance", "--dry-run").talk
    assert "every node has its share" not in stuck
    wait_until(lambda: "silent: 3" in here(cluster, "cluster", "status").out, "its silence is noticed")
    cluster.kill(2)
    wait_until(lambda: status()["controller"] is None, "a minority knows that nobody decides")
    assert [node["is_away"] for node in status()["nodes"]] == [False, True, True]
    doubtful = here(cluster, "cluster", "under-replicated")
    assert doubtful.code == UNHEALTHY
    assert "there is no controller" in doubtful.talk
    for command in (("cluster", "nodes"), ("topics", "describe", "--name", shared)):
        old = headrace(cluster, *command)
        assert "there is no controller; this is what was last known" in old.talk
    for refusal in asyncio.run(refused_without_controller(cluster)):
        assert refusal.code is ErrorCode.NOT_CONTROLLER
        assert "2 of the voters 1, 2, 3 must be there" in refusal.message
    cluster.start(2, 3)
    wait_until(lambda: status()["is_healthy"], "all is well again")


async def refused_without_controller(cluster: ClusterProcesses) -> list[Refusal]:
    """What a client hears that does not try again."""
    settings = ClusterSettings(retry_for_s=0.0)
    refusals = []
    async with system_cluster(cluster.address(1), settings) as connected:
        for attempt in (
            Admin(connected).create_topic("nowhere", partitions=1, replication_factor=1),
            ClusterAdmin(connected).plan_rebalance(),
            ClusterAdmin(connected).drain_node(2),
            ClusterAdmin(connected).elect_leaders(),
        ):
            with pytest.raises(Refusal) as refused:
                await attempt
            refusals.append(refused.value)
    return refusals


def test_a_whole_cluster_in_one_command(tmp_path: Path) -> None:
    with dev_cluster(tmp_path) as running:
        told = json.loads(call(running.addresses, "cluster", "nodes", "--format", "json").out)
        assert [node["node_id"] for node in told] == [1, 2, 3]
        os.kill(running.pid_of(2), signal.SIGKILL)
        wait_until(lambda: "node 2 has ended" in running.log_path.read_text(), "the loss is told of")
        survivors = ",".join(running.addresses.split(",")[::2])
        assert call(survivors, "topics", "create", "--name", "after", "--replication-factor", "2").code == 0
    said = running.log_path.read_text()
    assert re.search(r"^node 1 \| ", said, flags=re.MULTILINE)
    assert "headrace serve --node-id 2 " in said
    other = call(running.addresses, "dev", "--nodes", "5", "--data-dir", str(tmp_path / "dev"))
    assert other.code == 1
    assert "holds a cluster of 3 nodes" in other.talk


def test_a_dev_cluster_whose_user_is_in_a_hurry_ends_at_once_and_quietly(tmp_path: Path) -> None:
    command = [*COMMAND, "dev", "--nodes", "1", "--port-base", str(free_base(1)), "--http-base", "off"]
    running = subprocess.Popen(
        [*command, "--data-dir", str(tmp_path / "dev")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stderr is not None
    assert "is ready" in running.stdout.readline()
    node = DevCluster("", running.pid, tmp_path).pid_of(1)
    os.kill(node, signal.SIGSTOP)  # it cannot stop by itself
    running.send_signal(signal.SIGINT)
    said = ""
    while "stopping all nodes" not in said:
        said += running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, rest = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out) == (INTERRUPTED, "")
    assert "Traceback" not in rest
    wait_until(lambda: not Path(f"/proc/{node}").exists(), "its node is gone as well")

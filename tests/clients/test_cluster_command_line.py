"""`headrace cluster …` and `headrace dev` against three nodes, and the operator's chapter of the design document."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cli.cluster import UNHEALTHY
from headrace.cli.complaints import NOT_FOUND, USAGE
from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import COMMAND, Ran, call, call_here
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def test_the_operators_chapter_from_first_to_last_command(cluster: ClusterProcesses) -> None:
    created = "topics create --name events --partitions 3 --replication-factor 3"
    headrace(cluster, *created.split())
    described = headrace(cluster, "topics", "describe", "--name", "events").lines
    assert len(described) == 3
    for index, line in enumerate(described):
        shape = re.fullmatch(rf"Partition {index}: Leader=([123]), ISR=\[([123],[123],[123])\]", line)
        assert shape is not None, line
        assert sorted(shape[2].split(",")) == ["1", "2", "3"]
    assert {line.split("Leader=")[1][0] for line in described} == {"1", "2", "3"}
    headrace(cluster, "topics", "alter", "--name", "events", "--partitions", "6")
    headrace(cluster, "produce", "--topic", "events", stdin="one\ntwo\nthree\n")
    headrace(cluster, "consume", "--topic", "events", "--group", "my-group")
    assert "my-group" in headrace(cluster, "groups", "list").out
    assert "Lag: 0" in headrace(cluster, "groups", "describe", "--group", "my-group").out
    headrace(cluster, "groups", "reset-offsets", "--group", "my-group", "--topic", "events", "--to-earliest")
    assert "healthy" in headrace(cluster, "cluster", "status").out
    assert headrace(cluster, "cluster", "under-replicated").out == ""
    assert "lag of my-group: 3" in headrace(cluster, "lag", "--group", "my-group").talk


def test_a_drained_node_has_nothing_that_others_can_have(cluster: ClusterProcesses) -> None:
    topic = cluster.create_topic(new_name("drained"), [[1], [1], [2], [3]])
    headrace(cluster, "produce", "--topic", topic, stdin="\n".join(NUMBERS))
    headrace(cluster, "cluster", "drain", "--node", "1", "--wait", "--at-once", "1", "--throttle", "100000000")
    assert all(1 not in replicas for _, replicas, _ in cluster.partitions(topic).values())
    assert nodes(cluster)[1]["is_draining"]
    assert nodes(cluster)[1]["leads"] == 0
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

    wait_until(lambda: f"{alone}-0" in status()["offline_partitions"], "what it alone had is offline")
    told = here(cluster, "cluster", "under-replicated", "--format", "json")
    assert told.code == UNHEALTHY
    lacking = {it["topic"]: it for it in json.loads(told.out)}
    assert (lacking[shared]["leader"], lacking[shared]["missing"]) == (1, [3])
    assert [node["is_fenced"] for node in status()["nodes"]] == [False, False, True]
    wait_until(lambda: "silent: 3" in here(cluster, "cluster", "status").out, "its silence is noticed")
    cluster.kill(2)
    wait_until(lambda: status()["controller"] is None, "a minority knows that nobody decides")
    cluster.start(2, 3)
    wait_until(lambda: status()["is_healthy"], "all is well again")


def test_a_whole_cluster_in_one_command(tmp_path: Path) -> None:
    base = _free_base()
    command = [*COMMAND, "dev", "--nodes", "3", "--port-base", str(base), "--http-base", "off"]
    command += ["--data-dir", str(tmp_path / "dev")]
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        addresses = ",".join(f"127.0.0.1:{base + 100 * place}" for place in range(3))
        assert f"cluster of 3 nodes is ready: kafka://{addresses} " in line, (tmp_path / "log").read_text()
        told = json.loads(call(addresses, "cluster", "nodes", "--format", "json").out)
        assert [node["node_id"] for node in told] == [1, 2, 3]

        os.kill(_pid_of(running.pid, "--node-id 2 "), signal.SIGKILL)
        wait_until(lambda: "node 2 has ended" in (tmp_path / "log").read_text(), "the loss is told of")
        survivors = ",".join(addresses.split(",")[::2])
        assert call(survivors, "topics", "create", "--name", "after", "--replication-factor", "2").code == 0
    finally:
        running.send_signal(signal.SIGINT)
        code = running.wait(PATIENCE_S)
    said = (tmp_path / "log").read_text()
    assert code == 0, said
    assert re.search(r"^node 1 \| ", said, flags=re.MULTILINE)
    assert "headrace serve --node-id 2 " in said
    assert "Traceback" not in said
    other = call(addresses, "dev", "--nodes", "5", "--data-dir", str(tmp_path / "dev"))
    assert other.code == 1
    assert "holds a cluster of 3 nodes" in other.talk


def _free_base() -> int:
    """A port from which on all that three nodes need are free; below those that the system gives to anybody."""
    while True:
        base = 15_000 + secrets.randbelow(15_000)
        if all(_is_free(base + 100 * place + step) for place in range(3) for step in range(2)):
            return base


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _pid_of(parent: int, argument: str) -> int:
    listed = subprocess.run(
        ["ps", "--ppid", str(parent), "-o", "pid=,args="], capture_output=True, text=True, check=True
    )
    (line,) = (line for line in listed.stdout.splitlines() if argument in line)
    return int(line.split()[0])

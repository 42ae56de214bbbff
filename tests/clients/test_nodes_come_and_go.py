"""Nodes join, lose their disks, leave and are restarted one after the other, while the cluster goes on."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import Ran, call_here
from tests.clients.nodes import SERVE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("cluster")


def here(cluster: ClusterProcesses, *arguments: str) -> Ran:
    return call_here(cluster.bootstrap_servers, *arguments)


def quorum(cluster: ClusterProcesses) -> dict[str, Any]:
    told = json.loads(here(cluster, "cluster", "status", "--format", "json").out)
    return told["quorum"] or {"members": []}


def voters(cluster: ClusterProcesses) -> list[int]:
    return sorted(it["node_id"] for it in quorum(cluster)["members"] if it["is_voter"])


def learners(cluster: ClusterProcesses) -> list[int]:
    return sorted(it["node_id"] for it in quorum(cluster)["members"] if not it["is_voter"])


def send(cluster: ClusterProcesses, topic: str, count: int) -> list[bytes]:
    """Acknowledged by all that are in sync, every one of them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    values = [secrets.token_bytes(12) for _ in range(count)]
    refused = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert not any(refused)
    return values


def received(cluster: ClusterProcesses, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        deadline_s = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline_s, f"{len(found)} of {count} came"
            message = consumer.poll(1.0)
            if message is not None and not message.error():
                found.append(message.value())
        return found
    finally:
        consumer.close()


def test_one_node_grows_into_a_cluster(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 1, guests=2) as cluster:
        cluster.create_topic("early", [[1]])
        values = send(cluster, "early", 20)
        cluster.start(2)
        wait_until(lambda: learners(cluster) == [2], "node 2 learns")
        assert voters(cluster) == [1]  # two would stop when either does
        cluster.create_topic("shared", [[2, 1]])
        assert cluster.partitions("shared")[0] == (2, [2, 1], [1, 2])
        cluster.start(3)
        wait_until(lambda: voters(cluster) == [1, 2, 3], "all three vote")
        cluster.create_topic("whole", [[1, 2, 3]])
        cluster.kill(1)  # the founder, and the only one that was ever told nothing
        wait_until(lambda: cluster.partitions("whole")[0][0] in {2, 3}, "others lead")
        cluster.start(1)
        assert received(cluster, "early", 20) == values


def decisions_after_demotion(cluster: ClusterProcesses) -> str:
    """What the controller has written since node 3 lost its vote."""
    logs = "".join(cluster.log_of(node_id) for node_id in cluster.node_ids)
    return logs.partition("voters are [1, 2], learners [3]")[2]


def test_a_lost_disk_is_filled_again_and_votes_again(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        topic = cluster.create_topic("kept", [[3, 1, 2]])
        values = send(cluster, topic, 50)
        cluster.kill(3)
        cluster.replace_disk(3)
        cluster.start(3)
        values += send(cluster, topic, 50)
        wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "node 3 is in sync again")
        wait_until(lambda: "voters are [1, 2, 3]" in decisions_after_demotion(cluster), "node 3 votes again")
        cluster.kill(1)  # the two that are left decide only if the vote of node 3 counts
        cluster.create_topic("later", [[3, 2]])
        cluster.start(1)
        assert received(cluster, topic, 100) == values
        assert "there is a cluster already" in cluster.log_of(3)

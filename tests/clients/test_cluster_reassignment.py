"""Replicas move to other nodes, leaders return, and the quorum is seen: with the admin clients that people have."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaError, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)

from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import call_here
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("cluster")

MESSAGES = [f"message {number}".encode() for number in range(2000)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: ClusterProcesses) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    yield client
    client.close()


def write(cluster: ClusterProcesses, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "enable.idempotence": True})
    for value in MESSAGES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def read(cluster: ClusterProcesses, topic: str) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "enable.partition.eof": True}
    )
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"silence after {len(values)} messages"
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
    finally:
        consumer.close()


def test_the_only_copy_moves_with_everything_in_it(cluster: ClusterProcesses, admin: KafkaAdminClient) -> None:
    topic = cluster.create_topic(new_name("moved"), [[1]])
    write(cluster, topic)
    for target in ([2], [3, 1], [1, 2, 3], [2]):
        admin.alter_partition_reassignments({TopicPartition(topic, 0): target})
        wait_until(lambda: not admin.list_partition_reassignments(), f"{target} have it")
        wait_until(partial(is_on, cluster, topic, target), f"who is asked knows that {target} have it")
        assert read(cluster, topic) == MESSAGES
    write(cluster, topic)
    assert read(cluster, topic) == MESSAGES * 2


def is_on(cluster: ClusterProcesses, topic: str, nodes: list[int]) -> bool:
    """All have it, all are in sync, and one of them leads."""
    leader, replicas, in_sync = cluster.partitions(topic)[0]
    return sorted(replicas) == in_sync == sorted(nodes) and leader in nodes


def error_of(admin: KafkaAdminClient, topic: str, partition: int, replicas: list[int] | None) -> Any:
    name = TopicPartition(topic, partition)
    return admin.alter_partition_reassignments({name: replicas})[name]


def test_what_cannot_be_moved_is_refused(cluster: ClusterProcesses, admin: KafkaAdminClient) -> None:
    topic = cluster.create_topic(new_name("stays"), [[1]])
    assert error_of(admin, topic, 7, [2]) == UnknownTopicOrPartitionError
    assert error_of(admin, new_name("missing"), 0, [2]) == UnknownTopicOrPartitionError
    assert error_of(admin, topic, 0, [2, 2]) == InvalidReplicationAssignmentError
    assert error_of(admin, topic, 0, [42]) == InvalidReplicationAssignmentError
    assert error_of(admin, topic, 0, None) == NoReassignmentInProgressError
    assert cluster.partitions(topic)[0] == (1, [1], [1])


def controller_told_by(cluster: ClusterProcesses, node_id: int) -> int | None:
    told: int | None = json.loads(call_here(cluster.address(node_id), "cluster", "status", "--format", "json").out)[
        "controller"
    ]
    return told


@contextmanager
def without_node_3(cluster: ClusterProcesses) -> Iterator[KafkaAdminClient]:
    """Both others know who decides now, and a client of theirs: one that has known node 3 to decide asks no other."""
    cluster.stop(3)
    try:
        wait_until(lambda: all(controller_told_by(cluster, it) in {1, 2} for it in (1, 2)), "one of them decides")
        client = KafkaAdminClient(bootstrap_servers=[cluster.address(1), cluster.address(2)])
        yield client
        client.close()
    finally:
        cluster.start(3)


def test_a_move_to_a_node_that_is_away_can_be_stopped(cluster: ClusterProcesses) -> None:
    topic = cluster.create_topic(new_name("stopped"), [[1]])
    with without_node_3(cluster) as admin:
        name = TopicPartition(topic, 0)
        admin.alter_partition_reassignments({name: [3]})
        assert name in admin.list_partition_reassignments()
        admin.alter_partition_reassignments({name: None})
        assert admin.list_partition_reassignments() == {}
        wait_until(lambda: is_on(cluster, topic, [1]), "it is as it was")


def test_leaders_return_to_their_preferred_replicas(cluster: ClusterProcesses) -> None:
    topic = cluster.create_topic(new_name("led"), [[2, 1, 3], [3, 2, 1]])
    cluster.stop(2)
    wait_until(lambda: cluster.partitions(topic)[0][0] in {1, 3}, "another node leads")
    cluster.start(2)
    wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "node 2 is in sync again")
    named = [ConfluentPartition(topic, 0), ConfluentPartition(topic, 1), ConfluentPartition(topic, 9)]
    outcome = cluster.admin.elect_leaders(ElectionType.PREFERRED, named).result(PATIENCE_S)
    found = {name.partition: error and error.code() for name, error in outcome.items()}
    assert found == {
        0: None,
        1: KafkaError.ELECTION_NOT_NEEDED,
        9: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    wait_until(lambda: cluster.partitions(topic)[0][0] == 2, "node 2 leads again")


def has_heard_all(quorum: dict[str, Any]) -> bool:
    """Whoever decides since a moment ago may not have."""
    voters = quorum["topics"][0]["partitions"][0]["current_voters"]
    return len(voters) == 3 and all(voter["last_fetch_timestamp"] > 0 for voter in voters)


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_every_node_tells_who_agrees(cluster: ClusterProcesses, asked: int) -> None:
    client = KafkaAdminClient(bootstrap_servers=[cluster.address(asked)])
    try:
        wait_until(lambda: has_heard_all(client.describe_metadata_quorum()), "all voters are heard")
        answer = client.describe_metadata_quorum()
    finally:
        client.close()
    (topic,) = answer["topics"]
    (partition,) = topic["partitions"]
    assert partition["leader_id"] in cluster.node_ids
    assert sorted(voter["replica_id"] for voter in partition["current_voters"]) == [1, 2, 3]
    assert sum(voter["log_end_offset"] >= partition["high_watermark"] for voter in partition["current_voters"]) >= 2
    assert sorted(node["node_id"] for node in answer["nodes"]) == [1, 2, 3]

"""What a node writes down of what clients change: in a file of its own, and in a topic that consumers read."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from headrace.broker.access.audit_file import AUDIT_FILE
from headrace.metadata.configs.internal_topics import AUDIT
from tests.clients.clusters import ClusterProcesses, wait_until
from tests.clients.commands import NOBODY, call
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

ON = {"headrace.audit.enable": "true"}
Line = dict[str, Any]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ExitStack() as running:
        yield running.enter_context(ClusterProcesses(tmp_path, 3, ON))


def admin_of(node: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap_servers, "client.id": "tool"})


def in_file(data_dir: Path) -> list[Line]:
    path = data_dir / AUDIT_FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def told(lines: list[Line], action: str) -> list[tuple[str, str, str]]:
    return [(it["resource"], it["outcome"], it["detail"]) for it in lines if it["action"] == action]


def in_topic(bootstrap_servers: str, count: int) -> list[tuple[str, Line]]:
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": new_name(), "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([AUDIT])
    found: list[tuple[str, Line]] = []

    def is_all() -> bool:
        for message in consumer.consume(100, timeout=1.0):
            assert message.error() is None or message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if message.error() is None:
                found.append((message.key().decode(), json.loads(message.value())))
        return len(found) >= count

    wait_until(is_all, f"{count} records are in {AUDIT}")
    consumer.close()
    return found


def test_changes_are_noted_with_who_where_what_and_how_it_ended(start_node: Callable[..., NodeProcess]) -> None:
    node = start_node(ON)
    admin = admin_of(node)
    name = new_name()
    wanted = [NewTopic(name, num_partitions=2, replication_factor=1, config={"retention.ms": "7000"})]
    admin.create_topics(wanted)[name].result(PATIENCE_S)
    with pytest.raises(KafkaException):
        admin.create_topics(wanted)[name].result(PATIENCE_S)
    admin.create_partitions([NewPartitions(name, 5)])[name].result(PATIENCE_S)
    entry = ConfigEntry("retention.ms", "8000", incremental_operation=AlterConfigOpType.SET)
    (altered,) = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])]
    ).values()
    altered.result(PATIENCE_S)
    admin.create_topics([NewTopic(new_name(), num_partitions=1)], validate_only=True)
    admin.delete_topics([name])[name].result(PATIENCE_S)
    node.stop()
    lines = in_file(node.data_dir)
    resource = f"topic {name!r}"
    assert told(lines, "CreateTopics") == [
        (resource, "done", "2 partitions, 1 replicas, retention.ms=7000"),
        (resource, "failed", "TOPIC_ALREADY_EXISTS; retention.ms=7000"),
    ]
    assert told(lines, "CreatePartitions") == [(resource, "done", "5 partitions")]
    assert told(lines, "IncrementalAlterConfigs") == [(resource, "done", "retention.ms=8000")]
    assert told(lines, "DeleteTopics") == [(resource, "done", "")]
    assert {it["principal"] for it in lines} == {"User:ANONYMOUS"}
    assert {it["host"] for it in lines} == {"127.0.0.1"}
    assert {it["client_id"] for it in lines} == {"tool"}
    assert [it["sequence"] for it in lines] == list(range(1, len(lines) + 1))


def test_the_topic_has_what_the_file_has_and_no_client_writes_to_it(start_node: Callable[..., NodeProcess]) -> None:
    node = start_node(ON)
    names = [node.create_topic(new_name()) for _ in range(3)]
    found = in_topic(node.bootstrap_servers, len(names))
    assert [line["resource"] for _, line in found] == [f"topic {name!r}" for name in names]
    assert {key for key, _ in found} == {"User:ANONYMOUS"}
    assert [line for _, line in found] == in_file(node.data_dir)
    refused: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    producer.produce(AUDIT, b"forged", on_delivery=lambda error, _: refused.append(error))
    producer.flush(PATIENCE_S)
    assert [error.code() for error in refused] == [KafkaError.TOPIC_EXCEPTION]


def test_the_audit_does_not_feed_itself(start_node: Callable[..., NodeProcess]) -> None:
    """Nothing that the node does to write it down is noted, so that one change is one line."""
    node = start_node(ON)
    node.create_topic(new_name())
    assert len(in_topic(node.bootstrap_servers, 1)) == 1
    node.stop()
    assert len(in_file(node.data_dir)) == 1


def test_nothing_is_noted_where_nobody_says_who_they_are(start_node: Callable[..., NodeProcess]) -> None:
    node = start_node({})
    node.create_topic(new_name())
    node.stop()
    assert in_file(node.data_dir) == []


def test_every_node_of_a_cluster_notes_what_is_asked_of_it_and_the_topic_has_all(cluster: ClusterProcesses) -> None:
    """Two of the three pass what they are asked on to the controller, and their notes on to the leader of the topic."""
    expected = set()
    for node_id in cluster.node_ids:
        name = new_name()
        expected.add((node_id, f"topic {name!r}"))
        admin = AdminClient({"bootstrap.servers": cluster.address(node_id)})
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)
    found = in_topic(cluster.bootstrap_servers, len(expected))
    in_files = [line for node_id in cluster.node_ids for line in in_file(cluster.data_dir(node_id))]
    assert {line["resource"] for line in in_files} == {resource for _, resource in expected}
    assert sorted(map(str, in_files)) == sorted(str(line) for _, line in found)
    assert len(cluster.partitions(AUDIT)[0][1]) == 3


def test_what_the_topic_cannot_take_comes_when_it_can_again(cluster: ClusterProcesses) -> None:
    """The leader of `__audit` is killed: another leads it, and what was noted meanwhile arrives there."""
    cluster.create_topic(new_name(), [[1]])
    assert in_topic(cluster.bootstrap_servers, 1)
    leader, _, _ = cluster.partitions(AUDIT)[0]
    wait_until(lambda: len(cluster.partitions(AUDIT)[0][2]) == 3, f"{AUDIT} is in sync")
    other = next(node_id for node_id in cluster.node_ids if node_id != leader)
    cluster.kill(leader)
    name = new_name()
    admin = AdminClient({"bootstrap.servers": cluster.address(other)})

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(name, num_partitions=1, replica_assignment=[[other]])])[name].result(
                PATIENCE_S
            )
        except KafkaException:
            return False
        return True

    wait_until(is_created, "a controller is there")
    places = ",".join(cluster.address(node_id) for node_id in cluster.node_ids if node_id != leader)
    found: list[str] = []

    def has_arrived() -> bool:
        found[:] = [line["resource"] for _, line in in_topic(places, 2) if line["outcome"] == "done"]
        return f"topic {name!r}" in found

    wait_until(has_arrived, "the change is in the topic")


def test_the_command_reads_the_topic_and_the_files(start_node: Callable[..., NodeProcess]) -> None:
    node = start_node(ON)
    empty = call(node.bootstrap_servers, "audit")
    assert (empty.code, empty.out) == (3, "")
    name = node.create_topic(new_name())
    call(node.bootstrap_servers, "topics", "delete", "--name", name)
    assert len(in_topic(node.bootstrap_servers, 2)) == 2
    shown = call(node.bootstrap_servers, "audit", "--since", "1h", "--principal", "User:ANONYMOUS")
    assert [line.split("  ")[3:5] for line in shown.lines] == [
        ["CreateTopics done", f"topic {name!r}"],
        ["DeleteTopics done", f"topic {name!r}"],
    ]
    deleted = call(node.bootstrap_servers, "audit", "--action", "deletetopics", "--format", "json")
    assert [json.loads(line)["resource"] for line in deleted.lines] == [f"topic {name!r}"]
    assert call(node.bootstrap_servers, "audit", "--until", "1h").lines == []
    assert call(node.bootstrap_servers, "audit", "--since", "soon").code == 2
    node.stop()
    assert call(NOBODY, "audit", "--file", str(node.data_dir)).lines == shown.lines
    with (node.data_dir / AUDIT_FILE).open("a") as file:
        file.write('{"time":"20')
    torn = call(NOBODY, "audit", "--file", str(node.data_dir / AUDIT_FILE))
    assert (torn.lines, torn.code) == (shown.lines, 0)
    assert "1 line could not be read" in torn.talk

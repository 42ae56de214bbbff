"""Topics and settings through confluent-kafka's AdminClient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.clients.four_clients import Confluent, Message
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

INVALID_NAMES = ["..", ".", "a/b", "a b", "ä", "x" * 250]


@pytest.fixture
def admin(node: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap_servers})


def only(answers: Mapping[Any, Any]) -> Any:
    """The result of a request about one thing."""
    (future,) = answers.values()
    return future.result(PATIENCE_S)


def refusal(answers: Mapping[Any, Any]) -> KafkaError:
    """The error of a request about one thing."""
    with pytest.raises(KafkaException) as raised:
        only(answers)
    error: KafkaError = raised.value.args[0]
    return error


def settings_of(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    entries: dict[str, ConfigEntry] = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return entries


# ---- topics


def test_a_topic_from_its_creation_to_its_end(admin: AdminClient) -> None:
    name = new_name()
    only(admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)]))

    described = only(admin.describe_topics(TopicCollection([name])))
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert all(
        partition.leader.id == partition.replicas[0].id == partition.isr[0].id for partition in described.partitions
    )
    listed = admin.list_topics(timeout=PATIENCE_S).topics[name]
    assert sorted(listed.partitions) == [0, 1, 2]

    only(admin.delete_topics([name], operation_timeout=PATIENCE_S))
    assert name not in admin.list_topics(timeout=PATIENCE_S).topics
    with pytest.raises(KafkaException) as raised:
        only(admin.describe_topics(TopicCollection([name])))
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_counts_that_are_left_out_are_the_nodes_defaults(admin: AdminClient) -> None:
    name = new_name()
    only(admin.create_topics([NewTopic(name)]))
    assert len(admin.list_topics(name, timeout=PATIENCE_S).topics[name].partitions) == 1


@pytest.mark.parametrize("name", INVALID_NAMES)
def test_invalid_names_are_refused(admin: AdminClient, name: str) -> None:
    assert refusal(admin.create_topics([NewTopic(name, 1, 1)])).code() == KafkaError.TOPIC_EXCEPTION


def test_a_name_is_taken_once(admin: AdminClient, topic: str) -> None:
    assert refusal(admin.create_topics([NewTopic(topic, 1, 1)])).code() == KafkaError.TOPIC_ALREADY_EXISTS


def test_names_that_differ_by_dot_and_underscore_collide(admin: AdminClient) -> None:
    name = new_name()
    only(admin.create_topics([NewTopic(f"{name}.a", 1, 1)]))
    error = refusal(admin.create_topics([NewTopic(f"{name}_a", 1, 1)]))
    assert error.code() == KafkaError.TOPIC_EXCEPTION
    assert f"{name}.a" in error.str()


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "code"),
    [
        (0, 1, KafkaError.INVALID_PARTITIONS),
        (10**6, 1, KafkaError.INVALID_PARTITIONS),
        (2**31 - 1, 1, KafkaError.INVALID_PARTITIONS),
        (1, 3, KafkaError.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_counts_are_refused(
    node: NodeProcess, admin: AdminClient, partitions: int, replication_factor: int, code: int
) -> None:
    memory_before = node.memory_mb()
    wanted = NewTopic(new_name(), partitions, replication_factor)
    if partitions <= 100_000:
        assert refusal(admin.create_topics([wanted])).code() == code
    else:
        # This client has a limit of its own, below ours.
        with pytest.raises((KafkaException, ValueError)):
            only(admin.create_topics([wanted]))
    assert node.memory_mb() < memory_before + 20


def test_several_topics_in_one_request_fail_alone(admin: AdminClient, topic: str) -> None:
    good = new_name("good")
    futures = admin.create_topics([NewTopic(good, 1, 1), NewTopic(topic, 1, 1), NewTopic("a/b", 1, 1)])
    codes = {name: future.exception(PATIENCE_S) for name, future in futures.items()}
    assert codes[good] is None
    assert codes[topic].args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert codes["a/b"].args[0].code() == KafkaError.TOPIC_EXCEPTION


def test_validation_alone_creates_nothing(admin: AdminClient) -> None:
    name = new_name()
    only(admin.create_topics([NewTopic(name, 1, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=PATIENCE_S).topics


def test_partitions_by_hand(admin: AdminClient) -> None:
    name = new_name()
    only(admin.create_topics([NewTopic(name, 2, replica_assignment=[[1], [1]])]))
    assert len(admin.list_topics(name, timeout=PATIENCE_S).topics[name].partitions) == 2
    error = refusal(admin.create_topics([NewTopic(new_name(), 1, replica_assignment=[[7]])]))
    assert error.code() in {KafkaError.INVALID_REPLICA_ASSIGNMENT, KafkaError.BROKER_NOT_AVAILABLE}


def test_a_topic_grows_and_never_shrinks(node: NodeProcess, admin: AdminClient, topic: str) -> None:
    only(admin.create_partitions([NewPartitions(topic, 4)]))
    assert len(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions) == 4
    assert Confluent().read(node.bootstrap_servers, topic, partition=3) == []

    assert refusal(admin.create_partitions([NewPartitions(topic, 2)])).code() == KafkaError.INVALID_PARTITIONS
    unknown = refusal(admin.create_partitions([NewPartitions("there-is-no-such-topic", 2)]))
    assert unknown.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_deleting_what_is_not_there(admin: AdminClient) -> None:
    error = refusal(admin.delete_topics(["there-is-no-such-topic"]))
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_first_message_creates_its_topic(node: NodeProcess, admin: AdminClient) -> None:
    name = new_name("made-by-a-message")
    assert Confluent().write(node.bootstrap_servers, name, [Message(b"first")]) == [0]
    assert name in admin.list_topics(timeout=PATIENCE_S).topics


def test_a_consumer_that_asks_about_a_topic_does_not_create_it(node: NodeProcess, admin: AdminClient) -> None:
    name = new_name()
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody"})
    answer = consumer.list_topics(name, timeout=PATIENCE_S).topics[name]
    consumer.close()
    assert answer.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert name not in admin.list_topics(timeout=PATIENCE_S).topics


def test_the_cluster_is_described(node: NodeProcess, admin: AdminClient) -> None:
    described = admin.describe_cluster(request_timeout=PATIENCE_S).result(PATIENCE_S)
    (broker,) = described.nodes
    assert f"{broker.host}:{broker.port}" == node.bootstrap_servers
    assert described.controller.id == broker.id
    assert described.cluster_id


# ---- settings


def test_every_setting_has_a_value_and_a_source(admin: AdminClient, topic: str) -> None:
    entries = settings_of(admin, topic)
    assert entries["retention.ms"].value == str(7 * 24 * 3600 * 1000)
    assert entries["retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value
    assert entries["compression.type"].value == "producer"
    assert len(entries) > 25


def test_settings_are_set_changed_and_taken_back(admin: AdminClient) -> None:
    name = new_name()
    only(admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "1000"})]))
    assert settings_of(admin, name)["retention.ms"].value == "1000"
    assert settings_of(admin, name)["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value

    def change(setting: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(setting, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        only(admin.incremental_alter_configs([resource]))

    change("retention.ms", "2000", AlterConfigOpType.SET)
    assert settings_of(admin, name)["retention.ms"].value == "2000"
    change("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert settings_of(admin, name)["cleanup.policy"].value == "delete,compact"
    change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    assert settings_of(admin, name)["cleanup.policy"].value == "compact"
    change("retention.ms", None, AlterConfigOpType.DELETE)
    assert settings_of(admin, name)["retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value


def test_the_old_way_replaces_all_settings(admin: AdminClient) -> None:
    name = new_name()
    only(admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "1000", "segment.bytes": "2000000"})]))
    resource = ConfigResource(ResourceType.TOPIC, name, set_config={"retention.ms": "3000"})
    only(admin.alter_configs([resource]))
    entries = settings_of(admin, name)
    assert entries["retention.ms"].value == "3000"
    assert entries["segment.bytes"].source == ConfigSource.DEFAULT_CONFIG.value


@pytest.mark.parametrize(
    ("setting", "value"),
    [("retention.ms", "soon"), ("no.such.setting", "1"), ("compression.type", "rar"), ("segment.bytes", "1")],
)
def test_wrong_settings_are_refused_in_words(admin: AdminClient, topic: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    error = refusal(admin.incremental_alter_configs([resource]))
    assert error.code() == KafkaError.INVALID_CONFIG
    assert setting in error.str()
    assert refusal(admin.create_topics([NewTopic(new_name(), 1, 1, config={setting: value})])).code() == error.code()


def test_a_node_has_settings_too(admin: AdminClient) -> None:
    entries = only(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert entries["num.partitions"].value == "1"


def test_records_are_deleted_up_to_an_offset(node: NodeProcess, admin: AdminClient, topic: str) -> None:
    Confluent().write(node.bootstrap_servers, topic, [Message(b"x")] * 10)
    assert only(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
    # Backwards is no way to go, and no error either.
    assert only(admin.delete_records([TopicPartition(topic, 0, 2)])).low_watermark == 4
    error = refusal(admin.delete_records([TopicPartition(topic, 0, 11)]))
    assert error.code() == KafkaError.OFFSET_OUT_OF_RANGE

"""Topics and settings through kafka-python's KafkaAdminClient, which speaks the newest versions of most APIs."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.clients.four_clients import KafkaPython, Message
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

START_MS = 1_700_000_000_000


@pytest.fixture
def admin(node: NodeProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
    yield client
    client.close()


def setting(admin: KafkaAdminClient, topic: str, name: str) -> Any:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    return admin.describe_configs([resource], config_filter="all")["topic"][topic][name]


def test_a_topic_from_its_creation_to_its_end(admin: KafkaAdminClient) -> None:
    name = new_name()
    made = admin.create_topics(
        {name: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "5000"}}},
        wait_for_metadata=True,
    )["topics"][0]
    assert (made["num_partitions"], made["replication_factor"]) == (3, 1)
    assert made["configs"]["retention.ms"]["value"] == "5000"

    (described,) = admin.describe_topics([name])
    assert [partition["partition_index"] for partition in described["partitions"]] == [0, 1, 2]
    assert name in admin.list_topics()

    topic_id = uuid.UUID(described["topic_id"])
    assert admin.describe_topics([topic_id])[0]["name"] == name
    admin.delete_topics([topic_id])
    assert name not in admin.list_topics()


def test_unknown_ids_and_names(admin: KafkaAdminClient) -> None:
    unknown_id, unknown_name = admin.describe_topics([uuid.uuid4(), "there-is-no-such-topic"])
    assert (unknown_id["error_code"], unknown_name["error_code"]) == (100, 3)


def test_errors_have_their_own_names(admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])
    with pytest.raises(InvalidTopicError):
        admin.create_topics(["a/b"])
    with pytest.raises(InvalidPartitionsError):
        admin.create_topics({new_name(): {"num_partitions": 10**6}})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(["there-is-no-such-topic"])


def test_validation_alone_creates_nothing(admin: KafkaAdminClient) -> None:
    name = new_name()
    admin.create_topics([name], validate_only=True)
    assert name not in admin.list_topics()


def test_a_topic_grows(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_partitions({topic: 5})
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 5


def test_partitions_come_in_pages(admin: KafkaAdminClient) -> None:
    name = new_name()
    admin.create_topics({name: {"num_partitions": 25}})
    seen: list[int] = []
    cursor = None
    pages = 0
    while True:
        answer = admin.describe_topic_partitions([name], response_partition_limit=10, cursor=cursor)
        seen += [partition["partition_index"] for topic in answer["topics"] for partition in topic["partitions"]]
        pages += 1
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert (seen, pages) == (list(range(25)), 3)


@pytest.mark.parametrize("is_incremental", [True, False])
def test_settings_change_both_ways(admin: KafkaAdminClient, topic: str, is_incremental: bool) -> None:
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "7000"})
    assert admin.alter_configs([wanted], incremental=is_incremental) == {"topic": {topic: "OK"}}
    assert setting(admin, topic, "retention.ms")["value"] == "7000"
    assert setting(admin, topic, "retention.ms")["config_source"] == "DYNAMIC_TOPIC_CONFIG"

    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})])
    assert setting(admin, topic, "retention.ms")["config_source"] == "DEFAULT_CONFIG"


def test_a_list_is_appended_to_and_subtracted_from(admin: KafkaAdminClient, topic: str) -> None:
    for operation, value, expected in (("APPEND", "compact", "delete,compact"), ("SUBTRACT", "delete", "compact")):
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": (operation, value)})
        assert admin.alter_configs([wanted]) == {"topic": {topic: "OK"}}
        assert setting(admin, topic, "cleanup.policy")["value"] == expected


def test_a_wrong_value_is_refused_in_words(admin: KafkaAdminClient, topic: str) -> None:
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "soon"})
    answer = admin.alter_configs([wanted])["topic"][topic]
    assert "retention.ms" in answer
    assert answer != "OK"


def test_the_settings_of_a_node_change_those_of_its_topics(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name())
    admin = KafkaAdminClient(bootstrap_servers=own_node.bootstrap_servers)
    wanted = ConfigResource(ConfigResourceType.BROKER, "1", {"log.retention.ms": "9000"})
    assert admin.alter_configs([wanted]) == {"broker": {"1": "OK"}}
    assert setting(admin, topic, "retention.ms")["value"] == "9000"
    assert setting(admin, topic, "retention.ms")["config_source"] == "DYNAMIC_BROKER_CONFIG"
    admin.close()

    own_node.kill()
    own_node.start()
    admin = KafkaAdminClient(bootstrap_servers=own_node.bootstrap_servers)
    assert setting(admin, topic, "retention.ms")["value"] == "9000"
    admin.close()


def test_resources_with_settings_are_listed(admin: KafkaAdminClient, topic: str) -> None:
    listed = admin.list_config_resources()
    assert topic in listed["topic"]
    assert listed["broker"] == ["1"]


def test_the_cluster_is_described(node: NodeProcess, admin: KafkaAdminClient) -> None:
    described = admin.describe_cluster()
    (broker,) = described["brokers"]
    assert f"{broker['host']}:{broker['port']}" == node.bootstrap_servers
    assert described["controller_id"] == broker["broker_id"] == 1
    assert described["cluster_id"]


def test_log_directories_say_how_large_partitions_are(node: NodeProcess, admin: KafkaAdminClient, topic: str) -> None:
    KafkaPython().write(node.bootstrap_servers, topic, [Message(b"x" * 1000)] * 10)
    (broker,) = admin.describe_log_dirs([topic])
    (directory,) = broker["log_dirs"]
    assert directory["log_dir"] == str(node.data_dir)
    assert directory["total_bytes"] > directory["usable_bytes"] > 0
    (described,) = directory["topics"]
    (partition,) = described["partitions"]
    assert partition["partition_size"] == sum(batch.size for batch in node.stored_batches(topic))

    (everything,) = admin.describe_log_dirs()
    assert topic in {described["name"] for described in everything["log_dirs"][0]["topics"]}


def test_records_are_deleted(node: NodeProcess, admin: KafkaAdminClient, topic: str) -> None:
    KafkaPython().write(node.bootstrap_servers, topic, [Message(b"x")] * 10)
    place = TopicPartition(topic, 0)
    assert admin.delete_records({place: 4})[place]["low_watermark"] == 4
    assert admin.delete_records({place: -1})[place]["low_watermark"] == 10


def test_offsets_are_listed_by_every_kind_of_place(node: NodeProcess, admin: KafkaAdminClient, topic: str) -> None:
    times = [START_MS, START_MS + 3000, START_MS + 1000]
    KafkaPython().write(node.bootstrap_servers, topic, [Message(b"x", timestamp_ms=time) for time in times])
    place = TopicPartition(topic, 0)
    found = {
        spec: admin.list_partition_offsets({place: spec})[place].offset
        for spec in (
            OffsetSpec.EARLIEST,
            OffsetSpec.LATEST,
            OffsetSpec.MAX_TIMESTAMP,
            OffsetSpec.EARLIEST_LOCAL,
            START_MS + 1,
        )
    }
    assert list(found.values()) == [0, 3, 1, 0, 1]

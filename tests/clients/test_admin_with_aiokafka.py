"""Topics and settings through aiokafka's admin client, which speaks older versions than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from headrace.model.errors import ErrorCode
from tests.clients.nodes import new_name
from tests.clients.raw_connection import RawConnection, batch_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]


@pytest.fixture
async def admin(node: NodeProcess) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
    await client.start()
    yield client
    await client.close()


async def test_a_topic_from_its_creation_to_its_end(admin: AIOKafkaAdminClient) -> None:
    name = new_name()
    wanted = NewTopic(name, num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "1000"})
    assert [error[:2] for error in (await admin.create_topics([wanted])).topic_errors] == [(name, ErrorCode.NONE)]
    again = await admin.create_topics([wanted])
    assert [error[:2] for error in again.topic_errors] == [(name, ErrorCode.TOPIC_ALREADY_EXISTS)]

    assert name in await admin.list_topics()
    (described,) = await admin.describe_topics([name])
    assert (described["error_code"], len(described["partitions"])) == (ErrorCode.NONE, 2)

    grown = await admin.create_partitions({name: NewPartitions(5)})
    assert [error[:2] for error in grown.topic_errors] == [(name, ErrorCode.NONE)]
    (described,) = await admin.describe_topics([name])
    assert len(described["partitions"]) == 5

    deleted = await admin.delete_topics([name])
    assert list(deleted.topic_error_codes) == [(name, ErrorCode.NONE)]
    assert name not in await admin.list_topics()


async def test_settings_are_described_and_replaced(admin: AIOKafkaAdminClient, topic: str) -> None:
    changed = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "4000"})
    (answer,) = await admin.alter_configs([changed])
    assert answer.resources[0][0] == ErrorCode.NONE

    (described,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    error_code, _, _, name, entries = described.resources[0]
    assert (error_code, name) == (ErrorCode.NONE, topic)
    assert {entry[0]: entry[1] for entry in entries}["retention.ms"] == "4000"


async def test_the_cluster_is_described(node: NodeProcess, admin: AIOKafkaAdminClient) -> None:
    described = await admin.describe_cluster()
    (broker,) = described["brokers"]
    assert f"{broker['host']}:{broker['port']}" == node.bootstrap_servers


async def test_records_are_deleted(node: NodeProcess, admin: AIOKafkaAdminClient, topic: str) -> None:
    with RawConnection(node.bootstrap_servers) as connection:
        connection.produce(topic, batch_of(*[b"x"] * 10))
    place = TopicPartition(topic, 0)
    assert await admin.delete_records({place: RecordsToDelete(before_offset=3)}) == {place: 3}
    async with AIOKafkaConsumer(bootstrap_servers=node.bootstrap_servers) as consumer:
        assert await consumer.beginning_offsets([place]) == {place: 3}


async def test_the_coordinator_is_this_node(admin: AIOKafkaAdminClient) -> None:
    assert await admin.find_coordinator("any group") == 1

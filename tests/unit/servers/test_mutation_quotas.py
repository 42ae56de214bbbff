"""Partitions that are created and deleted too fast: newer clients are refused, older ones wait afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.access.quotas.entity import DEFAULT, USER, EntityPart
from headrace.access.quotas.keys import QuotaKey
from headrace.metadata.commands.quota_commands import EntityEdits, QuotaEdit, alter_quotas
from headrace.model.errors import ErrorCode
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.servers.living_server import LivingServer, living_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

RATE = 0.01  # partitions a second: none comes back while a test runs
TOO_FAST = ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.fixture
async def living(tmp_path: Path) -> AsyncIterator[LivingServer]:
    async with living_server(tmp_path, num_partitions="4") as running:
        await running.create_topic("topic", 2)
        wanted = [EntityEdits((EntityPart(USER, DEFAULT),), (QuotaEdit(QuotaKey.MUTATIONS.value, RATE),))]
        await running.node.commands.submit(lambda image: alter_quotas(image, wanted))
        yield running
        assert not running.node.failed.done()


def created(answer: CreateTopicsResponse) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in answer.topics}


def several(*names: str, partitions: int = 3) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names], 10_000)


async def test_topics_beyond_the_quota_are_refused_one_by_one(living: LivingServer) -> None:
    client = await living.connect()
    answer = await client.ask(several("one", "two", "three"), 7)
    assert created(answer) == {"one": 0, "two": TOO_FAST, "three": TOO_FAST}
    assert answer.throttle_time_ms == pytest.approx((3 - 1) / RATE * 1000, rel=0.05)
    assert living.node.view.image.topic_named("two") is None
    (connection,) = living.server.connections.seats()
    assert connection.muting.is_on


async def test_an_older_client_gets_all_and_waits_afterwards(living: LivingServer) -> None:
    client = await living.connect()
    answer = await client.ask(several("one", "two", partitions=-1), 5)
    assert created(answer) == {"one": 0, "two": 0}
    assert answer.throttle_time_ms == pytest.approx((8 - 1) / RATE * 1000, rel=0.05)


async def test_what_was_not_created_does_not_count(living: LivingServer) -> None:
    client = await living.connect()
    for message in (several("topic"), CreateTopicsRequest([CreatableTopic("new", 9, 1)], 10_000, validate_only=True)):
        answer = await client.ask(message, 7)
        assert answer.throttle_time_ms == 0
    assert created(await client.ask(several("other"), 7)) == {"other": 0}


async def test_partitions_that_are_added_and_deleted_count_as_well(living: LivingServer) -> None:
    client = await living.connect()
    grown = await client.ask(CreatePartitionsRequest([CreatePartitionsTopic("topic", 5, None)], 10_000), 3)
    assert grown.results[0].error_code == 0
    assert grown.throttle_time_ms == pytest.approx((3 - 1) / RATE * 1000, rel=0.05)
    by_name = DeleteTopicsRequest(topic_names=["topic"], timeout_ms=10_000)
    for version, wanted in ((5, by_name), (6, DeleteTopicsRequest([DeleteTopicState("topic")], timeout_ms=10_000))):
        other = await living.connect()
        deleted = await other.ask(wanted, version)
        assert (deleted.responses[0].name, deleted.responses[0].error_code) == ("topic", TOO_FAST)
        assert deleted.throttle_time_ms > 0
    other = await living.connect()
    again = await other.ask(CreatePartitionsRequest([CreatePartitionsTopic("topic", 6, None)], 10_000), 3)
    assert again.results[0].error_code == TOO_FAST
    other = await living.connect()
    deleted = await other.ask(by_name, 4)
    assert deleted.responses[0].error_code == 0, "an older client waits afterwards"
    assert deleted.throttle_time_ms == pytest.approx((3 - 1 + 5) / RATE * 1000, rel=0.05)


async def test_topics_that_are_created_on_first_mention_count_as_well(living: LivingServer) -> None:
    client = await living.connect()
    wanted = MetadataRequest([MetadataRequestTopic(name=name) for name in ("one", "two")])
    answer = await client.ask(wanted, 9)
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes == {"one": 0, "two": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert living.node.view.image.topic_named("two") is None


async def test_a_name_twice_in_a_request_is_refused_as_ever(living: LivingServer) -> None:
    client = await living.connect()
    answer = await client.ask(several("twin", "twin"), 5)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.INVALID_REQUEST}
    assert answer.throttle_time_ms == 0

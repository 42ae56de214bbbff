from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.connection import Connection
from headrace.client.errors import ClusterUnreachable, ConnectionLost, RequestTimedOut
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.runtime.network import SystemNetwork
from headrace.wire.api import ApiKey
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from headrace.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from tests.unit.client.scripted_node import HANG_UP, SILENCE, TOPIC, ScriptedNode, metadata

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode().start()
    yield running
    await running.stop()


async def test_answers_find_their_requests_when_many_are_under_way(node: ScriptedNode) -> None:
    connection = await Connection.open(SystemNetwork(), node.address)
    asked = [
        connection.request(MetadataRequest([]), MetadataResponse)
        if number % 2
        else connection.request(ListOffsetsRequest(), ListOffsetsResponse)
        for number in range(40)
    ]
    answers = await asyncio.gather(*asked)
    assert [type(answer) for answer in answers] == [ListOffsetsResponse, MetadataResponse] * 20
    connection.close()


async def test_answers_that_nobody_waits_for_are_noted_in_their_order(node: ScriptedNode) -> None:
    connection = await Connection.open(SystemNetwork(), node.address)
    noted: list[object] = []
    for _ in range(3):
        connection.notify(MetadataRequest([]), MetadataResponse, noted.append)
        connection.notify(ListOffsetsRequest(), ListOffsetsResponse, noted.append)
    await connection.request(MetadataRequest([]), MetadataResponse)
    assert [type(answer) for answer in noted] == [MetadataResponse, ListOffsetsResponse] * 3
    node.script[ApiKey.METADATA] = [HANG_UP]
    connection.notify(MetadataRequest([]), MetadataResponse, noted.append)
    with pytest.raises(ConnectionLost):
        await connection.request(ListOffsetsRequest(), ListOffsetsResponse)
    assert len(noted) == 6, "an answer that never came was noted"


async def test_the_version_is_the_highest_that_both_know(node: ScriptedNode) -> None:
    node.versions[ApiKey.METADATA] = (0, 9)
    node.versions[ApiKey.FETCH] = (200, 300)
    del node.versions[ApiKey.LIST_OFFSETS]
    connection = await Connection.open(SystemNetwork(), node.address)
    assert connection.version_for(MetadataRequest) == 9
    with pytest.raises(Refusal, match="versions 200 to 300 of Fetch"):
        connection.version_for(FetchRequest)
    with pytest.raises(Refusal, match="nothing of ListOffsets"):
        connection.version_for(ListOffsetsRequest)
    connection.close()


async def test_an_older_node_is_asked_again_in_the_oldest_version(node: ScriptedNode) -> None:
    # Such a node answers in the form of version 0 whatever was asked: an error code and no APIs.
    refusal = (10).to_bytes(4, "big") + (1).to_bytes(4, "big") + (35).to_bytes(2, "big") + bytes(4)
    node.script[ApiKey.API_VERSIONS] = [refusal]
    connection = await Connection.open(SystemNetwork(), node.address)
    assert connection.versions[ApiKey.METADATA] == node.versions[ApiKey.METADATA]
    connection.close()


async def test_a_request_without_an_answer_times_out_and_takes_the_connection_with_it(node: ScriptedNode) -> None:
    connection = await Connection.open(SystemNetwork(), node.address)
    node.script[ApiKey.METADATA] = [SILENCE, SILENCE]
    later = asyncio.ensure_future(connection.request(MetadataRequest([]), MetadataResponse))
    await asyncio.sleep(0)
    with pytest.raises(RequestTimedOut, match=r"Metadata request within 0\.01 s"):
        await connection.request(MetadataRequest([]), MetadataResponse, timeout_s=0.01)
    with pytest.raises(ConnectionLost):
        await later
    with pytest.raises(ConnectionLost):
        await connection.request(MetadataRequest([]), MetadataResponse)


async def test_whoever_gives_up_waiting_does_not_disturb_the_others(node: ScriptedNode) -> None:
    connection = await Connection.open(SystemNetwork(), node.address)
    given_up = asyncio.ensure_future(connection.request(MetadataRequest([]), MetadataResponse))
    await asyncio.sleep(0)
    given_up.cancel()
    answer = await connection.request(ListOffsetsRequest(), ListOffsetsResponse)
    assert isinstance(answer, ListOffsetsResponse)
    connection.close()


async def test_an_answer_to_what_was_never_asked_ends_the_connection(node: ScriptedNode) -> None:
    """Whatever comes after it cannot be trusted to belong to anybody."""
    connection = await Connection.open(SystemNetwork(), node.address)
    node.script[ApiKey.METADATA] = [(4).to_bytes(4, "big") + (4711).to_bytes(4, "big")]
    with pytest.raises(ConnectionLost, match="an answer to request 4711, which was never sent"):
        await connection.request(MetadataRequest([]), MetadataResponse, timeout_s=5.0)
    assert connection.is_lost


async def test_a_server_of_another_kind_is_recognised(node: ScriptedNode) -> None:
    node.script[ApiKey.API_VERSIONS] = [b"HTTP/1.1 400 Bad Request\r\n\r\n"]
    with pytest.raises(ConnectionLost, match="does not speak the Kafka protocol"):
        await Connection.open(SystemNetwork(), node.address)


async def test_nobody_listening_is_told_at_once_with_what_to_check() -> None:
    node = await ScriptedNode().start()
    cluster = node.cluster(QUICK)
    await node.stop()
    with pytest.raises(ClusterUnreachable, match=r"connection refused.*headrace serve"):
        await cluster.refresh()


async def test_a_node_that_starts_late_is_waited_for_if_asked_to() -> None:
    early = await ScriptedNode().start()
    address = early.address
    cluster = early.cluster(ClusterSettings(reach_for_s=10.0, backoff_first_s=0.001, backoff_max_s=0.01))
    await early.stop()
    asking = asyncio.ensure_future(cluster.refresh())
    await asyncio.sleep(0.02)
    assert not asking.done()
    late = await ScriptedNode().start(address)
    assert (await asking).cluster_id == "test"
    await cluster.close()
    await late.stop()


async def test_an_unknown_topic_is_refused_without_delay(node: ScriptedNode) -> None:
    async with node.cluster(QUICK) as cluster:
        with pytest.raises(Refusal, match="there is no topic 'nope'") as refused:
            await cluster.topic("nope")
        assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(node.asked(ApiKey.METADATA)) == 1


async def test_metadata_is_asked_for_once_and_then_remembered(node: ScriptedNode) -> None:
    async with node.cluster(QUICK) as cluster:
        topics = await asyncio.gather(*[cluster.topic(TOPIC) for _ in range(10)])
        assert len({id(topic) for topic in topics}) == 1
        await cluster.topic(TOPIC)
        assert len(node.asked(ApiKey.METADATA)) == 1


async def test_a_topic_asked_for_while_an_answer_is_under_way_gets_its_own(node: ScriptedNode) -> None:
    async with node.cluster(QUICK) as cluster:
        without_topics = asyncio.ensure_future(cluster.refresh())
        await asyncio.sleep(0)
        assert (await cluster.topic(TOPIC)).name == TOPIC
        await without_topics


async def test_a_topic_that_is_being_made_is_waited_for(node: ScriptedNode) -> None:
    unready = MetadataResponse(topics=[MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TOPIC)])
    node.script[ApiKey.METADATA] = [unready, unready]
    async with node.cluster(ClusterSettings(topic_wait_s=10.0, backoff_first_s=0.001)) as cluster:
        assert (await cluster.topic(TOPIC)).name == TOPIC


async def test_a_lost_connection_is_made_again(node: ScriptedNode) -> None:
    node.script[ApiKey.METADATA] = [lambda request: metadata(node, request), HANG_UP, HANG_UP]
    async with node.cluster(QUICK) as cluster:
        await cluster.refresh()
        assert (await cluster.retry(cluster.refresh)).cluster_id == "test"
    assert len(node.links) >= 2


async def test_what_cannot_pass_is_not_tried_again(node: ScriptedNode) -> None:
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise Refusal(ErrorCode.INVALID_CONFIG, "no")

    async with node.cluster(QUICK) as cluster:
        with pytest.raises(Refusal, match="no"):
            await cluster.retry(attempt)
    assert attempts == 1


async def test_a_node_that_advertises_a_wrong_address_is_named(node: ScriptedNode) -> None:
    stranger = await ScriptedNode(node_id=2).start()
    wrong = stranger.address
    await stranger.stop()
    node.nodes = [node, stranger]
    async with node.cluster(QUICK) as cluster:
        await cluster.refresh()
        with pytest.raises(ConnectionLost, match=f"node 2 says that it is reached at {wrong}.*--advertise"):
            await cluster.node_connection(2)


@pytest.mark.parametrize("wrong", [("a..b", 9092), ("a" * 64, 9092), ("127.0.0.1", 70_000), ("a\0b", 9092)])
async def test_an_address_that_is_none_is_told_as_one_where_nobody_answers(
    node: ScriptedNode, wrong: tuple[str, int]
) -> None:
    node.script[ApiKey.METADATA] = [MetadataResponse(brokers=[MetadataResponseBroker(2, *wrong)])]
    async with node.cluster(QUICK) as cluster:
        await cluster.refresh()
        with pytest.raises(
            ConnectionLost, match=r"(?s)node 2 says that it is reached at .*not an address.*--advertise"
        ):
            await cluster.node_connection(2)


async def test_why_a_partition_has_no_leader_is_told(node: ScriptedNode) -> None:
    node.leaders[0] = -1
    async with node.cluster(QUICK) as cluster:
        await cluster.topic(TOPIC)
        assert cluster.leader_of(TopicPartition(TOPIC, 0)) is None
        assert "no node that is alive leads events-0" in str(cluster.why_no_leader(TopicPartition(TOPIC, 0)))
        assert "has no partition 7; it has 0 to 0" in str(cluster.why_no_leader(TopicPartition(TOPIC, 7)))
        assert "no topic 'nope'" in str(cluster.why_no_leader(TopicPartition("nope", 0)))

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.reading.consumer import AssignedConsumer, AtTime, ConsumerSettings, OutOfRange
from headrace.client.reading.offsets import Edge, find_offsets
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.fetch import FetchResponse
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.client.scripted_node import HANG_UP, TOPIC, ScriptedNode, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.batches.records import Record
    from headrace.wire.messages.fetch import FetchRequest

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)
ZERO, ONE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
PATIENCE_S = 120.0  # against hangs only


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode(partitions=2).start()
    yield running
    await running.stop()


@pytest.fixture
async def cluster(node: ScriptedNode) -> AsyncIterator[Cluster]:
    async with node.cluster(QUICK) as reached:
        yield reached


def batch(first: int, count: int = 1) -> bytes:
    return bytes(encode_batch([(0, None, b"v", ())] * count, base_offset=first))


def offsets(taken: dict[TopicPartition, list[Record]]) -> dict[int, list[int]]:
    return {name.partition: [record.offset for record in found] for name, found in taken.items()}


def fetch_offsets(request: FetchRequest) -> dict[int, int]:
    return {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}


async def test_it_reads_on_where_the_last_answer_ended(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 3)), records(batch(3, 2))]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0}, {ZERO: 5})
        read: list[int] = []
        while not consumer.is_finished:
            read += offsets(await consumer.poll(2, PATIENCE_S)).get(0, [])
        assert read == [0, 1, 2, 3, 4]
        assert consumer.position(ZERO) == 5
        assert consumer.high_watermarks[ZERO] == 1000
    first, second = node.asked(ApiKey.FETCH)[:2]
    assert (fetch_offsets(first), first.session_epoch) == ({0: 0}, 0)
    assert (fetch_offsets(second), second.session_id, second.session_epoch) == ({0: 3}, 9, 1)


async def test_poll_gives_no_more_than_asked_for_and_partitions_take_turns(
    node: ScriptedNode, cluster: Cluster
) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 10)), records(batch(0, 10), partition=1)]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0, ONE: 0}, {ZERO: 10, ONE: 10})
        while len(node.asked(ApiKey.FETCH)) < 3 and not consumer._buffers[ONE].buffered_bytes:
            await asyncio.sleep(0.001)
        assert offsets(await consumer.poll(4)) == {0: [0, 1, 2, 3]}
        assert offsets(await consumer.poll(4)) == {1: [0, 1, 2, 3]}
        assert offsets(await consumer.poll(100)) == {0: [4, 5, 6, 7, 8, 9], 1: [4, 5, 6, 7, 8, 9]}


async def test_only_the_wanted_partitions_are_taken(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0)), records(batch(0), partition=1)]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0, ONE: 0})
        assert offsets(await consumer.poll(10, PATIENCE_S, only={ONE})) == {1: [0]}
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [0]}


async def test_poll_returns_empty_when_nothing_comes(cluster: Cluster) -> None:
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        assert await consumer.poll(wait_s=0.01) == {}
        assert not consumer.is_finished


async def test_nothing_to_read_is_finished_without_a_fetch(node: ScriptedNode, cluster: Cluster) -> None:
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 7}, {ZERO: 7})
        assert consumer.is_finished
        assert await consumer.poll() == {}
    assert node.asked(ApiKey.FETCH) == []


def listing(answers: dict[int, int]) -> object:
    """Answer ListOffsets by the timestamp that is asked for."""

    def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            0,
            [
                ListOffsetsTopicResponse(
                    topic.name,
                    [
                        ListOffsetsPartitionResponse(part.partition_index, 0, -1, answers[part.timestamp])
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    return answer


@pytest.mark.parametrize(
    ("start", "expected"), [(Edge.EARLIEST, 4), (Edge.LATEST, 9), (AtTime(1000), 6), (AtTime(5000), 9), (5, 5)]
)
async def test_places_to_start(node: ScriptedNode, cluster: Cluster, start: int | Edge | AtTime, expected: int) -> None:
    node.script[ApiKey.LIST_OFFSETS] = [listing({-2: 4, -1: 9, 1000: 6, 5000: -1})] * 5
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: start})
        assert consumer.position(ZERO) == expected


async def test_offsets_are_asked_for_again_while_the_leader_is_not_ready(node: ScriptedNode, cluster: Cluster) -> None:
    unready = ListOffsetsResponse(
        0, [ListOffsetsTopicResponse(TOPIC, [ListOffsetsPartitionResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)])]
    )
    node.script[ApiKey.LIST_OFFSETS] = [unready, HANG_UP, listing({-1: 9})]
    found = await find_offsets(cluster, {ZERO: Edge.LATEST})
    assert found[ZERO].offset == 9


async def test_what_retention_took_is_passed_over_and_counted(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [records(code=ErrorCode.OFFSET_OUT_OF_RANGE), records(batch(40, 2))]
    node.script[ApiKey.LIST_OFFSETS] = [listing({-2: 40, -1: 50})] * 2
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 10})
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [40, 41]}
        assert consumer.skipped_count == 30


async def test_what_was_read_ahead_is_not_lost_when_retention_overtakes(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [
        records(batch(0, 5)),
        records(code=ErrorCode.OFFSET_OUT_OF_RANGE),
        records(batch(40, 2)),
    ]
    node.script[ApiKey.LIST_OFFSETS] = [listing({-2: 40, -1: 50})] * 2
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0}, {ZERO: 42})
        while len(node.asked(ApiKey.FETCH)) < 2:
            await asyncio.sleep(0.001)
        read: list[int] = []
        while not consumer.is_finished:
            read += offsets(await consumer.poll(2, PATIENCE_S)).get(0, [])
        assert read == [0, 1, 2, 3, 4, 40, 41]
        assert consumer.skipped_count == 35


async def test_an_answer_that_was_asked_for_from_elsewhere_is_dropped(node: ScriptedNode, cluster: Cluster) -> None:
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 100})
        while not node.asked(ApiKey.FETCH):
            await asyncio.sleep(0.001)
        await consumer.assign({ZERO: 0}, {ZERO: 1})
        (late,) = records(batch(100)).responses[0].partitions
        consumer.fetched(ZERO, 100, late)
        assert consumer._buffers[ZERO].is_empty


@pytest.mark.parametrize("policy", OutOfRange)
async def test_what_the_next_leader_still_has_is_not_read_again(
    node: ScriptedNode, cluster: Cluster, policy: OutOfRange
) -> None:
    """The one before had deleted it, as retention allows, and its followers had not heard of that yet."""
    node.script[ApiKey.FETCH] = [
        records(batch(44, 2)),
        records(code=ErrorCode.OFFSET_OUT_OF_RANGE),
        records(batch(46, 2)),
    ]
    node.script[ApiKey.LIST_OFFSETS] = [listing({-2: 40, -1: 50})] * 2
    async with AssignedConsumer(cluster, ConsumerSettings(out_of_range=policy)) as consumer:
        await consumer.assign({ZERO: 44}, {ZERO: 48})
        read: list[int] = []
        while not consumer.is_finished:
            read += offsets(await consumer.poll(10, PATIENCE_S)).get(0, [])
        assert read == [44, 45, 46, 47]
        assert consumer.skipped_count == 0


@pytest.mark.parametrize("asked", [10, 60])
async def test_out_of_range_can_be_an_error(node: ScriptedNode, cluster: Cluster, asked: int) -> None:
    node.script[ApiKey.FETCH] = [records(code=ErrorCode.OFFSET_OUT_OF_RANGE)]
    node.script[ApiKey.LIST_OFFSETS] = [listing({-2: 40, -1: 50})] * 10
    async with AssignedConsumer(cluster, ConsumerSettings(out_of_range=OutOfRange.FAIL)) as consumer:
        await consumer.assign({ZERO: asked})
        for _ in range(2):
            with pytest.raises(Refusal, match=f"holds offsets 40 to 49; {asked} was asked for"):
                await consumer.poll(10, PATIENCE_S)


async def test_out_of_range_can_go_to_the_end(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [records(code=ErrorCode.OFFSET_OUT_OF_RANGE), records(batch(50))]
    node.script[ApiKey.LIST_OFFSETS] = [listing({-2: 40, -1: 50})] * 2
    async with AssignedConsumer(cluster, ConsumerSettings(out_of_range=OutOfRange.LATEST)) as consumer:
        await consumer.assign({ZERO: 10})
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [50]}


@pytest.mark.parametrize(
    "trouble",
    [
        HANG_UP,
        FetchResponse(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        FetchResponse(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        records(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["hang up", "session lost", "session out of step", "leader moved"],
)
async def test_passing_trouble_loses_nothing(node: ScriptedNode, cluster: Cluster, trouble: object) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 2)), trouble, records(batch(2, 2))]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0}, {ZERO: 4})
        read: list[int] = []
        while not consumer.is_finished:
            read += offsets(await consumer.poll(10, PATIENCE_S)).get(0, [])
        assert read == [0, 1, 2, 3]
    resumed = node.asked(ApiKey.FETCH)[2]
    assert (resumed.session_id, resumed.session_epoch, fetch_offsets(resumed)) == (0, 0, {0: 2})


async def test_a_leader_that_moved_is_followed(node: ScriptedNode, cluster: Cluster) -> None:
    second = await ScriptedNode(partitions=2, node_id=2).start()
    node.nodes = second.nodes = [node, second]

    def moved(_: FetchRequest) -> FetchResponse:
        node.leaders[0] = second.leaders[0] = 2
        return records(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)

    node.script[ApiKey.FETCH] = [moved]
    second.script[ApiKey.FETCH] = [records(batch(0))]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [0]}
    await second.stop()


async def test_a_move_that_somebody_else_heard_of_is_followed(node: ScriptedNode, cluster: Cluster) -> None:
    """One view of the cluster serves many: the consumer itself need not meet the old leader's refusal."""
    second = await ScriptedNode(partitions=2, node_id=2).start()
    node.nodes = second.nodes = [node, second]
    node.script[ApiKey.FETCH] = [records()] * 100_000
    second.script[ApiKey.FETCH] = [records(batch(0))]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        polling = asyncio.create_task(consumer.poll(10, PATIENCE_S))
        while not node.asked(ApiKey.FETCH):
            await asyncio.sleep(0.001)
        node.leaders[0] = second.leaders[0] = 2
        await cluster.refresh()
        assert offsets(await polling) == {0: [0]}
    await second.stop()


async def test_a_refusal_is_raised_by_poll(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [records(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        with pytest.raises(Refusal, match="events-0 cannot be read: topic authorization failed"):
            await consumer.poll(10, PATIENCE_S)


@pytest.mark.parametrize(
    "trouble",
    [records(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), records(b"\0" * 100)],
    ids=["refused", "damaged beyond recognition"],
)
async def test_what_cannot_be_read_is_asked_for_again_once_the_caller_was_told(
    node: ScriptedNode, cluster: Cluster, trouble: FetchResponse
) -> None:
    node.script[ApiKey.FETCH] = [trouble] * 1000
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        for asked_count in (1, 2):
            while len(node.asked(ApiKey.FETCH)) < asked_count:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)  # time for hundreds
            assert len(node.asked(ApiKey.FETCH)) == asked_count
            with pytest.raises(Refusal, match=r"events-0"):
                await consumer.poll(10, PATIENCE_S)
        node.script[ApiKey.FETCH] = [records(batch(0, 2))]
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [0, 1]}


async def test_damage_on_the_way_is_raised_by_poll(node: ScriptedNode, cluster: Cluster) -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    node.script[ApiKey.FETCH] = [records(bytes(damaged))]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        with pytest.raises(Refusal, match="does not match its CRC"):
            await consumer.poll(10, PATIENCE_S)


async def test_what_others_gave_is_handed_out_before_damage_is_told(node: ScriptedNode, cluster: Cluster) -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    node.script[ApiKey.FETCH] = [records(batch(0, 2)), records(bytes(damaged), partition=1)]
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0, ONE: 0})
        while consumer._buffers[ONE].is_empty:
            await asyncio.sleep(0.001)
        assert offsets(await consumer.poll(10, PATIENCE_S)) == {0: [0, 1]}
        with pytest.raises(Refusal, match="does not match its CRC"):
            await consumer.poll(10, PATIENCE_S)
        assert (consumer.position(ZERO), consumer.position(ONE)) == (2, 0)


async def test_a_node_that_stays_away_is_told_in_the_end(node: ScriptedNode) -> None:
    impatient = ClusterSettings(retry_for_s=0.05, backoff_first_s=0.001, backoff_max_s=0.01)
    async with node.cluster(impatient) as cluster, AssignedConsumer(cluster) as consumer:
        await cluster.topic(TOPIC)
        await consumer.assign({ZERO: 0})
        await node.stop()
        with pytest.raises(Exception, match=r"connection refused|closed the connection"):
            await consumer.poll(10, PATIENCE_S)


async def test_trouble_that_was_told_is_over_when_it_is_over(node: ScriptedNode) -> None:
    impatient = ClusterSettings(retry_for_s=0.05, backoff_first_s=0.001, backoff_max_s=0.01)
    async with node.cluster(impatient) as cluster, AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        node.script[ApiKey.FETCH] = [records(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 100_000
        while not node.asked(ApiKey.FETCH):
            await asyncio.sleep(0.001)
        node.links[-1].abort()  # the long poll that is open
        with pytest.raises(Refusal, match="not leader or follower"):
            await consumer.poll(10, PATIENCE_S)
        node.script[ApiKey.FETCH] = []
        assert await asyncio.wait_for(first_poll_without_trouble(consumer), PATIENCE_S) == {}


async def first_poll_without_trouble(consumer: AssignedConsumer) -> dict[TopicPartition, list[Record]]:
    while True:
        with suppress(Refusal):
            return await consumer.poll(wait_s=0.05)
        await asyncio.sleep(0.001)


async def test_memory_is_bounded_when_nobody_polls(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.FETCH] = [
        lambda request: records(batch(fetch_offsets(request).get(0, 0), 1000)) for _ in range(100_000)
    ]
    limit = 200_000
    async with AssignedConsumer(cluster, ConsumerSettings(buffer_bytes=limit)) as consumer:
        await consumer.assign({ZERO: 0})
        while consumer._buffers[ZERO].buffered_bytes < limit:
            await asyncio.sleep(0.001)
        previous = -1
        while previous != len(node.requests):
            previous = len(node.requests)
            await asyncio.sleep(0.05)
        held = consumer._buffers[ZERO].buffered_bytes
        assert limit <= held < limit + 2 * len(batch(0, 1000))

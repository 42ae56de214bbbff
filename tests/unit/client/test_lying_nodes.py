"""What a client does with a node that answers nonsense: it says so, soon, and takes no memory for it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.connection import Connection
from headrace.client.errors import ClientError, ConnectionLost
from headrace.client.reading.consumer import AssignedConsumer, ConsumerSettings
from headrace.client.reading.partition_buffer import PartitionBuffer
from headrace.client.reading.peek import peek
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.runtime.network import SystemNetwork
from headrace.wire.api import ApiKey
from headrace.wire.batches.header import read_header, seal
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import FRAME_BYTES_MAX
from headrace.wire.messages.fetch import FetchResponse
from headrace.wire.messages.metadata import MetadataRequest, MetadataResponse
from headrace.wire.primitives import ELEMENTS_MAX
from tests.unit.client.scripted_node import TOPIC, ScriptedNode, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PLACE = TopicPartition(TOPIC, 0)
QUICK = ClusterSettings(retry_for_s=0.05, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)
PATIENCE_S = 30.0
END = 10
OFFSET_MAX = 2**63 - 1


def batch(first: int, count: int = 1) -> bytes:
    return bytes(encode_batch([(0, None, b"v", ())] * count, base_offset=first))


def with_offsets(base_offset: int, last_offset_delta: int) -> bytes:
    """A batch of one record that claims other offsets than it has."""
    raw = bytearray(batch(0))
    struct.pack_into(">q", raw, 0, base_offset)
    struct.pack_into(">i", raw, 23, last_offset_delta)
    header = read_header(raw)
    assert (header.base_offset, header.last_offset_delta) == (base_offset, last_offset_delta)
    seal(raw)
    return bytes(raw)


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode().start()
    yield running
    await running.stop()


LIES = {
    "one batch, again and again": batch(0),
    "a batch before what was asked for": batch(2, 3),
    "the beginning of a batch": batch(5)[:-1],
    "less than a header": batch(5)[:20],
    "an offset below zero": with_offsets(-5, 20),
    "an end before its beginning": with_offsets(7, -3),
    "an end beyond all offsets": with_offsets(OFFSET_MAX - 1, 1),
    "zeros": bytes(500),
    "ones": b"\xff" * 500,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_reader_that_gets_nowhere_says_so(node: ScriptedNode, lie: bytes) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0, 5)), *[records(lie)] * 50]
    async with node.cluster(QUICK) as cluster, AssignedConsumer(cluster) as consumer:
        await consumer.assign({PLACE: 0}, {PLACE: END})
        assert len((await consumer.poll(wait_s=PATIENCE_S))[PLACE]) == 5
        with pytest.raises(Refusal) as refusal:
            await consumer.poll(wait_s=PATIENCE_S)
        assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE
        assert consumer.position(PLACE) == 5
    assert len(node.asked(ApiKey.FETCH)) <= 3


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_whoever_fills_a_buffer_hears_of_it(lie: bytes) -> None:
    buffer = PartitionBuffer(PLACE, 5)
    with pytest.raises(Refusal) as refusal:
        buffer.add(memoryview(lie))
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE
    assert (buffer.fetch_offset, buffer.buffered_bytes) == (5, 0)


async def test_a_look_at_a_place_gets_nowhere_too(node: ScriptedNode) -> None:
    node.script[ApiKey.FETCH] = [records(batch(0))] * 50
    async with node.cluster(QUICK) as cluster:
        await cluster.topic(TOPIC)
        with pytest.raises(Refusal, match="what came instead ends before it"):
            await peek(cluster, PLACE, 5, END)


async def test_a_node_that_always_has_nothing_at_once_is_not_asked_on_and_on(node: ScriptedNode) -> None:
    """A pause after each answer that did not wait: some fifty in a second, where there were thousands."""
    node.script[ApiKey.FETCH] = [records()] * 10_000
    patient = ConsumerSettings(fetch_wait_ms=1000)
    async with node.cluster(QUICK) as cluster, AssignedConsumer(cluster, patient) as consumer:
        began_s = cluster.clock.monotonic_s()
        await consumer.assign({PLACE: 0}, {PLACE: END})
        assert await consumer.poll(wait_s=0.2) == {}
        took_s = cluster.clock.monotonic_s() - began_s
    assert len(node.asked(ApiKey.FETCH)) <= took_s / 0.02 + 2


def frame(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


def many_topics(count: int) -> bytes:
    """The answer to the second request of a connection, in Metadata's version 4."""
    head = struct.pack(">iihii", 0, 0, -1, 1, count)
    return frame(2, head + (struct.pack(">hhbi", 0, 0, 0, 0)) * min(count, ELEMENTS_MAX + 1))


NONSENSE: dict[str, Any] = {
    "any bytes": bytes(range(255, -1, -1)) * 8,
    "a length of 2 GB": struct.pack(">i", 2**31 - 1) + bytes(1000),
    "a length that is just too much": struct.pack(">i", FRAME_BYTES_MAX + 1),
    "a negative length": struct.pack(">i", -1),
    "no room for a correlation id": struct.pack(">i", 0),
    "another request's answer": frame(77, bytes(100)),
    "an answer that ends too early": frame(2, bytes(5)),
    "10 million topics that are not there": frame(2, struct.pack(">iihii", 0, 0, -1, 1, 10_000_000)),
    "10 million topics": many_topics(10_000_000),
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_ends_the_connection_at_once(node: ScriptedNode, nonsense: bytes) -> None:
    node.versions[ApiKey.METADATA] = (0, 4)
    node.script[ApiKey.METADATA] = [nonsense]
    connection = await Connection.open(SystemNetwork(), node.address)
    with pytest.raises(ConnectionLost, match=r"nonsense|does not speak the Kafka protocol"):
        await connection.request(MetadataRequest(None), MetadataResponse, timeout_s=PATIENCE_S)
    assert connection.is_lost
    with pytest.raises(ConnectionLost):
        await connection.request(MetadataRequest(None), MetadataResponse)


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE)
async def test_a_cluster_of_nonsense_is_given_up(node: ScriptedNode, nonsense: bytes) -> None:
    node.versions[ApiKey.METADATA] = (0, 4)
    node.script[ApiKey.METADATA] = [nonsense] * 1000
    with pytest.raises(ClientError):
        async with node.cluster(QUICK) as cluster:
            await cluster.topic(TOPIC)


async def test_an_answer_about_other_partitions_is_no_progress_and_no_harm(node: ScriptedNode) -> None:
    strange = FetchResponse(0, 0, 9, records(batch(0), partition=77).responses)
    node.script[ApiKey.FETCH] = [strange, records(batch(0, END))]
    async with node.cluster(QUICK) as cluster, AssignedConsumer(cluster) as consumer:
        await consumer.assign({PLACE: 0}, {PLACE: END})
        assert len((await consumer.poll(wait_s=PATIENCE_S))[PLACE]) == END

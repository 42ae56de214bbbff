from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.errors import ClientError, DeliveryFailed
from headrace.client.producing.batch import PendingBatch
from headrace.client.producing.producer import Acks, BatchingProducer, ProducerSettings
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_OFFSET
from headrace.wire.api import ApiKey
from headrace.wire.batches.header import BatchHeader, Codec, read_header
from headrace.wire.batches.records import Record, decode_records
from headrace.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from headrace.wire.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse
from headrace.wire.partitioning import partition_for_key
from tests.unit.client.scripted_node import HANG_UP, SILENCE, TOPIC, ScriptedNode, produced, refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.messages.produce import ProduceRequest

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)
LONG_MS = 3_600_000.0  # a batch that is never sent for its age


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode(partitions=3).start()
    yield running
    await running.stop()


@pytest.fixture
async def cluster(node: ScriptedNode) -> AsyncIterator[Cluster]:
    async with node.cluster(QUICK) as reached:
        yield reached


def headers(node: ScriptedNode, partition: int = 0) -> list[BatchHeader]:
    return [read_header(batch) for batch in node.logs[partition]]


def values(node: ScriptedNode, partition: int = 0) -> list[bytes | None]:
    return [record.value for batch in node.logs[partition] for record in opened(batch)]


def opened(batch: bytes) -> list[Record]:
    return list(decode_records(batch, inflate_max=1 << 20))


def written_then_lost(node: ScriptedNode) -> Any:
    """The node writes the batch; its answer never arrives."""

    def answer(request: ProduceRequest) -> object:
        produced(node, request)
        return HANG_UP

    return answer


# Batches.


async def test_messages_wait_for_each_other_and_leave_together(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=LONG_MS)) as producer:
        for number in range(10):
            await producer.send(TOPIC, None, b"%d" % number, partition=0)
        await asyncio.sleep(0.01)
        assert not node.logs
    assert [header.record_count for header in headers(node)] == [10]
    assert values(node) == [b"%d" % number for number in range(10)]


async def test_a_full_batch_leaves_without_waiting(node: ScriptedNode, cluster: Cluster) -> None:
    settings = ProducerSettings(batch_bytes=1000, linger_ms=LONG_MS)
    producer = BatchingProducer(cluster, settings)
    receipts = [await producer.send(TOPIC, None, b"x" * 300, partition=0) for _ in range(9)]
    for receipt in receipts[:8]:
        await receipt
    assert all(len(batch) <= 1000 for batch in node.logs[0])
    assert not receipts[8].is_settled
    await producer.close()
    assert len(values(node)) == 9


async def test_an_old_batch_leaves_although_it_is_not_full(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=1)) as producer:
        delivered = await (await producer.send(TOPIC, b"k", b"v", partition=2))
        assert (delivered.topic, delivered.partition, delivered.offset) == (TOPIC, 2, 100)


async def test_a_message_larger_than_a_batch_goes_alone(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(batch_bytes=100, linger_ms=LONG_MS)) as producer:
        for value in (b"small", b"x" * 5000, b"small"):
            await producer.send(TOPIC, None, value, partition=0)
    assert [header.record_count for header in headers(node)] == [1, 1, 1]


async def test_everything_of_a_message_arrives(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster) as producer:
        marks = (("trace", b"1"), ("empty", None))
        await producer.send(TOPIC, b"k", None, partition=0, headers=marks, timestamp_ms=123)
    (record,) = opened(node.logs[0][0])
    assert record == Record(0, 123, b"k", None, marks)


@pytest.mark.parametrize("codec", list(Codec))
async def test_batches_are_compressed_as_asked(node: ScriptedNode, cluster: Cluster, codec: Codec) -> None:
    async with BatchingProducer(cluster, ProducerSettings(codec=codec)) as producer:
        await producer.send(TOPIC, None, b"x" * 1000, partition=0)
    (header,) = headers(node)
    assert header.codec == codec
    assert (header.size < 500) == (codec is not Codec.NONE)


# Partitions.


async def test_keys_decide_the_partition(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster) as producer:
        for number in range(30):
            await producer.send(TOPIC, b"key%d" % number, b"v")
    for partition in range(3):
        keys = [record.key for batch in node.logs[partition] for record in opened(batch)]
        assert keys
        assert all(partition_for_key(key or b"", 3) == partition for key in keys)


async def test_messages_without_a_key_fill_one_batch_after_the_other(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(batch_bytes=2000, linger_ms=LONG_MS)) as producer:
        for _ in range(90):
            await producer.send(TOPIC, None, b"x" * 170)
    assert [len(values(node, partition)) for partition in range(3)] == [30, 30, 30]
    assert [len(node.logs[partition]) for partition in range(3)] == [3, 3, 3]


async def test_a_partition_that_is_not_there_is_refused(cluster: Cluster) -> None:
    async with BatchingProducer(cluster) as producer:
        with pytest.raises(Refusal, match="has no partition 3; it has 0 to 2"):
            await producer.send(TOPIC, None, b"v", partition=3)


async def test_ready_partitions_share_a_request(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=LONG_MS)) as producer:
        for partition in range(3):
            await producer.send(TOPIC, None, b"v", partition=partition)
    (request,) = node.asked(ApiKey.PRODUCE)
    assert sorted(part.index for part in request.topic_data[0].partition_data) == [0, 1, 2]


# Numbers and retries.


async def test_batches_are_numbered_per_partition(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(batch_bytes=200, linger_ms=LONG_MS)) as producer:
        for _ in range(6):
            await producer.send(TOPIC, None, b"x" * 50, partition=0)
            await producer.send(TOPIC, None, b"x" * 50, partition=1)
    for partition in (0, 1):
        numbered = headers(node, partition)
        assert {(header.producer_id, header.producer_epoch) for header in numbered} == {(101, 0)}
        expected, positions = 0, []
        for header in numbered:
            positions.append(expected)
            expected += header.record_count
        assert [header.base_sequence for header in numbered] == positions
    assert len(node.asked(ApiKey.INIT_PRODUCER_ID)) == 1


@pytest.mark.parametrize("acks", [Acks.LEADER, Acks.NONE])
async def test_without_all_acks_batches_have_no_numbers(node: ScriptedNode, cluster: Cluster, acks: Acks) -> None:
    async with BatchingProducer(cluster, ProducerSettings(acks=acks)) as producer:
        receipt = await producer.send(TOPIC, None, b"v", partition=0)
        await producer.flush()
        assert (await receipt).offset == (NO_OFFSET if acks is Acks.NONE else 100)
    if acks is Acks.NONE:
        await cluster.refresh()  # answered after what was sent before it on this connection
    (header,) = headers(node)
    assert (header.producer_id, header.base_sequence) == (-1, -1)
    assert node.asked(ApiKey.PRODUCE)[0].acks == acks


async def test_after_a_lost_answer_the_same_batch_is_sent_again(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.PRODUCE] = [written_then_lost(node)]
    async with BatchingProducer(cluster) as producer:
        await (await producer.send(TOPIC, None, b"once", partition=0))
    first, again = node.logs[0]
    assert first == again  # by its number the log knows it


@pytest.mark.parametrize(
    "trouble",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)
async def test_passing_trouble_is_ridden_out_in_order(node: ScriptedNode, cluster: Cluster, trouble: ErrorCode) -> None:
    node.script[ApiKey.PRODUCE] = [refused(trouble), refused(trouble)]
    async with BatchingProducer(cluster, ProducerSettings(batch_bytes=200)) as producer:
        for number in range(12):
            await producer.send(TOPIC, None, b"%04d" % number * 10, partition=0)
    assert values(node) == [b"%04d" % number * 10 for number in range(12)]
    assert producer.failed_count == 0


async def test_a_leader_that_moved_is_found(node: ScriptedNode, cluster: Cluster) -> None:
    second = await ScriptedNode(partitions=3, node_id=2).start()
    node.nodes = second.nodes = [node, second]

    def moved(request: ProduceRequest) -> ProduceResponse:
        node.leaders[0] = 2
        return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)(request)

    node.script[ApiKey.PRODUCE] = [moved]
    async with BatchingProducer(cluster) as producer:
        await producer.send(TOPIC, None, b"v", partition=0)
    assert values(second) == [b"v"]
    assert values(node) == []
    await second.stop()


async def test_a_partition_without_a_leader_is_waited_for(node: ScriptedNode, cluster: Cluster) -> None:
    node.leaders[0] = -1
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0)) as producer:
        receipt = await producer.send(TOPIC, None, b"v", partition=0)
        await asyncio.sleep(0.02)
        assert not receipt.is_settled
        node.leaders[0] = 1
        await receipt
    assert values(node) == [b"v"]


async def test_too_large_a_batch_is_split_until_it_fits(node: ScriptedNode, cluster: Cluster) -> None:
    def picky(request: ProduceRequest) -> object:
        (part,) = request.topic_data[0].partition_data
        assert part.records is not None
        if len(part.records) > 200:
            return refused(ErrorCode.MESSAGE_TOO_LARGE)(request)
        return produced(node, request)

    node.script[ApiKey.PRODUCE] = [picky] * 100
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=LONG_MS)) as producer:
        receipts = [await producer.send(TOPIC, None, b"%02d" % number * 20, partition=0) for number in range(20)]
    assert values(node) == [b"%02d" % number * 20 for number in range(20)]
    sequences = [(header.base_sequence, header.record_count) for header in headers(node)]
    assert [first for first, _ in sequences] == [
        sum(count for _, count in sequences[:i]) for i in range(len(sequences))
    ]
    assert len([await receipt for receipt in receipts]) == 20
    assert producer.delivered_bytes == 20 * 40
    assert producer.buffered_bytes == 0


async def test_a_batch_that_may_be_in_the_log_is_not_split(node: ScriptedNode, cluster: Cluster) -> None:
    """Its halves would have other numbers, and be written a second time."""
    node.script[ApiKey.PRODUCE] = [written_then_lost(node), refused(ErrorCode.MESSAGE_TOO_LARGE)]
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=LONG_MS)) as producer:
        for value in (b"one", b"two"):
            await producer.send(TOPIC, None, value, partition=0)
        with pytest.raises(DeliveryFailed, match=r"2 messages were not delivered .* message too large"):
            await producer.flush()
    assert values(node) == [b"one", b"two"]


async def test_a_single_message_too_large_fails_and_the_next_goes_on(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.PRODUCE] = [refused(ErrorCode.MESSAGE_TOO_LARGE)]
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0)) as producer:
        with pytest.raises(Refusal, match="message too large"):
            await (await producer.send(TOPIC, None, b"huge", partition=0))
        await (await producer.send(TOPIC, None, b"fine", partition=0))
    assert [header.base_sequence for header in headers(node)] == [0]
    assert (producer.delivered_count, producer.failed_count) == (1, 1)


async def test_only_what_was_delivered_counts_as_sent(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.PRODUCE] = [refused(ErrorCode.MESSAGE_TOO_LARGE)]
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0)) as producer:
        with pytest.raises(Refusal):
            await (await producer.send(TOPIC, b"key", b"x" * 1000, partition=0))
        await (await producer.send(TOPIC, b"key", b"fine", partition=0))
        await (await producer.send(TOPIC, None, None, partition=0))
    assert (producer.delivered_count, producer.delivered_bytes) == (2, len(b"keyfine"))


async def test_a_log_that_forgot_the_producer_meets_a_new_one(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0)) as producer:
        await (await producer.send(TOPIC, None, b"first", partition=0))
        node.script[ApiKey.PRODUCE] = [refused(ErrorCode.UNKNOWN_PRODUCER_ID)]
        await (await producer.send(TOPIC, None, b"second", partition=0))
    assert [(header.producer_id, header.base_sequence) for header in headers(node)] == [(101, 0), (102, 0)]
    assert values(node) == [b"first", b"second"]


async def test_an_uncertain_batch_is_not_sent_under_another_name(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.PRODUCE] = [written_then_lost(node), refused(ErrorCode.UNKNOWN_PRODUCER_ID)]
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0)) as producer:
        with pytest.raises(Refusal, match="unknown producer id"):
            await (await producer.send(TOPIC, None, b"once", partition=0))
        await (await producer.send(TOPIC, None, b"next", partition=0))
    assert values(node) == [b"once", b"next"]
    assert [header.producer_id for header in headers(node)] == [101, 102]


@pytest.mark.parametrize(
    "perhaps_written",
    [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER],
)
async def test_the_numbers_of_a_batch_that_may_be_written_are_never_used_again(
    node: ScriptedNode, cluster: Cluster, perhaps_written: ErrorCode
) -> None:
    def written_and_refused(request: ProduceRequest) -> ProduceResponse:
        produced(node, request)
        return refused(perhaps_written)(request)

    node.script[ApiKey.PRODUCE] = [written_and_refused]
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0, delivery_timeout_s=0)) as producer:
        with pytest.raises(Refusal):
            await (await producer.send(TOPIC, None, b"perhaps", partition=0))
        await (await producer.send(TOPIC, None, b"surely", partition=0))
    assert [(header.producer_id, header.base_sequence) for header in headers(node)] == [(101, 0), (102, 0)]


async def test_a_duplicate_that_the_log_remembers_counts_as_delivered(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.PRODUCE] = [refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)]
    async with BatchingProducer(cluster) as producer:
        delivered = await (await producer.send(TOPIC, None, b"v", partition=0))
    assert delivered.offset == NO_OFFSET
    assert producer.failed_count == 0


async def test_after_too_long_a_batch_is_given_up(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.PRODUCE] = [refused(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1000
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0, delivery_timeout_s=0.01)) as producer:
        with pytest.raises(Refusal, match="not enough replicas"):
            await (await producer.send(TOPIC, None, b"v", partition=0))


async def test_a_topic_that_is_deleted_under_the_producer_is_named(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0, delivery_timeout_s=0.05)) as producer:
        await (await producer.send(TOPIC, None, b"v", partition=0))
        gone = MetadataResponse(topics=[MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TOPIC)])
        gone.brokers = []
        node.script[ApiKey.METADATA] = [gone] * 1000
        node.script[ApiKey.PRODUCE] = [refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 1000
        with pytest.raises(Refusal) as failed:
            await (await producer.send(TOPIC, None, b"v", partition=0))
    assert failed.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# What nobody watches.


async def test_a_failure_that_nobody_saw_is_raised_by_flush_once(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.PRODUCE] = [refused(ErrorCode.INVALID_RECORD)]
    producer = BatchingProducer(cluster)
    for _ in range(3):
        await producer.send(TOPIC, None, b"v", partition=0)
    with pytest.raises(DeliveryFailed, match=r"3 messages were not delivered to 'events'.*invalid record") as failed:
        await producer.flush()
    assert failed.value.message_count == 3
    await producer.flush()
    await producer.close()


async def test_each_bad_message_is_told_its_own_reason(node: ScriptedNode, cluster: Cluster) -> None:
    def one_bad(request: ProduceRequest) -> ProduceResponse:
        answer = refused(ErrorCode.INVALID_RECORD)(request)
        part: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        part.error_message = "one record is bad"
        part.record_errors = [BatchIndexAndErrorMessage(1, "it has no key")]
        return answer

    node.script[ApiKey.PRODUCE] = [one_bad]
    async with BatchingProducer(cluster) as producer:
        good, bad = [await producer.send(TOPIC, None, b"v", partition=0) for _ in range(2)]
        with pytest.raises(Refusal, match="one record is bad"):
            await good
        with pytest.raises(Refusal, match="it has no key"):
            await bad


async def test_flush_does_not_wait_for_what_is_sent_after_it(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=LONG_MS)) as producer:
        await producer.send(TOPIC, None, b"before", partition=0)
        flushing = asyncio.ensure_future(producer.flush())
        await asyncio.sleep(0)
        node.script[ApiKey.PRODUCE] = [lambda request: produced(node, request), SILENCE]
        later = await producer.send(TOPIC, None, b"after", partition=1)
        await flushing
        assert not later.is_settled
        node.script[ApiKey.PRODUCE] = []


async def test_send_waits_while_the_buffer_is_full(node: ScriptedNode, cluster: Cluster) -> None:
    node.script[ApiKey.PRODUCE] = [SILENCE]
    settings = ProducerSettings(batch_bytes=1000, buffer_bytes=3000, linger_ms=0)
    producer = BatchingProducer(cluster, settings)

    async def send_many() -> None:
        for _ in range(20):
            await producer.send(TOPIC, None, b"x" * 400, partition=0)

    sending = asyncio.ensure_future(send_many())
    await asyncio.sleep(0.05)
    assert not sending.done()
    assert producer.buffered_bytes <= 3000
    for link in node.links:
        link.abort()  # the silent request is lost, and tried again
    await sending
    await producer.close()
    assert producer.delivered_count == 20
    assert producer.buffered_bytes == 0


async def test_a_closed_producer_takes_nothing(cluster: Cluster) -> None:
    producer = BatchingProducer(cluster)
    await producer.close()
    with pytest.raises(ClientError, match="closed"):
        await producer.send(TOPIC, None, b"v")


@pytest.mark.parametrize(
    "wrong", [{"batch_bytes": 0}, {"buffer_bytes": 0}, {"linger_ms": -1}, {"acks": Acks.LEADER, "is_idempotent": True}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ProducerSettings(**wrong)


# Bugs.


@pytest.mark.parametrize("timestamp_ms", [-2, 2**62 + 1, 2**63, -(2**70)])
async def test_a_time_that_no_batch_can_tell_is_refused_at_once(
    node: ScriptedNode, cluster: Cluster, timestamp_ms: int
) -> None:
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0.0)) as producer:
        with pytest.raises(ValueError, match="milliseconds since 1970"):
            await producer.send(TOPIC, None, b"v", partition=0, timestamp_ms=timestamp_ms)
        for extreme_ms in (-1, 2**62):
            await producer.send(TOPIC, None, b"v", partition=0, timestamp_ms=extreme_ms)
    assert sum(header.last_offset_delta + 1 for header in headers(node)) == 2


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (None, "text", "the value of a message is bytes or None, not str; encode it first"),
        (b"k", 7, "the value of a message is bytes or None, not int"),
        ("text", b"v", "the key of a message is bytes or None, not str; encode it first"),
    ],
)
async def test_what_is_not_bytes_is_refused_at_once_and_leaves_nothing_behind(
    node: ScriptedNode, cluster: Cluster, key: Any, value: Any, complaint: str
) -> None:
    async with BatchingProducer(cluster) as producer:
        with pytest.raises(TypeError, match=complaint):
            await producer.send(TOPIC, key, value, partition=0)
        assert producer.buffered_bytes == 0
        await producer.flush()
        await (await producer.send(TOPIC, None, b"good", partition=0))
    assert values(node) == [b"good"]


async def test_a_batch_about_which_nothing_is_said_may_be_written(node: ScriptedNode, cluster: Cluster) -> None:
    def write_and_say_nothing(request: ProduceRequest) -> ProduceResponse:
        produced(node, request)
        return ProduceResponse([])

    node.script[ApiKey.PRODUCE] = [write_and_say_nothing]
    async with BatchingProducer(cluster) as producer:
        with pytest.raises(Refusal, match="said nothing about events-0"):
            await (await producer.send(TOPIC, None, b"first", partition=0))
        await (await producer.send(TOPIC, None, b"second", partition=0))
    numbers = [(header.producer_id, header.base_sequence) for header in headers(node)]
    assert len(set(numbers)) == 2, "the second would be taken for the first"


async def test_nothing_is_taken_for_what_a_broken_delivery_left_under_way(
    node: ScriptedNode, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written_in_silence(request: ProduceRequest) -> object:
        produced(node, request)
        return SILENCE

    node.script[ApiKey.PRODUCE] = [written_in_silence]
    async with BatchingProducer(cluster, ProducerSettings(linger_ms=0.0)) as producer:
        under_way = await producer.send(TOPIC, None, b"under way", partition=0)
        while not node.logs[0]:
            await asyncio.sleep(0.001)
        monkeypatch.setattr(PendingBatch, "encode", lambda *_: 1 / 0)  # some bug
        broken = await producer.send(TOPIC, None, b"v", partition=1)
        for receipt in (broken, under_way):
            with pytest.raises(ClientError, match="failed"):
                await receipt
        with pytest.raises(ClientError, match="Make a new one"):
            await (await producer.send(TOPIC, None, b"another", partition=0))
    assert [(header.producer_id, header.base_sequence) for header in headers(node)] == [(101, 0)]

"""Batches that should not be, sent by Produce: each is refused with the code that Kafka's clients know how to take."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.api import ApiKey
from headrace.wire.batches.header import HEADER, HEADER_SIZE, Codec, read_header, seal
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.faults.hostile import (
    HEALTHY_TOPIC,
    MIB,
    WatchedNode,
    framed,
    one_batch,
    produce_request,
    request_start,
    watched_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST, GREATEST = -(2**63), 2**63 - 1
CONTROL, TRANSACTIONAL, LOG_APPEND_TIME = 0x20, 0x10, 0x08


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    with watched_node(tmp_path_factory.mktemp("batches")) as watched:
        with watched.connect() as client:
            assert client.create_topic("plain") == 0
            assert client.create_topic("gzipped", configs={"compression.type": "gzip"}) == 0
            assert client.create_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"}) == 0
            assert client.create_topic("compacted", configs={"cleanup.policy": "compact"}) == 0
            assert client.create_topic("trusted", configs={"headrace.validate.compressed": "false"}) == 0
        yield watched


def forged(base: bytes | None = None, **changes: int) -> bytes:
    """A batch whose header says something else, with a CRC that fits."""
    batch = bytearray(base or encode_batch([(1_700_000_000_000, b"k", b"v", ())] * 3))
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**changes))
    seal(batch)
    return bytes(batch)


def damaged() -> bytes:
    batch = bytearray(one_batch())
    batch[-1] ^= 1
    return bytes(batch)


def with_records(body: bytes, count: int, codec: int = 0) -> bytes:
    """A batch with any bytes for its records."""
    base = encode_batch([(1_700_000_000_000, None, b"v", ())])[:HEADER_SIZE] + body
    return forged(bytes(base), length=len(base) - 12, attributes=codec, record_count=count, last_offset_delta=count - 1)


WHOLE = forged()
REFUSED: dict[str, tuple[bytes | None, ErrorCode]] = {
    "null records": (None, ErrorCode.INVALID_RECORD),
    "no batch": (b"", ErrorCode.INVALID_RECORD),
    "half a header": (WHOLE[:30], ErrorCode.INVALID_RECORD),
    "a header alone": (WHOLE[:HEADER_SIZE], ErrorCode.INVALID_RECORD),
    "a wrong CRC": (damaged(), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (WHOLE + WHOLE, ErrorCode.INVALID_RECORD),
    "a batch and a half": (WHOLE + WHOLE[:30], ErrorCode.INVALID_RECORD),
    "format 0": (forged(magic=0), ErrorCode.INVALID_RECORD),
    "format 1": (forged(magic=1), ErrorCode.INVALID_RECORD),
    "format 3": (forged(magic=3), ErrorCode.CORRUPT_MESSAGE),
    "format -1": (forged(magic=-1), ErrorCode.CORRUPT_MESSAGE),
    "a length that is too small": (forged(length=10), ErrorCode.CORRUPT_MESSAGE),
    "a length that is too large": (forged(length=len(WHOLE)), ErrorCode.INVALID_RECORD),
    "a negative length": (forged(length=-1), ErrorCode.CORRUPT_MESSAGE),
    "the largest length": (forged(length=2**31 - 1), ErrorCode.INVALID_RECORD),
    "no records": (forged(record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "a negative count": (forged(record_count=-1), ErrorCode.INVALID_RECORD),
    "more records than there are": (forged(record_count=4, last_offset_delta=3), ErrorCode.INVALID_RECORD),
    "fewer records than there are": (forged(record_count=2, last_offset_delta=1), ErrorCode.INVALID_RECORD),
    "a million records in a few bytes": (
        forged(record_count=10**6, last_offset_delta=10**6 - 1), ErrorCode.INVALID_RECORD,
    ),
    "a delta that is not count - 1": (forged(last_offset_delta=7), ErrorCode.INVALID_RECORD),
    "a negative delta": (forged(last_offset_delta=-5), ErrorCode.INVALID_RECORD),
    "the largest delta": (forged(last_offset_delta=2**31 - 1), ErrorCode.INVALID_RECORD),
    "a control batch": (forged(attributes=CONTROL), ErrorCode.INVALID_RECORD),
    "LogAppendTime claimed": (forged(attributes=LOG_APPEND_TIME), ErrorCode.INVALID_TIMESTAMP),
    "a transaction": (
        forged(attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0),
        ErrorCode.INVALID_TXN_STATE,
    ),
    "a transaction of nobody": (forged(attributes=TRANSACTIONAL), ErrorCode.INVALID_RECORD),
    "codec 5": (forged(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 6": (forged(attributes=6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 7": (forged(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a producer without epoch": (forged(producer_id=5, base_sequence=0), ErrorCode.INVALID_RECORD),
    "a producer without sequence": (forged(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "a producer that cannot be": (
        forged(producer_id=LEAST, producer_epoch=0, base_sequence=0), ErrorCode.INVALID_RECORD,
    ),
    "a record that is longer than the batch": (with_records(b"\x7e" * 40, 1), ErrorCode.INVALID_RECORD),
    "a record of negative length": (with_records(b"\x01" * 40, 1), ErrorCode.INVALID_RECORD),
    "too large": (one_batch(b"x" * (2 * MIB)), ErrorCode.MESSAGE_TOO_LARGE),
}  # fmt: skip


@pytest.mark.parametrize("version", [3, 8, 11])
def test_a_batch_that_should_not_be_is_refused(node: WatchedNode, version: int) -> None:
    with node.attacked(), node.connect() as client:
        before = client.fetch("plain", 0).high_watermark
        for what, (batch, code) in REFUSED.items():
            for acks in (1, -1):
                answered = client.produce("plain", batch, acks=acks, version=version)
                assert answered.error_code == code, what
                assert answered.base_offset == -1
        assert client.fetch("plain", 0).high_watermark == before, "something was written"


def test_without_acks_a_refused_batch_closes_the_connection(node: WatchedNode) -> None:
    with node.attacked():
        for batch, _ in (REFUSED["a wrong CRC"], REFUSED["two batches"], REFUSED["codec 7"]):
            with node.connect() as client:
                client.begin(produce_request("plain", batch, acks=0), 8)
                assert client.is_refused()


def test_a_refused_batch_does_not_take_its_neighbours_along(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        topics = [
            TopicProduceData("plain", partition_data=[PartitionProduceData(0, WHOLE), PartitionProduceData(9, WHOLE)]),
            TopicProduceData("nowhere", partition_data=[PartitionProduceData(0, WHOLE)]),
            TopicProduceData("plain", partition_data=[PartitionProduceData(0, damaged())]),
            TopicProduceData(HEALTHY_TOPIC, partition_data=[PartitionProduceData(0, WHOLE)]),
        ]
        answer = client.ask(ProduceRequest(None, -1, 1000, topics), 8)
        codes = [part.error_code for topic in answer.responses for part in topic.partition_responses]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [0, unknown, unknown, ErrorCode.CORRUPT_MESSAGE, 0]


def test_zstd_needs_a_client_that_knows_it(node: WatchedNode) -> None:
    batch = bytes(encode_batch([(1, None, b"v", ())], codec=Codec.ZSTD))
    with node.attacked(), node.connect() as client:
        assert client.produce("plain", batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert client.produce("plain", batch, version=7).error_code == 0


@pytest.mark.parametrize("acks", [7, 2, -2, 2**15 - 1, -(2**15)])
def test_acks_that_do_not_exist(node: WatchedNode, acks: int) -> None:
    with node.attacked(), node.connect() as client:
        assert client.produce("plain", WHOLE, acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


# ---- records inside


def test_a_compression_bomb_is_refused_before_it_unfolds(node: WatchedNode) -> None:
    """260 KB of gzip that hold 256 MiB; a topic that recompresses, or looks for keys, has to open it."""
    compressor = zlib.compressobj(9, wbits=31)
    bomb = b"".join(compressor.compress(bytes(MIB)) for _ in range(256)) + compressor.flush()
    batch = with_records(bomb, 3, Codec.GZIP)
    assert len(batch) < MIB
    with node.attacked(grows_mib=2 * 64 + 48), node.connect() as client:
        for topic in ("compacted",):
            assert client.produce(topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
        lz4 = with_records(bytes(encode_batch([(1, None, bytes(128 * MIB), ())], codec=Codec.LZ4))[HEADER_SIZE:], 1, 3)
        assert client.produce("gzipped", lz4).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_streams_that_cannot_be_opened(node: WatchedNode, codec: Codec) -> None:
    sound = bytes(encode_batch([(1, b"k", b"v" * 1000, ())] * 20, codec=codec))
    garbage = with_records(b"\xff\x00garbage" * 20, 20, codec)
    cut = with_records(sound[HEADER_SIZE:-9], 20, codec)
    fewer = forged(sound, record_count=19, last_offset_delta=18)
    more = forged(sound, record_count=21, last_offset_delta=20)
    with node.attacked(), node.connect() as client:
        for topic in ("compacted", "gzipped", "plain"):
            for batch in (garbage, cut):
                assert client.produce(topic, batch).error_code == ErrorCode.CORRUPT_MESSAGE
            for batch in (fewer, more):
                assert client.produce(topic, batch).error_code == ErrorCode.INVALID_RECORD
            assert client.produce(topic, sound).error_code == 0
        for batch in (garbage, cut, fewer, more):  # its readers' to judge
            assert client.produce("trusted", batch).error_code == 0


def test_lookups_by_time_survive_records_that_cannot_be_read(node: WatchedNode) -> None:
    with node.connect() as client:
        assert client.create_topic("poisoned", configs={"headrace.validate.compressed": "false"}) == 0
    with node.attacked(), node.connect() as client:
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            assert client.produce("poisoned", with_records(b"\xff\x00garbage" * 20, 20, codec)).error_code == 0
        assert client.produce("poisoned", with_records(b"\x02\x00" * 500, 60)).error_code == ErrorCode.INVALID_RECORD
        for timestamp in (0, 1, 1_700_000_000_000, GREATEST, -3):
            wanted = [ListOffsetsTopic("poisoned", [ListOffsetsPartition(0, timestamp=timestamp)])]
            (topic,) = client.ask(ListOffsetsRequest(topics=wanted), 7).topics
            assert topic.partitions[0].error_code == 0


@pytest.mark.parametrize(
    ("base", "largest"), [(LEAST, LEAST), (GREATEST, GREATEST), (LEAST, GREATEST), (GREATEST, LEAST), (-1, -1), (0, 0)]
)
def test_times_at_the_edge_of_64_bits(node: WatchedNode, base: int, largest: int) -> None:
    batch = forged(base_timestamp=base, max_timestamp=largest)
    with node.attacked(), node.connect() as client:
        for topic in ("plain", "gzipped", "stamped", "compacted"):
            answered = client.produce(topic, batch)
            assert answered.error_code in {0, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP}, topic
            for timestamp in (LEAST, -3, -2, -1, 0, 1_700_000_000_000, GREATEST):
                wanted = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)])]
                (found,) = client.ask(ListOffsetsRequest(topics=wanted), 7).topics
                assert found.partitions[0].error_code in {0, ErrorCode.UNSUPPORTED_VERSION}


# ---- producers


def sequenced(producer_id: int, epoch: int, sequence: int, count: int = 3) -> bytes:
    records = [(1_700_000_000_000, None, b"v", ())] * count
    return bytes(encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def test_sequences_wrap_and_gaps_are_refused(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        first = client.produce("plain", sequenced(77, 0, 2**31 - 2))  # two numbers before the end, and one after it
        assert first.error_code == 0
        assert client.produce("plain", sequenced(77, 0, 1)).error_code == 0
        again = client.produce("plain", sequenced(77, 0, 2**31 - 2))
        assert (again.error_code, again.base_offset) == (0, first.base_offset)
        assert client.produce("plain", sequenced(77, 0, 9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert client.produce("plain", sequenced(77, 2**15 - 1, 0)).error_code == 0
        assert client.produce("plain", sequenced(77, 3, 0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_crowd_of_producers_is_remembered_in_little_memory(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        for producer_id in range(5000):
            assert client.produce("plain", sequenced(10**6 + producer_id, 0, 0, 1)).error_code == 0


# ---- too many


@pytest.mark.parametrize(("topics", "partitions"), [(1, 10**6), (10**6, 1), (10**6, 0), (1000, 1000)])
def test_a_million_partitions_in_one_produce(node: WatchedNode, topics: int, partitions: int) -> None:
    part = struct.pack(">ii", 0, -1)
    topic = struct.pack(">h1si", 1, b"t", partitions) + part * partitions
    body = struct.pack(">hhii", -1, 1, 1000, topics) + topic * topics
    with node.attacked(grows_mib=80), node.connect() as client:
        client.send(framed(request_start(ApiKey.PRODUCE, 8) + body))
        assert client.is_refused()


def test_as_many_partitions_as_are_allowed_are_each_answered(node: WatchedNode) -> None:
    parts = [PartitionProduceData(index, None) for index in range(10_000)]
    with node.attacked(), node.connect() as client:
        answer: Any = client.ask(ProduceRequest(None, 1, 1000, [TopicProduceData("x" * 200, partition_data=parts)]), 9)
        assert len(answer.responses[0].partition_responses) == 10_000


def test_a_topic_whose_name_is_as_long_as_a_name_can_be(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        for name in ("x" * 32_767, "\0" * 32_767, "ü" * 16_000):
            for version in (3, 8, 9, 12):
                answered = client.produce(name, WHOLE, version=version)
                assert answered.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

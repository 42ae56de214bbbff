"""Produce seen frame by frame: what is refused and how, and idempotent producers across crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.batches.header import CRC_POSITION, HEADER, Codec, seal
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from tests.clients.four_clients import Confluent, Message
from tests.clients.nodes import new_name
from tests.clients.raw_connection import Closed, RawConnection, batch_of, produce_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

LAST_SEQUENCE = 2**31 - 1
COUNT_POSITION = HEADER.size - 4


@pytest.fixture
def connection(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.bootstrap_servers) as opened:
        yield opened


# ---- acks


def test_no_answer_follows_acks_0(connection: RawConnection, topic: str) -> None:
    for _ in range(3):
        connection.send(produce_request(topic, batch_of(b"silent"), acks=0), 9)

    # The next frame is the answer to what comes after them.
    assert connection.ask(ApiVersionsRequest("test", "1.0"), 3).error_code == ErrorCode.NONE
    assert connection.produce(topic, batch_of(b"loud")).base_offset == 3


def test_an_error_with_acks_0_closes_the_connection(node: NodeProcess, connection: RawConnection, topic: str) -> None:
    connection.send(produce_request("there-is-no-such-topic", batch_of(b"lost"), acks=0), 9)
    with pytest.raises(Closed):
        connection.receive_frame()
    with RawConnection(node.bootstrap_servers) as another:
        assert another.produce(topic, batch_of(b"fine")).base_offset == 0


@pytest.mark.parametrize("acks", [-2, 2, 32767])
def test_other_acks_are_refused(connection: RawConnection, topic: str, acks: int) -> None:
    assert connection.produce(topic, batch_of(b"x"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert connection.list_offset(topic, -1).offset == 0


# ---- bad batches


def with_wrong_crc() -> bytearray:
    batch = batch_of(b"x")
    batch[CRC_POSITION] ^= 0xFF
    return batch


def with_wrong_count(count: int) -> bytearray:
    batch = batch_of(b"x", b"y")
    batch[COUNT_POSITION : COUNT_POSITION + 4] = count.to_bytes(4)
    seal(batch)
    return batch


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (with_wrong_crc(), ErrorCode.CORRUPT_MESSAGE),
        (batch_of(b"x")[:-1], ErrorCode.INVALID_RECORD),
        (batch_of(b"x")[:20], ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch_of(b"x") + batch_of(b"y"), ErrorCode.INVALID_RECORD),
        (with_wrong_count(1), ErrorCode.INVALID_RECORD),
        (with_wrong_count(2**31 - 1), ErrorCode.INVALID_RECORD),
        (batch_of(b"x", is_control=True), ErrorCode.INVALID_RECORD),
    ],
    ids=["crc", "cut", "stump", "empty", "two batches", "too few", "too many", "control"],
)
def test_a_bad_batch_is_refused_and_leaves_no_trace(
    connection: RawConnection, topic: str, batch: bytearray, code: ErrorCode
) -> None:
    answer = connection.produce(topic, batch)

    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert connection.produce(topic, batch_of(b"good")).base_offset == 0


def test_zstd_needs_produce_7(connection: RawConnection, topic: str) -> None:
    batch = batch_of(b"value " * 100, codec=Codec.ZSTD)
    assert connection.produce(topic, batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert connection.produce(topic, batch, version=7).error_code == ErrorCode.NONE


def test_one_bad_partition_does_not_spoil_the_others(node: NodeProcess, connection: RawConnection) -> None:
    good, strict = new_name("good"), new_name("strict")
    node.create_topic(good)
    node.create_topic(strict, configs={"max.message.bytes": "100"})
    request = produce_request(good, batch_of(b"x" * 500))
    request.topic_data += produce_request(strict, batch_of(b"x" * 500)).topic_data
    request.topic_data += produce_request("there-is-no-such-topic", batch_of(b"x")).topic_data

    codes = [topic.partition_responses[0].error_code for topic in connection.ask(request, 9).responses]

    assert codes == [ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_records_without_a_key_are_named_one_by_one_on_a_compacted_topic(
    node: NodeProcess, connection: RawConnection
) -> None:
    topic = node.create_topic(new_name(), configs={"cleanup.policy": "compact"})
    records = [(1000, key, b"value", ()) for key in (b"key", None, b"key", None)]

    answer = connection.produce(topic, encode_batch(records))

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert connection.produce(topic, encode_batch(records[:1])).base_offset == 0


def test_the_clients_own_epoch_is_ignored(connection: RawConnection, topic: str) -> None:
    for epoch in (-1, 0, 99):
        assert connection.produce(topic, batch_of(b"x", leader_epoch=epoch)).error_code == ErrorCode.NONE
    assert connection.list_offset(topic, -1).offset == 3


# ---- idempotence


def new_producer(connection: RawConnection) -> int:
    producer_id: int = connection.ask(InitProducerIdRequest(None, 60_000)).producer_id
    return producer_id


def test_producer_ids_are_never_given_twice(own_node: NodeProcess) -> None:
    ids = []
    for _ in range(3):
        with RawConnection(own_node.bootstrap_servers) as connection:
            ids += [new_producer(connection) for _ in range(20)]
        own_node.kill()
        own_node.start()
    assert len(set(ids)) == len(ids)


def test_a_repeated_batch_is_answered_with_its_first_offset(connection: RawConnection, topic: str) -> None:
    producer = new_producer(connection)
    batches = [batch_of(b"a", b"b", producer_id=producer, producer_epoch=0, base_sequence=2 * n) for n in range(7)]

    assert [connection.produce(topic, batch).base_offset for batch in batches] == [0, 2, 4, 6, 8, 10, 12]
    # The last five are remembered, in whatever order they are repeated.
    for number in (6, 2, 4, 3, 5):
        answer = connection.produce(topic, batches[number])
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 2 * number)
    assert connection.list_offset(topic, -1).offset == 14


def test_a_gap_in_the_sequence_is_refused(connection: RawConnection, topic: str) -> None:
    producer = new_producer(connection)

    def send(sequence: int, epoch: int = 0) -> int:
        batch = batch_of(b"a", b"b", producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        return connection.produce(topic, batch).error_code

    assert send(0) == ErrorCode.NONE
    assert send(3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(2) == ErrorCode.NONE
    assert send(5, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, epoch=1) == ErrorCode.NONE
    assert send(4, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_begin_anywhere_and_wrap(connection: RawConnection, topic: str) -> None:
    producer = new_producer(connection)
    for sequence in (LAST_SEQUENCE - 2, LAST_SEQUENCE, 1):
        batch = batch_of(b"a", b"b", producer_id=producer, producer_epoch=0, base_sequence=sequence)
        assert connection.produce(topic, batch).error_code == ErrorCode.NONE


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_repeats_and_gaps_are_known_after_a_restart(own_node: NodeProcess, ending: str) -> None:
    topic = own_node.create_topic(new_name())
    with RawConnection(own_node.bootstrap_servers) as connection:
        producer = new_producer(connection)
        batches = [batch_of(b"v", producer_id=producer, producer_epoch=0, base_sequence=n) for n in range(8)]
        for batch in batches[:6]:
            connection.produce(topic, batch)
    getattr(own_node, ending)()
    own_node.start()
    with RawConnection(own_node.bootstrap_servers) as connection:
        assert connection.produce(topic, batches[3]).base_offset == 3
        assert connection.produce(topic, batches[7]).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert connection.produce(topic, batches[6]).base_offset == 6
        assert connection.list_offset(topic, -1).offset == 7


def test_a_topic_made_again_knows_nothing_of_the_first_ones_producers(
    node: NodeProcess, connection: RawConnection, topic: str
) -> None:
    producer = new_producer(connection)
    batch = batch_of(b"v", producer_id=producer, producer_epoch=0, base_sequence=0)
    old_id = connection.topic_id(topic)
    connection.produce(topic, batch_of(b"before"))
    assert connection.produce(topic, batch).base_offset == 1

    connection.ask(DeleteTopicsRequest(topic_names=[topic]), 5)
    node.create_topic(topic)

    assert connection.topic_id(topic) != old_id
    assert connection.produce(topic, batch).base_offset == 0
    assert connection.list_offset(topic, -1).offset == 1


# ---- frames that are not requests


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x7f\xff\xff\xff" + bytes(100),
        b"\xff\xff\xff\xff" + bytes(100),
        b"\x00\x00\x00\x02\x00\x12",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        bytes.fromhex("00000011 0003 0000 00000001 0000 7fffffff 000000"),
    ],
    ids=["http", "huge frame", "negative frame", "tiny frame", "tls", "huge array"],
)
def test_nonsense_closes_the_connection_and_nobody_else_notices(
    node: NodeProcess, topic: str, connection: RawConnection, nonsense: bytes
) -> None:
    with RawConnection(node.bootstrap_servers) as confused:
        confused.send_bytes(nonsense)
        with pytest.raises(Closed):
            confused.receive_frame()

    assert connection.produce(topic, batch_of(b"still here")).base_offset == 0
    assert [seen.message.value for seen in Confluent().read(node.bootstrap_servers, topic)] == [b"still here"]
    assert Confluent().write(node.bootstrap_servers, topic, [Message(b"and here")]) == [1]

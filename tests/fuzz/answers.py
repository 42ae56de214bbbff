"""What a client reads: fetched batches, opened as they are asked for, with and without transactions.

An input begins with a byte that says how; then come the records of a Fetch answer. Every length and CRC is made right
if the byte is odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.client.reading.partition_buffer import PartitionBuffer
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.batches.markers import Marker, encode_marker
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.fetch import AbortedTransaction
from tests.fuzz.harness import Target, expect
from tests.fuzz.peers import mended

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE: Final = TopicPartition("t", 0)
STARTS: Final = (0, 3, 2**40, 2**63 - 2)
POLL: Final = 3


def play(data: bytes) -> None:
    if len(data) < 2:
        return
    choice, body = data[0], mended(data[1:]) if data[0] % 2 else data[1:]
    start = STARTS[choice // 2 % 4]
    aborted = [AbortedTransaction(7, first) for first in (0, 5)] if choice & 8 else None
    end = start + 10 if choice & 16 else None
    buffer = PartitionBuffer(PLACE, start, end)
    try:
        buffer.add(memoryview(body), aborted)
        assert not body or buffer.fetch_offset > start, "it took an answer that brings nothing"
    except Refusal as refusal:
        expect(refusal, ErrorCode.CORRUPT_MESSAGE)
    assert start <= buffer.fetch_offset < 2**63
    drain(buffer)


def drain(buffer: PartitionBuffer) -> None:
    """Take it all: records come in the order of their offsets, from the position on."""
    last = buffer.position - 1
    while not buffer.is_empty:
        before = buffer.position
        try:
            taken = buffer.take(POLL)
        except Refusal as refusal:
            expect(refusal, ErrorCode.CORRUPT_MESSAGE)
            assert buffer.is_empty
            break
        for record in taken:
            assert last < record.offset < (buffer.end if buffer.end is not None else 2**63)
            last = record.offset
        assert buffer.position >= before


def seeds() -> Iterator[bytes]:
    plain = [(0, b"k", b"v", ())] * 3
    first = bytes(encode_batch(plain))
    second = bytes(encode_batch(plain, base_offset=3, producer_id=7, producer_epoch=0, is_transactional=True))
    third = encode_marker(7, 0, Marker(False, 0), 0)
    third[7] = 6
    for choice in (0, 1, 8, 9, 16, 17, 3):
        yield bytes([choice]) + first + second + bytes(third)
        yield bytes([choice]) + first + second[:50]


TARGET: Final = Target("answers", play, seeds)

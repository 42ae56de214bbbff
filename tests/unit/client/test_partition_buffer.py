from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.client.reading.partition_buffer import PartitionBuffer
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import encode_batch

if TYPE_CHECKING:
    from headrace.wire.batches.records import Record

NAME = TopicPartition("events", 0)


def batch(first: int, count: int, *, codec: Codec = Codec.NONE, is_control: bool = False) -> bytes:
    records = [(offset * 10, b"k", b"v%d" % offset, ()) for offset in range(first, first + count)]
    return bytes(encode_batch(records, base_offset=first, codec=codec, is_control=is_control))


def filled(*batches: bytes, start: int = 0, end: int | None = None) -> PartitionBuffer:
    buffer = PartitionBuffer(NAME, start, end)
    buffer.add(memoryview(b"".join(batches)))
    return buffer


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_out_in_order_over_batches(codec: Codec) -> None:
    buffer = filled(batch(0, 3, codec=codec), batch(3, 4, codec=codec))
    assert buffer.fetch_offset == 7
    assert offsets(buffer.take(5)) == [0, 1, 2, 3, 4]
    assert buffer.position == 5
    assert offsets(buffer.take(5)) == [5, 6]
    assert buffer.position == 7
    assert buffer.is_empty


def test_a_start_in_the_middle_of_a_batch_skips_what_lies_before() -> None:
    buffer = filled(batch(0, 10), start=7)
    assert offsets(buffer.take(100)) == [7, 8, 9]


def test_a_batch_cut_short_is_left_for_the_next_fetch() -> None:
    whole, torn = batch(0, 2), batch(2, 2)
    buffer = filled(whole, torn[:-1])
    assert buffer.fetch_offset == 2
    buffer.add(memoryview(torn))
    assert offsets(buffer.take(100)) == [0, 1, 2, 3]


def test_a_batch_that_comes_again_is_not_read_again() -> None:
    buffer = filled(batch(0, 3))
    buffer.add(memoryview(batch(0, 3) + batch(3, 1)))
    assert offsets(buffer.take(100)) == [0, 1, 2, 3]


def test_the_marks_of_transactions_are_passed_over() -> None:
    buffer = filled(batch(0, 2), batch(2, 1, is_control=True), batch(3, 1), end=4)
    assert offsets(buffer.take(100)) == [0, 1, 3]
    assert buffer.is_finished


def test_nothing_beyond_the_end_is_handed_out() -> None:
    buffer = filled(batch(0, 10), batch(10, 10), end=5)
    assert offsets(buffer.take(3)) == [0, 1, 2]
    assert not buffer.is_finished
    assert offsets(buffer.take(100)) == [3, 4]
    assert buffer.is_finished
    assert buffer.take(100) == []
    assert buffer.buffered_bytes == 0


def test_offsets_that_compaction_removed_do_not_hold_up_the_end() -> None:
    kept = encode_batch([(0, None, b"x", ())], base_offset=4)
    buffer = filled(bytes(kept), end=5)
    assert offsets(buffer.take(100)) == [4]
    assert buffer.is_finished


def test_a_partition_that_starts_at_its_end_is_finished_at_once() -> None:
    assert PartitionBuffer(NAME, 5, 5).is_finished
    assert not PartitionBuffer(NAME, 5).is_finished


def test_damage_is_told_with_its_place() -> None:
    damaged = bytearray(batch(8, 3))
    damaged[-1] ^= 1
    buffer = filled(bytes(damaged), start=8)
    with pytest.raises(Refusal, match="events-0 at offset 8") as refused:
        buffer.take(1)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


def test_nothing_is_lost_by_damage_that_is_mended() -> None:
    damaged = bytearray(batch(2, 3))
    damaged[-1] ^= 1
    buffer = filled(batch(0, 2), bytes(damaged), batch(5, 1))
    assert offsets(buffer.take(100)) == [0, 1]
    for _ in range(2):
        assert (buffer.position, buffer.fetch_offset, buffer.is_empty, buffer.buffered_bytes) == (2, 2, True, 0)
        buffer.add(memoryview(bytes(damaged) + batch(5, 1)))
        with pytest.raises(Refusal, match="events-0 at offset 2"):
            buffer.take(100)
    buffer.add(memoryview(batch(2, 3) + batch(5, 1)))
    assert offsets(buffer.take(100)) == [2, 3, 4, 5]


def test_a_batch_that_claims_an_impossible_length_is_refused() -> None:
    lying = bytearray(batch(0, 1))
    lying[8:12] = (3).to_bytes(4, "big")
    with pytest.raises(Refusal):
        filled(bytes(lying))


def test_seeking_forgets_what_was_read_ahead() -> None:
    buffer = filled(batch(0, 10))
    buffer.take(2)
    buffer.seek(40)
    assert (buffer.position, buffer.fetch_offset, buffer.is_empty, buffer.buffered_bytes) == (40, 40, True, 0)

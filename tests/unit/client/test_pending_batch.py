from __future__ import annotations

import asyncio

import pytest

from headrace.client.producing.batch import Identity, PendingBatch, Receipt
from headrace.client.producing.partition_queue import PartitionQueue
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_OFFSET, Offset, ProducerId, TopicPartition
from headrace.wire.batches.header import SEQUENCE_MAX, Codec, read_header
from headrace.wire.batches.records import decode_records

NAME = TopicPartition("events", 1)
ME, ME_AGAIN = Identity(ProducerId(7), 0), Identity(ProducerId(8), 0)


def pending(*values: bytes, bytes_max: int = 1000, codec: Codec = Codec.NONE) -> PendingBatch:
    batch = PendingBatch(NAME, codec, bytes_max, due_s=5.0, deadline_s=60.0)
    for value in values:
        batch.append(1_000, b"k", value, ())
    return batch


def values(encoded: bytearray) -> list[bytes | None]:
    return [record.value for record in decode_records(encoded, inflate_max=1 << 20)]


async def test_it_is_full_by_size_and_expired_by_age() -> None:
    batch = pending(bytes_max=200)
    assert not batch.is_full()
    batch.append(0, None, b"x" * 200, ())
    assert batch.is_full()
    assert not batch.is_expired(4.9)
    assert batch.is_expired(5.0)


async def test_the_first_message_always_fits_and_later_ones_only_if_there_is_room() -> None:
    batch = pending(bytes_max=200)
    assert batch.has_room_for(10_000)
    batch.append(0, None, b"x" * 50, ())
    assert batch.has_room_for(50)
    assert not batch.has_room_for(200)


async def test_a_retry_sends_the_same_bytes() -> None:
    batch = pending(b"a", b"b", codec=Codec.LZ4)
    first = bytes(batch.encode(ME, 5))
    assert bytes(batch.encode(ME_AGAIN, 99)) == first
    header = read_header(first)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 0, 5, 2)


async def test_receipts_tell_where_each_message_lies() -> None:
    batch = pending(b"a", b"b")
    waiting = [asyncio.ensure_future(Receipt(batch, position)._outcome()) for position in range(2)]
    batch.base_offset = Offset(40)
    batch.settle()
    assert [(await outcome).offset for outcome in waiting] == [40, 41]


async def test_a_receipt_without_acknowledgement_knows_no_offset() -> None:
    batch = pending(b"a")
    batch.settle()
    assert (await Receipt(batch, 0)).offset == NO_OFFSET


async def test_a_receipt_raises_the_error_of_its_own_message_first() -> None:
    batch = pending(b"a", b"b")
    batch.error = Refusal(ErrorCode.INVALID_RECORD, "the batch was refused")
    batch.errors_by_position[1] = Refusal(ErrorCode.INVALID_RECORD, "this one has no key")
    batch.settle()
    with pytest.raises(Refusal, match="the batch was refused"):
        await Receipt(batch, 0)
    with pytest.raises(Refusal, match="this one has no key"):
        await Receipt(batch, 1)


async def test_receipts_follow_their_messages_through_splits() -> None:
    batch = pending(b"a", b"b", b"c", b"d", b"e")
    receipts = [Receipt(batch, position) for position in range(5)]
    batch.encode(ME, 0)
    left, right = batch.split()
    batch.settle()
    right.encode(ME, 2)
    middle, last = right.split()
    right.settle()
    assert [values(half.encode(None, -1)) for half in (left, middle, last)] == [[b"a", b"b"], [b"c"], [b"d", b"e"]]
    for half, offset in ((left, 10), (middle, 12), (last, 13)):
        half.base_offset = Offset(offset)
        half.settle()
    assert [(await receipt).offset for receipt in receipts] == [10, 11, 12, 13, 14]


async def test_a_lane_numbers_batches_without_gaps() -> None:
    queue = PartitionQueue(NAME)
    sent = []
    for count in (3, 2, 4):
        batch = pending(*[b"x"] * count)
        sent.append(read_header(queue.encode(batch, ME)).base_sequence)
        queue.arrived(batch)
    assert sent == [0, 3, 5]


async def test_a_refused_batch_leaves_its_numbers_to_the_next() -> None:
    queue = PartitionQueue(NAME)
    queue.encode(pending(b"a", b"b"), ME)
    assert read_header(queue.encode(pending(b"c"), ME)).base_sequence == 0


async def test_a_new_identity_counts_from_zero_and_the_old_one_does_not_disturb_it() -> None:
    queue = PartitionQueue(NAME)
    old = pending(b"a")
    queue.encode(old, ME)
    assert read_header(queue.encode(pending(b"b"), ME_AGAIN)).base_sequence == 0
    queue.arrived(old)
    assert read_header(queue.encode(pending(b"c"), ME_AGAIN)).base_sequence == 0


async def test_numbers_start_again_after_the_largest() -> None:
    queue = PartitionQueue(NAME)
    batch = pending(b"a", b"b")
    queue.encode(batch, ME)
    batch.base_sequence = SEQUENCE_MAX
    queue.arrived(batch)
    assert read_header(queue.encode(pending(b"c"), ME)).base_sequence == 1


async def test_what_is_put_back_leaves_before_what_waits() -> None:
    queue = PartitionQueue(NAME)
    first, second = pending(b"1"), pending(b"2")
    for batch in (first, second):
        queue.filling = batch
        queue.close_filling()
    assert queue.start_next() is first
    assert not queue.is_ready(100.0)
    queue.put_back((first,), retry_at_s=50.0)
    assert not queue.is_ready(49.0)
    assert queue.is_ready(50.0)
    assert [queue.start_next(), queue.waiting[0]] == [first, second]


async def test_a_batch_that_fills_leaves_when_it_is_due() -> None:
    queue = PartitionQueue(NAME)
    queue.filling = pending(b"1")
    assert not queue.is_ready(4.0)
    assert queue.is_ready(5.0)
    queue.start_next()
    assert queue.filling is None

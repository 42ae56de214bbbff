"""Records in, batch out, and back; and everything that may be wrong inside a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.wire.batches.header import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, Codec, CorruptBatch, read_header, seal
from headrace.wire.batches.records import (
    BatchBuilder,
    ControlType,
    Record,
    control_type,
    decode_records,
    encode_batch,
    record_size_max,
)
from headrace.wire.batches.varints import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, encode_varint, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

INFLATE_MAX = 1 << 20
THREE = (
    Record(0, 1000, b"a", b"one"),
    Record(1, 1005, None, b"two", (("h", b"x"), ("n", None))),
    Record(2, 990, b"c", None),
)


def batch_of(records: Iterable[Record], **options: Any) -> bytearray:
    return encode_batch([record[1:] for record in records], **options)


def decoded(batch: bytes | bytearray) -> list[Record]:
    return list(decode_records(batch, inflate_max=INFLATE_MAX))


def batch_around(body: bytes, **changes: int) -> bytearray:
    """A batch with a right CRC around any bytes: two records, unless `changes` say otherwise."""
    header = read_header(batch_of(THREE[:2]))
    batch = bytearray(HEADER_SIZE) + body
    HEADER.pack_into(batch, 0, *header._replace(**{"length": len(batch) - LENGTH_OVERHEAD, **changes}))
    seal(batch)
    return batch


def record_bytes(*fields: int | bytes) -> bytes:
    """A record from its fields after the length, numbers as varints; the length is what it ought to be."""
    inside = b"".join(field if isinstance(field, bytes) else encode_varint(field) for field in fields)
    return encode_varint(len(inside)) + inside


FIRST = record_bytes(b"\0", 0, 0, -1, -1, 0)
SECOND = record_bytes(b"\0", 0, 1, -1, -1, 0)


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_records_come_back_as_they_went_in(codec: Codec) -> None:
    assert decoded(batch_of(THREE, codec=codec)) == list(THREE)


def test_the_header_tells_of_the_batch_what_was_asked_for() -> None:
    batch = batch_of(
        THREE,
        base_offset=70,
        codec=Codec.ZSTD,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        is_transactional=True,
    )
    header = read_header(batch)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (70, 72, 73)
    assert (header.codec, header.is_transactional, header.is_control) == (Codec.ZSTD, True, False)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 2**31 - 2)
    assert header.last_sequence == 0, "sequence numbers go on at 0"
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1005)
    assert header.leader_epoch == 4
    assert [record.offset for record in decoded(batch)] == [70, 71, 72]


def test_a_batch_without_sequence_has_no_last_sequence() -> None:
    assert read_header(batch_of(THREE)).last_sequence == -1


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = batch_of(THREE, log_append_time=5555)
    assert {record.timestamp for record in decoded(batch)} == {5555}


def test_a_batch_has_records() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        batch_of([])


def test_the_builder_says_how_large_the_batch_is() -> None:
    builder = BatchBuilder()
    bound = HEADER_SIZE
    for record in THREE:
        size = builder.append(record.timestamp, record.key, record.value, record.headers)
        bound += record_size_max(record.key, record.value, record.headers)
        assert builder.size == size <= bound
    assert len(builder.close()) == size


def test_header_keys_that_are_not_text_survive() -> None:
    odd = b"\xff\xfe".decode(errors="surrogateescape")
    assert decoded(batch_of([Record(0, 0, None, None, ((odd, b""),))]))[0].headers == ((odd, b""),)


def test_a_compacted_batch_may_have_gaps_in_its_offsets() -> None:
    body = record_bytes(b"\0", 0, 3, -1, -1, 0) + record_bytes(b"\0", 0, 8, -1, -1, 0)
    batch = batch_around(body, last_offset_delta=9, base_offset=100)
    assert [record.offset for record in decoded(batch)] == [103, 108]


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    assert decoded(batch_around(b"", record_count=0)) == []


@pytest.mark.parametrize(
    ("body", "changes", "sentence"),
    [
        (FIRST, {}, "2 records in 7 bytes"),
        (FIRST + SECOND, {"record_count": -1}, "-1 records"),
        (FIRST + SECOND, {"record_count": 2**31 - 1}, "2147483647 records in 14 bytes"),
        (FIRST + SECOND, {"record_count": 1}, "7 bytes follow the last of 1 records"),
        (FIRST + SECOND + b"\0", {}, "1 bytes follow"),
        (FIRST + SECOND, {"length": 5}, "17 bytes, here are 75"),
        (FIRST + SECOND, {"length": 64}, "76 bytes, here are 75"),
        (FIRST + SECOND, {"magic": 1}, "format 1"),
        (FIRST + SECOND, {"attributes": 5}, "codec 5"),
        (FIRST + SECOND, {"last_offset_delta": 0}, "offset delta 1 after 0"),
        (FIRST + FIRST, {}, "offset delta 0 after 0"),
        (SECOND + FIRST, {}, "offset delta 0 after 1"),
        (record_bytes(b"\0", 0, -1, -1, -1, 0) + SECOND, {}, "offset delta -1"),
        (FIRST + SECOND[:-1] + b"\x02", {}, "record 1 runs past the end"),
        (FIRST + record_bytes(b"\0", 0, 1, 20, b"short", 0), {}, "record 1 runs past the end"),
        (FIRST + record_bytes(b"\0", 0, 1, 2**31 - 1, b"short", 0), {}, "record 1 runs past the end"),
        (record_bytes(b"\0", 0, 0, 8, -1, 0) + SECOND, {}, "record 0"),
        (FIRST + record_bytes(b"\0", 0, 1, -2, -1, 0), {}, "length -2"),
        (FIRST + record_bytes(b"\0", 0, 1, -1, -1, -1), {}, "-1 headers"),
        (FIRST + record_bytes(b"\0", 0, 1, -1, -1, 2**31 - 1), {}, "2147483647 headers"),
        (FIRST + record_bytes(b"\0", 0, 1, -1, -1, 10_000), {}, "record 1 runs past the end"),
        (FIRST + record_bytes(b"\0", 0, 1, -1, -1, 1, -1, -1), {}, "a header has no key"),
        (FIRST + record_bytes(b"\0", 0, 1, -1, -1, 0, b"more"), {}, "record 1 says that it has 10 bytes"),
        (encode_varint(-40) + FIRST[1:] + SECOND, {}, "record 0 says that it has -40 bytes"),
        (FIRST + record_bytes(b"\0", 2**63 - 1, 1, -1, -1, 0), {}, "record 1 has the time 9223372036854776807"),
        (b"\xff" * 14, {}, "longer than its type allows"),
        (b"\x80" * 14, {}, "longer than its type allows"),
        (FIRST + record_bytes(b"\0", b"\xff" * 10 + b"\x01", 1, -1, -1, 0), {}, "longer than its type allows"),
    ],
)
def test_what_is_wrong_inside_a_batch_is_said(body: bytes, changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(CorruptBatch, match=sentence):
        decoded(batch_around(body, **changes))


def test_a_batch_is_whole_and_matches_its_crc() -> None:
    batch = batch_of(THREE)
    with pytest.raises(CorruptBatch, match="here are 60"):
        decoded(batch[:60])
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        decoded(batch)


@pytest.mark.parametrize("marker", ControlType)
def test_a_control_record_tells_how_its_transaction_ended(marker: ControlType) -> None:
    key = bytes((0, 0, 0, marker))
    batch = batch_of([Record(0, 0, key, b"\0" * 6)], producer_id=1, is_control=True)
    assert read_header(batch).is_control
    assert control_type(decoded(batch)[0]) is marker


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\0\0\0\x02", b"\0\0\xff\xff"])
def test_other_control_records_are_refused(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="neither an abort nor a commit"):
        control_type(Record(7, 0, key, None))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (-8193, "818001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints_have_their_bytes(value: int, encoded: str) -> None:
    wire = bytes.fromhex(encoded)
    assert encode_varint(value) == wire
    assert read_varint(wire, 0, VARLONG_BYTES_MAX) == (value, len(wire))


@pytest.mark.parametrize(
    ("encoded", "bytes_max"),
    [
        ("feffffff1f", VARINT_BYTES_MAX),  # 33 bits
        ("ffffffff7f", VARINT_BYTES_MAX),
        ("feffffffffffffffff03", VARLONG_BYTES_MAX),  # 65 bits
        ("ffffffffffffffffff7f", VARLONG_BYTES_MAX),
    ],
)
def test_a_varint_with_more_bits_than_its_type_is_refused(encoded: str, bytes_max: int) -> None:
    """It has no more bytes than the largest, but its last one says too much."""
    with pytest.raises(ValueError, match="longer than its type allows"):
        read_varint(bytes.fromhex(encoded), 0, bytes_max)

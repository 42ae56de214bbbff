"""Whatever is wrong with a batch is told in one sentence that says where it is; nothing wrong is ever handed out."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.batches.compression import compress
from headrace.wire.batches.header import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, Codec, CorruptBatch, read_header, seal
from headrace.wire.batches.records import encode_batch
from headrace.wire.batches.varints import encode_varint
from headrace_spark.codec.columns import Columns
from headrace_spark.codec.decoder import RangeDecoder
from tests.unit.spark.record_rows import EVERYTHING, PARTITION, TOPIC, decoded, expected

if TYPE_CHECKING:
    from headrace.wire.batches.header import BatchHeader

RECORD = bytes((0, 0, 0, 2)) + b"k" + bytes((4,)) + b"vv" + b"\0"  # attributes, two deltas, key, value, no headers


def record(fields: bytes) -> bytes:
    return encode_varint(len(fields)) + fields


def batch_around(body: bytes, count: int = 1, codec: Codec = Codec.NONE, **changes: int) -> bytearray:
    """A batch whose CRC is right, whatever it holds."""
    batch = bytearray(HEADER_SIZE) + compress(codec, body)
    sound = read_header(encode_batch([(0, None, b"", ())], base_offset=500))
    header: BatchHeader = sound._replace(
        length=len(batch) - LENGTH_OVERHEAD, attributes=int(codec), record_count=count, last_offset_delta=count - 1
    )
    HEADER.pack_into(batch, 0, *header._replace(**changes))
    seal(batch)
    return batch


def test_the_bytes_that_the_cases_start_from_are_sound() -> None:
    (row,) = decoded(batch_around(record(RECORD)))
    assert (row.offset, row.key, row.value) == (500, b"k", b"vv")


def test_a_flipped_bit_is_found_by_the_crc() -> None:
    batch = batch_around(record(RECORD))
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch, match=r"batch at offset 500 of topic 'orders', partition 3, .* CRC"):
        decoded(batch)


CASES = {
    "key longer than the record": record(bytes((0, 0, 0)) + encode_varint(400) + b"k"),
    "key longer than any record": record(bytes((0, 0, 0)) + encode_varint(2**31 - 1) + b"kkkk"),
    "negative key length": record(bytes((0, 0, 0)) + encode_varint(-2) + b"kkkk"),
    "value one byte too long": record(bytes((0, 0, 0, 1, 6)) + b"vv" + b"\0"),
    "value one byte too short": record(bytes((0, 0, 0, 1, 2)) + b"vv" + b"\0"),
    "negative value length": record(bytes((0, 0, 0, 1)) + encode_varint(-9) + b"vvvv"),
    "headers announced, none there": record(bytes((0, 0, 0, 1, 1)) + encode_varint(3)),
    "more headers than memory": record(bytes((0, 0, 0, 1, 1)) + encode_varint(2**30) + b"abcdef"),
    "negative number of headers": record(bytes((0, 0, 0, 1, 1)) + encode_varint(-1)),
    "header without key": record(bytes((0, 0, 0, 1, 1, 2)) + encode_varint(-1) + encode_varint(0)),
    "header value past the end": record(bytes((0, 0, 0, 1, 1, 2, 0)) + encode_varint(90)),
    "bytes after the headers": record(bytes((0, 0, 0, 1, 1, 2, 0, 1)) + b"!"),
    "length past the batch": encode_varint(len(RECORD) + 1) + RECORD,
    "length short of the batch": encode_varint(len(RECORD) - 1) + RECORD,
    "negative length": encode_varint(-5) + RECORD,
    "length that never ends": b"\xff" * 16,
    "number that never ends": record(bytes((0,)) + b"\xff" * 11 + bytes((0, 1, 1, 0))),
    "length of five bytes and too many bits": b"\xff\xff\xff\xff\x7f" + RECORD,
    "offset behind the last": record(bytes((0, 0, 2, 1, 1, 0))),
    "negative offset": record(bytes((0, 0, 1, 1, 1, 0))),
    "nothing but zeros": bytes(30),
}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_records_that_lie(body: bytes, codec: Codec) -> None:
    sound = encode_batch([(0, None, b"before", ())] * 2, base_offset=498)
    with pytest.raises(CorruptBatch, match=r"batch at offset 500 of topic 'orders', partition 3, is damaged: \w"):
        decoded(sound + batch_around(body, codec=codec))


@pytest.mark.parametrize("at", [0, 1, 40, 63, 64, 199])
def test_one_bad_record_among_many_is_named(at: int) -> None:
    records = [record(bytes((0, 0)) + encode_varint(number) + bytes((1, 4)) + b"vv" + b"\0") for number in range(200)]
    bad = bytearray(records[at])
    bad[-4] = 6  # the value's length, one more than there is room for
    body = b"".join([*records[:at], bytes(bad), *records[at + 1 :]])
    sound = encode_batch([(0, None, b"before", ())] * 7, base_offset=400)
    with pytest.raises(CorruptBatch, match=rf"at offset 500 .*: record {at} of 200: "):
        decoded(sound + batch_around(body, 200))


def test_a_bad_header_in_a_range_that_begins_late_is_named_rightly() -> None:
    plain = [record(bytes((0, 0)) + encode_varint(number) + bytes((1, 1, 0))) for number in range(5)]
    bad = record(bytes((0, 0)) + encode_varint(5) + bytes((1, 1, 2, 0)) + encode_varint(90))
    with pytest.raises(CorruptBatch, match="record 5 of 6: one of its headers"):
        decoded(batch_around(b"".join([*plain, bad]), 6), start=503)


@pytest.mark.parametrize("count", [0, 2, 3, 2**31 - 1, -1])
def test_a_batch_with_another_number_of_records_than_it_says(count: int) -> None:
    with pytest.raises(CorruptBatch, match="batch at offset 500"):
        decoded(batch_around(record(RECORD), count))


def test_offsets_that_do_not_rise() -> None:
    body = record(bytes((0, 0, 2, 1, 1, 0))) + record(bytes((0, 0, 2, 1, 1, 0)))
    with pytest.raises(CorruptBatch, match="higher offset"):
        decoded(batch_around(body, 2))


def test_a_time_past_64_bits() -> None:
    body = record(bytes((0,)) + encode_varint(2**62) + bytes((0, 1, 1, 0)))
    with pytest.raises(CorruptBatch, match="64 bits"):
        decoded(batch_around(body, base_timestamp=2**63 - 10))


@pytest.mark.parametrize(("changes", "words"), [({"magic": 1}, "format 1"), ({"attributes": 7}, "codec 7")])
def test_a_header_of_another_kind(changes: dict[str, int], words: str) -> None:
    with pytest.raises(CorruptBatch, match=rf"batch at offset 500 .*{words}"):
        decoded(batch_around(record(RECORD), **changes))


def test_a_batch_shorter_than_its_header() -> None:
    batch = batch_around(record(RECORD))
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(length=20))
    with pytest.raises(CorruptBatch, match="shorter than its own header"):
        decoded(batch)


def test_a_compressed_stream_that_is_damaged() -> None:
    batch = batch_around(record(RECORD) * 50, 50, Codec.ZSTD)
    batch[HEADER_SIZE + 4] ^= 0xFF
    seal(batch)
    with pytest.raises(CorruptBatch, match="batch at offset 500"):
        decoded(batch)


def test_what_came_before_the_damage_counts_as_read() -> None:
    decoder = RangeDecoder(TOPIC, PARTITION, 0, EVERYTHING, Columns(), read_committed=True)
    list(decoder.decode(bytes(encode_batch([(0, None, b"v", ())] * 500))))
    with pytest.raises(CorruptBatch):
        list(decoder.decode(bytes(batch_around(b"\xff" * 30))))
    assert decoder.next_offset == 500


maybe_bytes = st.none() | st.binary(max_size=90)
headers = st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple)
new_records = st.lists(st.tuples(st.integers(-5, 2**46), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=50)


@settings(max_examples=150, deadline=None)
@given(new_records, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3), st.binary(max_size=3)), max_size=3))
def test_damage_is_met_as_by_the_decoder_that_goes_record_by_record(
    written: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    damages: list[tuple[int, int, bytes]],
) -> None:
    body = encode_batch(written)[HEADER_SIZE:]
    for position, removed, added in damages:
        at = position % len(body) if body else 0
        body[at : at + removed] = added
    header = read_header(encode_batch(written, base_offset=500))
    batch = batch_around(
        bytes(body), len(written), base_timestamp=header.base_timestamp, last_offset_delta=len(written) - 1
    )
    sound = None
    with suppress(CorruptBatch):
        sound = expected(batch)
    if sound is None:
        with pytest.raises(CorruptBatch, match="batch at offset 500"):
            decoded(batch)
    elif all(abs(row.timestamp_ms) < 2**47 for row in sound):  # what Python's own times can say
        shown = [row._replace(headers=_as_java_shows(row.headers)) for row in sound]
        assert decoded(batch) == shown


def _as_java_shows(headers: tuple[tuple[str, bytes | None], ...]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((key.encode(errors="surrogateescape").decode(errors="replace"), value) for key, value in headers)

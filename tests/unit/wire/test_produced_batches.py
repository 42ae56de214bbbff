"""What a producer may send, what it hears when it sends something else, and what a topic's settings change."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches import (
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    Codec,
    crc_matches,
    read_header,
    seal,
)
from headrace.wire.records import Record, decode_records, encode_batch
from headrace.wire.validation import (
    RecordProblem,
    check_batch,
    check_count,
    check_records,
    key_problem,
    lacks_max_timestamp,
    rewrite_batch,
    too_short,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

INFLATE_MAX = 1 << 20


def header_of(view: memoryview, size: int, position: int = 0) -> BatchHeader:
    """As a partition reads it."""
    if size < HEADER_SIZE:
        raise too_short(size)
    return read_header(view, position)


def batch_of(records: Iterable[Record], **options: Any) -> bytearray:
    return encode_batch([record[1:] for record in records], **options)


RECORDS = tuple(Record(index, 1000 + index, b"k%d" % index, b"value " * 20) for index in range(20))
PLAIN = bytes(batch_of(RECORDS))
IDEMPOTENT = bytes(batch_of(RECORDS, producer_id=5, producer_epoch=0, base_sequence=0))
OVERSIZE = bytes(batch_of([Record(0, 0, None, bytes(2 * INFLATE_MAX))], codec=Codec.GZIP))

TRANSACTIONAL = 0x10
LOG_APPEND_TIME = 0x08
CONTROL = 0x20
DELETE_HORIZON = 0x40


def altered(batch: bytes, **changes: int) -> bytes:
    """The batch with other header fields and a CRC that fits them."""
    copy = bytearray(batch)
    HEADER.pack_into(copy, 0, *read_header(batch)._replace(**changes))
    seal(copy)
    return bytes(copy)


def check(batch: bytes, *, is_zstd_allowed: bool = True) -> None:
    view = memoryview(batch)
    check_batch(view, header_of(view, len(view)), len(view), is_zstd_allowed=is_zstd_allowed)


def refusal_of(batch: bytes, *, is_zstd_allowed: bool = True) -> Refusal:
    with pytest.raises(Refusal) as caught:
        check(batch, is_zstd_allowed=is_zstd_allowed)
    return caught.value


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_a_sound_batch_is_taken(codec: Codec) -> None:
    check(bytes(batch_of(RECORDS, codec=codec)))


@pytest.mark.parametrize(
    "changes",
    [
        {"base_offset": 12345, "leader_epoch": 99},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 32767, "base_sequence": 2**31 - 1},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 3, "attributes": TRANSACTIONAL},
        {"max_timestamp": -1},
        {"base_timestamp": -1, "max_timestamp": -1},
    ],
)
def test_these_fields_are_the_producers_own_affair(changes: dict[str, int]) -> None:
    check(altered(PLAIN, **changes))


@pytest.mark.parametrize(
    ("batch", "code", "sentence"),
    [
        (b"", ErrorCode.INVALID_RECORD, "empty"),
        (PLAIN[:60], ErrorCode.CORRUPT_MESSAGE, "at least 61 bytes, this one has 60"),
        (PLAIN[:-1], ErrorCode.INVALID_RECORD, "exactly one whole batch"),
        (PLAIN + b"\0", ErrorCode.INVALID_RECORD, "exactly one whole batch"),
        (PLAIN + PLAIN, ErrorCode.INVALID_RECORD, "exactly one whole batch"),
        (altered(PLAIN, magic=0), ErrorCode.INVALID_RECORD, "message format 0"),
        (altered(PLAIN, magic=1), ErrorCode.INVALID_RECORD, "message format 1"),
        (altered(PLAIN, magic=3), ErrorCode.CORRUPT_MESSAGE, "no message format 3"),
        (altered(PLAIN, magic=-1), ErrorCode.CORRUPT_MESSAGE, "no message format -1"),
        (altered(PLAIN, length=48), ErrorCode.CORRUPT_MESSAGE, "at least 49"),
        (altered(PLAIN, length=-1), ErrorCode.CORRUPT_MESSAGE, "at least 49"),
        (altered(PLAIN, length=2**31 - 1), ErrorCode.INVALID_RECORD, "exactly one whole batch"),
        (altered(PLAIN, record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD, "0 records"),
        (altered(PLAIN, record_count=-1, last_offset_delta=-2), ErrorCode.INVALID_RECORD, "-1 records"),
        (altered(PLAIN, record_count=19), ErrorCode.INVALID_RECORD, "last offset delta 19"),
        (altered(PLAIN, last_offset_delta=20), ErrorCode.INVALID_RECORD, "last offset delta 20"),
        (
            altered(PLAIN, record_count=2**31 - 1, last_offset_delta=2**31 - 2),
            ErrorCode.INVALID_RECORD,
            "cannot hold 2147483647",
        ),
        (altered(PLAIN, attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "codec 5"),
        (altered(PLAIN, attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "codec 7"),
        (altered(PLAIN, attributes=LOG_APPEND_TIME), ErrorCode.INVALID_TIMESTAMP, "LogAppendTime"),
        (altered(PLAIN, attributes=CONTROL), ErrorCode.INVALID_RECORD, "control records"),
        (altered(PLAIN, attributes=DELETE_HORIZON), ErrorCode.INVALID_RECORD, "which only compaction does"),
        (altered(IDEMPOTENT, attributes=CONTROL | TRANSACTIONAL), ErrorCode.INVALID_RECORD, "control records"),
        (altered(PLAIN, attributes=TRANSACTIONAL), ErrorCode.INVALID_RECORD, "producer id -1"),
        (altered(PLAIN, producer_id=-2), ErrorCode.INVALID_RECORD, "producer id -2"),
        (altered(IDEMPOTENT, base_sequence=-1), ErrorCode.INVALID_RECORD, "sequence -1"),
        (altered(IDEMPOTENT, producer_epoch=-1), ErrorCode.INVALID_RECORD, "epoch -1"),
        (PLAIN[:-1] + b"\x01", ErrorCode.CORRUPT_MESSAGE, "CRC"),
    ],
)
def test_a_refused_batch_hears_why(batch: bytes, code: ErrorCode, sentence: str) -> None:
    refusal = refusal_of(batch)
    assert refusal.code is code
    assert sentence in refusal.message


def test_zstd_is_refused_from_clients_that_ask_in_an_older_version() -> None:
    batch = bytes(batch_of(RECORDS, codec=Codec.ZSTD))
    assert refusal_of(batch, is_zstd_allowed=False).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    check(bytes(batch_of(RECORDS, codec=Codec.LZ4)), is_zstd_allowed=False)


def test_a_batch_is_checked_where_it_lies_in_a_larger_buffer() -> None:
    view = memoryview(b"before" + PLAIN + b"after")
    header = header_of(view, len(PLAIN), 6)
    check_batch(view, header, len(PLAIN), 6)
    check_count(view, header, 6)
    with pytest.raises(Refusal):
        check_batch(view, header, len(PLAIN) + 1, 6)


@pytest.mark.parametrize("count", [1, 19, 21, 40])
def test_an_uncompressed_batch_holds_as_many_records_as_it_says(count: int) -> None:
    batch = altered(PLAIN, record_count=count, last_offset_delta=count - 1)
    check(batch)
    with pytest.raises(Refusal, match=f"the {count} records") as caught:
        check_count(memoryview(batch), read_header(batch))
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("first_byte", [b"\x01", b"\x7f", b"\xff", b"\x00"])
def test_counting_is_not_led_astray_by_wrong_lengths(first_byte: bytes) -> None:
    batch = PLAIN[:HEADER_SIZE] + first_byte + PLAIN[HEADER_SIZE + 1 :]
    with pytest.raises(Refusal):
        check_count(memoryview(batch), read_header(batch))


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_opening_a_batch_finds_a_wrong_count_in_any_codec(codec: Codec) -> None:
    batch = altered(bytes(batch_of(RECORDS, codec=codec)), record_count=21, last_offset_delta=20)
    check(batch)
    with pytest.raises(Refusal) as caught:
        check_records(memoryview(batch), inflate_max=INFLATE_MAX)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_batch_that_unfolds_too_far_is_too_large() -> None:
    check(OVERSIZE)
    for attempt in (check_records, recompressed):
        with pytest.raises(Refusal) as caught:
            attempt(memoryview(OVERSIZE), inflate_max=INFLATE_MAX)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def recompressed(view: memoryview, *, inflate_max: int) -> bytearray:
    return rewrite_batch(view, read_header(view), codec=Codec.LZ4, log_append_time_ms=None, inflate_max=inflate_max)


def test_records_without_a_key_are_named_by_their_place() -> None:
    records = [Record(0, 0, b"k", b"v"), Record(1, 0, None, b"v"), Record(2, 0, b"", b"v"), Record(3, 0, None, None)]
    view = memoryview(batch_of(records, codec=Codec.ZSTD))
    problems = check_records(view, inflate_max=INFLATE_MAX, problem_of=key_problem)
    assert [problem.batch_index for problem in problems] == [1, 3]
    assert problems[0] == RecordProblem(1, "a compacted topic takes no record without a key")
    assert check_records(view, inflate_max=INFLATE_MAX) == []


@pytest.mark.parametrize("target", Codec, ids=lambda codec: f"to {codec.name.lower()}")
@pytest.mark.parametrize("source", Codec, ids=lambda codec: f"from {codec.name.lower()}")
def test_recompression_changes_the_codec_and_nothing_else(source: Codec, target: Codec) -> None:
    batch = bytes(batch_of(RECORDS, codec=source, base_offset=40, producer_id=5, producer_epoch=1, base_sequence=7))
    rewritten = rewrite_batch(
        memoryview(batch), read_header(batch), codec=target, log_append_time_ms=None, inflate_max=INFLATE_MAX
    )
    before, after = read_header(batch), read_header(rewritten)
    assert crc_matches(memoryview(rewritten), after)
    assert after.codec == target
    assert after.size == len(rewritten)
    assert after._replace(length=before.length, crc=before.crc, attributes=before.attributes) == before
    assert list(decode_records(rewritten, inflate_max=INFLATE_MAX)) == [
        record._replace(offset=40 + record.offset) for record in RECORDS
    ]


def test_log_append_time_is_stamped_without_opening_the_records() -> None:
    # What is inside is no gzip at all: anything that opened it would fail.
    header = read_header(batch_of(RECORDS, codec=Codec.GZIP))
    batch = bytearray(HEADER_SIZE) + b"not a gzip stream"
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_OVERHEAD))
    seal(batch)
    stamped = rewrite_batch(
        memoryview(batch), read_header(batch), codec=Codec.GZIP, log_append_time_ms=9999, inflate_max=INFLATE_MAX
    )
    after = read_header(stamped)
    assert after.is_log_append_time
    assert (after.max_timestamp, after.codec) == (9999, Codec.GZIP)
    assert crc_matches(memoryview(stamped), after)
    assert stamped[HEADER_SIZE:] == b"not a gzip stream"


def test_a_codec_and_an_arrival_time_can_change_together() -> None:
    view = memoryview(PLAIN)
    rewritten = rewrite_batch(
        view, read_header(view), codec=Codec.SNAPPY, log_append_time_ms=777, inflate_max=INFLATE_MAX
    )
    records = list(decode_records(rewritten, inflate_max=INFLATE_MAX))
    assert records == [record._replace(timestamp=777) for record in RECORDS]
    assert len(rewritten) < len(PLAIN)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=["plain", "compressed"])
def test_a_max_timestamp_left_unset_is_computed(codec: Codec) -> None:
    batch = altered(bytes(batch_of(RECORDS, codec=codec)), max_timestamp=-1)
    assert lacks_max_timestamp(read_header(batch))
    filled = rewrite_batch(
        memoryview(batch), read_header(batch), codec=None, log_append_time_ms=None, inflate_max=INFLATE_MAX
    )
    assert filled == batch_of(RECORDS, codec=codec)


def test_records_without_any_time_lack_nothing() -> None:
    assert not lacks_max_timestamp(read_header(batch_of([Record(0, -1, None, None)])))
    assert not lacks_max_timestamp(read_header(PLAIN))


def test_what_cannot_be_recompressed_is_refused() -> None:
    batch = altered(PLAIN, attributes=int(Codec.GZIP))
    check(batch)
    with pytest.raises(Refusal, match="gzip stream is damaged") as caught:
        recompressed(memoryview(batch), inflate_max=INFLATE_MAX)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert isinstance(caught.value.__cause__.__cause__, zlib.error)  # type: ignore[union-attr]  # None fails the test too

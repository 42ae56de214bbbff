"""What a producer may send, what it hears when it sends something else, and what a topic's settings change."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches.examination import (
    LOOP_STEPS,
    ON_THE_LOOP,
    Allowance,
    Demands,
    Examined,
    RecordError,
    RefusedRecords,
    TakesLong,
    examine,
)
from headrace.wire.batches.header import (
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    Codec,
    crc_matches,
    read_header,
    repack,
    restamp,
    seal,
)
from headrace.wire.batches.records import Record, decode_records, encode_batch
from headrace.wire.batches.validation import check_batch, too_short
from tests.unit.wire.walk_forms import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterable

INFLATE_MAX = 1 << 20
NO_DEMANDS = Demands()
PLENTY = Allowance(1 << 30, 1 << 30, INFLATE_MAX, 100, lambda: None, is_last=True)


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
    check_batch(view, header_of(view, len(view)), len(view), is_zstd_allowed)


def look(
    batch: bytes | bytearray | memoryview, demands: Demands = NO_DEMANDS, allowance: Allowance = PLENTY
) -> Examined:
    view = memoryview(batch)
    return examine(view, read_header(view), demands, allowance)


def repacked(batch: bytes, codec: Codec) -> tuple[memoryview, BatchHeader]:
    records = look(batch, Demands(codec=codec)).repacked
    assert records is not None
    return repack(read_header(batch), codec, records)


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
        {"leader_epoch": 99},
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
        (PLAIN[:60], ErrorCode.INVALID_RECORD, "at least 61 bytes, this one has 60"),
        (PLAIN[:-1], ErrorCode.INVALID_RECORD, "exactly one whole batch"),
        (altered(PLAIN, length=len(PLAIN) - 13), ErrorCode.CORRUPT_MESSAGE, "CRC"),
        (PLAIN + b"\0", ErrorCode.INVALID_RECORD, "exactly one whole batch"),
        (PLAIN + PLAIN, ErrorCode.INVALID_RECORD, "exactly one whole batch"),
        (altered(PLAIN, magic=0), ErrorCode.INVALID_RECORD, "message format 0"),
        (altered(PLAIN, magic=1), ErrorCode.INVALID_RECORD, "message format 1"),
        (altered(PLAIN, magic=3), ErrorCode.CORRUPT_MESSAGE, "no message format 3"),
        (altered(PLAIN, magic=-1), ErrorCode.CORRUPT_MESSAGE, "no message format -1"),
        (altered(PLAIN, length=48), ErrorCode.CORRUPT_MESSAGE, "at least 49"),
        (altered(PLAIN, length=-1), ErrorCode.CORRUPT_MESSAGE, "at least 49"),
        (altered(PLAIN, length=2**31 - 1), ErrorCode.INVALID_RECORD, "exactly one whole batch"),
        (altered(PLAIN, base_offset=12345), ErrorCode.INVALID_RECORD, "a producer's begins at 0"),
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


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("count", [1, 19, 21, 40])
def test_a_batch_holds_as_many_records_as_it_says(count: int, codec: Codec) -> None:
    batch = altered(bytes(batch_of(RECORDS, codec=codec)), record_count=count, last_offset_delta=count - 1)
    check(batch)
    with pytest.raises(Refusal, match=f"last of {count} records|runs past the end|says that it has") as caught:
        look(batch)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("first_byte", [b"\x01", b"\x7f", b"\xff", b"\x00"])
def test_a_look_is_not_led_astray_by_wrong_lengths(first_byte: bytes) -> None:
    batch = PLAIN[:HEADER_SIZE] + first_byte + PLAIN[HEADER_SIZE + 1 :]
    with pytest.raises(Refusal):
        look(batch)


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_a_look_finds_the_times_of_the_records(codec: Codec) -> None:
    records = [Record(0, 5000, None, b""), Record(1, 3000, None, b""), Record(2, 7000, None, b"")]
    examined = look(batch_of(records, codec=codec))
    assert (examined.oldest_ms, examined.newest_ms) == (3000, 7000)


def test_times_are_added_up_without_wrapping() -> None:
    examined = look(altered(PLAIN, base_timestamp=2**63 - 1))
    assert (examined.oldest_ms, examined.newest_ms) == (2**63 - 1, 2**63 + 18)


def test_a_batch_that_unfolds_too_far_is_too_large() -> None:
    check(OVERSIZE)
    for demands in (Demands(), Demands(codec=Codec.LZ4)):
        with pytest.raises(Refusal) as caught:
            look(OVERSIZE, demands)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_records_without_a_key_are_named_by_their_place() -> None:
    records = [Record(0, 0, b"k", b"v"), Record(1, 0, None, b"v"), Record(2, 0, b"", b"v"), Record(3, 0, None, None)]
    batch = batch_of(records, codec=Codec.ZSTD)
    with pytest.raises(RefusedRecords, match="2 records are invalid") as caught:
        look(batch, Demands(needs_keys=True))
    message = "a compacted topic takes no record without a key"
    assert caught.value.record_errors == [RecordError(1, message), RecordError(3, message)]
    look(batch)


def test_of_many_records_without_a_key_some_are_named_and_all_are_counted() -> None:
    batch = batch_of(Record(index, 0, None, b"v") for index in range(5000))
    with pytest.raises(RefusedRecords, match="5000 records are invalid") as caught:
        look(batch, Demands(needs_keys=True))
    assert [error.batch_index for error in caught.value.record_errors] == list(range(100))


# ---- how much is done on the loop


def test_a_small_batch_is_looked_at_on_the_loop() -> None:
    for codec in Codec:
        assert look(batch_of(RECORDS, codec=codec), allowance=ON_THE_LOOP).newest_ms == 1019


def test_many_records_are_too_much_for_the_loop() -> None:
    few = batch_of(Record(index, 0, None, None) for index in range(LOOP_STEPS))
    many = batch_of(Record(index, 0, None, None) for index in range(LOOP_STEPS + 1))
    assert look(few, allowance=ON_THE_LOOP).steps == LOOP_STEPS
    with pytest.raises(TakesLong):
        look(many, allowance=ON_THE_LOOP)


def test_many_headers_are_too_much_for_the_loop() -> None:
    headers = (("", b""),) * (LOOP_STEPS // 8)
    with pytest.raises(TakesLong):
        look(batch_of(Record(index, 0, None, None, headers) for index in range(9)), allowance=ON_THE_LOOP)


def test_a_short_stream_that_unfolds_far_is_too_much_for_the_loop() -> None:
    batch = batch_of([Record(0, 0, None, bytes(64 * 1024))], codec=Codec.ZSTD)
    assert len(batch) < 200
    with pytest.raises(TakesLong):
        look(batch, allowance=ON_THE_LOOP)
    assert look(batch).newest_ms == 0


def test_a_long_stream_is_not_even_begun_on_the_loop() -> None:
    noise = bytes((index * 7919 % 251) ^ (index >> 3 & 0xFF) for index in range(20_000))
    batch = batch_of([Record(0, 0, None, noise)], codec=Codec.LZ4)
    assert len(batch) > 4096
    with pytest.raises(TakesLong):
        look(batch, allowance=ON_THE_LOOP)


def test_to_pack_much_is_too_much_for_the_loop() -> None:
    batch = batch_of([Record(0, 0, None, bytes(8000))])
    with pytest.raises(TakesLong):
        look(batch, Demands(codec=Codec.GZIP), ON_THE_LOOP)
    assert look(batch, Demands(codec=Codec.GZIP)).repacked is not None


def test_batches_of_one_request_share_what_the_loop_allows() -> None:
    examined = look(PLAIN, allowance=ON_THE_LOOP.within(20))
    assert examined.steps == 20
    with pytest.raises(TakesLong):
        look(PLAIN, allowance=ON_THE_LOOP.within(19))


def test_a_long_walk_pauses() -> None:
    pauses = []
    allowance = PLENTY._replace(steps=7, pause=lambda: pauses.append(1))
    look(PLAIN, allowance=allowance)
    assert len(pauses) == 2


# ---- what is taken unseen


def test_a_topic_may_trust_what_is_compressed() -> None:
    garbage = altered(PLAIN, attributes=int(Codec.ZSTD), max_timestamp=1019)
    examined = look(garbage, Demands(trusts_compressed=True))
    assert (examined.oldest_ms, examined.newest_ms) == (1000, 1019)
    with pytest.raises(Refusal):
        look(garbage)


@pytest.mark.parametrize(
    "demands", [Demands(needs_keys=True, trusts_compressed=True), Demands(codec=Codec.LZ4, trusts_compressed=True)]
)
def test_trust_ends_where_records_must_be_seen(demands: Demands) -> None:
    with pytest.raises(Refusal):
        look(altered(PLAIN, attributes=int(Codec.ZSTD)), demands)


def test_trust_ends_where_the_newest_time_is_unknown() -> None:
    batch = altered(bytes(batch_of(RECORDS, codec=Codec.ZSTD)), max_timestamp=-1)
    assert look(batch, Demands(trusts_compressed=True)).newest_ms == 1019


def test_what_is_not_compressed_is_never_trusted() -> None:
    with pytest.raises(Refusal):
        look(altered(PLAIN, record_count=19, last_offset_delta=18), Demands(trusts_compressed=True))


# ---- what a topic changes


@pytest.mark.parametrize("target", Codec, ids=lambda codec: f"to {codec.name.lower()}")
@pytest.mark.parametrize("source", Codec, ids=lambda codec: f"from {codec.name.lower()}")
def test_recompression_changes_the_codec_and_nothing_else(source: Codec, target: Codec) -> None:
    batch = bytes(batch_of(RECORDS, codec=source, base_offset=40, producer_id=5, producer_epoch=1, base_sequence=7))
    if source == target:
        assert look(batch, Demands(codec=target)).repacked is None
        return
    rewritten, after = repacked(batch, target)
    before = read_header(batch)
    assert crc_matches(rewritten, after)
    assert after.codec == target
    assert after.size == len(rewritten)
    assert after._replace(length=before.length, crc=before.crc, attributes=before.attributes) == before
    assert list(decode_records(rewritten, inflate_max=INFLATE_MAX)) == [
        record._replace(offset=40 + record.offset) for record in RECORDS
    ]


def test_times_are_stamped_where_the_batch_lies_and_without_opening_the_records() -> None:
    # What is inside is no gzip at all: anything that opened it would fail.
    header = read_header(batch_of(RECORDS, codec=Codec.GZIP))
    batch = bytearray(HEADER_SIZE) + b"not a gzip stream"
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_OVERHEAD))
    seal(batch)
    after = restamp(batch, header.attributes | LOG_APPEND_TIME, 9999)
    assert after == read_header(batch)
    assert after.is_log_append_time
    assert (after.max_timestamp, after.codec) == (9999, Codec.GZIP)
    assert crc_matches(memoryview(batch), after)
    assert batch[HEADER_SIZE:] == b"not a gzip stream"


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_what_cannot_be_unpacked_is_refused(codec: Codec) -> None:
    batch = PLAIN[:HEADER_SIZE] + b"\x99" * 200
    batch = altered(batch, attributes=int(codec), length=len(batch) - LENGTH_OVERHEAD)
    check(batch)
    with pytest.raises(Refusal, match="no consumer could read the batch") as caught:
        look(batch)
    assert caught.value.code is (ErrorCode.CORRUPT_MESSAGE if codec else ErrorCode.INVALID_RECORD)


def test_what_grows_too_large_when_it_is_packed_anew_is_refused() -> None:
    batch = memoryview(encode_batch([(1000, None, bytes(10_000), ())], codec=Codec.ZSTD))
    fits = Demands(codec=Codec.NONE, size_max=HEADER_SIZE + 10_020)
    assert look(batch, fits).repacked is not None
    with pytest.raises(Refusal, match=r"max\.message\.bytes=10000") as refused:
        look(batch, fits._replace(size_max=10_000))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


# ---- the short way for plain batches


def plain_times(form: Any, batch: bytes, *, count_max: int = 1000) -> tuple[int, int] | None:
    """In the midst of other bytes, as a batch lies in a receive buffer."""
    found: tuple[int, int] | None = form.plain_times(b"before" + batch + b"behind", 6, len(batch), count_max)
    return found


def judged(batch: bytes) -> tuple[int, int] | None:
    """Its times, None if it is refused: the general way."""
    try:
        check(batch)
        examined = look(batch)
    except Refusal:
        return None
    return examined.oldest_ms, examined.newest_ms


@pytest.mark.parametrize("form", FORMS)
def test_a_plain_batch_is_judged_at_once(form: Any) -> None:
    for batch in (PLAIN, IDEMPOTENT, altered(PLAIN, leader_epoch=7), altered(PLAIN, max_timestamp=-1)):
        assert plain_times(form, batch) == (1000, 1019) == judged(batch)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_plain_is_left_to_others(form: Any) -> None:
    assert plain_times(form, PLAIN, count_max=20) is not None
    assert plain_times(form, PLAIN, count_max=19) is None
    assert plain_times(form, bytes(batch_of(RECORDS, codec=Codec.GZIP))) is None
    assert plain_times(form, bytes(batch_of([Record(0, 1000, b"k", b"v", (("h", b"v"),))]))) is None
    for size in range(len(PLAIN)):
        assert plain_times(form, PLAIN[:size]) is None


NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 19, 20, 21, 2**31 - 1)
LONG_NUMBERS = (-(2**63), -2, -1, 0, 1, 2**62 - 1, 2**62, 2**63 - 1)
FIELDS: dict[str, tuple[int, ...]] = {
    "base_offset": (*LONG_NUMBERS, 2**32, 2**56),
    "length": NUMBERS,
    "magic": (-1, 0, 1, 2, 3),
    "attributes": (*(1 << bit for bit in range(15)), 0x0801, -1),
    "last_offset_delta": NUMBERS,
    "base_timestamp": LONG_NUMBERS,
    "producer_id": (*LONG_NUMBERS, 2**32 - 1, -(2**32)),
    "producer_epoch": (-(2**15), -2, -1, 0, 2**15 - 1),
    "base_sequence": NUMBERS,
    "record_count": NUMBERS,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("field", FIELDS)
def test_the_short_way_takes_nothing_that_the_general_way_refuses(form: Any, field: str) -> None:
    for batch, value in product((PLAIN, IDEMPOTENT), FIELDS[field]):
        changed = altered(batch, **{field: value})
        assert plain_times(form, changed) in (None, judged(changed)), (field, value)


@pytest.mark.parametrize("form", FORMS)
def test_the_short_way_agrees_with_the_general_one_on_noise(form: Any) -> None:
    chance = random.Random(7)
    plain = 0
    for round_ in range(3000):
        count = chance.choice((1, 2, 3, 70))
        values = (b"", None, bytes(20), bytes(61), bytes(62), bytes(63), bytes(64), bytes(65), bytes(9000))
        records = [
            Record(number, 10**12 + chance.randrange(9000), chance.choice((None, b"", b"key")), chance.choice(values))
            for number in range(count)
        ]
        batch = batch_of(records)
        for _ in range(chance.randint(0, 2)):
            batch[chance.randrange(HEADER_SIZE, len(batch))] = chance.randrange(256)
        seal(batch)
        found = plain_times(form, bytes(batch))
        assert found in (None, judged(bytes(batch))), (round_, bytes(batch))
        plain += found is not None
    assert plain > 500

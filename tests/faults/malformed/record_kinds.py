"""Malformed inside of the records. Made in every packing: what comes out of a stream is not to be trusted either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.faults.malformed.forge import (
    GZIP,
    LZ4,
    ZSTD,
    Forge,
    around,
    blob,
    header_list,
    numbered,
    overlong,
    record,
    sound,
)
from tests.faults.malformed.kinds import (
    COMPACTED,
    GARBAGE,
    GREATEST_INT,
    GZIPPED,
    INVALID,
    LEAST_INT,
    OK,
    STAMPED,
    Kind,
    Section,
    holding,
)

if TYPE_CHECKING:
    from headrace.model.errors import ErrorCode
    from tests.faults.malformed.kinds import Make

BOMB_HEADERS = 33_000_000
HEADER = (blob(b"name"), blob(b"content"))
GARBLED = around(blob(b"\xff" * 10))


def _second(*delta: int | bytes, **parts: Any) -> Make:
    """The second of three records is made of these parts."""
    return holding(around(record(*(delta or (1,)), **parts)))


def _header_bomb(forge: Forge) -> bytes:
    return forge.batch(record(headers=header_list(claimed=BOMB_HEADERS) + bytes(2 * BOMB_HEADERS)), 1)


COUNTS = Section("Records: how many, in which order", (
    Kind("garbage-for-records", "nothing but garbage", holding(GARBAGE, 100), INVALID),
    Kind("ones-for-records", "nothing but bytes of 0xFF", holding(b"\xff" * 800, 100), INVALID),
    Kind("zeros-for-records", "nothing but zeros", holding(bytes(800), 100), INVALID),
    Kind("no-bytes-for-records", "a count of 3, and no bytes for them", holding(b""), INVALID),
    Kind("fewer-records", "one record fewer than counted", holding(sound(2)), INVALID),
    Kind("more-records", "one record more than counted", holding(sound(4)), INVALID),
    Kind("many-fewer-records", "39 records, 40 counted", holding(sound(39), 40), INVALID),
    Kind("last-record-cut", "a last record that is cut short", holding(sound()[:-3]), INVALID),
    Kind("cut-inside-a-length", "a last record that ends inside of its length", holding(sound(2) + b"\x80"), INVALID),
    Kind("a-byte-after-the-last", "a zero byte after the last record", holding(sound() + b"\0"), INVALID),
    Kind("bytes-after-the-last", "garbage after the last record", holding(sound() + GARBAGE), INVALID),
    Kind("deltas-all-zero", "offset deltas 0, 0, 0", holding(numbered([0, 0, 0])), INVALID),
    Kind("delta-repeated", "offset deltas 0, 1, 1", holding(numbered([0, 1, 1])), INVALID),
    Kind("deltas-fall", "offset deltas 2, 1, 0", holding(numbered([2, 1, 0])), INVALID),
    Kind("deltas-from-one", "offset deltas 1, 2, 3", holding(numbered([1, 2, 3])), INVALID),
    Kind("deltas-from-one-of-four", "offset deltas 1, 2, 3, and a last offset delta of 3",
         holding(numbered([1, 2, 3]), last_offset_delta=3), INVALID),
    Kind("deltas-with-a-gap", "offset deltas 0, 2, 4, and a last offset delta of 4",
         holding(numbered([0, 2, 4]), last_offset_delta=4), INVALID),
    Kind("delta-too-high", "offset deltas 0, 1, 9", holding(numbered([0, 1, 9])), INVALID),
    Kind("delta-negative", "offset deltas −1, 0, 1", holding(numbered([-1, 0, 1])), INVALID),
    Kind("delta-greatest", "an offset delta of 2³¹−1", holding(numbered([0, GREATEST_INT, 2])), INVALID),
))  # fmt: skip

FIELDS = Section("Records: what is in them", (
    Kind("garbage-in-a-record", "a record of garbage, as long as it says", holding(GARBLED), INVALID),
    Kind("length-of-record-zero", "a record of length 0", holding(around(b"\0")), INVALID),
    Kind("length-of-record-negative", "a record of length −1", _second(length=-1), INVALID),
    Kind("length-of-record-least", "a record of length −2³¹", _second(length=LEAST_INT), INVALID),
    Kind("length-of-record-short", "a record one byte longer than it says", _second(longer=-1), INVALID),
    Kind("length-of-record-long", "a record one byte shorter than it says", _second(longer=1), INVALID),
    Kind("length-of-record-past-the-end", "a record longer than what is left", _second(length=200), INVALID),
    Kind("length-of-record-greatest", "a record of length 2³¹−1", _second(length=GREATEST_INT), INVALID),
    Kind("byte-after-the-fields", "a record with a byte after its last field", _second(headers=b"\0\0"), INVALID),
    Kind("record-without-headers", "a record that ends before its headers", _second(headers=b""), INVALID),
    Kind("key-length-minus-two", "a key of length −2", _second(key=blob(b"key", -2)), INVALID),
    Kind("key-past-the-record", "a key longer than its record", _second(key=blob(b"key", 20)), INVALID),
    Kind("key-past-the-batch", "a key longer than the batch", _second(key=blob(b"key", 5000)), INVALID),
    Kind("key-greatest", "a key of length 2³¹−1", _second(key=blob(b"key", GREATEST_INT)), INVALID),
    Kind("value-length-minus-two", "a value of length −2", _second(value=blob(b"value", -2)), INVALID),
    Kind("value-past-the-record", "a value longer than its record", _second(value=blob(b"value", 12)), INVALID),
    Kind("value-past-the-batch", "a value longer than the batch", _second(value=blob(b"value", 5000)), INVALID),
    Kind("value-greatest", "a value of length 2³¹−1", _second(value=blob(b"value", GREATEST_INT)), INVALID),
    Kind("headers-negative", "−1 headers", _second(headers=header_list(claimed=-1)), INVALID),
    Kind("headers-greatest", "2³¹−1 headers", _second(headers=header_list(claimed=GREATEST_INT)), INVALID),
    Kind("headers-one-too-many", "one header fewer than counted",
         _second(headers=header_list(*HEADER, claimed=2)), INVALID),
    Kind("headers-one-too-few", "one header more than counted",
         _second(headers=header_list(*HEADER, *HEADER, claimed=1)), INVALID),
    Kind("header-without-key", "a header whose key is null",
         _second(headers=header_list(blob(None), blob(b"content"))), INVALID),
    Kind("header-key-minus-two", "a header whose key has length −2",
         _second(headers=header_list(blob(b"name", -2), blob(b"content"))), INVALID),
    Kind("header-key-past-the-record", "a header whose key is longer than the record",
         _second(headers=header_list(blob(b"name", 5000), blob(b"content"))), INVALID),
    Kind("header-value-minus-two", "a header whose value has length −2",
         _second(headers=header_list(blob(b"name"), blob(b"content", -2))), INVALID),
    Kind("header-value-past-the-record", "a header whose value is longer than the record",
         _second(headers=header_list(blob(b"name"), blob(b"content", 5000))), INVALID),
    Kind("header-key-not-text", "a header whose key is not UTF-8",
         _second(headers=header_list(blob(b"\xff\xfe"), blob(b"content"))), OK),
    Kind("header-bomb", "33 million empty headers in one record", _header_bomb, INVALID, packings=(GZIP, LZ4, ZSTD),
         is_heavy=True),
    Kind("number-overlong", "a length in 2 bytes that needs one", _second(value=blob(b"value", overlong(5, 2))), OK),
    Kind("number-of-six-bytes", "a length in 6 bytes", _second(value=blob(b"value", overlong(5, 6))), INVALID),
    Kind("record-length-of-six-bytes", "a record's length in 6 bytes",
         holding(around(overlong(len(record(1)) - 1, 6) + record(1)[1:])), INVALID),
    Kind("delta-of-six-bytes", "an offset delta in 6 bytes", _second(overlong(1, 6)), INVALID),
    Kind("delta-of-36-bits", "an offset delta in 5 bytes that do not fit 32 bits", _second(b"\x82\x80\x80\x80\x70"),
         INVALID),
    Kind("time-of-eleven-bytes", "a time in 11 bytes", _second(time=overlong(1, 11)), INVALID),
    Kind("time-of-66-bits", "a time in 10 bytes that do not fit 64 bits", _second(time=b"\x80" * 9 + b"\x02"), INVALID),
    Kind("record-attributes", "record attributes of 255, which mean nothing", _second(attributes=0xFF), OK),
    Kind("empty-record", "a record without key and value", _second(key=blob(None), value=blob(None)), OK),
))  # fmt: skip

# ---- topics that open what they are sent


def _where_opened(name: str, what: str, make: Make, code: ErrorCode) -> list[Kind]:
    """A fault that other topics know already, where batches are opened for another reason."""
    return [
        Kind(f"{name}-compacted", f"{what}, where the topic is compacted", make, code, configs=COMPACTED),
        Kind(f"{name}-stamped", f"{what}, where the topic has LogAppendTime", make, code, configs=STAMPED),
        Kind(f"{name}-gzipped", f"{what}, where the topic compresses anew", make, code, configs=GZIPPED),
    ]


TOPICS = Section("Topics that choose or change what they are sent", (
    Kind("no-key-compacted", "a record without a key, where the topic is compacted", _second(key=blob(None)), INVALID,
         configs=COMPACTED),
    Kind("empty-key-compacted", "a record with an empty key, where the topic is compacted", _second(key=blob(b"")), OK,
         configs=COMPACTED),
    Kind("tombstone-compacted", "a record without a value, where the topic is compacted", _second(value=blob(None)), OK,
         configs=COMPACTED),
    *_where_opened("garbage-in-a-record", "a record of garbage", holding(GARBLED), INVALID),
    *_where_opened("fewer-records", "one record fewer than counted", holding(sound(2)), INVALID),
    *_where_opened("more-records", "one record more than counted", holding(sound(4)), INVALID),
    *_where_opened("deltas-fall", "offset deltas 2, 1, 0", holding(numbered([2, 1, 0])), INVALID),
    *_where_opened("bytes-after-the-last", "garbage after the last record", holding(sound() + GARBAGE), INVALID),
))  # fmt: skip

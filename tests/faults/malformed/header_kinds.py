"""Malformed without a look at the records: where batches begin and end, and what their headers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.batches.header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from tests.faults.malformed.forge import NONE, Forge, blob, old_message, record
from tests.faults.malformed.kinds import (
    CORRUPT,
    GREATEST,
    GREATEST_INT,
    INVALID,
    LEAST,
    LEAST_INT,
    NO_SUCH_CODEC,
    NO_SUCH_PRODUCER,
    NO_SUCH_TRANSACTION,
    OK,
    STAMPED,
    TIME,
    TOO_LARGE,
    Kind,
    Section,
    flipped,
    holding,
    said,
)

if TYPE_CHECKING:
    from tests.faults.malformed.kinds import Make

HOUR_MS = 3_600_000
PLAIN = (NONE,)

# ---- where a batch begins and ends

FRAMES = Section("Where a batch begins and ends", (
    Kind("sound", "nothing: a sound batch", said(), OK),
    Kind("null-records", "null in place of records", lambda _: None, INVALID, packings=PLAIN),
    Kind("no-bytes", "no bytes at all", lambda _: b"", INVALID, packings=PLAIN),
    Kind("half-a-header", "half a header", lambda forge: forge.batch()[:30], INVALID, packings=PLAIN),
    Kind("a-header-alone", "a header, and none of the records it speaks of",
         lambda forge: forge.batch()[:HEADER_SIZE], INVALID),
    Kind("half-a-batch", "a batch without its last 5 bytes", lambda forge: forge.batch()[:-5], INVALID),
    Kind("two-batches", "two sound batches", lambda forge: forge.batch() * 2, INVALID),
    Kind("a-batch-and-a-half", "a sound batch, then half of one",
         lambda forge: forge.batch() + forge.batch()[:70], INVALID),
    Kind("bytes-after-the-batch", "a sound batch, then 5 zero bytes", lambda forge: forge.batch() + bytes(5), INVALID),
    Kind("wrong-crc", "a CRC that is not that of the bytes", said(crc=1), CORRUPT),
    Kind("one-bit-flipped", "a byte of the last record changed", lambda forge: flipped(forge.batch(), -2), CORRUPT),
    Kind("length-zero", "length 0", said(length=0), CORRUPT),
    Kind("length-of-half-a-header", "a length that ends inside of the header", said(length=30), CORRUPT),
    Kind("length-one-too-small", "a length that is one too small", said(longer=-1), CORRUPT),
    Kind("length-one-too-large", "a length that is one too large", said(longer=1), INVALID),
    Kind("length-negative", "a negative length", said(length=-5), CORRUPT),
    Kind("length-greatest", "a length of 2³¹−1", said(length=GREATEST_INT), INVALID),
    Kind("format-0", "a batch that says it has message format 0", said(magic=0), INVALID, packings=PLAIN),
    Kind("format-1", "a batch that says it has message format 1", said(magic=1), INVALID, packings=PLAIN),
    Kind("format-3", "message format 3", said(magic=3), CORRUPT, packings=PLAIN),
    Kind("format-negative", "message format −1", said(magic=-1), CORRUPT, packings=PLAIN),
    Kind("old-message-0", "a sound message of format 0", lambda forge: old_message(0, forge.now_ms), INVALID,
         packings=PLAIN),
    Kind("old-message-1", "a sound message of format 1", lambda forge: old_message(1, forge.now_ms), INVALID,
         packings=PLAIN),
    Kind("larger-than-the-topic-allows", "more bytes than `max.message.bytes`",
         holding(record(value=blob(b"v" * 3000)), 1), TOO_LARGE, packings=PLAIN, configs={"max.message.bytes": "2000"}),
))  # fmt: skip

# ---- what a header says


def _forged_commit(forge: Forge) -> bytes:
    marker = record(key=blob(b"\0\0\0\1"), value=blob(bytes(6)))
    flags = CONTROL_BIT | TRANSACTIONAL_BIT
    return forge.batch(marker, 1, flags=flags, producer_id=4709, producer_epoch=0, base_sequence=0)


HEADERS = Section("Counts, attributes and places in the header", (
    Kind("no-records", "a count of 0, and no records", holding(b"", 0), INVALID),
    Kind("count-zero", "a count of 0 above 3 records", said(record_count=0), INVALID),
    Kind("count-negative", "a count of −1", said(record_count=-1), INVALID),
    Kind("count-least", "a count of −2³¹", said(record_count=LEAST_INT), INVALID),
    Kind("count-greatest", "a count of 2³¹−1, and a last offset delta that fits it",
         said(record_count=GREATEST_INT, last_offset_delta=GREATEST_INT - 1), INVALID),
    Kind("count-of-a-million", "a count of a million in a few bytes, and a last offset delta that fits it",
         said(record_count=10**6, last_offset_delta=10**6 - 1), INVALID),
    Kind("last-delta-too-high", "a last offset delta above the count less one", said(last_offset_delta=7), INVALID),
    Kind("last-delta-too-low", "a last offset delta below the count less one", said(last_offset_delta=1), INVALID),
    Kind("last-delta-negative", "a negative last offset delta", said(last_offset_delta=-5), INVALID),
    Kind("last-delta-greatest", "a last offset delta of 2³¹−1", said(last_offset_delta=GREATEST_INT), INVALID),
    Kind("codec-5", "codec 5, which does not exist", said(flags=5), NO_SUCH_CODEC, packings=PLAIN),
    Kind("codec-6", "codec 6, which does not exist", said(flags=6), NO_SUCH_CODEC, packings=PLAIN),
    Kind("codec-7", "codec 7, which does not exist", said(flags=7), NO_SUCH_CODEC, packings=PLAIN),
    Kind("control", "the bit of control batches", said(flags=CONTROL_BIT), INVALID),
    Kind("forged-commit", "a marker that commits a producer's transaction", _forged_commit, INVALID,
         transactional_id="forged"),
    Kind("delete-horizon", "the bit of batches that compaction has written", said(flags=DELETE_HORIZON_BIT), INVALID),
    Kind("reserved-bit", "an attribute bit that means nothing", said(flags=0x80), OK),
    Kind("reserved-bits", "all attribute bits that mean nothing", said(flags=0xFF80), OK),
    Kind("base-offset", "a base offset of 2⁶²", said(base_offset=2**62), INVALID),
    Kind("base-offset-negative", "a negative base offset", said(base_offset=-7), INVALID),
    Kind("leader-epoch", "a leader epoch of 2³¹−1", said(leader_epoch=GREATEST_INT), OK),
    Kind("leader-epoch-negative", "a leader epoch of −2³¹", said(leader_epoch=LEAST_INT), OK),
))  # fmt: skip

# ---- producers


def _from(producer_id: int, epoch: int, sequence: int, flags: int = 0) -> Make:
    return said(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, flags=flags)


PRODUCERS = Section("Producers", (
    Kind("transaction-of-nobody", "a transaction, and no producer", said(flags=TRANSACTIONAL_BIT), INVALID,
         transactional_id="of-nobody"),
    Kind("transaction-unknown", "a transaction of a producer that its coordinator does not know",
         _from(4711, 0, 0, TRANSACTIONAL_BIT), NO_SUCH_PRODUCER, transactional_id="unknown"),
    Kind("transaction-without-id", "a transaction, in a request without a transactional id",
         _from(4710, 0, 0, TRANSACTIONAL_BIT), NO_SUCH_TRANSACTION),
    Kind("producer-minus-two", "producer id −2", _from(-2, 0, 0), INVALID),
    Kind("producer-least", "producer id −2⁶³", _from(LEAST, 0, 0), INVALID),
    Kind("producer-without-epoch", "a producer with epoch −1", _from(4712, -1, 0), INVALID),
    Kind("producer-without-sequence", "a producer with sequence −1", _from(4713, 0, -1), INVALID),
    Kind("sequence-least", "a producer with sequence −2³¹", _from(4714, 0, LEAST_INT), INVALID),
    Kind("epoch-of-nobody", "an epoch and a sequence, and no producer", _from(-1, 3, 3), OK),
    Kind("sequence-in-the-middle", "a producer's first batch with sequence 5", _from(4715, 0, 5), OK),
    Kind("producer-greatest", "producer, epoch and sequence as high as they can be",
         _from(GREATEST, 2**15 - 1, GREATEST_INT), OK),
))  # fmt: skip

# ---- times


def _at(base: int, greatest: int) -> Make:
    return said(base_timestamp=base, max_timestamp=greatest)


def _ahead(base_ms: int, greatest_ms: int) -> Make:
    """Times this far from now."""
    return lambda forge: forge.batch(
        base_timestamp=forge.now_ms + base_ms, max_timestamp=forge.now_ms + greatest_ms
    )  # fmt: skip


def _dated(*times: int) -> bytes:
    """Records whose times lie this far from the base."""
    return b"".join(record(delta, time=time) for delta, time in enumerate(times))


TIMES = Section("Times", (
    Kind("all-least", "every time −2⁶³", _at(LEAST, LEAST), TIME),
    Kind("all-minus-two", "every time −2", _at(-2, -2), OK),
    Kind("all-none", "every time −1, which means none", _at(-1, -1), OK),
    Kind("all-zero", "every time 0", _at(0, 0), OK),
    Kind("all-greatest", "every time 2⁶³−1", _at(GREATEST, GREATEST), TIME),
    Kind("max-greatest", "a max timestamp of 2⁶³−1 above records of now", said(max_timestamp=GREATEST), OK),
    Kind("base-greatest-max-none", "a base timestamp of 2⁶³−1, a max timestamp of −1", _at(GREATEST, -1), TIME),
    Kind("base-greatest-max-now", "a base timestamp of 2⁶³−1, a max timestamp of now", said(base_timestamp=GREATEST),
         TIME),
    Kind("max-none", "a max timestamp of −1 above records that have times", said(max_timestamp=-1), OK),
    Kind("max-too-low", "a max timestamp a second below the greatest of its records", holding(_dated(0, 1000, 5)), OK),
    Kind("max-too-high", "a max timestamp a second above the greatest of its records", _ahead(0, 1000), OK),
    Kind("max-below-base", "a max timestamp a second below the base", _ahead(0, -1000), OK),
    Kind("two-hours-ahead", "records two hours ahead of the clock", _ahead(2 * HOUR_MS, 2 * HOUR_MS), TIME),
    Kind("max-two-hours-ahead", "a max timestamp two hours ahead, above records of now", _ahead(0, 2 * HOUR_MS), OK),
    Kind("record-two-hours-ahead", "a record two hours ahead, below a max timestamp of now",
         holding(_dated(0, 2 * HOUR_MS, 0)), TIME),
    Kind("record-two-hours-ahead-max-none", "a record two hours ahead, below a max timestamp of −1",
         holding(_dated(0, 2 * HOUR_MS, 0), max_timestamp=-1), TIME),
    Kind("time-overflows", "a record whose time passes 2⁶³−1", holding(_dated(0, GREATEST, 0)), TIME),
    Kind("time-underflows", "a record whose time passes −2⁶³",
         holding(_dated(0, LEAST, 0), base_timestamp=-2, max_timestamp=-2), TIME),
    Kind("time-below-zero", "a record whose time is −1,000",
         lambda forge: forge.batch(_dated(0, -forge.now_ms - 1000, 0)), OK),
    Kind("times-fall", "records whose times fall", holding(_dated(0, -1000, -2000)), OK),
    Kind("claims-append-time", "the bit of LogAppendTime", said(flags=TIMESTAMP_TYPE_BIT), TIME),
    Kind("claims-append-time-stamped", "the bit of LogAppendTime, where the topic has it",
         said(flags=TIMESTAMP_TYPE_BIT), TIME, configs=STAMPED),
    Kind("all-greatest-stamped", "every time 2⁶³−1, where the topic has LogAppendTime",
         _at(GREATEST, GREATEST), OK, configs=STAMPED),
    Kind("time-overflows-stamped", "a record whose time passes 2⁶³−1, where the topic has LogAppendTime",
         holding(_dated(0, GREATEST, 0)), OK, configs=STAMPED),
))  # fmt: skip

"""What a produced batch must be before it enters a log, and the changes a topic's settings may ask for.

`check_batch` runs for every batch of every producer and looks only at the header and the CRC; `check_count` adds a walk
over the records of a batch that is not compressed. The rest opens records, and runs only for topics that need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    CorruptBatch,
    InflatesTooFar,
    seal,
)
from headrace.wire.compression import compress, decompress
from headrace.wire.records import RECORD_SIZE_MIN, Record, decode_records
from headrace.wire.varints import read_varint

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH_MIN = HEADER_SIZE - LENGTH_OVERHEAD
_OLDER_FORMATS = (0, 1)
PLAIN_RECORDS_MAX = 32  # hopping over more records takes longer than all the rest; their size bounds their count
_RESERVED_BITS = CONTROL_BIT | TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT  # only a broker sets these


class RecordProblem(NamedTuple):
    """One record that its topic cannot take, as a Produce answer lists it from version 8 on."""

    batch_index: int
    message: str


def too_short(size: int) -> Refusal:
    """For what a producer sent in fewer bytes than a header has."""
    if not size:
        return Refusal(ErrorCode.INVALID_RECORD, "the records are empty; exactly one batch is expected")
    return Refusal(ErrorCode.CORRUPT_MESSAGE, f"a batch has at least {HEADER_SIZE} bytes, this one has {size}")


def check_batch(
    view: memoryview, header: BatchHeader, size: int, position: int = 0, *, is_zstd_allowed: bool = True
) -> None:
    """Refuse what is not exactly one sound batch in the `size` bytes at `position`. Cheap first, the CRC last."""
    _, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, _, count = header
    if magic != MAGIC or length + LENGTH_OVERHEAD != size or size < HEADER_SIZE:
        raise _wrong_shape(header, size)
    if count < 1 or last_offset_delta != count - 1:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"the batch has {count} records and last offset delta {last_offset_delta}; "
            "at least one record is expected, and a delta of one less than their number",
        )
    if attributes:
        _check_attributes(attributes, is_zstd_allowed=is_zstd_allowed)
    if not attributes & COMPRESSION_MASK and count * RECORD_SIZE_MIN > size - HEADER_SIZE:
        raise Refusal(ErrorCode.INVALID_RECORD, f"{size - HEADER_SIZE} bytes cannot hold {count} records")
    if producer_id != -1 or attributes & TRANSACTIONAL_BIT:
        _check_producer(header)
    if crc32c(view[position + CRC_START : position + size]) != crc:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, "the batch does not match its CRC; it was damaged on its way")


def is_plainly_sound(batch: memoryview, header: BatchHeader, size: int) -> bool:
    """True for a small batch of the plainest kind that `check_batch` and `check_count` have nothing against.

    Nothing in its attributes, no producer, few records: what most small requests carry, judged in half the time.
    """
    _, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, _, count = header
    if attributes or magic != MAGIC or producer_id != -1 or length + LENGTH_OVERHEAD != size:
        return False
    if not 1 <= count <= PLAIN_RECORDS_MAX or last_offset_delta != count - 1:
        return False
    if crc32c(batch[CRC_START:]) != crc:
        return False
    return _holds_records(batch, count, HEADER_SIZE, size)


def _holds_records(view: memoryview, count: int, here: int, end: int) -> bool:
    """True if exactly `count` records fill the bytes from `here` to `end`: hop over them, length by length."""
    try:
        for _ in range(count):
            length, here = read_varint(view, here)
            here += length if length >= 0 else end
    except (IndexError, ValueError):
        return False
    return here == end


def _wrong_shape(header: BatchHeader, size: int) -> Refusal:
    # Position and meaning of every other field hang on the format, so it is judged first.
    if header.magic in _OLDER_FORMATS:
        return Refusal(
            ErrorCode.INVALID_RECORD, f"message format {header.magic} is not taken; send batches of format {MAGIC}"
        )
    if header.magic != MAGIC:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, f"there is no message format {header.magic}")
    if header.length < _LENGTH_MIN:
        return Refusal(
            ErrorCode.CORRUPT_MESSAGE, f"the batch has length {header.length}; at least {_LENGTH_MIN} is expected"
        )
    return Refusal(
        ErrorCode.INVALID_RECORD,
        f"the first batch has {header.size} bytes and the records {size}; exactly one whole batch is expected",
    )


def _check_attributes(attributes: int, *, is_zstd_allowed: bool) -> None:
    codec = attributes & COMPRESSION_MASK
    if codec > Codec.ZSTD:
        raise Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression codec {codec} does not exist; 0 to {Codec.ZSTD} do",
        )
    if codec == Codec.ZSTD and not is_zstd_allowed:
        raise Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "zstd needs Produce version 7 or later; send the batch again with it",
        )
    if attributes & _RESERVED_BITS:
        if attributes & CONTROL_BIT:
            raise Refusal(ErrorCode.INVALID_RECORD, "the batch holds control records, which only a broker writes")
        if attributes & DELETE_HORIZON_BIT:
            raise Refusal(ErrorCode.INVALID_RECORD, "the batch says until when it is kept, which only compaction does")
        raise Refusal(ErrorCode.INVALID_TIMESTAMP, "the batch claims LogAppendTime, which only a broker gives")


def _check_producer(header: BatchHeader) -> None:
    """A base sequence near 2^31 is no fault: the numbers inside the batch go on at 0."""
    if header.producer_id < 0:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"producer id {header.producer_id} cannot be; 0 or more is expected, or -1 and no transaction for none",
        )
    if header.base_sequence < 0 or header.producer_epoch < 0:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence {header.base_sequence}; "
            "both are at least 0",
        )


def check_count(view: memoryview, header: BatchHeader, position: int = 0) -> None:
    """Refuse an uncompressed batch that holds more or fewer records than it says: hop over them, length by length.

    Takes a fraction of the time of `check_records`. A compressed batch is taken at its word.
    """
    if header[5] & COMPRESSION_MASK:
        return
    end = position + header[1] + LENGTH_OVERHEAD
    if not _holds_records(view, header[12], position + HEADER_SIZE, end):
        raise Refusal(ErrorCode.INVALID_RECORD, f"the batch does not hold the {header[12]} records it speaks of")


def lacks_max_timestamp(header: BatchHeader) -> bool:
    """Some clients leave the max timestamp at -1. Lookups by time depend on it: `rewrite_batch` fills it in."""
    return header.max_timestamp < header.base_timestamp


def check_records(
    view: memoryview, *, inflate_max: int, problem_of: Callable[[Record], str | None] | None = None
) -> list[RecordProblem]:
    """Open a checked batch and read every record of it.

    A batch whose records contradict its header is refused as a whole. `problem_of` judges single records; those that it
    objects to are returned, and the caller refuses the batch with INVALID_RECORD and this list.
    """
    problems = []
    try:
        # `check_batch` saw as many offsets as records, and deltas only rise: here they run 0, 1, 2… without a gap.
        for index, record in enumerate(decode_records(view, inflate_max=inflate_max)):
            if problem_of is not None and (message := problem_of(record)):
                problems.append(RecordProblem(index, message))
    except CorruptBatch as damage:
        raise _refusal_for(damage) from damage
    return problems


def key_problem(record: Record) -> str | None:
    """For compacted topics: compaction keeps the last record of each key, so a record without one has no place."""
    return "a compacted topic takes no record without a key" if record.key is None else None


def rewrite_batch(
    view: memoryview, header: BatchHeader, *, codec: Codec | None, log_append_time_ms: int | None, inflate_max: int
) -> bytearray:
    """A copy of a checked batch as its topic wants it: in another codec, stamped with the time of arrival, or both.

    None leaves as it is. A max timestamp that the producer left unset is computed, unless the arrival time replaces it.
    The records are opened only to recompress them or to compute that timestamp.
    """
    try:
        max_timestamp = header.max_timestamp
        attributes = header.attributes
        if log_append_time_ms is not None:
            max_timestamp = log_append_time_ms
            attributes |= TIMESTAMP_TYPE_BIT
        elif lacks_max_timestamp(header):
            max_timestamp = max(record.timestamp for record in decode_records(view, inflate_max=inflate_max))
        if codec is None or codec == header.codec:
            batch = bytearray(view)
        else:
            body = decompress(header.codec, view[HEADER_SIZE:], inflate_max=inflate_max)
            batch = bytearray(HEADER_SIZE) + compress(codec, body)
            attributes = attributes & ~COMPRESSION_MASK | codec
    except CorruptBatch as damage:
        raise _refusal_for(damage) from damage
    changed = header._replace(length=len(batch) - LENGTH_OVERHEAD, attributes=attributes, max_timestamp=max_timestamp)
    HEADER.pack_into(batch, 0, *changed)
    seal(batch)
    return batch


def _refusal_for(damage: CorruptBatch) -> Refusal:
    # The CRC has matched before, so this is how the producer made it: sending it again would not help. A client that
    # hears "too large" may split the batch and succeed.
    code = ErrorCode.MESSAGE_TOO_LARGE if isinstance(damage, InflatesTooFar) else ErrorCode.INVALID_RECORD
    return Refusal(code, str(damage))

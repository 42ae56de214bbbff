"""What the header of a produced batch must say before it enters a log. `examination` looks at the records behind it."""

from __future__ import annotations

from crc32c import crc32c

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches.header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    crc_matches,
)
from headrace.wire.batches.records import RECORD_SIZE_MIN

_LENGTH_MIN = HEADER_SIZE - LENGTH_OVERHEAD
_OLDER_FORMATS = (0, 1)
_RESERVED_BITS = CONTROL_BIT | TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT  # only a broker sets these


def too_short(size: int) -> Refusal:
    """For what a producer sent in fewer bytes than a header has."""
    if not size:
        return Refusal(ErrorCode.INVALID_RECORD, "the records are empty; exactly one batch is expected")
    return Refusal(ErrorCode.INVALID_RECORD, f"a batch has at least {HEADER_SIZE} bytes, this one has {size}")


def check_batch(batch: memoryview, header: BatchHeader, size: int, is_zstd_allowed: bool = True) -> None:
    """Refuse what is not exactly one sound batch in these `size` bytes. Cheap first, the CRC last."""
    base_offset, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, _, count = header
    if magic != MAGIC or length + LENGTH_OVERHEAD != size or size < HEADER_SIZE:
        raise _wrong_shape(batch, header, size)
    if base_offset:
        raise Refusal(ErrorCode.INVALID_RECORD, f"the batch begins at offset {base_offset}; a producer's begins at 0")
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
    if crc32c(batch[CRC_START:]) != crc:
        raise _damaged()


def _damaged() -> Refusal:
    return Refusal(ErrorCode.CORRUPT_MESSAGE, "the batch does not match its CRC; it was damaged on its way")


def _wrong_shape(batch: memoryview, header: BatchHeader, size: int) -> Refusal:
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
    if header.size < size and not crc_matches(batch, header):
        return _damaged()
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

"""Check batches one by one, and judge what a bad one means.

A crash leaves two kinds of traces in bytes that were never flushed: the file ends early, or sectors in it were never
written and read as zeros. Anything else is damage to what was once safe, and is never cut away.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from headrace.storage.segments.scan import is_plausible
from headrace.wire.batches.header import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader, crc_matches, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.runtime.disk import ReadableFile

CHUNK_BYTES = 1 << 20  # one read in recovery and in the search for what follows a bad batch
SECTOR_BYTES = 512  # what a disk writes whole or not at all
OFFSET_LEAP_MAX = 2**31  # a segment spans no more: what claims an offset further on is no batch of this log


class BadBatch(NamedTuple):
    """Where a segment stops making sense."""

    position: int
    offset: int
    """The offset that the batch should have begun with."""
    problem: str
    is_cut_short: bool = False
    """True if the file ends where there should be more."""


class Checked(NamedTuple):
    position: int
    header: BatchHeader


def checked_batches(
    file: ReadableFile,
    position: int,
    end: int,
    next_offset: int,
    *,
    crc_from_offset: int,
    may_have_gaps: bool,
    epoch: int = -1,
) -> Iterator[Checked | BadBatch]:
    """Every batch from `position` on that is in order; a BadBatch ends it. CRCs count from `crc_from_offset` on.

    The CRC covers neither the offset nor the epoch of a batch. Their order is all that vouches for them; `epoch` is
    that of the batch before.
    """
    chunk = memoryview(b"")
    chunk_start = position
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk, chunk_start, at = memoryview(file.read(position, min(CHUNK_BYTES, end - position))), position, 0
        if len(chunk) - at < HEADER_SIZE:
            yield BadBatch(position, next_offset, "the file ends inside the header of a batch", is_cut_short=True)
            return
        header = read_header(chunk, at)
        problem = _problem(header, end - position, next_offset, epoch)
        if problem is None and header.base_offset != next_offset and not may_have_gaps:
            problem = f"the batch has offset {header.base_offset}, expected {next_offset}"
        if problem is None and header.base_offset >= crc_from_offset:
            if at + header.size > len(chunk):
                chunk, chunk_start, at = (
                    memoryview(file.read(position, max(header.size, min(CHUNK_BYTES, end - position)))),
                    position,
                    0,
                )
            if not crc_matches(chunk, header, at):
                problem = "the batch does not match its CRC"
        if problem is not None:
            is_cut_short = header.base_offset == next_offset and header.size > end - position
            yield BadBatch(position, next_offset, problem, is_cut_short)
            return
        yield Checked(position, header)
        position += header.size
        next_offset, epoch = header.next_offset, max(epoch, header.leader_epoch)


def _problem(header: BatchHeader, room: int, next_offset: int, epoch: int) -> str | None:
    if header.magic == MAGIC and header.size > room:
        return f"the batch says that it has {header.size} bytes, the file has {room} more"
    if not is_plausible(header, room):
        return "no batch begins here"
    if header.base_offset < next_offset:
        return f"the batch has offset {header.base_offset}, expected {next_offset} or more"
    if header.leader_epoch < epoch:
        return f"the batch has leader epoch {header.leader_epoch} after {epoch}"
    return None


def find_valid_batch(file: ReadableFile, position: int, end: int, offset: int) -> int | None:
    """The position of the first whole, undamaged batch with an offset from `offset` on; it may begin at any byte."""
    # A batch begins with its offset and has its format as byte 16. Few other places look like that.
    high_words = {(offset >> 32).to_bytes(4, "big"), ((offset + OFFSET_LEAP_MAX) >> 32).to_bytes(4, "big")}
    pattern = re.compile(
        b"(?=(?:" + b"|".join(map(re.escape, sorted(high_words))) + b").{12}" + bytes([MAGIC]) + b")", re.DOTALL
    )
    while position < end:
        chunk = file.read(position, CHUNK_BYTES)
        if len(chunk) < HEADER_SIZE:
            return None
        for match in pattern.finditer(chunk, 0, len(chunk)):
            if match.start() + HEADER_SIZE > len(chunk):
                break
            header = read_header(chunk, match.start())
            found = position + match.start()
            if (
                is_plausible(header, end - found)
                and offset <= header.base_offset < offset + OFFSET_LEAP_MAX
                and crc_matches(memoryview(file.read(found, header.size)), header)
            ):
                return found
        position += len(chunk) - HEADER_SIZE + 1
    return None


def is_lost_write(file: ReadableFile, position: int, end: int, offset: int) -> bool:
    """True if part of this region never reached the device: a batch with `offset` should have begun at `position`."""
    sector_end = (position // SECTOR_BYTES + 1) * SECTOR_BYTES
    rest = file.read(position, min(sector_end, end) - position)
    # The sector may be an older version of itself, from before this batch. A batch may begin with zeros, but with few.
    was_never_begun = not any(rest) and (len(rest) >= LENGTH_OVERHEAD or any(offset.to_bytes(8, "big")[: len(rest)]))
    return was_never_begun or _has_zero_sector(file, -(-position // SECTOR_BYTES) * SECTOR_BYTES, end)


def _has_zero_sector(file: ReadableFile, position: int, end: int) -> bool:
    """The file's last sector counts too, though it is shorter. But one byte does not: most batches end with a zero."""
    is_file_end = end == file.size()
    while position < end:
        chunk = file.read(position, min(CHUNK_BYTES, end - position))
        for at in range(0, len(chunk), SECTOR_BYTES):
            sector = chunk[at : at + SECTOR_BYTES]
            is_whole = len(sector) == SECTOR_BYTES or (is_file_end and len(sector) > 1)
            if is_whole and not any(sector):
                return True
        position += CHUNK_BYTES
    return False

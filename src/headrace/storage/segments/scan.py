"""Hop through a segment from header to header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.files.damage import DamagedLog
from headrace.wire.batches.header import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.runtime.disk import File, ReadableFile

HOP_BYTES = 8 * 1024  # two index intervals: small batches are many to a read, large ones waste little of it
BODY_LENGTH_MIN = HEADER_SIZE - LENGTH_OVERHEAD


def is_plausible(header: BatchHeader, room: int) -> bool:
    """Could this be a batch, in a file that has `room` bytes from here? The CRC is not looked at."""
    return (
        header.magic == MAGIC
        and BODY_LENGTH_MIN <= header.length <= room - LENGTH_OVERHEAD
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
    )


def header_at(file: ReadableFile, position: int, end: int) -> BatchHeader | None:
    """The header at `position`, if a plausible batch that ends by `end` begins there."""
    raw = file.read(position, HEADER_SIZE)
    if len(raw) < HEADER_SIZE:
        return None
    header = read_header(raw)
    return header if is_plausible(header, end - position) else None


def headers_from(
    file: File, path: str, position: int, end: int, hop_bytes: int = HOP_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Every batch's position and header from `position`, which must be a batch's, up to `end`."""
    chunk = b""
    chunk_start = position
    next_offset = -1
    while position < end:
        if position + HEADER_SIZE > chunk_start + len(chunk):
            chunk_start = position
            chunk = file.read(position, min(hop_bytes, end - position))
        if position + HEADER_SIZE > chunk_start + len(chunk):
            raise DamagedLog(path, position, next_offset, "the file ends inside the header of a batch")
        header = read_header(chunk, position - chunk_start)
        if not is_plausible(header, end - position) or header.base_offset < next_offset:
            raise DamagedLog(path, position, next_offset, "no batch begins here, expected one")
        yield position, header
        position += header.size
        next_offset = header.next_offset

"""What is cut off a log although it was committed is kept beside it, for a human to look at."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from headrace.storage.files import layout
from headrace.storage.integrity.verify import CHUNK_BYTES
from headrace.storage.segments.scan import headers_from
from headrace.storage.segments.segment import REBUILD_HOP_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.disk import Disk, File

CUTS_KEPT = 4  # copies of removed bytes per partition: enough to look at, not enough to fill the disk


class CutSegment(NamedTuple):
    """A segment of which something is to be cut off."""

    path: str
    base_offset: int
    size: int


def keep_tail(disk: Disk, directory: str, segments: Sequence[CutSegment], offset: int) -> list[str]:
    """Copies of everything from `offset` on, and where they are; durable. The newest few stay. Blocks."""
    kept = []
    for segment in segments:
        file = disk.open(segment.path)
        try:
            position = _position_of(file, segment, offset)
            if position < segment.size:
                path = layout.stem(directory, max(offset, segment.base_offset)) + layout.CUT
                copy_bytes(disk, file, position, path)
                kept.append(path)
        finally:
            file.close()
    older = [name for name in disk.list(directory) if name.endswith(layout.CUT) and f"{directory}/{name}" not in kept]
    for name in older[: max(0, len(older) + len(kept) - CUTS_KEPT)]:
        disk.remove(f"{directory}/{name}")
    disk.sync_directory(directory)
    return kept


def _position_of(file: File, segment: CutSegment, offset: int) -> int:
    """Where the first batch begins that holds something from `offset` on."""
    if segment.base_offset >= offset:
        return 0
    for position, header in headers_from(file, segment.path, 0, segment.size, REBUILD_HOP_BYTES):
        if header.last_offset >= offset:
            return position
    return segment.size


def copy_bytes(disk: Disk, source: File, position: int, path: str) -> None:
    disk.remove(path)
    target = disk.open(path, create=True)
    try:
        while chunk := source.read(position, CHUNK_BYTES):
            if target.append([chunk]) < len(chunk):
                raise OSError(errno.ENOSPC, f"there is no space to keep what must be cut off, in {path}")
            position += len(chunk)
        target.sync()
    finally:
        target.close()

"""Writing index files: whole, or what was added at the end, or cut shorter."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure
from headrace.storage.files.disk_errors import NO_SPACE

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk
    from headrace.storage.segments.index import OffsetIndex, TimeIndex

NO_FILE = -1  # saved entries of an index whose file is not there, or is to be written anew


class BadIndex(Exception):
    """An index entry does not point at the batch it names."""


def save_index(disk: Disk, path: str, index: OffsetIndex | TimeIndex, saved: int, entry_bytes: int) -> bool:
    try:
        if saved == NO_FILE:
            disk.write_file(path, index.encode())
        elif saved != len(index):
            extend(disk, path, saved * entry_bytes, index.encode(saved))
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise DiskFailure(f"the disk refused to write {path}: {error}") from error
        disk.remove(path)  # none is better than a part of one: it will be missed, and rebuilt
        return False
    return True


def cut_file(disk: Disk, path: str, size: int) -> None:
    """Blocking; durable when it returns."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return
    try:
        file.truncate(min(size, file.size()))
        file.sync()  # or a power cut brings the rest back, and a start believes what is below the recovery point
    except OSError as error:
        raise DiskFailure(f"the disk refused to cut {path}: {error}") from error
    finally:
        file.close()


def extend(disk: Disk, path: str, size: int, tail: bytes) -> None:
    file = disk.open(path, create=True)
    try:
        if file.size() != size:
            file.truncate(min(size, file.size()))
        if file.size() < size or file.append([tail]) < len(tail):
            raise OSError(errno.ENOSPC, "no space for an index entry")
    finally:
        file.close()

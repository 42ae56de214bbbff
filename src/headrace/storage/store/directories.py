"""A log's directory as a whole: removed, kept aside, or replaced by an empty one. Everything here blocks.

Whatever stops a step, the next start finds each of them whole or gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure
from headrace.storage.files import layout

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk

ROOM_FOR_BOTH = 2  # a damaged copy is kept only if its successor, and as much again of other logs, still fits


def remove_directory(disk: Disk, directory: str) -> None:
    try:
        if disk.exists(directory):
            disk.rename(directory, directory + layout.DELETED)  # whole or gone, should we crash in the middle
            disk.remove_directory(directory + layout.DELETED)
    except OSError as error:
        raise DiskFailure(f"the disk refused to remove {directory}: {error}") from error


def make_successor(disk: Disk, directory: str) -> None:
    """An empty directory, on the disk before the log goes whose place it will take. By it a start knows that nothing
    else took the log away."""
    disk.make_directory(directory + layout.ANEW)
    disk.sync_directory(layout.TOPICS)


def put_successor(disk: Disk, directory: str, *, is_kept: bool) -> bool:
    """In place of the old one. True if that is kept beside it."""
    is_aside = is_kept and _set_damaged_aside(disk, directory)
    remove_directory(disk, directory)
    try:
        disk.rename(directory + layout.ANEW, directory)
        disk.sync_directory(layout.TOPICS)
    except OSError as error:
        raise DiskFailure(f"the disk refused to replace {directory}: {error}") from error
    return is_aside


def put_successors_left(disk: Disk) -> None:
    """At a start: logs that were about to begin anew are there again, as they were or empty."""
    for name in disk.list(layout.TOPICS):
        if not name.endswith(layout.ANEW):
            continue
        successor = f"{layout.TOPICS}/{name}"
        if disk.exists(directory := successor.removesuffix(layout.ANEW)):
            disk.remove_directory(successor)
        else:
            disk.rename(successor, directory)
        disk.sync_directory(layout.TOPICS)


def _set_damaged_aside(disk: Disk, directory: str) -> bool:
    """False if there is no room for it beside its successor. Or if it holds nothing: then what was set aside before
    stays, for its successor did not come to be."""
    damaged = directory + layout.DAMAGED
    sizes = {name: _size_of(disk, f"{directory}/{name}") for name in disk.list(directory)}
    if not any(size for name, size in sizes.items() if name.endswith((layout.LOG, layout.CUT))):
        return False
    remove_directory(disk, damaged)
    if disk.free_bytes() < sum(sizes.values()) * ROOM_FOR_BOTH:
        return False
    try:
        disk.rename(directory, damaged)
    except OSError as error:
        raise DiskFailure(f"the disk refused to rename {directory}: {error}") from error
    return True


def _size_of(disk: Disk, path: str) -> int:
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()

"""A cleaned segment replaces those that it was made from. A crash at any step leaves the old ones or the new.

    1. The cleaned log is flushed under a name for now.                          A start removes it.
    2. That name is flushed, then an empty file `base-end.swap` is made, too.    A start goes on from here:
    3. The cleaned log takes the name of the first old one, in one turn of the
       event loop in which the log in memory changes too.
    4. The other old files go, and that is flushed.
    5. The swap file goes, and that is flushed.

What stays may need more room than before, and then makes two segments or more; the swap file's name lists them all.

Steps 3 and 4 may be lost in part, or in any order; doing them again ends in the same. Readers that hold an old file
read it to its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.storage.files import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.disk import Disk


class NewSegment(NamedTuple):
    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CleanedRun:
    """Files beside the log hold, flushed, what stays of one or more of its segments, which are neighbours."""

    segments: tuple[NewSegment, ...]
    """One, unless what stays has outgrown it."""
    end_offset: int
    """Where the last of the segments that they replace ends (exclusive)."""
    source_count: int

    @property
    def base_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def bounds(self) -> tuple[int, ...]:
        """Where each of the new segments begins, and where the last one ends."""
        return (*(segment.base_offset for segment in self.segments), self.end_offset)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


_INDEXES = (layout.INDEX, layout.TIME_INDEX)


def promise(disk: Disk, directory: str, cleaned: CleanedRun) -> None:
    """Step 2, in a thread: from now on the old segments are as good as gone.

    The names of the cleaned files come first, and are flushed here: a disk that fails to do so ends the node, which the
    cleaner could not.
    """
    disk.sync_directory(directory)
    disk.write_file(_swap_path(directory, cleaned), b"")
    disk.sync_directory(directory)


def take_place(disk: Disk, directory: str, cleaned: CleanedRun) -> None:
    """Step 3, on the loop: names change, and no file is removed that has bytes to free."""
    for stem in _stems(directory, cleaned.bounds):
        if disk.exists(stem + layout.LOG):
            disk.rename(stem + layout.LOG, stem + layout.LOG + layout.DELETED)
        disk.rename(stem + layout.LOG + layout.CLEANED, stem + layout.LOG)
        for ending in _INDEXES:
            disk.rename(stem + ending + layout.CLEANED, stem + ending)
        disk.remove(stem + layout.ABORTED)  # nothing is left of an aborted transaction, so nobody must be told of it


def conclude(disk: Disk, directory: str, cleaned: CleanedRun) -> None:
    """Steps 4 and 5, in a thread."""
    _remove_replaced(disk, directory, disk.list(directory), cleaned.bounds)
    for stem in _stems(directory, cleaned.bounds):
        disk.remove(stem + layout.LOG + layout.DELETED)
    disk.sync_directory(directory)
    disk.remove(_swap_path(directory, cleaned))
    disk.sync_directory(directory)


def discard(disk: Disk, directory: str, cleaned: CleanedRun) -> None:
    """In a thread: the log changed meanwhile, and this is not wanted any more. The promise goes first."""
    disk.remove(_swap_path(directory, cleaned))
    disk.sync_directory(directory)
    for stem in _stems(directory, cleaned.bounds):
        for ending in (layout.LOG, *_INDEXES):
            disk.remove(stem + ending + layout.CLEANED)


def remove_unused(disk: Disk, directory: str) -> None:
    """In a thread, while no replacement is under way: remove what a pass wrote that was ended before its time."""
    for name in disk.list(directory):
        if name.endswith(layout.CLEANED):
            disk.remove(f"{directory}/{name}")


def complete_replacements(disk: Disk, directory: str) -> list[tuple[int, int]]:
    """At start: do what was promised. The base and end of each."""
    names = disk.list(directory)
    promised = [bounds for name in names if (bounds := layout.bounds_in_swap(name)) is not None]
    for bounds in promised:
        for stem in _stems(directory, bounds):
            for ending in (*_INDEXES, layout.ABORTED):
                disk.remove(stem + ending)
            if disk.exists(stem + layout.LOG + layout.CLEANED):
                disk.rename(stem + layout.LOG + layout.CLEANED, stem + layout.LOG)
        _remove_replaced(disk, directory, names, bounds)
        disk.sync_directory(directory)
        disk.remove(f"{directory}/{layout.swap_name(bounds)}")
        disk.sync_directory(directory)
    return [(bounds[0], bounds[-1]) for bounds in promised]


def _remove_replaced(disk: Disk, directory: str, names: list[str], bounds: Sequence[int]) -> None:
    """Also every snapshot of producers from before the end: it may know a transaction whose marker is gone by now, and
    would have a replay from there on take it for open. From the log's beginning a replay meets nothing of it."""
    for name in names:
        offset = layout.offset_in(name, layout.SNAPSHOT)
        if offset is not None and offset < bounds[-1]:
            disk.remove(f"{directory}/{name}")
    for ending in (layout.LOG, *_INDEXES, layout.ABORTED):
        for name in names:
            offset = layout.offset_in(name, ending)
            if offset is not None and bounds[0] < offset < bounds[-1] and offset not in bounds:
                disk.remove(f"{directory}/{name}")


def _stems(directory: str, bounds: Sequence[int]) -> list[str]:
    """Of the new segments."""
    return [layout.stem(directory, base_offset) for base_offset in bounds[:-1]]


def _swap_path(directory: str, cleaned: CleanedRun) -> str:
    return f"{directory}/{layout.swap_name(cleaned.bounds)}"

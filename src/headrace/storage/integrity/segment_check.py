"""Read a segment that is in use, and see whether its bytes are still those that were written.

Everything here blocks, runs in a thread and opens the file for itself. What is read has been published. It may
still be cut off, or be compacted and replaced; whoever asked has to see whether that happened meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.runtime.disk import ReadFault
from headrace.storage.files.damage import DamagedRange
from headrace.storage.integrity.batch_walk import BatchWalk, FileWithBadBlocks, Skipped

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk, ReadableFile
    from headrace.storage.segments.segment_span import SegmentSpan

BAD_BLOCKS_MAX: Final = 64  # in one segment: a device that is dying takes seconds for each


class SegmentCheck:
    def __init__(self, disk: Disk, span: SegmentSpan) -> None:
        self.damaged: list[DamagedRange] = []
        self.is_gone = False
        """The file was removed meanwhile."""
        self._disk = disk
        self._span = span
        self._walk = BatchWalk(
            span.base_offset,
            span.size,
            lost_until=span.end_offset,
            end_offset=span.end_offset,
            may_have_gaps=span.may_have_gaps,
        )

    @property
    def position(self) -> int:
        """How far it is checked."""
        return self._walk.position

    def step(self, max_bytes: int) -> int:
        """Check about so many bytes more; how many it was. 0 at the end."""
        before = self.position
        if before >= self._span.size:
            return 0
        try:
            file = self._disk.open(self._span.path)
        except FileNotFoundError:
            self.is_gone = True
            return 0
        except ReadFault as fault:
            return self._give_up(fault)
        try:
            if before == 0 and self._span.is_synced:
                file.forget_cached()  # what memory shows says nothing about the device
            self._read_on(file, min(before + max_bytes, self._span.size))
            if self.position >= self._span.size and self._span.is_synced and self._span.segment.is_sealed:
                file.forget_cached()  # memory is for those who read because they need it
        except ReadFault as fault:
            return self._give_up(fault)
        finally:
            file.close()
        return self.position - before

    def _give_up(self, fault: ReadFault) -> int:
        """The rest cannot be read."""
        walk, span = self._walk, self._span
        position, first = walk.position, walk.next_offset
        end_offset = max(span.end_offset, first + 1)
        self.damaged.append(DamagedRange(span.path, position, first, end_offset, _unreadable(fault.words)))
        walk.begin_at(span.size, end_offset)
        return span.size - position

    def _read_on(self, file: ReadableFile, until: int) -> None:
        """An operator wants to know all that is damaged, so the walk goes on behind it."""
        for found in self._walk.run(FileWithBadBlocks(file, self._walk.unreadable, bad_blocks_max=BAD_BLOCKS_MAX)):
            if isinstance(found, Skipped):
                problem = found.problem if found.unreadable is None else _unreadable(found.unreadable)
                where = (self._span.path, found.position, found.first_offset, found.end_offset)
                self.damaged.append(DamagedRange(*where, problem))
            if self.position >= until:
                return


def _unreadable(words: str) -> str:
    return f"the disk cannot read it: {words}"

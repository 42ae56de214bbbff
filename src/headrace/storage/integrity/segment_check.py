"""Read a segment that is in use, and see whether its bytes are still those that were written.

Everything here blocks, runs in a thread and opens the file for itself. What is read has been published. It may
still be cut off, or be compacted and replaced; whoever asked has to see whether that happened meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.runtime.disk import ReadFault
from headrace.storage.files.damage import DamagedRange
from headrace.storage.integrity.verify import BadBatch, checked_batches, find_valid_batch
from headrace.storage.segments.scan import header_at

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk, File, ReadableFile
    from headrace.storage.segments.segment_span import SegmentSpan

BLOCK_BYTES: Final = 4096  # what a device of today reads whole or not at all
HOLES_MAX: Final = 64  # in one segment: a device that is dying takes seconds for each


class SegmentCheck:
    def __init__(self, disk: Disk, span: SegmentSpan) -> None:
        self.damaged: list[DamagedRange] = []
        self.is_gone = False
        """The file was removed meanwhile."""
        self.position = 0
        self._disk = disk
        self._span = span
        self._next_offset = span.base_offset
        self._holes: dict[int, str] = {}
        """Where a block cannot be read, and how the device puts it."""
        self._epoch = -1

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
            self._read_on(_Holed(file, self._holes), min(before + max_bytes, self._span.size))
            if self.position >= self._span.size and self._span.is_synced and self._span.segment.is_sealed:
                file.forget_cached()  # memory is for those who read because they need it
        except ReadFault as fault:
            return self._give_up(fault)
        finally:
            file.close()
        return self.position - before

    def _give_up(self, fault: ReadFault) -> int:
        """The rest cannot be read."""
        rest = self._span.size - self.position
        self._note(self.position, self._span.end_offset, _unreadable(fault.words))
        self.position = self._span.size
        return rest

    def _read_on(self, file: ReadableFile, until: int) -> None:
        while self.position < until:
            batches = checked_batches(
                file,
                self.position,
                self._span.size,
                self._next_offset,
                crc_from_offset=0,
                may_have_gaps=self._span.may_have_gaps,
                epoch=self._epoch,
            )
            for found in batches:
                if isinstance(found, BadBatch):
                    self._skip(file, found)
                    break
                header = found.header
                self.position = found.position + header.size
                self._next_offset, self._epoch = header.next_offset, max(self._epoch, header.leader_epoch)
                if self.position >= until:
                    return

    def _skip(self, file: ReadableFile, bad: BadBatch) -> None:
        """Go on where a batch is whole again: an operator wants to know all that is damaged."""
        end = min(file.size(), self._span.size)
        valid_at = find_valid_batch(file, bad.position + 1, end, bad.offset)
        header = None if valid_at is None else header_at(file, valid_at, end)
        problem = self._problem(bad, end if valid_at is None else valid_at)
        if valid_at is None or header is None or header.base_offset >= self._span.end_offset:
            self._note(bad.position, self._span.end_offset, problem)
            self.position = self._span.size
            return
        self._note(bad.position, max(header.base_offset, bad.offset + 1), problem)
        self.position, self._next_offset, self._epoch = valid_at, header.base_offset, -1

    def _problem(self, bad: BadBatch, bad_end: int) -> str:
        """Why it is bad: what the device could not read was taken for zeros."""
        for position, words in self._holes.items():
            if bad.position < position + BLOCK_BYTES and position < bad_end:
                return _unreadable(words)
        return bad.problem

    def _note(self, position: int, end_offset: int, problem: str) -> None:
        end_offset = max(end_offset, self._next_offset + 1)  # more may be on the device than anybody was told
        self.damaged.append(DamagedRange(self._span.path, position, self._next_offset, end_offset, problem))


class _Holed:
    """A file that the device cannot read all of: where it cannot, there are zeros. A bad sector takes the batches with
    it that it holds, and no others."""

    def __init__(self, file: File, holes: dict[int, str]) -> None:
        self._file = file
        self._holes = holes

    def size(self) -> int:
        return self._file.size()

    def read(self, position: int, size: int) -> bytes:
        try:
            return self._file.read(position, size)
        except ReadFault:
            end = min(position + size, self._file.size())
        return b"".join(map(self._block, *_blocks(position, end)))

    def _block(self, position: int, size: int) -> bytes:
        try:
            return self._file.read(position, size)
        except ReadFault as fault:
            if len(self._holes) >= HOLES_MAX:
                raise
            self._holes[position // BLOCK_BYTES * BLOCK_BYTES] = fault.words
            return bytes(size)


def _blocks(position: int, end: int) -> tuple[list[int], list[int]]:
    """Where each block of these bytes begins, and how much of it there is."""
    starts = [position, *range((position // BLOCK_BYTES + 1) * BLOCK_BYTES, end, BLOCK_BYTES)]
    return starts, [stop - start for start, stop in zip(starts, [*starts[1:], end], strict=True)]


def _unreadable(words: str) -> str:
    return f"the disk cannot read it: {words}"

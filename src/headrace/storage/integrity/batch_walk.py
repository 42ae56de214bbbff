"""All whole batches of a segment: where its bytes make no sense the walk goes on with the next batch that is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.runtime.disk import ReadFault
from headrace.storage.integrity.verify import BadBatch, Checked, checked_batches, find_valid_batch
from headrace.storage.segments.scan import header_at

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from headrace.runtime.disk import ReadableFile

BLOCK_BYTES: Final = 4096  # what a device of today reads whole or not at all


class Skipped(NamedTuple):
    """Bytes that make no sense."""

    position: int
    first_offset: int
    end_offset: int
    """Exclusive: the next whole batch begins there, or what is missing at the end is counted up to there."""
    problem: str
    unreadable: str | None
    """How the device puts it, if it could not read some of them."""
    is_end: bool
    """No whole batch follows."""


class BatchWalk:
    """It may rest after each step: `run` goes on where it was, with another handle of the file if need be."""

    def __init__(
        self, next_offset: int, size: int, *, lost_until: int, end_offset: int | None = None, may_have_gaps: bool
    ) -> None:
        """`lost_until`: up to where (exclusive) the offsets are missing if no whole batch follows what is bad.
        `end_offset`: no batch of the segment has this offset or a later one; None if that is not known."""
        self.position = 0
        self.next_offset = next_offset
        self.unreadable: dict[int, str] = {}
        """Where a block cannot be read, and how the device puts it."""
        self._size = size
        self._lost_until = lost_until
        self._end_offset = end_offset
        self._may_have_gaps = may_have_gaps
        self._epoch = -1

    def begin_at(self, position: int, offset: int) -> None:
        """Pass over what comes before this batch."""
        self.position, self.next_offset = position, offset

    def run(self, file: ReadableFile) -> Iterator[Checked | Skipped]:
        while self.position < self._size:
            bad = yield from self._whole_ones(file)
            if bad is not None:
                yield self._skip(file, bad)

    def _whole_ones(self, file: ReadableFile) -> Generator[Checked, None, BadBatch | None]:
        """Batches up to a bad one, which is returned; or to the end."""
        batches = checked_batches(
            file,
            self.position,
            self._size,
            self.next_offset,
            crc_from_offset=0,
            may_have_gaps=self._may_have_gaps,
            epoch=self._epoch,
        )
        for found in batches:
            if isinstance(found, BadBatch):
                return found
            header = found.header
            self.position = found.position + header.size
            self.next_offset, self._epoch = header.next_offset, max(self._epoch, header.leader_epoch)
            yield found
        return None

    def _skip(self, file: ReadableFile, bad: BadBatch) -> Skipped:
        """Go on where a batch is whole again."""
        first, end = self.next_offset, min(file.size(), self._size)
        valid_at = find_valid_batch(file, bad.position + 1, end, first)
        header = None if valid_at is None else header_at(file, valid_at, end)
        words = self._words_within(bad.position, end if valid_at is None else valid_at)
        if valid_at is None or header is None or self._is_beyond(header.base_offset):
            lost_until = max(self._lost_until, first + 1)  # more may be on the device than anybody was told
            self.position, self.next_offset = self._size, lost_until
            return Skipped(bad.position, first, lost_until, bad.problem, words, is_end=True)
        self.position, self.next_offset, self._epoch = valid_at, header.base_offset, -1
        return Skipped(bad.position, first, max(header.base_offset, first + 1), bad.problem, words, is_end=False)

    def _is_beyond(self, offset: int) -> bool:
        return self._end_offset is not None and offset >= self._end_offset

    def _words_within(self, position: int, end: int) -> str | None:
        """What the device could not read was taken for zeros."""
        unreadable = self.unreadable.items()
        return next((words for at, words in unreadable if position < at + BLOCK_BYTES and at < end), None)


class FileWithBadBlocks:
    """A file that the device cannot read all of: where it cannot, there are zeros. A bad sector takes the batches with
    it that it holds, and no others."""

    def __init__(self, file: ReadableFile, unreadable: dict[int, str], *, bad_blocks_max: int | None = None) -> None:
        """`unreadable` is filled with the blocks that cannot be read. A ReadFault if they are more than the most."""
        self._file = file
        self._unreadable = unreadable
        self._bad_blocks_max = bad_blocks_max

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
            if self._bad_blocks_max is not None and len(self._unreadable) >= self._bad_blocks_max:
                raise
            self._unreadable[position // BLOCK_BYTES * BLOCK_BYTES] = fault.words
            return bytes(size)


def _blocks(position: int, end: int) -> tuple[list[int], list[int]]:
    """Where each block of these bytes begins, and how much of it there is."""
    starts = [position, *range((position // BLOCK_BYTES + 1) * BLOCK_BYTES, end, BLOCK_BYTES)]
    return starts, [stop - start for start, stop in zip(starts, [*starts[1:], end], strict=True)]

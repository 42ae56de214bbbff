"""What was fetched from one partition and not yet handed out."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches import HEADER_SIZE, CorruptBatch, read_header
from headrace.wire.records import decode_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.model.names import TopicPartition
    from headrace.wire.batches import BatchHeader
    from headrace.wire.records import Record

INFLATE_MAX = 256 << 20  # one batch, unfolded; brokers allow 100 MB requests and codecs rarely gain more than this


class PartitionBuffer:
    """Keeps batches as they came and opens them one by one, as their records are asked for."""

    __slots__ = (
        "_batches",
        "_next_offset_after",
        "_opened",
        "buffered_bytes",
        "end",
        "fetch_offset",
        "name",
        "position",
    )

    def __init__(self, name: TopicPartition, start: int, end: int | None = None) -> None:
        """Reads from offset `start` on; up to `end`, which is exclusive, if it is given."""
        self.name = name
        self.position = start
        """The next offset to hand out."""
        self.fetch_offset = start
        """The next offset to ask the node for."""
        self.end = end
        self.buffered_bytes = 0
        self._batches: deque[memoryview] = deque()
        self._opened: Iterator[Record] | None = None
        self._next_offset_after = start

    @property
    def is_empty(self) -> bool:
        return self._opened is None and not self._batches

    @property
    def is_finished(self) -> bool:
        """True if everything up to the end was handed out."""
        return self.end is not None and self.position >= self.end

    @property
    def is_fetched(self) -> bool:
        """True if nothing more has to be asked for."""
        return self.end is not None and self.fetch_offset >= self.end

    def add(self, records: memoryview) -> None:
        """Take the batches of an answer. The last may be cut short; it comes again, whole, with the next fetch."""
        start = 0
        while len(records) - start >= HEADER_SIZE:
            header = read_header(records, start)
            if header.length < HEADER_SIZE - 12:
                raise self._damaged(header.base_offset, "it says that it is shorter than its own header")
            if start + header.size > len(records):
                break
            if header.next_offset > self.fetch_offset:
                self._batches.append(records[start : start + header.size])
                self.buffered_bytes += header.size
                self.fetch_offset = header.next_offset
            start += header.size

    def take(self, count: int) -> list[Record]:
        """Up to `count` records, in order. May be empty though the buffer is not: markers are passed over."""
        taken: list[Record] = []
        while len(taken) < count and not self.is_finished:
            if self._opened is None and not self._open_next():
                break
            assert self._opened is not None
            wanted = count - len(taken)
            fresh = self._read(wanted)
            taken += fresh
            if len(fresh) < wanted:
                self._opened = None
                self.position = max(self.position, self._next_offset_after)
        if self.is_finished:
            self.drop()
        return taken

    def drop(self) -> None:
        """Throw away what is buffered; the next fetch starts at the position."""
        self._batches.clear()
        self._opened = None
        self.buffered_bytes = 0
        self.fetch_offset = self.position

    def seek(self, offset: int) -> None:
        self.position = offset
        self.drop()

    def _read(self, wanted: int) -> list[Record]:
        assert self._opened is not None
        try:
            fresh = list(islice(self._opened, wanted))
        except CorruptBatch as damage:
            raise self._damaged(self.position, str(damage)) from damage
        if fresh:
            if self.end is not None and fresh[-1].offset >= self.end:
                fresh = [record for record in fresh if record.offset < self.end]
                self.position = self.end
            else:
                self.position = fresh[-1].offset + 1
        return fresh

    def _open_next(self) -> bool:
        if not self._batches:
            return False
        batch = self._batches.popleft()
        self.buffered_bytes -= len(batch)
        header = read_header(batch)
        self._next_offset_after = header.next_offset
        self._opened = iter(()) if header.is_control else self._records(batch, header)
        return True

    def _records(self, batch: memoryview, header: BatchHeader) -> Iterator[Record]:
        try:
            records = decode_records(batch, inflate_max=INFLATE_MAX)
        except CorruptBatch as damage:
            raise self._damaged(header.base_offset, str(damage)) from damage
        if header.base_offset >= self.position:
            return records
        # A fetch from the middle of a batch brings the whole batch.
        first = self.position
        return (record for record in records if record.offset >= first)

    def _damaged(self, offset: int, reason: str) -> Refusal:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, f"the batch of {self.name} at offset {offset} is damaged: {reason}")

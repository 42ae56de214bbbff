"""What was fetched from one partition and not yet handed out."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches.header import HEADER_SIZE, CorruptBatch, read_header
from headrace.wire.batches.records import ControlType, control_type, decode_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.model.names import TopicPartition
    from headrace.wire.batches.header import BatchHeader
    from headrace.wire.batches.records import Record
    from headrace.wire.messages.fetch import AbortedTransaction

OFFSET_MAX = 2**63 - 1  # no fetch can ask for the one after it
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
        self._batches: deque[tuple[memoryview, bool]] = deque()  # and whether it is to be seen
        self._opened: Iterator[Record] | None = None
        self._next_offset_after = start

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to hand out."""
        return self._opened is None and not self._batches

    @property
    def is_finished(self) -> bool:
        """True if everything up to the end was handed out."""
        return self.end is not None and self.position >= self.end

    @property
    def is_fetched(self) -> bool:
        """True if nothing more has to be asked for."""
        return self.end is not None and self.fetch_offset >= self.end

    def add(self, records: memoryview, aborted: Sequence[AbortedTransaction] | None = None) -> None:
        """Take the batches of an answer. The last may be cut short; it comes again, whole, with the next fetch.

        `aborted` are the transactions that came to nothing, if only what was committed is to be seen.
        """
        sieve = TransactionSieve(aborted or ())
        asked_for = self.fetch_offset
        start = 0
        while len(records) - start >= HEADER_SIZE:
            header = read_header(records, start)
            if header.length < HEADER_SIZE - 12:
                raise self._damaged(header.base_offset, "it says that it is shorter than its own header")
            if not 0 <= header.base_offset <= header.last_offset < OFFSET_MAX:
                raise self._damaged(header.base_offset, f"it says that it ends at offset {header.last_offset}")
            if start + header.size > len(records):
                break
            batch = records[start : start + header.size]
            try:
                is_seen = sieve.lets_through(header, batch)
            except CorruptBatch as damage:
                raise self._damaged(header.base_offset, str(damage)) from damage
            if header.next_offset > self.fetch_offset:
                self._batches.append((batch, is_seen))
                self.buffered_bytes += header.size
                self.fetch_offset = header.next_offset
            start += header.size
        # A node sends at least one whole batch with what was asked for, or nothing. Whoever asked it again would hear
        # the same for ever.
        if self.fetch_offset == asked_for and records:
            raise Refusal(
                ErrorCode.CORRUPT_MESSAGE,
                f"{self.name} was to be read from offset {asked_for}, and what came instead ends before it",
            )

    def take(self, count: int) -> list[Record]:
        """Up to `count` records, in order. May be empty though the buffer is not: markers are passed over.

        Refusal if the next one is damaged; then it is asked for again. What lies before the damage is given first.
        """
        taken: list[Record] = []
        try:
            self._take_into(taken, count)
        except Refusal:
            self.drop()
            if not taken:
                raise
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
        """Go on at another offset. What is buffered is thrown away."""
        self.position = offset
        self.drop()

    def _take_into(self, taken: list[Record], count: int) -> None:
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
        batch, is_seen = self._batches.popleft()
        self.buffered_bytes -= len(batch)
        header = read_header(batch)
        self._next_offset_after = header.next_offset
        self._opened = self._records(batch, header) if is_seen else iter(())
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


class TransactionSieve:
    """Tells which batches of one answer are to be seen: no markers, and nothing of an aborted transaction.

    The list of aborted transactions says where each begins. It ends with its marker; what the same producer writes
    after that belongs to another transaction.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._to_come = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._producers: set[int] = set()  # those inside an aborted transaction

    def lets_through(self, header: BatchHeader, batch: memoryview) -> bool:
        """Asked of every batch, in the order of the log."""
        while self._to_come and self._to_come[0].first_offset <= header.last_offset:
            self._producers.add(self._to_come.popleft().producer_id)
        if header.is_control:
            if header.producer_id in self._producers and _marks_abort(batch):
                self._producers.remove(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._producers)


def _marks_abort(batch: memoryview) -> bool:
    markers = decode_records(batch, inflate_max=INFLATE_MAX)
    return any(control_type(marker) is ControlType.ABORT for marker in markers)

"""Read what is left of a damaged log: every whole batch, and where bytes are lost.

Nothing is opened for serving, so nothing has to be in order. The disk may be one that is only looked at
(`OverlayDisk`); a compaction that a crash has interrupted is completed on it, as a start would do it.
Everything here blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.names import NO_EPOCH, Epoch
from headrace.replication.open_transactions import OpenTransactions
from headrace.runtime.disk import ReadFault
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.cleaner_checkpoint import load_cleaner_checkpoint
from headrace.storage.files.damage import DamagedRange
from headrace.storage.integrity.batch_walk import BatchWalk, FileWithBadBlocks, Skipped
from headrace.storage.integrity.verify import Checked
from headrace.storage.segments.index_files import BadIndex
from headrace.storage.segments.replacement import complete_replacements
from headrace.storage.segments.scan import header_at
from headrace.storage.segments.segment import Segment
from headrace.wire.batches.header import BatchHeader, CorruptBatch
from headrace.wire.batches.markers import decode_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.replication.open_transactions import EndedTransaction
    from headrace.runtime.disk import Disk


class FoundSegment(NamedTuple):
    base_offset: int
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log's files as they lie there."""

    directory: str
    segments: tuple[FoundSegment, ...]
    start_offset: int
    safe_offset: int
    """Up to where it was once known to be flushed: nothing below is what a crash has torn."""
    may_have_gaps: bool

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


class WholeBatch(NamedTuple):
    path: str
    position: int
    header: BatchHeader
    content: bytes


class TornEnd(NamedTuple):
    """The log ends in bytes that make no sense, behind all that is known to have been flushed: what a crash leaves. A
    start cuts them."""

    path: str
    position: int
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.path} is torn from byte {self.position} on (offset {self.offset}): {self.size} bytes"


def find_log(disk: Disk, directory: str, start_offset: int = 0, safe_offset: int = 0) -> FoundLog:
    """`start_offset` and `safe_offset` as the checkpoints say."""
    complete_replacements(disk, directory)
    names = disk.list(directory)
    bases = sorted(base for name in names if (base := layout.offset_in(name, layout.LOG)) is not None)
    while len(bases) > 1 and bases[1] <= start_offset:
        bases.pop(0)  # deleted records; a crash came before their files were removed
    segments = tuple(_found(disk, directory, base) for base in bases)
    start_offset = max(start_offset, bases[0]) if bases else start_offset
    return FoundLog(
        directory, segments, start_offset, safe_offset, load_cleaner_checkpoint(disk, directory) is not None
    )


def _found(disk: Disk, directory: str, base_offset: int) -> FoundSegment:
    path = layout.stem(directory, base_offset) + layout.LOG
    file = disk.open(path)
    try:
        return FoundSegment(base_offset, path, file.size())
    finally:
        file.close()


def whole_batches(
    disk: Disk, log: FoundLog, on_read: Callable[[int], None] = lambda _: None
) -> Iterator[WholeBatch | DamagedRange | TornEnd]:
    """All of a log in its order. Where bytes make no sense it goes on with the next batch that is whole. `on_read`
    hears how many bytes were gone through."""
    next_offset = log.segments[0].base_offset if log.segments else log.start_offset
    for number, segment in enumerate(log.segments):
        if segment.base_offset > next_offset and not log.may_have_gaps:
            yield DamagedRange(segment.path, 0, next_offset, segment.base_offset, "what came before it is missing")
        next_offset = max(next_offset, segment.base_offset)
        follower = log.segments[number + 1] if number + 1 < len(log.segments) else None
        reader = _SegmentReader(log, segment, next_offset, None if follower is None else follower.base_offset)
        yield from reader.run(disk, on_read)
        next_offset = reader.walk.next_offset
    yield from _missing_end(log, next_offset)


def _missing_end(log: FoundLog, next_offset: int) -> Iterator[DamagedRange]:
    if next_offset < log.safe_offset and log.start_offset < log.safe_offset:
        path, size = (log.segments[-1].path, log.segments[-1].size) if log.segments else (log.directory, 0)
        yield DamagedRange(path, size, next_offset, log.safe_offset, "the log ends here, and was once longer")


class _SegmentReader:
    """One segment from its first byte to its last. `end_offset` is where the next one begins; None for the last."""

    def __init__(self, log: FoundLog, segment: FoundSegment, next_offset: int, end_offset: int | None) -> None:
        self._log = log
        self._segment = segment
        self._is_last = end_offset is None
        lost_until = log.safe_offset if end_offset is None else end_offset
        self.walk = BatchWalk(next_offset, segment.size, lost_until=lost_until, may_have_gaps=log.may_have_gaps)

    def run(self, disk: Disk, on_read: Callable[[int], None]) -> Iterator[WholeBatch | DamagedRange | TornEnd]:
        path = self._segment.path
        opened = disk.open(path)
        try:
            file = FileWithBadBlocks(opened, self.walk.unreadable)
            for found in self.walk.run(file):
                if isinstance(found, Checked):
                    on_read(found.header.size)
                    yield WholeBatch(path, found.position, found.header, file.read(found.position, found.header.size))
                else:
                    yield self._missing(found)
                    on_read(self.walk.position - found.position)
        finally:
            opened.close()

    def _missing(self, skipped: Skipped) -> DamagedRange | TornEnd:
        path, position, first = self._segment.path, skipped.position, skipped.first_offset
        is_torn = skipped.is_end and self._is_last and skipped.unreadable is None and first >= self._log.safe_offset
        if is_torn:
            self.walk.next_offset = first  # nothing is missing: the log ends there
            return TornEnd(path, position, first, self._segment.size - position)
        problem = skipped.problem if skipped.unreadable is None else "the disk cannot read it"
        return DamagedRange(path, position, first, skipped.end_offset, problem)


@dataclass(slots=True)
class Survey:
    """What a log holds."""

    start_offset: int
    end_offset: int
    """Exclusive, without a torn end."""
    last_epoch: Epoch = NO_EPOCH
    size: int = 0
    last_timestamp_ms: int | None = None
    is_verified: bool = False
    """Every batch was read. Otherwise only the end was looked at, and damage before it is not known."""
    damaged: list[DamagedRange] = field(default_factory=list)
    torn: TornEnd | None = None
    aborted: list[EndedTransaction] = field(default_factory=list)
    """Only if it is verified, as the next."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    """Producer id to first offset. Their records are neither committed nor aborted, as far as this log knows."""


def look_at_end(disk: Disk, log: FoundLog) -> Survey:
    """A few small reads, however large the log is."""
    survey = _begun(disk, log)
    next_offset = log.start_offset
    if log.segments:
        last = log.segments[-1]
        reader = _SegmentReader(log, last, last.base_offset, None)
        reader.walk.begin_at(*_last_indexed(disk, last))
        for found in reader.run(disk, lambda _: None):
            _note(survey, found)
        next_offset = reader.walk.next_offset
    for missing in _missing_end(log, next_offset):
        _note(survey, missing)
    survey.end_offset = max(log.start_offset, next_offset)
    return survey


def read_through(disk: Disk, log: FoundLog, on_read: Callable[[int], None] = lambda _: None) -> Survey:
    """Reads and checks every byte."""
    survey = _begun(disk, log)
    survey.is_verified = True
    transactions = OpenTransactions()
    for found in whole_batches(disk, log, on_read):
        _note(survey, found)
        if isinstance(found, WholeBatch) and found.header.is_transactional:
            _follow(survey, transactions, found)
    survey.end_offset = max(log.start_offset, survey.end_offset)
    return survey


def _begun(disk: Disk, log: FoundLog) -> Survey:
    return Survey(log.start_offset, log.start_offset, _stored_epoch(disk, log), log.size)


def _stored_epoch(disk: Disk, log: FoundLog) -> Epoch:
    """The last segment may be empty; then only this file knows in which epoch the one before it was written."""
    try:
        stored = checkpoints.decode_epochs(disk.read_file(f"{log.directory}/{layout.EPOCHS}"))
    except (FileNotFoundError, ReadFault):
        return NO_EPOCH
    return stored[-1].epoch if stored else NO_EPOCH


def _last_indexed(disk: Disk, last: FoundSegment) -> tuple[int, int]:
    """Position and offset of the last batch that the index knows; of the first one if it cannot be believed."""
    beginning = 0, last.base_offset
    try:
        directory = last.path.rpartition("/")[0]
        relative_offset, position = Segment(directory, last.base_offset).read_last_entry(disk)
    except BadIndex:
        return beginning
    file = disk.open(last.path)
    try:
        header = header_at(file, position, last.size)
    finally:
        file.close()
    if not position or header is None or header.last_offset != last.base_offset + relative_offset:
        return beginning
    return position, header.base_offset


def _note(survey: Survey, found: WholeBatch | DamagedRange | TornEnd) -> None:
    match found:
        case WholeBatch(header=header):
            survey.end_offset = header.next_offset
            survey.last_epoch = Epoch(max(survey.last_epoch, header.leader_epoch))
            survey.last_timestamp_ms = max(survey.last_timestamp_ms or 0, header.max_timestamp)
        case DamagedRange():
            survey.damaged.append(found)
            survey.end_offset = max(survey.end_offset, found.end_offset)
        case TornEnd():
            survey.torn = found


def _follow(survey: Survey, transactions: OpenTransactions, batch: WholeBatch) -> None:
    """What is aborted, and what is open so far."""
    header, open_here = batch.header, survey.open_transactions
    if not header.is_control:
        if header.producer_id not in transactions:
            transactions.begin(header.producer_id, header.base_offset)
            open_here[header.producer_id] = header.base_offset
        return
    try:
        marker = decode_marker(batch.content)
    except CorruptBatch as damage:  # it matches its CRC: whoever wrote it wrote something else
        problem = f"a transaction's marker cannot be read: {damage}"
        survey.damaged.append(DamagedRange(batch.path, batch.position, header.base_offset, header.next_offset, problem))
        return
    ended = transactions.end(header.producer_id, header.base_offset, is_commit=marker.is_commit)
    open_here.pop(header.producer_id, None)
    if ended is not None and not ended.is_commit:
        survey.aborted.append(ended)

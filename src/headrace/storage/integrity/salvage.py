"""Read what is left of a log, whatever has befallen it: every whole batch, and where there is none.

Nothing is opened for serving, so nothing has to be in order. The disk may be one that is only looked at
(`UntouchedDisk`); a compaction that a crash has interrupted is completed on it, as a start would do it.
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
from headrace.storage.integrity.verify import BadBatch, checked_batches, find_valid_batch
from headrace.storage.segments.replacement import complete_replacements
from headrace.storage.segments.scan import header_at
from headrace.storage.segments.segment import BadIndex, Segment
from headrace.wire.batches.header import BatchHeader, CorruptBatch
from headrace.wire.batches.markers import decode_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from headrace.replication.open_transactions import EndedTransaction
    from headrace.runtime.disk import Disk, File

PIECE_BYTES = 4096  # what is given up where the disk cannot read


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
        walk = _SegmentWalk(log, segment, next_offset, None if follower is None else follower.base_offset)
        yield from walk.run(disk, on_read)
        next_offset = walk.next_offset
    yield from _missing_end(log, next_offset)


def _missing_end(log: FoundLog, next_offset: int) -> Iterator[DamagedRange]:
    if next_offset < log.safe_offset and log.start_offset < log.safe_offset:
        path, size = (log.segments[-1].path, log.segments[-1].size) if log.segments else (log.directory, 0)
        yield DamagedRange(path, size, next_offset, log.safe_offset, "the log ends here, and was once longer")


class _SegmentWalk:
    """One segment from its first byte to its last. `end_offset` is where the next one begins; None for the last."""

    def __init__(self, log: FoundLog, segment: FoundSegment, next_offset: int, end_offset: int | None) -> None:
        self.next_offset = next_offset
        self._log = log
        self._segment = segment
        self._end_offset = end_offset
        self._position = 0
        self._epoch = -1

    def begin_at(self, position: int, offset: int) -> None:
        """Pass over what comes before this batch."""
        self._position, self.next_offset = position, offset

    def run(self, disk: Disk, on_read: Callable[[int], None]) -> Iterator[WholeBatch | DamagedRange | TornEnd]:
        file = _PatientFile(disk.open(self._segment.path))
        try:
            while self._position < self._segment.size:
                bad = yield from self._good_part(file, on_read)
                if bad is None:
                    return
                before = self._position
                yield self._pass_over(file, bad)
                on_read(self._position - before)
        finally:
            file.close()

    def _good_part(
        self, file: _PatientFile, on_read: Callable[[int], None]
    ) -> Generator[WholeBatch, None, BadBatch | None]:
        """Batches up to a bad one, which is returned; or to the end."""
        batches = checked_batches(
            file,
            self._position,
            self._segment.size,
            self.next_offset,
            crc_from_offset=0,
            may_have_gaps=self._log.may_have_gaps,
            epoch=self._epoch,
        )
        for found in batches:
            if isinstance(found, BadBatch):
                return found
            header = found.header
            content = file.read(found.position, header.size)
            self._position = found.position + header.size
            self.next_offset, self._epoch = header.next_offset, max(self._epoch, header.leader_epoch)
            on_read(header.size)
            yield WholeBatch(self._segment.path, found.position, header, content)
        return None

    def _pass_over(self, file: _PatientFile, bad: BadBatch) -> DamagedRange | TornEnd:
        path, size, first = self._segment.path, self._segment.size, self.next_offset
        valid_at = find_valid_batch(file, bad.position + 1, size, first)
        header = None if valid_at is None else header_at(file, valid_at, size)
        self._position = size if valid_at is None else valid_at
        is_unreadable = file.is_unreadable(bad.position, self._position)
        if header is None and self._end_offset is None and first >= self._log.safe_offset and not is_unreadable:
            return TornEnd(path, bad.position, first, size - bad.position)
        end = self._end_of_damage(header)
        self.next_offset, self._epoch = end if header is None else header.base_offset, -1
        problem = "the disk cannot read it" if is_unreadable else bad.problem
        return DamagedRange(path, bad.position, first, end, problem)

    def _end_of_damage(self, whole_again: BatchHeader | None) -> int:
        if whole_again is not None:
            end = whole_again.base_offset
        else:
            end = self._log.safe_offset if self._end_offset is None else self._end_offset
        return max(end, self.next_offset + 1)


class _PatientFile:
    """Where the disk cannot read, it is as if there were zeros: no batch matches its CRC with them, and those around it
    are read."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._unreadable: set[int] = set()

    def size(self) -> int:
        return self._file.size()

    def read(self, position: int, size: int) -> bytes:
        try:
            return self._file.read(position, size)
        except ReadFault:
            end = min(position + size, self._file.size())
        first = position // PIECE_BYTES * PIECE_BYTES
        pieces = b"".join(map(self._piece, range(first, end, PIECE_BYTES)))
        return pieces[position - first : end - first]

    def _piece(self, position: int) -> bytes:
        try:
            return self._file.read(position, PIECE_BYTES)
        except ReadFault:
            self._unreadable.add(position)
            return bytes(PIECE_BYTES)

    def is_unreadable(self, position: int, end: int) -> bool:
        """Whether a part of these bytes is."""
        return any(position - PIECE_BYTES < place < end for place in self._unreadable)

    def close(self) -> None:
        self._file.close()


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
        walk = _SegmentWalk(log, last, last.base_offset, None)
        walk.begin_at(*_last_indexed(disk, last))
        for found in walk.run(disk, lambda _: None):
            _note(survey, found)
        next_offset = walk.next_offset
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

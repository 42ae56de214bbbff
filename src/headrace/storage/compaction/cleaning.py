"""Clean a log: note the newest offset of every key, then write what stays of each segment into a file beside it.

Blocking, and far from the event loop: in a process of its own, or step by step in a thread. It only reads the log and
writes new files; whoever runs it puts these in place, one after the other, as they come.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from headrace.storage.compaction.job import CleaningJob, Finished, Source, Worked
from headrace.storage.compaction.key_map import KeyMap
from headrace.storage.compaction.sieve import INFLATE_MAX, AbortedTransactions, Sieve
from headrace.storage.files import layout
from headrace.storage.files.damage import DamagedLog, UnreadableRecords
from headrace.storage.segments.replacement import CleanedRun, NewSegment
from headrace.storage.segments.scan import is_plausible
from headrace.storage.segments.segment import RELATIVE_OFFSET_MAX, Segment
from headrace.wire.batches.header import HEADER_SIZE, CorruptBatch, crc_matches, read_header
from headrace.wire.batches.trimming import keys_of, records_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from headrace.runtime.disk import Disk, File
    from headrace.storage.compaction.job import Event
    from headrace.wire.batches.header import BatchHeader, Buffer

CHUNK_BYTES = 1 << 20  # one read or write, and the step after which the throttle looks


def clean(disk: Disk, job: CleaningJob, *, salt: bytes = b"") -> Iterator[Event]:
    """One pass. DamagedLog if a segment cannot be trusted, OSError if the disk refuses; nothing is lost by either.

    `salt` is for the key map, and changes nothing but the time that it takes.
    """
    key_map = KeyMap(job.key_map_bytes, job.end_offset - job.first_dirty_offset, salt)
    map_end = yield from _fill(key_map, disk, job)
    sieve = Sieve(
        key_map,
        map_end,
        job.aborted,
        job.last_entries,
        now_ms=job.now_ms,
        delete_retention_ms=job.delete_retention_ms,
    )
    for group, end_offset in groups(job, map_end):
        yield from _rewrite(disk, job, group, end_offset, sieve)
    yield Finished(map_end, sieve.latest_horizon_ms, key_map.count, sieve.dropped_records)


def groups(job: CleaningJob, map_end: int) -> list[tuple[list[Source], int]]:
    """Which neighbours become one segment, and where each such run ends: small ones are not kept for ever."""
    grouped: list[tuple[list[Source], int]] = []
    ends = [*(source.base_offset for source in job.sources[1:]), job.end_offset]
    for source, end_offset in zip(job.sources, ends, strict=True):
        if source.base_offset >= map_end:
            break
        if grouped:
            group, _ = grouped[-1]
            size = sum(member.size for member in group) + source.size
            if size <= job.segment_bytes and end_offset - group[0].base_offset <= RELATIVE_OFFSET_MAX:
                grouped[-1] = ([*group, source], end_offset)
                continue
        grouped.append(([source], end_offset))
    return grouped


def _fill(key_map: KeyMap, disk: Disk, job: CleaningJob) -> Generator[Event, None, int]:
    """Note the keys from the first dirty offset on; return where the map was full, or the end."""
    aborted = AbortedTransactions(job.aborted)
    for number, source in enumerate(job.sources):
        is_clean = number + 1 < len(job.sources) and job.sources[number + 1].base_offset <= job.first_dirty_offset
        if is_clean:
            continue
        unreported = 0
        for position, header, batch in _batches(disk, job.directory, source):
            unreported += header.size
            if unreported >= CHUNK_BYTES:
                yield Worked(unreported)
                unreported = 0
            if header.is_control or header.last_offset < job.first_dirty_offset or aborted.covers(header):
                continue
            try:
                for offset, key, _ in keys_of(header, records_of(batch, header, inflate_max=INFLATE_MAX)):
                    if offset < job.first_dirty_offset or key is None:
                        continue
                    if not key_map.put(key, offset):
                        return offset
            except CorruptBatch as problem:
                raise _unreadable(job.directory, source, position, header, problem) from problem
    return job.end_offset


def _batches(disk: Disk, directory: str, source: Source) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Every batch of a segment, each checked against its CRC: what is written anew gets a new one."""
    path = layout.stem(directory, source.base_offset) + layout.LOG
    file = disk.open(path)
    try:
        position, chunk_start, chunk = 0, 0, memoryview(b"")
        next_offset = source.base_offset
        while position < source.size:
            at = position - chunk_start
            if at + HEADER_SIZE > len(chunk):
                chunk, chunk_start, at = _read(file, position, CHUNK_BYTES, source.size), position, 0
            if at + HEADER_SIZE > len(chunk):
                raise DamagedLog(path, position, next_offset, "the file ends inside the header of a batch")
            header = read_header(chunk, at)
            if not is_plausible(header, source.size - position) or header.base_offset < next_offset:
                raise DamagedLog(path, position, next_offset, "no batch begins here, expected one")
            if at + header.size > len(chunk):
                wanted = max(header.size, CHUNK_BYTES)
                chunk, chunk_start, at = _read(file, position, wanted, source.size), position, 0
            if not crc_matches(chunk, header, at):
                raise DamagedLog(path, position, header.base_offset, "the batch does not match its CRC")
            yield position, header, chunk[at : at + header.size]
            position += header.size
            next_offset = header.next_offset
    finally:
        file.close()


def _read(file: File, position: int, size: int, end: int) -> memoryview:
    return memoryview(file.read(position, min(size, end - position)))


def _unreadable(
    directory: str, source: Source, position: int, header: BatchHeader, problem: CorruptBatch
) -> UnreadableRecords:
    path = layout.stem(directory, source.base_offset) + layout.LOG
    return UnreadableRecords(path, position, header.base_offset, str(problem))


def _rewrite(disk: Disk, job: CleaningJob, group: Sequence[Source], end_offset: int, sieve: Sieve) -> Iterator[Event]:
    """Write what stays of some segments as one. Where nothing has to change, nothing is written."""
    drafts = _Drafts(disk, job, group)
    is_changed = len(group) > 1
    unreported = 0
    try:
        for source in group:
            for position, header, batch in _batches(disk, job.directory, source):
                is_last = source is group[-1] and position + header.size == source.size
                try:
                    kept = sieve.keep(batch, header, is_last=is_last)
                    if kept is not None:
                        drafts.add(kept)
                except CorruptBatch as problem:
                    raise _unreadable(job.directory, source, position, header, problem) from problem
                is_changed = is_changed or kept is not batch
                if unreported >= CHUNK_BYTES:
                    drafts.write()
                    yield Worked(unreported)
                    unreported = 0
                unreported += header.size
        if is_changed:
            drafts.finish()
        else:
            drafts.remove()
    except (OSError, DamagedLog):
        drafts.remove()
        raise
    yield Worked(unreported)
    if is_changed:
        yield CleanedRun(drafts.segments, end_offset, len(group))


class _Drafts:
    """What stays of a run of segments: one new segment, or more if what stays outgrows it.

    The time until which tombstones are kept takes room in every record of a batch, and a producer may have compressed
    better than we do. BatchPositions in a segment are 32-bit numbers, so one that is large already must not grow.
    """

    def __init__(self, disk: Disk, job: CleaningJob, group: Sequence[Source]) -> None:
        self._disk = disk
        self._job = job
        self._size_max = max(job.segment_bytes, sum(source.size for source in group))
        self._drafts = [self._draft(group[0].base_offset)]

    def _draft(self, base_offset: int) -> _Draft:
        return _Draft(self._disk, self._job.directory, base_offset, self._job.index_interval_bytes)

    @property
    def segments(self) -> tuple[NewSegment, ...]:
        return tuple(NewSegment(draft.base_offset, draft.size) for draft in self._drafts)

    def add(self, batch: Buffer) -> None:
        draft = self._drafts[-1]
        if draft.size and draft.size + len(batch) > self._size_max:
            draft.finish()
            if len(self._drafts) == layout.SWAP_PARTS_MAX:
                raise CorruptBatch(f"what stays of it would fill more than {layout.SWAP_PARTS_MAX} segments")
            draft = self._draft(draft.next_offset)
            self._drafts.append(draft)
        draft.add(batch)

    def write(self) -> None:
        self._drafts[-1].write()

    def finish(self) -> None:
        self._drafts[-1].finish()

    def remove(self) -> None:
        """They are not wanted, and take up room that may be scarce."""
        for draft in self._drafts:
            draft.remove()


class _Draft:
    """A new segment's files under their names for now: the log, and its two indexes."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self._disk = disk
        self._segment = Segment(directory, base_offset)
        self._segment.begin_indexes()
        self._interval_bytes = index_interval_bytes
        self._waiting: list[Buffer] = []
        self.base_offset = self.next_offset = base_offset
        disk.remove(self.path)
        self._file = disk.open(self.path, create=True)

    @property
    def path(self) -> str:
        return self._segment.log_path + layout.CLEANED

    @property
    def size(self) -> int:
        return self._segment.size

    def add(self, batch: Buffer) -> None:
        header = read_header(batch)
        self._segment.note((header,), self._interval_bytes)
        self.next_offset = header.next_offset
        self._waiting.append(bytes(batch) if isinstance(batch, memoryview) else batch)

    def write(self) -> None:
        wanted = sum(map(len, self._waiting))
        if self._file.append(self._waiting) < wanted:
            raise OSError(errno.ENOSPC, f"there is no space for {self.path}")
        self._waiting.clear()

    def finish(self) -> None:
        segment = self._segment
        self.write()
        self._file.sync()
        self._file.close()
        segment.finish_time_index()
        assert segment.index is not None
        assert segment.time_index is not None
        self._write_index(layout.INDEX, segment.index.encode())
        self._write_index(layout.TIME_INDEX, segment.time_index.encode())

    def _write_index(self, ending: str, content: bytes) -> None:
        """Flushed too: below its recovery point a log believes its indexes, and one cut short may look whole."""
        path = self._segment.stem + ending + layout.CLEANED
        self._disk.write_file(path, content)
        file = self._disk.open(path)
        try:
            file.sync()
        finally:
            file.close()

    def remove(self) -> None:
        self._file.close()
        for ending in (layout.LOG, layout.INDEX, layout.TIME_INDEX):
            self._disk.remove(self._segment.stem + ending + layout.CLEANED)

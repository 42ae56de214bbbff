"""A partition's log: batches in segments, appended at the end, read anywhere, dropped at the front.

It knows where bytes are, not what they mean to clients: offsets and epochs are assigned before a batch comes here, and
the high watermark is set by the replica's mind. Everything but the lookups by time and `truncate` belongs to the event
loop and takes microseconds; what would take longer is somebody else's errand, see `have_run`.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.runtime.disk import FileSlice
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.damage import DamagedLog, KnownDamage
from headrace.storage.files.read_faults import damage_by, reads_log
from headrace.storage.files.side_files import SideFile, note_written, write_all
from headrace.storage.log import rolling
from headrace.storage.log import timestamp_lookup as lookups
from headrace.storage.log.batch_positions import Places
from headrace.storage.log.flush_ticket import FlushTicket
from headrace.storage.log.log_segments import Chain
from headrace.storage.log.repairs import MakeAborted, MakeIndex, NotYet
from headrace.storage.log.truncation import CutFiles, CutSearch
from headrace.storage.segments.producer_snapshots import prune_snapshots, save_snapshot
from headrace.storage.segments.replacement import take_place
from headrace.storage.segments.scan import header_at
from headrace.storage.segments.segment import Segment
from headrace.storage.segments.segment_span import SealedSegment, SegmentSpan
from headrace.wire.batches.header import CONTROL_BIT, LENGTH_OVERHEAD
from headrace.wire.batches.markers import decode_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.model.names import LogId
    from headrace.replication.open_transactions import EndedTransaction
    from headrace.replication.producers import ProducerStates
    from headrace.runtime.disk import Disk, File, ReadFault
    from headrace.storage.files.cleaner_checkpoint import Mark
    from headrace.storage.files.leader_epochs import LeaderEpochs
    from headrace.storage.log.repairs import Errand
    from headrace.storage.log.timestamp_lookup import FoundRecord
    from headrace.storage.log.truncation import FoundCut
    from headrace.storage.segments.replacement import CleanedRun
    from headrace.storage.segments.segment_cache import Handles
    from headrace.storage.segments.transaction_index import AbortedTransaction
    from headrace.storage.settings import LogSettings
    from headrace.wire.batches.header import BatchHeader, Buffer


NO_SNAPSHOT = -1


class PartitionLog:
    """`recovery.create_log` and `recovery.open_log` are the ways to get one."""

    __slots__ = (
        "_chain",
        "_failure",
        "_garbage",
        "_handles",
        "_is_being_cut",
        "_places",
        "_saved_epoch_changes",
        "_snapshot_offset",
        "_unsynced_directories",
        "bytes_appended",
        "cuts",
        "damage",
        "directory",
        "disk",
        "epochs",
        "flushed_offset",
        "high_watermark",
        "is_closed",
        "log_id",
        "mark",
        "next_offset",
        "on_damage",
        "producers",
        "settings",
        "start_offset",
        "upheavals",
    )

    def __init__(
        self,
        log_id: LogId,
        handles: Handles,
        settings: LogSettings,
        segments: Sequence[Segment],
        *,
        epochs: LeaderEpochs,
        producers: ProducerStates,
        snapshot_offset: int,
        start_offset: int,
        next_offset: int,
        flushed_offset: int,
        mark: Mark | None = None,
    ) -> None:
        self.log_id = log_id
        self.directory = layout.directory_of(log_id)
        self.disk: Disk = handles.disk
        self.settings = settings
        self.epochs = epochs
        self.producers = producers
        """The same object for life, also over a truncation: others hold it."""
        self.start_offset = start_offset
        self.next_offset = next_offset
        self.flushed_offset = flushed_offset
        self.high_watermark = start_offset
        """Set by the replica's mind, never decided here."""
        self.cuts = 0
        """How often the log was truncated, so that those who looked before can tell."""
        self.damage = KnownDamage()
        """What was looked at and is not what was written: no reader gets it."""
        self.on_damage: Callable[[DamagedLog], None] | None = None
        """Hears of what is found after it was handed out: bytes on their way to a socket. What is found before is
        raised."""
        self.upheavals = 0
        """Odd while the end is cut off or compaction replaces segments, and a higher number once that is over: so who
        reads beside the loop can tell whether it saw one state of the log. Files are cut only afterwards."""
        self.mark = mark
        """How far it is compacted; None if it never was, nor was copied from one that is."""
        self.is_closed = False
        self.bytes_appended = 0
        """Since it was opened: what is cut off again counts, too."""
        self._handles = handles
        self._failure: str | None = None
        self._is_being_cut = False
        self._chain = Chain(self.directory, handles, segments)
        # Creating or opening it may have changed what is in there.
        self._unsynced_directories: tuple[str, ...] = (self.directory, layout.TOPICS, "")
        self._saved_epoch_changes = 0
        self._snapshot_offset = snapshot_offset
        self._places = Places(handles, settings.index_interval_bytes)
        self._garbage: list[str] = []

    def have_run(self, run_beside: Callable[[Errand], None]) -> None:
        """From now on what takes long is not done at once, where others wait for the loop: `run_beside` has it done.
        Until it is, readers hear NotYet."""
        self._chain.run_beside = run_beside
        self._places.on_lost = self._have_index_made
        self._chain.on_lost_aborted = self._have_aborted_made

    def _have_index_made(self, segment: Segment) -> None:
        self._have_made(MakeIndex(self.disk, segment, self.settings.index_interval_bytes, self._take_index))

    def _have_aborted_made(self, number: int) -> None:
        segments, end_offset = self.segments[: number + 1], self._chain.end_of(number, self.next_offset)
        self._have_made(MakeAborted(self.disk, self.directory, segments, end_offset, self._take_aborted))

    def _have_made(self, errand: Errand) -> None:
        assert self._chain.run_beside is not None
        self._chain.run_beside(errand)
        raise NotYet(errand.what)

    def _take_index(self, segment: Segment, made: Segment) -> None:
        if segment.is_sealed and self._holds(segment):
            segment.take_indexes(made)
            segment.seal(self.disk)
            self._handles.note_index(segment)

    def _take_aborted(self, segment: Segment, made: Sequence[EndedTransaction]) -> None:
        if segment.is_sealed and segment.aborted is None and self._holds(segment):
            self._chain.take_aborted(segment, made)
            self._handles.note_index(segment)

    def _holds(self, segment: Segment) -> bool:
        """It is neither gone nor replaced by what compaction has left of it."""
        return not self.is_closed and segment in self._chain.segments

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._chain.segments)

    def flushed_span(self) -> SegmentSpan | None:
        """What can be checked of the segment that is written to and is on the device; None if that is nothing."""
        active = self._chain.active
        if not active.synced_size:
            return None
        end_offset = self.flushed_offset if active.is_dirty else self.next_offset
        return SegmentSpan(
            active.log_path, active.base_offset, end_offset, active.synced_size, True, self.may_have_gaps, active
        )

    def spans(self, from_offset: int = 0, *, closed_only: bool) -> list[SegmentSpan]:
        """What can be checked of the segments that have anything from `from_offset` on."""
        chain = self._chain
        count = len(chain.segments) - closed_only
        return [
            SegmentSpan(
                segment.log_path,
                segment.base_offset,
                end_offset,
                segment.size,
                not segment.is_dirty,
                self.may_have_gaps,
                segment,
            )
            for number, segment in enumerate(chain.segments[:count])
            if segment.size and (end_offset := chain.end_of(number, self.next_offset)) > from_offset
        ]

    @property
    def may_have_gaps(self) -> bool:
        """Whether offsets may be missing: it was compacted at some time, or copied from one that was."""
        return self.mark is not None

    @property
    def closed_end(self) -> int:
        """Where the closed segments end (exclusive), and the one that is written to begins."""
        return self._chain.active.base_offset if len(self._chain.segments) > 1 else 0

    @property
    def flushed_end(self) -> int:
        """Where that ends (exclusive) which is on the device; 0 if nothing is."""
        return self.flushed_offset if self._chain.active.synced_size else self.closed_end

    def has(self, span: SegmentSpan) -> bool:
        """Whether the segment is still there, and not in another form."""
        segment = self._chain.segments[self._chain.number_of(span.base_offset)]
        return segment is span.segment and segment.size >= span.size

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._chain.segments)

    @property
    def is_dirty(self) -> bool:
        """True if a power cut could take something away, or bring something back."""
        return self.flushed_offset < self.next_offset or bool(self._unsynced_directories)

    def get_high_watermark(self) -> Offset:
        return Offset(self.high_watermark)

    def __repr__(self) -> str:
        return f"PartitionLog({self.log_id}, {self.start_offset} to {self.next_offset})"

    # Writing

    def append(self, views: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Write batches whose offsets are final; `views[i]` holds the batch of `headers[i]`. All of them or none.

        A full disk is a Refusal and changes nothing. Any other trouble is a DiskFailure, and the log takes no more:
        what was written and not published lies where the next batch would go.
        """
        if self._failure is not None:
            raise DiskFailure(self._failure)
        assert not self._is_being_cut, "a batch would be written to a file that is still being cut"
        assert headers[0].base_offset >= self.next_offset, "a batch would be written below the end of its log"
        size = 0
        newest_timestamp = -1
        for header in headers:
            size += header.length + LENGTH_OVERHEAD
            if header.max_timestamp > newest_timestamp:  # noqa: PLR1730 - max() costs three times as much, per batch
                newest_timestamp = header.max_timestamp
        segment = self._chain.active
        try:
            last_offset = header.base_offset + header.last_offset_delta
            if rolling.fits(segment, self.settings, size, newest_timestamp, last_offset):
                self._chain.write(segment, views, size)
                self._publish(segment, views, headers)
            else:
                self._append_in_parts(views, headers)
        except DiskFailure as failure:
            self._failure = str(failure)
            raise
        self.bytes_appended += size

    def _append_in_parts(self, views: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Append across segments: first write every part, and only if all are written publish them."""
        chain = self._chain
        starts = rolling.split(headers, chain.active, self.settings, self.next_offset)
        bounds = [0, *starts, len(headers)]
        written: list[tuple[Segment, Sequence[Buffer], Sequence[BatchHeader]]] = []
        fresh: list[Segment] = []
        try:
            for number, (first, end) in enumerate(pairwise(bounds)):
                part = headers[first:end]
                if not part:
                    continue  # nothing of it goes into the active segment
                target = chain.active
                if number:
                    end_offset = headers[first - 1].next_offset if first else self.next_offset
                    target = chain.create(rolling.base_for(part[0], end_offset))
                    fresh.append(target)
                chain.write(target, views[first:end], sum(header.size for header in part))
                written.append((target, views[first:end], part))
        except Refusal:
            for target, _, _ in written:
                chain.take_back(target)
            for target in fresh:
                chain.discard(target)
            raise
        for target, part_views, part in written:
            if target is not chain.active:
                self._go_on_in(target)
            self._publish(target, part_views, part)

    def _publish(self, segment: Segment, views: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        segment.note(headers, self.settings.index_interval_bytes)
        epochs, producers = self.epochs, self.producers
        for number, header in enumerate(headers):
            if header.leader_epoch != epochs.latest:
                # After a gap nobody here knows where in it the epoch began. Too early has a replica fetch again what it
                # had; too late would let it keep what was never committed.
                epochs.note(header.leader_epoch, headers[number - 1].next_offset if number else self.next_offset)
            if header.producer_id >= 0:
                if header.attributes & CONTROL_BIT:
                    self._note_marker(segment, views[number], header)
                else:
                    producers.apply(header)
        self.next_offset = header.base_offset + header.last_offset_delta + 1

    def _note_marker(self, segment: Segment, batch: Buffer, header: BatchHeader) -> None:
        ended = self.producers.apply_marker(header, decode_marker(batch))
        if ended is not None and not ended.is_commit:
            self._chain.note_aborted(segment, ended)

    def reserve(self, size: int) -> None:
        """Keep space for the next `size` bytes, so that a full disk still takes them."""
        self._handles.file(self._chain.active).reserve(size)

    # Rolling

    def roll(self) -> None:
        """Seal the active segment, if there is anything in it, and go on in a new one. Not while it is cut."""
        if self._chain.active.size and not self._is_being_cut:
            self._go_on_in(self._chain.create(self.next_offset))

    def _roll_if_possible(self) -> bool:
        try:
            self.roll()
        except Refusal:  # not even room for an empty file: next time
            return False
        return True

    def _go_on_in(self, segment: Segment) -> None:
        self._chain.go_on_in(segment)
        self._unsynced_directories = self._unsynced_directories or (self.directory,)
        self._save_producers(segment.base_offset)
        prune_snapshots(self.disk, self.directory, self.disk.list(self.directory), self._chain.segments)

    # Reading

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> FileSlice | None:
        """Whole batches from the one that contains `offset`, up to `max_bytes` and not beyond `end_offset`.

        `end_offset` (exclusive) is where a batch begins: a high watermark, a last stable offset, the log's end. If the
        first batch alone is larger than `max_bytes` it comes whole if `at_least_one`, else nothing does. Nor does it if
        every file that may be open is being sent. A slice never crosses a segment. The caller releases it.
        """
        run = self.read_run(offset, max_bytes, end_offset, at_least_one=at_least_one)
        return None if run is None else run[0]

    @reads_log
    def read_run(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool
    ) -> tuple[FileSlice, int] | None:
        """`read`, and the offset where what was read ends (exclusive)."""
        if not self.start_offset <= offset <= self.next_offset:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the log has offsets {self.start_offset} to {self.next_offset}, not {offset}",
            )
        if offset >= end_offset:
            return None
        if self.damage:
            end_offset = self._end_before_damage(offset, end_offset)
        segments = self._chain.segments
        number = self._chain.number_of(offset)
        segment = segments[number]
        if not at_least_one and not self._handles.has_room(segment):
            return None
        start = self._places.position_of(segment, offset)
        while start == segment.size and number + 1 < len(segments):  # a gap: go on with the next batch there is
            number += 1
            segment, start = segments[number], 0
        segment_end = self._chain.end_of(number, self.next_offset)
        limit = segment.size if end_offset >= segment_end else self._places.position_of(segment, end_offset)
        if limit <= start:
            return None
        file = self._handles.file(segment)
        if limit - start <= max_bytes:
            next_offset = min(end_offset, segment_end)
            self._places.remember(next_offset, segment, limit)
            return self._slice(file, start, limit), next_offset
        return self._read_part(segment, start, max_bytes, at_least_one=at_least_one)

    def _end_before_damage(self, offset: int, end_offset: int) -> int:
        """Where a read from `offset` has to end. DamagedLog if it would begin with bytes that are known to be bad."""
        found = self.damage.next_from(offset)
        if found is None or found.first_offset >= end_offset:
            return end_offset
        if found.first_offset <= offset:
            raise DamagedLog(found.path, found.position, found.first_offset, found.problem)
        # No header there can be trusted to tell where the whole batches end.
        segment = self._chain.segments[self._chain.number_of(found.first_offset)]
        self._places.remember(found.first_offset, segment, found.position)
        return found.first_offset

    def _read_part(
        self, segment: Segment, start: int, max_bytes: int, *, at_least_one: bool
    ) -> tuple[FileSlice, int] | None:
        """As many of the batches from `start` as fit; there are more of them than do."""
        end, next_offset = self._places.boundary_by(segment, start, start + max_bytes)
        file = self._handles.file(segment)
        if end == start:
            if not at_least_one:
                return None
            first = header_at(file, start, segment.size)
            assert first is not None, "the batch was there a moment ago"
            end, next_offset = start + first.size, first.next_offset
        self._places.remember(next_offset, segment, end)
        return self._slice(file, start, end), next_offset

    def _slice(self, file: File, start: int, end: int) -> FileSlice:
        return FileSlice(file, start, end - start, self._unreadable)

    def _unreadable(self, fault: ReadFault) -> None:
        """A slice could not be sent, or not be warmed for it."""
        if self.on_damage is not None:
            self.on_damage(damage_by(fault))

    @reads_log
    def first_batch_offset(self) -> int:
        """Where the batch begins that holds the log's start: records go one by one, bytes by the batch."""
        segment = self._chain.segments[self._chain.number_of(self.start_offset)]
        place = self._places.position_of(segment, self.start_offset)
        first = header_at(self._handles.file(segment), place, segment.size) if place < segment.size else None
        return self.start_offset if first is None else min(first.base_offset, self.start_offset)

    @reads_log
    def aborted_between(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Transactions with records from `first_offset` on and below `end_offset` that were aborted, here or later."""
        chain = self._chain
        found: list[AbortedTransaction] = []
        if not chain.may_have_aborts:
            return found
        for number in range(chain.number_of(first_offset), len(chain.segments)):
            aborted = chain.aborted_of(number, self.next_offset)
            if len(aborted):
                overlapping, may_go_on = aborted.overlapping(first_offset, end_offset)
                found += overlapping
                if not may_go_on:
                    break
        return found

    # Finding by time, in a thread

    def find_timestamp(self, timestamp_ms: int, pause: Callable[[], None] = lambda: None) -> FoundRecord | None:
        """The first record from the log's start on that is not older than `timestamp_ms`."""
        return lookups.find_timestamp(self, timestamp_ms, pause)

    def max_timestamp(self, pause: Callable[[], None] = lambda: None) -> FoundRecord | None:
        """The first record with the largest timestamp; None if the log is empty or its records have none."""
        return lookups.max_timestamp(self, pause)

    # Cutting

    def truncate(self, offset: int) -> None:
        """Remove every batch that ends at or after `offset`, at once. This reads, and waits for the device: for a log
        that is in use, see `LogStore.truncate`."""
        search = self.begin_cut(offset)
        if search is None:
            return
        files = self.apply_cut(search.find())
        assert files is not None, "a log has changed while nobody else could"
        try:
            files.write()
        finally:
            self.finish_cut(files)

    def begin_cut(self, offset: int) -> CutSearch | None:
        """The first step of a cut; None if the log ends by `offset`."""
        if offset >= self.next_offset:
            return None
        return CutSearch(
            self.disk,
            self.directory,
            self.segments,
            self.start_offset,
            self.next_offset,
            offset,
            self.may_have_gaps,
            self.settings.index_interval_bytes,
        )

    def apply_cut(self, found: FoundCut) -> CutFiles | None:
        """The log ends there from now on. None, and nothing has changed, if it is not as it was when the search began.

        Until `finish_cut` nothing is appended, and no segment is added or expires: its files are not what they seem.
        """
        if not self.is_as_in(found.search):
            return None
        file = None if found.last is None else self._leased_for_cut(*found.last)
        is_aborted_too_long = False
        with self._upheaval():
            if found.last is None:
                dropped = self._chain.start_again_at(found.end_offset)
                reused = self._chain.active.paths
                self._garbage = [path for path in self._garbage if path not in reused]
            else:
                dropped = self._chain.cut_to(found.end_offset, *found.last)
                is_aborted_too_long = found.last.segment.drop_saved_aborted()
        self._end_at(found)
        self._is_being_cut = True
        return CutFiles(found, dropped, file, self._chain.active, is_aborted_too_long)

    def _leased_for_cut(self, last: Segment, remade: Segment) -> File:
        """Slices of what goes are no longer current from now on. A Refusal leaves everything as it was."""
        file = self._handles.file(last)
        file.lease()
        if remade.size < last.size:
            file.generation += 1
        return file

    def is_as_in(self, search: CutSearch) -> bool:
        """False once a segment was added, has expired or was compacted."""
        was = (search.segments, search.start_offset, search.next_offset)
        return was == (self.segments, self.start_offset, self.next_offset)

    def _end_at(self, found: FoundCut) -> None:
        end_offset = found.end_offset
        self.producers.reset(found.producers.entries())  # the same object: others hold it
        self.cuts += 1
        self._places.forget()
        self._unsynced_directories = self._unsynced_directories or (self.directory,)
        self.next_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.start_offset = min(self.start_offset, end_offset)
        self.epochs.truncate_end(end_offset)
        self._snapshot_offset = NO_SNAPSHOT  # the one that it was may have gone with a segment

    def finish_cut(self, files: CutFiles) -> None:
        """Its files are as the log says, and on the device; or the disk has failed, and the log takes no more."""
        if files.file is not None:
            files.file.release()
        if files.has_snapshot:
            self._snapshot_offset = files.found.end_offset
        if not files.is_written:
            self._failure = self._failure or f"the disk has failed to cut {self.directory}"
        self._is_being_cut = False

    @contextmanager
    def _upheaval(self) -> Iterator[None]:
        self.upheavals += 1
        try:
            yield
        finally:
            self.upheavals += 1

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are deleted. Whole segments of them go at the next `delete_expired`."""
        assert offset <= self.next_offset, "a log cannot begin after its end"
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_start(offset)

    @reads_log
    def delete_expired(self, now_ms: int) -> list[int]:
        """Drop whole segments from the front that retention or `advance_start` gave up; return their base offsets.

        Their files stay until `take_garbage`, which comes after the new log start was made durable: files that a
        power cut brings back must be known to be gone.
        """
        chain = self._chain
        removed: list[int] = []
        if self._is_being_cut:
            return removed
        while self._is_expired(chain.segments[0], now_ms):
            if len(chain.segments) == 1 and not self._roll_if_possible():
                break
            if not self._outlive_producers(chain.segments[0]):
                break
            segment = chain.drop_first()
            self._garbage += segment.paths
            removed.append(segment.base_offset)
        if removed:
            self._places.forget()
            self.advance_start(chain.segments[0].base_offset)
        return removed

    def _outlive_producers(self, first: Segment) -> bool:
        """Whether what the first segment tells of its producers is kept in a snapshot. Else they could send again what
        they have sent before, and it would be taken for new."""
        end_offset = self._chain.end_of(0, self.next_offset)
        if not len(self.producers) or self._snapshot_offset >= end_offset or self._save_producers(self.next_offset):
            return True
        for path in first.index_paths:  # on a full disk they make room, and are made again if need be
            self.disk.remove(path)
        return self._save_producers(self.next_offset)

    def _save_producers(self, offset: int) -> bool:
        """As of `offset`, where the log ends. False if there is no room."""
        is_saved = save_snapshot(self.disk, self.directory, offset, self.producers)
        if is_saved:
            self._snapshot_offset = offset
        return is_saved

    def _is_expired(self, segment: Segment, now_ms: int) -> bool:
        """Nothing above the high watermark goes: a follower may not have it yet."""
        end_offset = self._chain.end_of(0, self.next_offset)
        if segment.size == 0 or end_offset > self.high_watermark:
            return False
        if end_offset <= self.start_offset:
            return True
        retention_ms, retention_bytes = self.settings.retention_ms, self.settings.retention_bytes
        if retention_bytes is not None and self.size_bytes - segment.size >= retention_bytes:
            return True
        return retention_ms is not None and self._newest_ms(segment, now_ms) < now_ms - retention_ms

    def _newest_ms(self, segment: Segment, now_ms: int) -> int:
        """The age of a segment for retention: its largest timestamp, or else when we first looked."""
        newest_timestamp = self._places.newest_timestamp(segment)
        if newest_timestamp >= 0:
            return newest_timestamp
        if segment.undated_since_ms is None:
            segment.undated_since_ms = now_ms
        return segment.undated_since_ms

    def take_garbage(self) -> list[str]:
        """Files of dropped segments, for the caller to remove."""
        garbage, self._garbage = self._garbage, []
        return garbage

    def give_back_garbage(self, paths: list[str]) -> None:
        """These could not be removed yet."""
        self._garbage = paths + self._garbage

    # Compaction

    @reads_log
    def sealed_segments(self, *, times_from: int | None = None) -> list[SealedSegment]:
        """For compaction to look at. Those that end after `times_from` come with their times, which may take a read."""
        chain = self._chain
        sealed = []
        for number, segment in enumerate(chain.segments[:-1]):
            oldest_ms = newest_ms = -1
            end_offset = chain.end_of(number, self.next_offset)
            if times_from is not None and end_offset > times_from:
                newest_ms = self._places.newest_timestamp(segment)
                if segment.first_timestamp < 0:
                    first = header_at(self._handles.file(segment), 0, segment.size)
                    segment.first_timestamp = -1 if first is None else first.max_timestamp
                oldest_ms = segment.first_timestamp
            sealed.append(SealedSegment(segment.base_offset, end_offset, segment.size, oldest_ms, newest_ms))
        return sealed

    @property
    def active_since_ms(self) -> int:
        """The time of the first batch that can only be compacted after a roll; -1 if there is none."""
        return self._chain.active.first_timestamp if self._chain.active.size else -1

    def can_swap(self, cleaned: CleanedRun) -> bool:
        """False if not all that they were made from is here any more, or the log is known to be damaged."""
        chain = self._chain
        number = chain.number_of(cleaned.base_offset)
        last = number + cleaned.source_count - 1
        return (
            not self.is_closed
            and not self.damage
            and last < len(chain.segments) - 1
            and chain.segments[number].base_offset == cleaned.base_offset
            and chain.end_of(last, self.next_offset) == cleaned.end_offset
        )

    def swap(self, cleaned: CleanedRun) -> None:
        """Put cleaned segments in place of those that they were made from: on disk and in memory, in one turn."""
        assert self.can_swap(cleaned), "cleaned segments would replace others than they were made from"
        with self._upheaval():
            try:
                take_place(self.disk, self.directory, cleaned)
            except OSError as error:
                raise DiskFailure(f"the disk refused to put {self.directory}/{cleaned} in place: {error}") from error
            segments = [Segment(self.directory, base_offset, size) for base_offset, size in cleaned.segments]
            for segment in segments:
                segment.is_sealed = True
            self._chain.replace(self._chain.number_of(cleaned.base_offset), cleaned.source_count, segments)
        self._places.forget()

    # Flushing

    def begin_flush(self) -> FlushTicket | None:
        """What has to be synced so that everything written so far is safe; None if it already is."""
        if not self.is_dirty or self.is_closed:
            return None
        files = []
        for segment in self._chain.dirty_segments():
            file = self._handles.file(segment)
            file.lease()
            files.append((segment, file, segment.size))
        active = self._chain.active
        self._places.remember(self.next_offset, active, active.size)
        ticket = FlushTicket(tuple(files), self._unsynced_directories, self.next_offset, self.cuts)
        self._unsynced_directories = ()
        return ticket

    def finish_flush(self, ticket: FlushTicket) -> None:
        """The ticket's syncs have succeeded."""
        for segment, file, size in ticket.files:
            file.release()
            if ticket.cuts == self.cuts:
                segment.synced_size = max(segment.synced_size, size)
        if ticket.cuts != self.cuts:
            return
        self._chain.forget_flushed()
        self.flushed_offset = max(self.flushed_offset, ticket.target_offset)

    # Saving what can be rebuilt, and closing

    def side_files(self) -> list[SideFile]:
        """What has to be written anew as a whole, so that the next start has less to read."""
        epochs = self.epochs_file()
        return self._chain.side_files() + ([] if epochs is None else [epochs])

    @property
    def has_wrong_files(self) -> bool:
        """Some of `side_files` hold what is not so."""
        return self._chain.has_wrong_files

    def epochs_file(self) -> SideFile | None:
        """Also before a new start is stored: who wrote the last record before it cannot be read from the log later."""
        changes = self.epochs.changes
        if self._saved_epoch_changes == changes:
            return None

        def note() -> None:
            self._saved_epoch_changes = changes

        content = checkpoints.encode_epochs(self.epochs.entries)
        return SideFile(f"{self.directory}/{layout.EPOCHS}", content, note, is_trusted=False)

    def extend_hints(self) -> None:
        """Append index entries that only memory has to their files, once all `side_files` are written.

        Must be followed by a sync before a recovery point beyond them is stored. A Refusal forbids that point.
        """
        if self._chain.active.index:
            self._chain.active.save_indexes(self.disk)
        self._chain.save_aborted()

    def save_hints(self) -> None:
        """All of it at once. This may wait for the device."""
        files = self.side_files()
        write_all(self.disk, files)
        if not note_written(files):
            raise self._chain.full()
        self.extend_hints()

    def close(self, *, is_clean: bool = True) -> None:
        """Let go of every file. A clean close leaves behind what a quick start needs; the caller has flushed.

        A log without a byte needs nothing: thousands of them would make a stop slow.
        """
        active, segments = self._chain.active, self._chain.segments
        has_bytes = active.size > 0 or len(segments) > 1
        if is_clean and has_bytes:
            active.finish_time_index()
            active.save_indexes(self.disk)
            self.save_hints()
        if is_clean and (has_bytes or len(self.producers)) and self._snapshot_offset != self.next_offset:
            self._save_producers(self.next_offset)
        for segment in segments:
            self._handles.close(segment)
        self.is_closed = True

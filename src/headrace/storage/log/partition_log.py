"""A partition's log: batches in segments, appended at the end, read anywhere, dropped at the front.

It knows where bytes are, not what they mean to clients: offsets and epochs are assigned before a batch comes here, and
the high watermark is set by the replica's mind. Everything but the lookups by time and `truncate` belongs to the event
loop and takes microseconds; what would take longer is run beside the loop, see `repair_beside`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure
from headrace.model.names import Offset
from headrace.storage.files.damage import KnownDamage
from headrace.storage.log.batch_positions import BatchPositions
from headrace.storage.log.batch_reader import BatchReader
from headrace.storage.log.flushing import Flushing
from headrace.storage.log.hints import Hints
from headrace.storage.log.log_compaction import LogCompaction
from headrace.storage.log.log_segments import LogSegments
from headrace.storage.log.log_state import LogState
from headrace.storage.log.lost_indexes import LostIndexes
from headrace.storage.log.retention import Retention
from headrace.storage.log.spans import Spans
from headrace.storage.log.timestamp_lookup import TimestampLookup
from headrace.storage.log.transaction_indexes import TransactionIndexes
from headrace.storage.log.truncation import TruncatedFiles, TruncationSearch
from headrace.storage.segments import rolling
from headrace.storage.segments.producer_snapshots import ProducerSnapshots
from headrace.wire.batches.header import CONTROL_BIT, LENGTH_OVERHEAD
from headrace.wire.batches.markers import decode_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.model.names import LogId
    from headrace.runtime.disk import Disk, FileSlice
    from headrace.storage.log.log_state import LoadedLog
    from headrace.storage.log.repairs import Repair
    from headrace.storage.log.timestamp_lookup import FoundRecord
    from headrace.storage.log.truncation import FoundTruncation
    from headrace.storage.segments.segment import Segment
    from headrace.storage.segments.segment_cache import SegmentCache
    from headrace.storage.settings import LogSettings
    from headrace.wire.batches.header import BatchHeader, Buffer


class PartitionLog(LogState):
    """`recovery` has the ways to get one: `create_log` and `open_log`."""

    __slots__ = (
        "_cache",
        "_positions",
        "_segments",
        "_snapshots",
        "bytes_appended",
        "compaction",
        "damage",
        "disk",
        "epochs",
        "flushing",
        "hints",
        "producers",
        "reader",
        "retention",
        "spans",
        "transaction_indexes",
    )

    def __init__(self, log_id: LogId, cache: SegmentCache, settings: LogSettings, loaded: LoadedLog) -> None:
        super().__init__(log_id, settings, loaded)
        self.disk: Disk = cache.disk
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        """The same object for life, also over a truncation: others hold it."""
        self.damage = KnownDamage()
        """What was looked at and is not what was written: no reader gets it."""
        self.bytes_appended = 0
        """Since it was opened: what is cut off again counts, too."""
        self._cache = cache
        self._segments = segments = LogSegments(self, cache, loaded.segments)
        self._positions = positions = BatchPositions(cache, settings.index_interval_bytes)
        self._snapshots = ProducerSnapshots(self.disk, self.directory, self.producers, loaded.snapshot_offset)
        self.transaction_indexes = TransactionIndexes(self, segments, cache)
        self.reader = BatchReader(self, segments, positions, cache, self.damage)
        self.flushing = Flushing(self, segments, positions, cache)
        self.retention = Retention(self, segments, positions, self.epochs, self._snapshots, self.roll)
        self.compaction = LogCompaction(self, segments, positions, cache, self.damage)
        self.hints = Hints(self, segments, self.transaction_indexes, self.epochs)
        self.spans = Spans(self, segments)

    def repair_beside(self, run: Callable[[Repair], None]) -> None:
        """From now on what takes long is not done at once, where others wait for the loop: `run` has it done. Until it
        is, readers hear NotYet."""
        LostIndexes(self, self._segments, self.transaction_indexes, self._cache, run).take_over(self._positions)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments.segments)

    @property
    def version(self) -> int:
        """Changes when segments are cut off or replaced, see `LogSegments`."""
        return self._segments.version

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def closed_end(self) -> int:
        """Where the sealed segments end (exclusive), and the one that is written to begins; 0 if there are none."""
        return self._segments.closed_end

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
        segments = self._segments
        if segments.failure is not None:
            raise DiskFailure(segments.failure)
        assert not segments.is_being_cut, "a batch would be written to a file that is still being cut"
        assert headers[0].base_offset >= self.next_offset, "a batch would be written below the end of its log"
        size = 0
        newest_timestamp = -1
        for header in headers:
            size += header.length + LENGTH_OVERHEAD
            if header.max_timestamp > newest_timestamp:  # noqa: PLR1730 - max() costs three times as much, per batch
                newest_timestamp = header.max_timestamp
        segment = segments.active
        try:
            last_offset = header.base_offset + header.last_offset_delta
            if rolling.fits(segment, self.settings, size, newest_timestamp, last_offset):
                segments.write(segment, views, size)
                self._publish(segment, views, headers)
            else:
                for target, part_views, part in segments.write_across(views, headers):
                    if target is not segments.active:
                        self._go_on_in(target)
                    self._publish(target, part_views, part)
        except DiskFailure as failure:
            segments.failure = str(failure)
            raise
        self.bytes_appended += size

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
            self.transaction_indexes.note_aborted(segment, ended)

    def reserve(self, size: int) -> None:
        """Keep space for the next `size` bytes, so that a full disk still takes them."""
        self._cache.file(self._segments.active).reserve(size)

    def roll(self) -> None:
        """Seal the active segment, if there is anything in it, and go on in a new one. Not while it is cut."""
        if self._segments.active.size and not self._segments.is_being_cut:
            self._go_on_in(self._segments.create(self.next_offset))

    def _go_on_in(self, segment: Segment) -> None:
        sealed = self._segments.go_on_in(segment)
        if sealed is not None:
            self.transaction_indexes.note_sealed(sealed)
            self.flushing.note_sealed(sealed)
        self.flushing.note_directory()
        self._snapshots.save(segment.base_offset)
        self._snapshots.prune(self._segments.segments)

    # Reading

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> FileSlice | None:
        """Whole batches from the one that contains `offset`, up to `max_bytes` and not beyond `end_offset`.

        `end_offset` (exclusive) is where a batch begins: a high watermark, a last stable offset, the log's end. If the
        first batch alone is larger than `max_bytes` it comes whole if `at_least_one`, else nothing does. Nor does it if
        every file that may be open is being sent. A slice never crosses a segment. The caller releases it.
        """
        run = self.reader.read(offset, max_bytes, end_offset, at_least_one=at_least_one)
        return None if run is None else run[0]

    def find_timestamp(self, timestamp_ms: int, pause: Callable[[], None] = lambda: None) -> FoundRecord | None:
        """The first record from the log's start on that is not older than `timestamp_ms`. In a thread."""
        return TimestampLookup(self, self._segments, pause).find(timestamp_ms)

    def max_timestamp(self, pause: Callable[[], None] = lambda: None) -> FoundRecord | None:
        """The first record with the largest timestamp; None if the log is empty or its records have none. In a
        thread."""
        return TimestampLookup(self, self._segments, pause).newest()

    # Truncating

    def truncate(self, offset: int) -> None:
        """Remove every batch that ends at or after `offset`, at once. This reads, and waits for the device: for a log
        that is in use, see `LogStore.truncation`."""
        search = self.begin_truncation(offset)
        if search is None:
            return
        files = self.apply_truncation(search.find())
        assert files is not None, "a log has changed while nobody else could"
        try:
            files.write()
        finally:
            self.finish_truncation(files)

    def begin_truncation(self, offset: int) -> TruncationSearch | None:
        """The first step of a truncation; None if the log ends by `offset`."""
        return None if offset >= self.next_offset else TruncationSearch.of(self, self._segments, offset)

    def is_as_in(self, search: TruncationSearch) -> bool:
        """False once a segment was added, has expired or was compacted."""
        was = (search.segments, search.start_offset, search.next_offset)
        return was == (self.segments, self.start_offset, self.next_offset)

    def apply_truncation(self, found: FoundTruncation) -> TruncatedFiles | None:
        """The log ends there from now on. None, and nothing has changed, if it is not as it was when the search began.

        Until `finish_truncation` nothing is appended, and no segment is added or expires: the files are still longer.
        """
        if not self.is_as_in(found.search):
            return None
        segments = self._segments
        file = None if found.last is None else segments.leased_for_cut(*found.last)
        is_aborted_too_long = False
        with segments.changing():
            if found.last is None:
                dropped = segments.start_again_at(found.end_offset)
                self.retention.keep_files(segments.active.paths)
            else:
                dropped = segments.cut_to(found.end_offset, *found.last)
                is_aborted_too_long = found.last.segment.aborted.drop_saved()
        self._end_at(found)
        segments.is_being_cut = True
        return TruncatedFiles(found, dropped, file, segments.active, is_aborted_too_long)

    def _end_at(self, found: FoundTruncation) -> None:
        end_offset = found.end_offset
        self.producers.reset(found.producers.entries())  # the same object: others hold it
        self.cuts += 1
        self._positions.forget()
        self.flushing.note_directory()
        self.next_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.start_offset = min(self.start_offset, end_offset)
        self.epochs.truncate_end(end_offset)
        self._snapshots.note_cut()

    def finish_truncation(self, files: TruncatedFiles) -> None:
        """Its files are as the log says, and on the device; or the disk has failed, and the log takes no more."""
        segments = self._segments
        if files.file is not None:
            files.file.release()
        if files.has_snapshot:
            self._snapshots.note_saved(files.found.end_offset)
        if not files.is_written:
            segments.failure = segments.failure or f"the disk has failed to cut {self.directory}"
        segments.is_being_cut = False

    # Closing

    def close(self, *, is_clean: bool = True) -> None:
        """Let go of every file. A clean close leaves behind what a quick start needs; the caller has flushed.

        A log without a byte needs nothing: thousands of them would make a stop slow.
        """
        active, segments = self._segments.active, self._segments.segments
        has_bytes = active.size > 0 or len(segments) > 1
        if is_clean and has_bytes:
            active.finish_time_index()
            active.save_indexes(self.disk)
            self.hints.save()
        if is_clean and (has_bytes or len(self.producers)):
            self._snapshots.save_at_close(self.next_offset)
        for segment in segments:
            self._cache.close(segment)
        self.is_closed = True

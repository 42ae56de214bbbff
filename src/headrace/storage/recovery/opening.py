"""Open a log that is on disk. Everything here blocks and runs in a thread; it touches no handle of the loop.

Every batch from the recovery point on is verified; below it only the joints of the segments are looked at. After a
clean shutdown the recovery point is the end, so that opening takes a few small reads. What was flushed before a crash
is whole; what was not may have lost its end, or sectors in its middle. So recovery cuts what is torn, keeps a copy
where whole batches follow, and refuses to touch damage that no crash can explain.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headrace.replication.producers import ProducerStates
from headrace.runtime.disk import ReadFault
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.cleaner_checkpoint import load_cleaner_checkpoint, store_cleaner_checkpoint
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.leader_epochs import LeaderEpochs
from headrace.storage.files.read_faults import reads_log
from headrace.storage.integrity.cut_copies import CUTS_KEPT, copy_bytes
from headrace.storage.integrity.verify import BadBatch, checked_batches, find_valid_batch, is_lost_write
from headrace.storage.log.log_state import LoadedLog
from headrace.storage.log.partition_log import PartitionLog
from headrace.storage.log.rolling import is_too_wide
from headrace.storage.segments.producer_snapshots import (
    NO_SNAPSHOT,
    drop_snapshots_beyond,
    load_snapshot,
    prune_snapshots,
    replay_aborted,
    replay_producers,
    save_snapshot,
)
from headrace.storage.segments.replacement import complete_replacements
from headrace.storage.segments.scan import header_at, headers_from
from headrace.storage.segments.segment import BadIndex, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.model.names import LogId
    from headrace.runtime.disk import Disk, File
    from headrace.storage.files.leader_epochs import EpochStart
    from headrace.storage.segments.producer_snapshots import Replayed
    from headrace.storage.segments.segment_cache import SegmentCache
    from headrace.storage.segments.transaction_index import AbortedTransaction
    from headrace.storage.settings import LogSettings

OFFSET_BYTES = 8  # a batch begins with its offset


@dataclass(slots=True)
class RecoveryReport:
    """What was found and done, for the node to tell its operator."""

    log_id: LogId
    verified_batches: int = 0
    verified_bytes: int = 0
    cut_bytes: int = 0
    cut_kept_in: list[str] = field(default_factory=list)
    """Files that hold a copy of what was cut, if whole batches were among it."""
    rebuilt_indexes: int = 0
    notes: list[str] = field(default_factory=list)
    """Sentences for the operator; empty if there is nothing to say."""


def create_log(
    log_id: LogId, topic: str, cache: SegmentCache, settings: LogSettings, *, start_offset: int = 0
) -> PartitionLog:
    """A new, empty log."""
    disk = cache.disk
    directory = layout.directory_of(log_id)
    disk.make_directory(directory)
    disk.write_file(f"{directory}/{layout.NAME}", f"topic: {topic}\npartition: {log_id.partition}\n".encode())
    segment = _new_segment(disk, directory, start_offset)
    return PartitionLog(
        log_id,
        cache,
        settings,
        LoadedLog(
            [segment],
            LeaderEpochs(),
            ProducerStates(),
            NO_SNAPSHOT,
            start_offset=start_offset,
            next_offset=start_offset,
            flushed_offset=start_offset,
        ),
    )


@reads_log
def open_log(
    log_id: LogId,
    cache: SegmentCache,
    settings: LogSettings,
    *,
    recovery_point: int = 0,
    start_offset: int = 0,
    is_synced: bool = False,
) -> tuple[PartitionLog, RecoveryReport]:
    """The log as it is on disk. DamagedLog if it holds damage that must not be cut away.

    `is_synced` says that the disk was synced since the last process wrote to it. Otherwise what is found is whole, but
    may live in memory only, and the log is dirty until its first flush.
    """
    recovery = _Recovery(cache.disk, log_id, settings, recovery_point, start_offset)
    next_offset = recovery.verify()
    segments, epochs = recovery.segments, recovery.epochs
    if is_synced:
        for segment in segments:
            segment.synced_size = segment.size
    start_offset = max(start_offset, segments[0].base_offset)
    epochs.truncate_end(next_offset)
    epochs.truncate_start(start_offset)
    where = (recovery.disk, recovery.directory, recovery.file_names, segments)
    drop_snapshots_beyond(recovery.disk, recovery.directory, recovery.file_names, next_offset)
    replayed = replay_producers(*where, next_offset)
    recovery.note_aborted(replayed, next_offset)
    prune_snapshots(*where)
    checkpoint = recovery.cleaner_checkpoint
    if checkpoint is not None and checkpoint.clean_end_offset > next_offset:
        checkpoint = checkpoint._replace(clean_end_offset=next_offset)
        store_cleaner_checkpoint(recovery.disk, recovery.directory, checkpoint)
    log = PartitionLog(
        log_id,
        cache,
        settings,
        LoadedLog(
            segments,
            epochs,
            replayed.producers,
            replayed.snapshot_offset,
            start_offset=start_offset,
            next_offset=next_offset,
            flushed_offset=next_offset if is_synced else min(recovery_point, next_offset),
            cleaner_checkpoint=checkpoint,
        ),
    )
    return log, recovery.report


class _Recovery:
    """One log while it is being opened."""

    def __init__(
        self, disk: Disk, log_id: LogId, settings: LogSettings, recovery_point: int, start_offset: int
    ) -> None:
        self.disk = disk
        self.directory = layout.directory_of(log_id)
        self.report = RecoveryReport(log_id)
        self._settings = settings
        self._recovery_point = recovery_point
        self._start_offset = start_offset
        self._aborts_from = recovery_point
        """Markers from here on are looked for in the batches, not in the indexes of aborted transactions."""
        for base_offset, end_offset in complete_replacements(disk, self.directory):
            self.report.notes.append(f"a compaction of offsets {base_offset} to {end_offset} was completed")
        self.file_names = self._clean_up()
        self.cleaner_checkpoint = load_cleaner_checkpoint(disk, self.directory)
        self._may_have_gaps = self.cleaner_checkpoint is not None
        self.segments = self._find_segments()
        stored = self._stored_epochs()
        self._check_first(stored or [])
        self._must_read_epochs = stored is None
        self.epochs = LeaderEpochs(stored or ())
        self.epochs.truncate_end(max(recovery_point, start_offset))  # later ones are read from the batches

    # What is there

    def _clean_up(self) -> list[str]:
        """Remove what a crash left half done; return the names of the rest."""
        kept: list[str] = []
        names = self.disk.list(self.directory)
        logs = {name.removesuffix(layout.LOG) for name in names if name.endswith(layout.LOG)}
        for name in names:
            stem, dot, ending = name.partition(".")
            is_orphan = dot + ending in {layout.INDEX, layout.TIME_INDEX, layout.ABORTED} and stem not in logs
            if is_orphan or name.endswith((layout.DRAFT, layout.DELETED, layout.CLEANED)):
                self.disk.remove(f"{self.directory}/{name}")
            else:
                kept.append(name)
        return kept

    def _find_segments(self) -> list[Segment]:
        """The segments, without those that lie wholly below the log's start."""
        bases = sorted(base for name in self.file_names if (base := layout.offset_in(name, layout.LOG)) is not None)
        deleted = []
        while len(bases) > 1 and bases[1] <= self._start_offset:
            deleted.append(self._found(bases.pop(0)))
        if deleted:
            self._remove_deleted(deleted, bases[0])
        if not bases or bases[0] > max(self._start_offset, self._recovery_point):
            if self._recovery_point > self._start_offset:
                path = layout.stem(self.directory, self._start_offset) + layout.LOG
                raise DamagedLog(path, 0, self._start_offset, "the log's files are missing")
            self._drop_without_front([Segment(self.directory, base) for base in bases])
            return [_new_segment(self.disk, self.directory, self._start_offset)]
        with_aborts = {layout.offset_in(name, layout.ABORTED) for name in self.file_names}
        segments = []
        for base in bases:
            segment = self._found(base)
            segment.is_sealed = base != bases[-1]
            if base in with_aborts:
                segment.aborted = None
            segments.append(segment)
        return segments

    def _found(self, base_offset: int) -> Segment:
        path = layout.stem(self.directory, base_offset) + layout.LOG
        file = self.disk.open(path)
        try:
            return Segment(self.directory, base_offset, file.size())
        finally:
            file.close()

    def _remove_deleted(self, deleted: Sequence[Segment], next_base: int) -> None:
        """Nobody may read these any more, but their producers live on in the next segment's snapshot.

        A crash may have taken that. The batches still know, unless some of them are gone already.
        """
        if load_snapshot(self.disk, self.directory, self.file_names, next_base)[0] != next_base:
            with suppress(DamagedLog, ReadFault):
                replayed = replay_producers(self.disk, self.directory, self.file_names, deleted, next_base)
                self._save_producers(next_base, replayed.producers, deleted)
                self.disk.sync_everything()
                self.file_names = self.disk.list(self.directory)
        for segment in deleted:
            self._remove(segment)

    def _save_producers(self, offset: int, producers: ProducerStates, deleted: Sequence[Segment]) -> None:
        if save_snapshot(self.disk, self.directory, offset, producers) or not len(producers):
            return
        for path in (path for segment in deleted for path in segment.index_paths):
            self.disk.remove(path)
        if not save_snapshot(self.disk, self.directory, offset, producers):
            raise OSError(errno.ENOSPC, "there is no room to remember the producers of deleted batches")

    def _drop_without_front(self, segments: list[Segment]) -> None:
        """A flush makes all names durable. So if the first file has none, nothing of this log was ever flushed."""
        for segment in segments:  # all of them are kept: it may not have been a crash, but somebody who moved files
            self._keep(segment.stem, partial(self.disk.rename, segment.log_path), is_one_of_many=True)
            self._remove(segment)
            self.report.notes.append(f"{segment.log_path} was taken away: what came before it was never flushed")
        if segments:
            # Or they could show up again beside what is written in their place.
            self.disk.sync_directory(self.directory)

    def _stored_epochs(self) -> list[EpochStart] | None:
        try:
            stored = checkpoints.decode_epochs(self.disk.read_file(f"{self.directory}/{layout.EPOCHS}"))
        except (FileNotFoundError, ReadFault):
            return None  # the batches know it too
        if stored and stored[0].start_offset > max(self._start_offset, self.segments[0].base_offset):
            return None  # segments that retention had dropped are back: their files were not removed yet
        return stored

    def _check_first(self, epochs: Sequence[EpochStart]) -> None:
        """Retention stores where a log begins before it removes files. So files that nobody gave up were taken away."""
        first_offset = self.segments[0].base_offset
        if epochs and max(self._start_offset, epochs[0].start_offset) < first_offset:
            path = layout.stem(self.directory, epochs[0].start_offset) + layout.LOG
            raise DamagedLog(
                path, 0, epochs[0].start_offset, f"it is missing; the files begin at offset {first_offset}"
            )

    def _remove(self, segment: Segment) -> None:
        for path in segment.paths:
            self.disk.remove(path)

    # Checking

    def _end_of(self, segment: Segment) -> int:
        """Where a sealed segment ends, found from the last entry of its index."""
        relative_offset, position = segment.read_last_entry(self.disk)
        file = self.disk.open(segment.log_path)
        try:
            if position:
                header = header_at(file, position, segment.size)
                if header is None or header.last_offset != segment.base_offset + relative_offset:
                    raise BadIndex
            next_offset = segment.base_offset
            for _, header in headers_from(file, segment.log_path, position, segment.size):
                next_offset = header.next_offset
            return next_offset
        finally:
            file.close()

    def _make_ready(self, segment: Segment) -> None:
        """The last segment will be written to: it needs its indexes in memory."""
        segment.is_sealed = False
        if segment.index is not None and segment.time_index is not None and segment.aborted is not None:
            return
        file = self.disk.open(segment.log_path)
        try:
            segment.rebuild_indexes(file, self._settings.index_interval_bytes)
            self._trust_aborted(segment, file)
        finally:
            file.close()

    def _read_first_timestamp(self, segment: Segment, file: File) -> None:
        if segment.size:
            _, first = next(headers_from(file, segment.log_path, 0, segment.size))
            segment.first_timestamp = first.max_timestamp

    def verify(self) -> int:
        """Check what was written since the recovery point, cut what is torn, and return where the log ends."""
        next_offset = self.segments[0].base_offset
        for number, segment in enumerate(self.segments):
            follower = self.segments[number + 1] if number + 1 < len(self.segments) else None
            next_offset, bad = self._check(segment, follower)
            if bad is None and follower is not None and not self._joins(next_offset, follower):
                problem = f"the next segment begins at offset {follower.base_offset}, expected {next_offset}"
                bad = BadBatch(segment.size, next_offset, problem, is_cut_short=follower.base_offset > next_offset)
            if bad is not None:
                self._judge(number, bad)
                break
        if next_offset < self._recovery_point and self._start_offset < self._recovery_point:
            last = self.segments[-1]
            problem = f"the log ends here, expected was everything up to offset {self._recovery_point}"
            raise DamagedLog(last.log_path, last.size, next_offset, problem)
        if next_offset < self._start_offset:  # everything that is left was deleted before
            for segment in self.segments:
                self._remove(segment)
            self.segments = [_new_segment(self.disk, self.directory, self._start_offset)]
            return self._start_offset
        self._make_ready(self.segments[-1])
        return next_offset

    def _joins(self, next_offset: int, follower: Segment) -> bool:
        """Whether nothing is missing between two segments.

        Compaction leaves every segment its end, so that gaps lie inside. One at the joint, unless it is too wide for an
        index, is what a crash took from the end of the first.
        """
        if follower.base_offset <= next_offset or not self._may_have_gaps:
            return follower.base_offset == next_offset
        file = self.disk.open(follower.log_path)
        try:
            first = header_at(file, 0, follower.size)
        finally:
            file.close()
        return first is not None and is_too_wide(first, next_offset)

    def _check(self, segment: Segment, follower: Segment | None) -> tuple[int, BadBatch | None]:
        """Where the good part of a segment ends, and what follows it, if that is bad."""
        is_below = follower is not None and follower.base_offset <= self._recovery_point
        if is_below and not self._must_read_epochs:
            try:
                return self._end_of(segment), None
            except BadIndex:
                self.report.rebuilt_indexes += 1
        file = self.disk.open(segment.log_path)
        try:
            file.forget_cached()  # the last process may have ended because a sync failed: memory proves nothing
            next_offset, bad = self._verify_segment(segment, file)
            if not is_below:
                self._trust_aborted(segment, file)
        finally:
            file.close()
        segment.synced_size = segment.size if is_below else 0
        if follower is None:
            segment.save_indexes(self.disk)
        else:
            segment.seal(self.disk)
            segment.unload_index()
        return next_offset, bad

    def _verify_segment(self, segment: Segment, file: File) -> tuple[int, BadBatch | None]:
        position, next_offset = self._resume(segment, file)
        end, segment.size = segment.size, position
        report = self.report
        batches = checked_batches(
            file,
            position,
            end,
            next_offset,
            crc_from_offset=self._recovery_point,
            may_have_gaps=self._may_have_gaps,
        )
        for found in batches:
            if isinstance(found, BadBatch):
                return next_offset, found
            header = found.header
            segment.note((header,), self._settings.index_interval_bytes)
            self.epochs.note(header.leader_epoch, next_offset)  # as the log does it, also after a gap
            next_offset = header.next_offset
            if header.base_offset >= self._recovery_point:
                report.verified_batches += 1
                report.verified_bytes += header.size
        return next_offset, None

    def _resume(self, segment: Segment, file: File) -> tuple[int, int]:
        """Position and offset to verify from: the last index entry below the recovery point, or the beginning."""
        if self._must_read_epochs or self._recovery_point <= segment.base_offset:
            segment.begin_indexes()
            return 0, segment.base_offset
        try:
            segment.load_index(self.disk)
            segment.load_time_index(self.disk)
            segment.cut_indexes(self._recovery_point)
            segment.trust_time_index(file)
            header = header_at(file, segment.indexed_position, segment.size)
            if header is None:
                raise BadIndex
        except BadIndex:
            self.report.rebuilt_indexes += 1
            segment.begin_indexes()
            return 0, segment.base_offset
        self._read_first_timestamp(segment, file)
        return segment.indexed_position, header.base_offset

    # Aborted transactions

    def _trust_aborted(self, segment: Segment, file: File) -> None:
        """Keep what the index says of markers below the recovery point. Of the others the batches tell.

        What a crash has torn, or something else has damaged, is not trusted at all: the batches tell everything then.
        """
        if segment.aborted is not None:
            return
        try:
            aborted = segment.load_aborted(self.disk)
            segment.cut_aborted(self.disk, self._recovery_point)
            if len(aborted) and not self._has_marker(segment, file, aborted[-1]):
                raise BadIndex
        except BadIndex:
            self.report.rebuilt_indexes += 1
            segment.forget_aborted()
            self._aborts_from = min(self._aborts_from, segment.base_offset)

    def _has_marker(self, segment: Segment, file: File, aborted: AbortedTransaction) -> bool:
        try:
            found = segment.locate(file, aborted.last_offset)
        except BadIndex:
            self.report.rebuilt_indexes += 1
            segment.rebuild_indexes(file, self._settings.index_interval_bytes)
            found = segment.locate(file, aborted.last_offset)
        if found is None:
            return False
        header = found[1]
        return header.is_control and (header.base_offset, header.producer_id) == (
            aborted.last_offset,
            aborted.producer_id,
        )

    def note_aborted(self, replayed: Replayed, next_offset: int) -> None:
        """Fill the indexes from the recovery point on. The replay began at a snapshot, which may be later than that."""
        first_offset = max(self._aborts_from, self.segments[0].base_offset)
        snapshot_offset = max(replayed.snapshot_offset, 0)
        where = (self.disk, self.directory, self.file_names, self.segments)
        earlier = replay_aborted(*where, first_offset, min(snapshot_offset, next_offset))
        for ended in (*earlier, *replayed.aborted):
            if ended.marker_offset >= first_offset:
                number = bisect_right(self.segments, ended.marker_offset, key=lambda segment: segment.base_offset) - 1
                self.segments[number].load_aborted(self.disk).add(ended)

    def _judge(self, number: int, bad: BadBatch) -> None:
        """Cut from a bad batch on, if a crash explains it."""
        segment = self.segments[number]
        # What lies below the log's start was deleted, and may be there in part.
        if max(bad.offset, self._start_offset) < self._recovery_point:
            raise DamagedLog(segment.log_path, bad.position, bad.offset, f"{bad.problem}, below the recovery point")
        file = self.disk.open(segment.log_path)
        try:
            end = file.size()
            valid_at = find_valid_batch(file, bad.position, end, segment.base_offset)
            has_followers = valid_at is None and any(map(self._has_valid, self.segments[number + 1 :]))
            if valid_at is not None or has_followers:
                # The bad batch itself may be valid but for its offset, which its CRC does not cover.
                bad_end = end if valid_at is None else max(valid_at, bad.position + OFFSET_BYTES)
                is_missing = valid_at is None and bad.is_cut_short
                if not is_missing and not is_lost_write(file, bad.position, bad_end, bad.offset):
                    where = "in later segments" if valid_at is None else f"from byte {valid_at} on"
                    raise DamagedLog(
                        segment.log_path, bad.position, bad.offset, f"{bad.problem}, and whole batches follow {where}"
                    )
            self._cut(number, file, bad, is_kept=valid_at is not None or has_followers)
        finally:
            file.close()

    def _has_valid(self, segment: Segment) -> bool:
        file = self.disk.open(segment.log_path)
        try:
            return find_valid_batch(file, 0, segment.size, segment.base_offset) is not None
        finally:
            file.close()

    def _cut(self, number: int, file: File, bad: BadBatch, *, is_kept: bool) -> None:
        """Remove everything from the bad batch on. Whole batches among it are kept beside the log, out of its way."""
        segment, report = self.segments[number], self.report
        followers = self.segments[number + 1 :]
        cut_bytes = file.size() - bad.position
        if is_kept and cut_bytes:
            self._keep(segment.stem, partial(copy_bytes, self.disk, file, bad.position))
        file.truncate(bad.position)
        file.sync()  # or the removed bytes could show up again among those that are written in their place
        for follower in followers:
            cut_bytes += follower.size
            if is_kept and follower.size:
                self._keep(follower.stem, partial(self.disk.rename, follower.log_path))
            self._remove(follower)
        self.disk.sync_directory(self.directory)
        del self.segments[number + 1 :]
        report.cut_bytes += cut_bytes
        kept = f"; what was removed is kept in {', '.join(report.cut_kept_in)}" if report.cut_kept_in else ""
        report.notes.append(
            f"{segment.log_path} was cut at byte {bad.position} (offset {bad.offset}): {bad.problem}. "
            f"{cut_bytes} bytes that were never flushed are gone{kept}"
        )

    def _keep(self, stem: str, store: Callable[[str], None], *, is_one_of_many: bool = False) -> None:
        if not is_one_of_many:
            older = [name for name in self.disk.list(self.directory) if name.endswith(layout.CUT)]
            for name in older[: max(0, len(older) - CUTS_KEPT + 1)]:
                self.disk.remove(f"{self.directory}/{name}")
        path = stem + layout.CUT
        store(path)
        self.report.cut_kept_in.append(path)


def _new_segment(disk: Disk, directory: str, base_offset: int) -> Segment:
    segment = Segment(directory, base_offset)
    segment.begin_indexes()
    disk.open(segment.log_path, create=True).close()
    return segment

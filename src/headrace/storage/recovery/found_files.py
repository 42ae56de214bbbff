"""The files of a log that is opened, after those were removed that a crash has left half done."""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from headrace.runtime.disk import ReadFault
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.cleaner_checkpoint import load_cleaner_checkpoint
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.leader_epochs import LeaderEpochs
from headrace.storage.recovery.kept_copies import keep_one_of_many
from headrace.storage.segments.producer_snapshots import load_snapshot, replay_producers, save_snapshot
from headrace.storage.segments.replacement import complete_replacements
from headrace.storage.segments.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.replication.producers import ProducerStates
    from headrace.runtime.disk import Disk
    from headrace.storage.files.leader_epochs import EpochStart
    from headrace.storage.recovery.job import RecoveryJob


class FoundFiles:
    def __init__(self, job: RecoveryJob) -> None:
        self._job = job
        for base_offset, end_offset in complete_replacements(job.disk, job.directory):
            job.report.notes.append(f"a compaction of offsets {base_offset} to {end_offset} was completed")
        self.names = self._clean_up()
        self.cleaner_checkpoint = load_cleaner_checkpoint(job.disk, job.directory)
        self.segments = self._find_segments()
        stored = self._stored_epochs()
        self._check_first(stored or [])
        self.must_read_epochs = stored is None
        self.epochs = LeaderEpochs(stored or ())
        self.epochs.truncate_end(max(job.recovery_point, job.start_offset))  # later ones are read from the batches

    @property
    def may_have_gaps(self) -> bool:
        return self.cleaner_checkpoint is not None

    def begin_empty(self) -> None:
        """Everything that is left was deleted before."""
        for segment in self.segments:
            self.remove(segment)
        self.segments = [new_segment(self._job.disk, self._job.directory, self._job.start_offset)]

    def _clean_up(self) -> list[str]:
        """Remove what a crash left half done; return the names of the rest."""
        kept: list[str] = []
        names = self._job.disk.list(self._job.directory)
        logs = {name.removesuffix(layout.LOG) for name in names if name.endswith(layout.LOG)}
        for name in names:
            stem, dot, ending = name.partition(".")
            is_orphan = dot + ending in {layout.INDEX, layout.TIME_INDEX, layout.ABORTED} and stem not in logs
            if is_orphan or name.endswith((layout.DRAFT, layout.DELETED, layout.CLEANED)):
                self._job.disk.remove(f"{self._job.directory}/{name}")
            else:
                kept.append(name)
        return kept

    def _find_segments(self) -> list[Segment]:
        """The segments, without those that lie wholly below the log's start."""
        bases = sorted(base for name in self.names if (base := layout.offset_in(name, layout.LOG)) is not None)
        deleted = []
        while len(bases) > 1 and bases[1] <= self._job.start_offset:
            deleted.append(self._found(bases.pop(0)))
        if deleted:
            self._remove_deleted(deleted, bases[0])
        if not bases or bases[0] > max(self._job.start_offset, self._job.recovery_point):
            if self._job.recovery_point > self._job.start_offset:
                path = layout.stem(self._job.directory, self._job.start_offset) + layout.LOG
                raise DamagedLog(path, 0, self._job.start_offset, "the log's files are missing")
            self._drop_without_front([Segment(self._job.directory, base) for base in bases])
            return [new_segment(self._job.disk, self._job.directory, self._job.start_offset)]
        with_aborts = {layout.offset_in(name, layout.ABORTED) for name in self.names}
        segments = []
        for base in bases:
            segment = self._found(base)
            segment.is_sealed = base != bases[-1]
            if base in with_aborts:
                segment.aborted.entries = None
            segments.append(segment)
        return segments

    def _found(self, base_offset: int) -> Segment:
        path = layout.stem(self._job.directory, base_offset) + layout.LOG
        file = self._job.disk.open(path)
        try:
            return Segment(self._job.directory, base_offset, file.size())
        finally:
            file.close()

    def _remove_deleted(self, deleted: Sequence[Segment], next_base: int) -> None:
        """Nobody may read these any more, but their producers live on in the next segment's snapshot.

        A crash may have taken that. The batches still know, unless some of them are gone already.
        """
        if load_snapshot(self._job.disk, self._job.directory, self.names, next_base)[0] != next_base:
            with suppress(DamagedLog, ReadFault):
                replayed = replay_producers(self._job.disk, self._job.directory, self.names, deleted, next_base)
                self._save_producers(next_base, replayed.producers, deleted)
                self._job.disk.sync_everything()
                self.names = self._job.disk.list(self._job.directory)
        for segment in deleted:
            self.remove(segment)

    def _save_producers(self, offset: int, producers: ProducerStates, deleted: Sequence[Segment]) -> None:
        if save_snapshot(self._job.disk, self._job.directory, offset, producers) or not len(producers):
            return
        for path in (path for segment in deleted for path in segment.index_paths):
            self._job.disk.remove(path)
        if not save_snapshot(self._job.disk, self._job.directory, offset, producers):
            raise OSError(errno.ENOSPC, "there is no room to remember the producers of deleted batches")

    def _drop_without_front(self, segments: list[Segment]) -> None:
        """A flush makes all names durable. So if the first file has none, nothing of this log was ever flushed."""
        for segment in segments:  # all of them are kept: it may not have been a crash, but somebody who moved files
            keep_one_of_many(self._job, segment.stem, partial(self._job.disk.rename, segment.log_path))
            self.remove(segment)
            self._job.report.notes.append(f"{segment.log_path} was taken away: what came before it was never flushed")
        if segments:
            # Or they could show up again beside what is written in their place.
            self._job.disk.sync_directory(self._job.directory)

    def _stored_epochs(self) -> list[EpochStart] | None:
        try:
            stored = checkpoints.decode_epochs(self._job.disk.read_file(f"{self._job.directory}/{layout.EPOCHS}"))
        except (FileNotFoundError, ReadFault):
            return None  # the batches know it too
        if stored and stored[0].start_offset > max(self._job.start_offset, self.segments[0].base_offset):
            return None  # segments that retention had dropped are back: their files were not removed yet
        return stored

    def _check_first(self, epochs: Sequence[EpochStart]) -> None:
        """Retention stores where a log begins before it removes files. So files that nobody gave up were taken away."""
        first_offset = self.segments[0].base_offset
        if epochs and max(self._job.start_offset, epochs[0].start_offset) < first_offset:
            path = layout.stem(self._job.directory, epochs[0].start_offset) + layout.LOG
            raise DamagedLog(
                path, 0, epochs[0].start_offset, f"it is missing; the files begin at offset {first_offset}"
            )

    def remove(self, segment: Segment) -> None:
        for path in segment.paths:
            self._job.disk.remove(path)


def new_segment(disk: Disk, directory: str, base_offset: int) -> Segment:
    segment = Segment(directory, base_offset)
    segment.begin_indexes()
    disk.open(segment.log_path, create=True).close()
    return segment

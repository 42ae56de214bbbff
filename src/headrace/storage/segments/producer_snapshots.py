"""Producer states on disk: the newest good snapshot, and the batches after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import DiskFailure
from headrace.replication.producer_snapshots import DamagedSnapshot, decode_snapshot, encode_snapshot
from headrace.replication.producers import ProducerStates
from headrace.runtime.disk import ReadFault
from headrace.storage.files import layout
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.disk_errors import NO_SPACE
from headrace.storage.segments.scan import headers_from
from headrace.storage.segments.segment import REBUILD_HOP_BYTES
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.batches.markers import decode_marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.replication.open_transactions import EndedTransaction
    from headrace.runtime.disk import Disk, File
    from headrace.storage.segments.segment import Segment
    from headrace.wire.batches.header import BatchHeader
    from headrace.wire.batches.markers import Marker

NO_SNAPSHOT = -1
SNAPSHOTS_KEPT = 2  # a damaged newest one still leaves its predecessor


def save_snapshot(disk: Disk, directory: str, offset: int, states: ProducerStates) -> bool:
    """Write the states as of `offset`. False on a full disk: an older snapshot has to do, and the batches since."""
    path = layout.stem(directory, offset) + layout.SNAPSHOT
    try:
        disk.write_file(path, encode_snapshot(states.entries()))
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise DiskFailure(f"the disk refused to write {path}: {error}") from error
        disk.remove(path)
        return False
    return True


def prune_snapshots(disk: Disk, directory: str, file_names: Sequence[str], segments: Sequence[Segment]) -> None:
    """Remove snapshots that no start will need: not the newest, and not where a segment begins."""
    offsets = snapshot_offsets(file_names)
    kept = {*offsets[-SNAPSHOTS_KEPT:], *(segment.base_offset for segment in segments)}
    for offset in offsets:
        if offset not in kept:
            disk.remove(layout.stem(directory, offset) + layout.SNAPSHOT)


def snapshot_offsets(file_names: Sequence[str]) -> list[int]:
    return sorted(offset for name in file_names if (offset := layout.offset_in(name, layout.SNAPSHOT)) is not None)


def load_snapshot(disk: Disk, directory: str, file_names: Sequence[str], offset_max: int) -> tuple[int, ProducerStates]:
    """The newest good snapshot not beyond `offset_max`, and its offset; (-1, no producers) if there is none.

    Snapshots that are found to be damaged are removed.
    """
    for offset in reversed(snapshot_offsets(file_names)):
        if offset > offset_max:
            continue
        path = layout.stem(directory, offset) + layout.SNAPSHOT
        try:
            return offset, decode_snapshot(disk.read_file(path))
        except (DamagedSnapshot, FileNotFoundError, ReadFault):
            disk.remove(path)  # the batches know it too
    return -1, ProducerStates()


def drop_snapshots_beyond(disk: Disk, directory: str, file_names: Sequence[str], end_offset: int) -> None:
    """The log ends at `end_offset`: what is said about later batches is about other ones."""
    for offset in snapshot_offsets(file_names):
        if offset > end_offset:
            disk.remove(layout.stem(directory, offset) + layout.SNAPSHOT)


class Replayed(NamedTuple):
    producers: ProducerStates
    snapshot_offset: int
    """Where the snapshot ended that it began with; -1 if there was none."""
    aborted: list[EndedTransaction]
    """Whose markers came after that snapshot."""


def replay_producers(
    disk: Disk,
    directory: str,
    file_names: Sequence[str],
    segments: Sequence[Segment],
    end_offset: int,
    *,
    snapshot_max: int | None = None,
) -> Replayed:
    """The states as of `end_offset`, from the newest snapshot or, if one is named, from none beyond `snapshot_max`.

    Blocking: reads the headers of all batches since that snapshot.
    """
    offset_max = end_offset if snapshot_max is None else snapshot_max
    snapshot_offset, states = load_snapshot(disk, directory, file_names, offset_max)
    aborted: list[EndedTransaction] = []
    for number, segment in enumerate(segments):
        is_covered = number + 1 < len(segments) and segments[number + 1].base_offset <= snapshot_offset
        if is_covered or max(snapshot_offset, segment.base_offset) >= end_offset:
            continue
        file = disk.open(segment.log_path)
        try:
            for position, header in headers_from(file, segment.log_path, 0, segment.size, REBUILD_HOP_BYTES):
                if header.producer_id < 0 or not snapshot_offset <= header.base_offset < end_offset:
                    continue
                if not header.is_control:
                    states.apply(header)
                    continue
                ended = states.apply_marker(header, _marker_at(file, segment.log_path, position, header))
                if ended is not None and not ended.is_commit:
                    aborted.append(ended)
        finally:
            file.close()
    return Replayed(states, snapshot_offset, aborted)


def replay_aborted(
    disk: Disk,
    directory: str,
    file_names: Sequence[str],
    segments: Sequence[Segment],
    first_offset: int,
    end_offset: int,
) -> list[EndedTransaction]:
    """The transactions whose abort markers lie from `first_offset` on and below `end_offset`. Blocking."""
    if first_offset >= end_offset:
        return []
    replayed = replay_producers(disk, directory, file_names, segments, end_offset, snapshot_max=first_offset)
    return [aborted for aborted in replayed.aborted if aborted.marker_offset >= first_offset]


def _marker_at(file: File, path: str, position: int, header: BatchHeader) -> Marker:
    try:
        return decode_marker(file.read(position, header.size))
    except CorruptBatch as damage:
        raise DamagedLog(path, position, header.base_offset, f"a transaction's marker is damaged: {damage}") from damage


class ProducerSnapshots:
    """Those of a log that is in use: it writes them where its segments begin, and before their batches go."""

    __slots__ = ("_directory", "_disk", "_newest_offset", "_producers")

    def __init__(self, disk: Disk, directory: str, producers: ProducerStates, newest_offset: int) -> None:
        self._disk = disk
        self._directory = directory
        self._producers = producers
        self._newest_offset = newest_offset
        """Where the newest one ends that is known to be good; NO_SNAPSHOT if there is none."""

    def save(self, offset: int) -> bool:
        """As of `offset`, where the log ends. False if there is no room."""
        is_saved = save_snapshot(self._disk, self._directory, offset, self._producers)
        if is_saved:
            self._newest_offset = offset
        return is_saved

    def save_at_close(self, offset: int) -> None:
        """Unless it is there already. Without room an older one has to do."""
        if self._newest_offset != offset:
            self.save(offset)

    def cover(self, offset: int) -> bool:
        """Whether what is known of producers up to `offset` is kept in one, or there is nothing to keep."""
        return not len(self._producers) or self._newest_offset >= offset

    def prune(self, segments: Sequence[Segment]) -> None:
        prune_snapshots(self._disk, self._directory, self._disk.list(self._directory), segments)

    def note_cut(self) -> None:
        """The newest may have gone with a segment."""
        self._newest_offset = NO_SNAPSHOT

    def note_saved(self, offset: int) -> None:
        """Somebody else has written one."""
        self._newest_offset = offset

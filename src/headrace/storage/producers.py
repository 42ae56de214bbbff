"""Producer states on disk: the newest good snapshot, and the batches after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure
from headrace.replication.producer_snapshots import DamagedSnapshot, decode_snapshot, encode_snapshot
from headrace.replication.producers import ProducerStates
from headrace.storage import layout
from headrace.storage.scan import headers_from
from headrace.storage.segment import NO_SPACE, REBUILD_HOP_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.disk import Disk
    from headrace.storage.segment import Segment

SNAPSHOTS_KEPT = 2  # a damaged newest one still leaves its predecessor


def save_snapshot(disk: Disk, directory: str, offset: int, states: ProducerStates) -> None:
    """Write the states as of `offset`. On a full disk an older snapshot has to do: more batches are replayed then."""
    path = layout.stem(directory, offset) + layout.SNAPSHOT
    try:
        disk.write_file(path, encode_snapshot(states.entries()))
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise DiskFailure(f"the disk refused to write {path}: {error}") from error
        disk.remove(path)


def prune_snapshots(disk: Disk, directory: str, file_names: Sequence[str], segments: Sequence[Segment]) -> None:
    """Remove snapshots that no start will need: not the newest, and not where a segment begins."""
    offsets = snapshot_offsets(file_names)
    kept = {*offsets[-SNAPSHOTS_KEPT:], *(segment.base_offset for segment in segments)}
    for offset in offsets:
        if offset not in kept:
            disk.remove(layout.stem(directory, offset) + layout.SNAPSHOT)


def snapshot_offsets(file_names: Sequence[str]) -> list[int]:
    return sorted(offset for name in file_names if (offset := layout.offset_in(name, layout.SNAPSHOT)) is not None)


def load_snapshot(disk: Disk, directory: str, file_names: Sequence[str], end_offset: int) -> tuple[int, ProducerStates]:
    """The newest good snapshot not beyond `end_offset`, and its offset; (-1, no producers) if there is none.

    Snapshots that are damaged, or beyond the end, are removed.
    """
    for offset in reversed(snapshot_offsets(file_names)):
        path = layout.stem(directory, offset) + layout.SNAPSHOT
        if offset <= end_offset:
            try:
                return offset, decode_snapshot(disk.read_file(path))
            except (DamagedSnapshot, FileNotFoundError):
                pass  # the batches know it too
        disk.remove(path)
    return -1, ProducerStates()


def replay_producers(
    disk: Disk, directory: str, file_names: Sequence[str], segments: Sequence[Segment], end_offset: int
) -> tuple[ProducerStates, int]:
    """The states as of `end_offset`, and the offset of the snapshot they come from.

    Blocking: reads the headers of all batches since that snapshot.
    """
    snapshot_offset, states = load_snapshot(disk, directory, file_names, end_offset)
    for number, segment in enumerate(segments):
        is_covered = number + 1 < len(segments) and segments[number + 1].base_offset <= snapshot_offset
        if is_covered or snapshot_offset >= end_offset:
            continue
        file = disk.open(segment.log_path)
        try:
            for _, header in headers_from(file, segment.log_path, 0, segment.size, REBUILD_HOP_BYTES):
                if snapshot_offset <= header.base_offset < end_offset:
                    states.apply(header)
        finally:
            file.close()
    return states, snapshot_offset

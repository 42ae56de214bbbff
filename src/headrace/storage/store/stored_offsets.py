"""What the next start will be told of each log: up to where it was safe, and where it begins.

Both are hints, and must never promise too much: who stores a recovery point has synced everything below it before, and
who stores a start removes the files below it only afterwards. Whoever stores holds the store's lock for checkpoints.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.storage.files import checkpoints, layout
from headrace.storage.files.disk_errors import replace_if_room

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.model.names import LogId
    from headrace.runtime.disk import Disk
    from headrace.storage.files.disk_work import DiskWork


class RecoveryPoints:
    """Also those of logs that could not be opened: they will be tried again."""

    def __init__(self, work: DiskWork) -> None:
        self._work = work
        self._stored: dict[LogId, int] = {}
        self._outdated: dict[LogId, None] = {}
        """Logs whose points are still stored, and do not count any more."""

    def load(self) -> None:
        """Blocks."""
        self._stored = checkpoints.read_offsets(self._work.disk, checkpoints.RECOVERY_POINTS)

    def of(self, log_id: LogId) -> int:
        """0 if nothing is known."""
        return self._stored.get(log_id, 0)

    def all(self) -> dict[LogId, int]:
        return dict(self._stored)

    def forget(self, log_id: LogId) -> None:
        """What a later log of this id holds must not be taken for safe because this one was."""
        if self._stored.pop(log_id, None) is not None:
            self._outdated[log_id] = None

    def outdated_among(self, log_ids: Iterable[LogId]) -> list[LogId]:
        return [log_id for log_id in log_ids if log_id in self._outdated]

    def is_stored(self, points: Mapping[LogId, int]) -> bool:
        return points == self._stored and not self._outdated

    async def store(self, points: Mapping[LogId, int]) -> bool:
        """In place of all that were stored; False if the disk is full."""
        stored = dict(points)
        if not await self._work.replace(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(stored)):
            return False
        # Some may have been given up meanwhile.
        self._outdated = {log_id: None for log_id in self._outdated if log_id in stored}
        self._stored = {log_id: point for log_id, point in stored.items() if log_id not in self._outdated}
        return True


class CommittedOffsets:
    """High watermarks, for the next life: until a leader has told it one, it would know of nothing to be committed."""

    def __init__(self, work: DiskWork) -> None:
        self._work = work
        self._stored: dict[LogId, int] = {}

    def load(self) -> None:
        """Blocks."""
        self._stored = checkpoints.read_offsets(self._work.disk, checkpoints.HIGH_WATERMARKS)

    def of(self, log_id: LogId) -> int:
        """0 if nothing is known."""
        return self._stored.get(log_id, 0)

    def forget(self, log_id: LogId) -> None:
        self._stored.pop(log_id, None)

    async def store(self, offsets: Mapping[LogId, int]) -> None:
        """Beside those of logs that are not open. On a full disk the old ones must do: they promise less."""
        known = {**self._stored, **offsets}
        if known != self._stored:
            self._stored = known
            await self._work.run(partial(_store_committed, self._work.disk, dict(known)))


def _store_committed(disk: Disk, offsets: Mapping[LogId, int]) -> None:
    replace_if_room(disk, checkpoints.HIGH_WATERMARKS, checkpoints.encode_offsets(offsets))


class StartOffsets:
    """Also those of logs that are gone, until others are stored."""

    def __init__(self, work: DiskWork) -> None:
        self._work = work
        self._stored: dict[LogId, int] = {}
        self._gone: dict[LogId, None] = {}
        """Logs that were removed, whose starts are still stored."""

    def load(self, found: Sequence[LogId]) -> None:
        """Blocks."""
        disk = self._work.disk
        self._stored = read_starts(disk, found)
        if not checkpoints.is_whole(disk, checkpoints.START_OFFSETS):
            replace_if_room(disk, checkpoints.START_OFFSETS, checkpoints.encode_offsets(self._stored))

    def of(self, log_id: LogId) -> int:
        return self._stored.get(log_id, 0)

    def forget(self, log_id: LogId) -> None:
        if log_id in self._stored:
            self._gone[log_id] = None

    def changed_by(self, starts: Mapping[LogId, int]) -> dict[LogId, int] | None:
        """All that is to be stored if logs begin there now. None if that is stored already."""
        changed = {log_id: start for log_id, start in self._stored.items() if log_id not in self._gone}
        for log_id, start_offset in starts.items():
            if start_offset or log_id in changed:
                changed[log_id] = start_offset
        return None if changed == self._stored else changed

    async def store(self, starts: dict[LogId, int]) -> bool:
        """In place of all that were stored; False if the disk is full."""
        if not await self._work.replace(checkpoints.START_OFFSETS, checkpoints.encode_offsets(starts)):
            return False
        self._stored = starts
        self._gone.clear()
        return True


def read_starts(disk: Disk, found: Sequence[LogId]) -> dict[LogId, int]:
    """If nothing is stored somebody took the file away, for it is there from the first start on. Then logs begin where
    their files do: to take them for torn ones that begin at 0 would throw away all that they hold. Blocks."""
    if checkpoints.is_whole(disk, checkpoints.START_OFFSETS):
        return checkpoints.read_offsets(disk, checkpoints.START_OFFSETS)
    return {log_id: base for log_id in found if (base := _first_base(disk, log_id)) > 0}


def _first_base(disk: Disk, log_id: LogId) -> int:
    bases = (layout.offset_in(name, layout.LOG) for name in disk.list(layout.directory_of(log_id)))
    return min((base for base in bases if base is not None), default=0)

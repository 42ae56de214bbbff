"""One log's part in a flush: what must reach the device so that everything up to an offset is safe."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk, File
    from headrace.storage.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class FlushTicket:
    """Taken on the loop by `begin_flush`, synced in a thread, given back on the loop to `finish_flush`."""

    files: tuple[tuple[Segment, File, int], ...]
    """Each with the size that the sync will cover. Leased, so that none is closed under the thread."""
    directories: tuple[str, ...]
    target_offset: int
    cuts: int
    """How often the log had been truncated. A truncation since then makes the ticket worthless."""

    @property
    def sync_count(self) -> int:
        return len(self.files) + len(self.directories)

    def sync(self, disk: Disk) -> None:
        """Blocking. Bytes before names: an entry in a directory never promises bytes that are not there."""
        for _, file, _ in self.files:
            file.sync()
        for directory in self.directories:
            with suppress(FileNotFoundError):  # the log was deleted meanwhile
                disk.sync_directory(directory)

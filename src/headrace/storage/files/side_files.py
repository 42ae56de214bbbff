"""Files beside a log that are written anew as a whole. That can wait for the device, so a thread does it.

Taken on the loop, with a copy of what the log knows; written in a thread; and noted on the loop, if it was written.
What the log learns meanwhile is for the next time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure
from headrace.storage.files import layout
from headrace.storage.files.disk_errors import NO_SPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.runtime.disk import Disk


@dataclass(slots=True, eq=False)
class SideFile:
    path: str
    content: bytes
    note: Callable[[], None]
    """To be called on the loop once it is written."""
    is_trusted: bool
    """A start believes it without a second look, so a power cut must leave the old content or the new. Else a torn one
    is found out, and it is enough that a sync of everything follows."""
    is_written: bool = False

    def write(self, disk: Disk) -> None:
        """Blocking. On a full disk what was there before stands."""
        try:
            if self.is_trusted:
                disk.replace_file(self.path, self.content)
            else:
                disk.write_file(self.path + layout.DRAFT, self.content)
                disk.rename(self.path + layout.DRAFT, self.path)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise DiskFailure(f"the disk refused to write {self.path}: {error}") from error
        else:
            self.is_written = True


def write_all(disk: Disk, files: Iterable[SideFile]) -> None:
    """Blocking."""
    for file in files:
        file.write(disk)


def note_written(files: Iterable[SideFile]) -> bool:
    """False if one of them found no room."""
    is_complete = True
    for file in files:
        if file.is_written:
            file.note()
        else:
            is_complete = False
    return is_complete

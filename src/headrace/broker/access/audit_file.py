"""The audit's file: lines appended, renamed when it is large, as many kept as an operator said. All of it blocks."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.disk import Disk, File

AUDIT_FILE: Final = "audit.log"
NEW_LINE: Final = b"\n"


class AuditFile:
    """For one thread at a time. Its owner alone may read it, as all else in a data directory."""

    path = AUDIT_FILE

    def __init__(self, disk: Disk, max_bytes: int, files: int) -> None:
        self._disk = disk
        self._max_bytes = max_bytes
        self._files = files
        self._file: File | None = None

    def write(self, lines: Sequence[bytes]) -> None:
        """All of them, or none and OSError. They reach the device when the system likes: a process that ends loses none
        of them, a machine may lose the last seconds."""
        content = NEW_LINE.join((*lines, b""))
        file = self._file or self._opened()
        if file.size() and file.size() + len(content) > self._max_bytes:
            self.close()
            self._make_way()
            file = self._opened()
        before = file.size()
        if file.append([content]) < len(content):
            file.truncate(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def try_to_write(self, lines: Sequence[bytes]) -> str:
        """Why they could not be written; empty if they are."""
        try:
            self.write(lines)
        except OSError as error:
            return str(error)
        return ""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> File:
        file = self._file = self._disk.open(AUDIT_FILE, create=True)
        size = file.size()
        if size and file.read(size - 1, 1) != NEW_LINE:
            file.append([NEW_LINE])  # the machine went down in the middle of a line
        return file

    def _make_way(self) -> None:
        for older in self._older():
            if older >= self._files - 1:
                self._disk.remove(f"{AUDIT_FILE}.{older}")
        for number in range(self._files - 1, 0, -1):
            newer = f"{AUDIT_FILE}.{number - 1}" if number > 1 else AUDIT_FILE
            if self._disk.exists(newer):
                self._disk.rename(newer, f"{AUDIT_FILE}.{number}")
        if self._files == 1:
            self._disk.remove(AUDIT_FILE)

    def _older(self) -> list[int]:
        """The numbers of all that are there, also of those that a larger setting has left."""
        endings = (name.removeprefix(f"{AUDIT_FILE}.") for name in self._disk.list(""))
        return [int(ending) for ending in endings if ending.isascii() and ending.isdigit()]

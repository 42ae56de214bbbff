"""A data directory that is read and never changed: what is written, cut, renamed or removed lives in memory only.

So the same code that opens a node's logs, which cuts what is torn and completes what was begun, can look at the last
disk that is left without laying hands on it. Files are opened for reading; the disk may be mounted read-only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.runtime.disk import SystemDisk, check_read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headrace.runtime.disk import Buffer


class _Content:
    """The first `kept` bytes of a file on the disk, and what was written behind them since."""

    __slots__ = ("kept", "path", "tail")

    def __init__(self, path: str | None, kept: int, tail: bytes = b"") -> None:
        self.path = path
        self.kept = kept
        self.tail = bytearray(tail)

    @property
    def size(self) -> int:
        return self.kept + len(self.tail)

    def cut(self, size: int) -> None:
        del self.tail[max(0, size - self.kept) :]
        self.kept = min(self.kept, size)


class OverlayFile:
    def __init__(self, path: str, content: _Content, on_change: Callable[[], None]) -> None:
        self.generation = 0
        self._path = path
        self._content = content
        self._on_change = on_change
        self._descriptor = -1 if content.path is None else os.open(content.path, os.O_RDONLY | os.O_CLOEXEC)
        self._leases = 0
        self._is_closed = False

    def size(self) -> int:
        return self._content.size

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._on_change()
        for buffer in buffers:
            self._content.tail += buffer
        return sum(map(len, buffers))

    def read(self, position: int, size: int) -> bytes:
        kept = self._content.kept
        wanted = max(0, min(size, kept - position))
        found = self._read_kept(position, wanted) if wanted else b""
        beyond = max(0, position - kept)
        return found + self._content.tail[beyond : beyond + size - wanted]

    def _read_kept(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, position)
        except OSError as error:
            check_read(error, self._path, position)
            raise

    def truncate(self, size: int) -> None:
        self._on_change()
        self.generation += 1
        self._content.cut(size)

    def reserve(self, size: int) -> None:
        """Memory need not be set aside."""

    def sync(self) -> None:
        """Nothing is to outlive the process."""

    def is_cached(self, position: int, size: int) -> bool:  # noqa: ARG002 - nobody but the reader waits
        return True

    def warm(self, position: int, size: int) -> None:
        """Whoever reads may wait."""

    def forget_cached(self) -> None:
        if self._descriptor >= 0:
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def send(self, socket_descriptor: int, position: int, size: int) -> int:  # noqa: ARG002
        raise OSError(errno.EROFS, "nothing is served from a disk that is only looked at")

    def lease(self) -> None:
        self._leases += 1

    def release(self) -> None:
        self._leases -= 1
        self._close_if_unused()

    @property
    def is_leased(self) -> bool:
        return self._leases > 0

    def close(self) -> None:
        self._is_closed = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_closed and not self._leases and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OverlayDisk:
    """Directories stay as they are: they can be made, and neither renamed nor removed."""

    def __init__(self, root: Path, *, is_ours: bool = False) -> None:
        """BlockingIOError while a node runs on it: what it writes meanwhile would be misread. `is_ours`: this process
        holds the directory already."""
        self.location = str(root.absolute())
        self._changed: dict[str, _Content | None] = {}
        """By path, what differs from the disk. None: it is gone."""
        self._lock = -1
        if not is_ours:
            self._expect_nobody()

    def _expect_nobody(self) -> None:
        try:
            self._lock = os.open(f"{self.location}/{SystemDisk.LOCK}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # a copy of a directory need not have one
        try:
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise BlockingIOError(
                error.errno, f"the data directory {self.location} is in use by a node; stop it first"
            ) from error

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def open(self, path: str, *, create: bool = False) -> OverlayFile:
        content = self._find(path)
        if content is None and create:
            content = self._changed[path] = _Content(None, 0)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return OverlayFile(path, content, lambda: self._changed.__setitem__(path, content))

    def _find(self, path: str) -> _Content | None:
        if path in self._changed:
            return self._changed[path]
        real = f"{self.location}/{path}"
        return _Content(real, os.path.getsize(real)) if os.path.isfile(real) else None

    def exists(self, path: str) -> bool:
        if path in self._changed:
            return self._changed[path] is not None
        return os.path.exists(f"{self.location}/{path}")

    def list(self, path: str) -> list[str]:
        names: set[str] = set()
        with suppress(FileNotFoundError):
            names.update(os.listdir(f"{self.location}/{path}"))
        names.discard(SystemDisk.LOCK)
        for changed, content in self._changed.items():
            directory, _, name = changed.rpartition("/")
            if directory == path:
                (names.discard if content is None else names.add)(name)
        return sorted(names)

    def make_directory(self, path: str) -> None:
        """A file may have any path here."""

    def remove(self, path: str) -> None:
        self._changed[path] = None

    def remove_directory(self, path: str) -> None:
        raise OSError(errno.EROFS, "a disk that is only looked at keeps its directories", path)

    def rename(self, old: str, new: str) -> None:
        content = self._find(old)
        if content is None:
            raise OSError(errno.EROFS, "a disk that is only looked at keeps its directories", old)
        self._changed[new], self._changed[old] = content, None

    def read_file(self, path: str) -> bytes:
        file = self.open(path)
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def write_file(self, path: str, content: bytes) -> None:
        self._changed[path] = _Content(None, 0, content)

    def replace_file(self, path: str, content: bytes) -> None:
        self.write_file(path, content)

    def sync_directory(self, path: str) -> None:
        """Nothing is to outlive the process."""

    def sync_everything(self) -> None:
        """Nothing is to outlive the process."""

    def total_bytes(self) -> int:
        return shutil.disk_usage(self.location).total

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.location).free

"""Files. Paths are relative to the data directory and use '/'.

Everything here blocks. Page-cache reads and writes are short enough for the loop; what waits for the device (`sync`,
`sync_directory`, `sync_everything`, `warm`, `replace_file`) is called through `Threads`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.runtime import _libc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Buffer = bytes | bytearray | memoryview

DIRECTORY_MODE = 0o700  # what clients write is for those who may read topics, not for everybody with an account
FILE_MODE = 0o600
WRITEV_MAX = 1024  # IOV_MAX on Linux
PROBE_STEP = 128 * 1024  # the kernel's default read-ahead: one cached page speaks for its neighbours
UNREADABLE = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.EILSEQ, errno.ENODATA, errno.EREMOTEIO})
"""How a device, or a file system that checks what the device gives it, says that it cannot read."""
NO_QUICK_READS = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


class ReadFault(OSError):
    """Bytes that were once written cannot be read. That is said of them, and not of the whole disk: a sector is bad.

    Only reads raise it. A write or a sync that fails is another matter: what it leaves behind is unknown.
    """

    def __init__(self, error: OSError, path: str, position: int = 0) -> None:
        super().__init__(error.errno, error.strerror, path)
        self.path = path
        self.position = position
        self.words = error.strerror or str(error)


def check_read(error: OSError, path: str, position: int = 0) -> None:
    """Raises ReadFault if that is what a read has met. It may have met something else, as want of descriptors."""
    if error.errno in UNREADABLE:
        raise ReadFault(error, path, position) from error


class ReadableFile(Protocol):
    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes: ...


class File(Protocol):
    """An open file that is read anywhere and written at its end."""

    generation: int
    """Grows with every truncation, so that a slice taken before can be told from one taken after."""

    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end; return how many bytes got there. Fewer than asked means no space."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file. ReadFault, here and wherever bytes are read, if the device
        cannot."""
        ...

    def reserve(self, size: int) -> None:
        """Set space aside for the next `size` bytes, as far as there is any: a full disk then has room for them."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when every byte written before the call is on the device. OSError is final: after one, every sync of
        this disk fails, of whatever file and in whatever way, until the process ends."""
        ...

    def is_cached(self, position: int, size: int) -> bool:
        """False if sending these bytes would probably wait for the device."""
        ...

    def warm(self, position: int, size: int) -> None:
        """Bring these bytes into memory."""
        ...

    def forget_cached(self) -> None:
        """From now on reads show what the device holds. After a failed sync memory still shows what never got there."""
        ...

    def send(self, socket_descriptor: int, position: int, size: int) -> int:
        """Hand bytes to a socket without copying them; return how many it took."""
        ...

    def lease(self) -> None:
        """Keep the file readable after `close` until as many `release` calls."""
        ...

    def release(self) -> None: ...

    @property
    def is_leased(self) -> bool: ...

    def close(self) -> None: ...


class Disk(Protocol):
    location: str
    """Where it is, in words for people and tools."""

    def open(self, path: str, *, create: bool = False) -> File:
        """FileNotFoundError unless it exists or `create` is given; ReadFault if it cannot be told what is there."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if there is no such directory."""
        ...

    def make_directory(self, path: str) -> None:
        """Also its parents; fine if it exists."""
        ...

    def remove(self, path: str) -> None:
        """Fine if it does not exist."""
        ...

    def remove_directory(self, path: str) -> None:
        """With everything in it; fine if it does not exist."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces `new`."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, content: bytes) -> None:
        """Plain write, durable after a later sync; for what can be rebuilt."""
        ...

    def replace_file(self, path: str, content: bytes) -> None:
        """Atomic and durable: after a crash the file holds the old content or the new. If there is no room for the new
        one, nothing of it stays."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def sync_everything(self) -> None:
        """Every byte and every directory entry written before the call is on the device."""
        ...

    def total_bytes(self) -> int: ...

    def free_bytes(self) -> int: ...


class FileSlice:
    """A leased run of bytes in a file, on its way to a socket. Release it exactly once."""

    __slots__ = ("_on_fault", "file", "generation", "position", "size")

    def __init__(
        self, file: File, position: int, size: int, on_fault: Callable[[ReadFault], None] | None = None
    ) -> None:
        """`on_fault` hears if the bytes cannot be read: who sends them does not know whose they are."""
        file.lease()
        self.file = file
        self.generation = file.generation
        self.position = position
        self.size = size
        self._on_fault = on_fault

    @property
    def is_current(self) -> bool:
        """False once the file was cut: these bytes may be gone or be others."""
        return self.file.generation == self.generation

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)

    def failed(self, fault: ReadFault) -> None:
        """Whoever sends it could not read it. To be called on the loop."""
        if self._on_fault is not None:
            self._on_fault(fault)

    def release(self) -> None:
        self.file.release()


class Trust:
    """One process's trust in its disk's syncs; each of them happens here. The pages of a sync that failed count as
    clean, those of other files among them if it was a sync of everything, and of all who sync them later the kernel
    tells only some. So after one failure every sync fails.
    """

    __slots__ = ("_failure",)

    def __init__(self) -> None:
        self._failure: str | None = None

    def sync(self, sync: Callable[[], None], *, is_draft: bool = False) -> None:
        """Want of space is no failure of a draft's sync: the file is thrown away, and nobody counts on it."""
        try:
            sync()
        except OSError as error:
            if not (is_draft and error.errno in _libc.NO_SPACE):
                self._failure = self._failure or str(error)
            raise
        if self._failure is not None:  # asked last: it may have failed meanwhile, in another thread
            raise OSError(errno.EIO, f"an earlier sync has failed ({self._failure})")


class SystemFile:
    __slots__ = ("_descriptor", "_is_closed", "_leases", "_probe", "_size", "_trust", "generation", "path")

    def __init__(self, descriptor: int, trust: Trust, path: str) -> None:
        self.path = path
        self._descriptor = descriptor
        self._trust = trust
        self._size = os.fstat(descriptor).st_size
        self._leases = 0
        self._is_closed = False
        self._probe = bytearray(1)
        self.generation = 0

    def size(self) -> int:
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> int:
        written = 0
        for start in range(0, len(buffers), WRITEV_MAX):
            part = buffers[start : start + WRITEV_MAX]
            wanted = sum(map(len, part))
            count = self._write(part, self._size + written)
            written += count
            if count < wanted:
                break
        self._size += written
        return written

    def _write(self, buffers: Sequence[Buffer], position: int) -> int:
        try:
            return os.pwritev(self._descriptor, buffers, position)
        except OSError as error:
            if error.errno in _libc.NO_SPACE:
                return 0
            raise

    def read(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, position)
        except OSError as error:
            check_read(error, self.path, position)
            raise

    def reserve(self, size: int) -> None:
        _libc.reserve(self._descriptor, self._size, size)

    def truncate(self, size: int) -> None:
        self.generation += 1
        os.ftruncate(self._descriptor, size)
        self._size = size

    def sync(self) -> None:
        if self._descriptor < 0:  # Python would raise ValueError, which nobody expects of a disk
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._trust.sync(partial(os.fdatasync, self._descriptor))

    def is_cached(self, position: int, size: int) -> bool:
        try:
            for place in (*range(position, position + size, PROBE_STEP), position + size - 1):
                os.preadv(self._descriptor, [self._probe], place, os.RWF_NOWAIT)
        except OSError as error:
            # A file system without the flag, such as tmpfs, has no cold bytes either. Whatever else is wrong with them
            # is found by who warms them, and not by a socket in the middle of an answer.
            return error.errno in NO_QUICK_READS
        return True

    def warm(self, position: int, size: int) -> None:
        end = position + size
        scratch = bytearray(min(size, PROBE_STEP))
        try:
            while position < end and (count := os.preadv(self._descriptor, [scratch], position)):
                position += count
        except OSError as error:
            check_read(error, self.path, position)
            raise

    def forget_cached(self) -> None:
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def send(self, socket_descriptor: int, position: int, size: int) -> int:
        try:
            return os.sendfile(socket_descriptor, self._descriptor, position, size)
        except OSError as error:  # a socket has other words for its own troubles
            check_read(error, self.path, position)
            raise

    def lease(self) -> None:
        self._leases += 1

    def release(self) -> None:
        self._leases -= 1
        assert self._leases >= 0, "a slice was released twice"
        self._close_if_unused()

    @property
    def is_leased(self) -> bool:
        return self._leases > 0

    def close(self) -> None:
        self._is_closed = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_closed and self._leases == 0 and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _make_directory(path: Path) -> None:
    """With what is missing above it, which `mkdir` itself would leave open to others."""
    try:
        path.mkdir(DIRECTORY_MODE, exist_ok=True)
    except FileNotFoundError:
        _make_directory(path.parent)
        path.mkdir(DIRECTORY_MODE, exist_ok=True)


def _open_for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


class SystemDisk:
    """A directory of the real file system, held by one process at a time.

    Paths are joined as text where a start opens thousands of files: pathlib takes as long as the system calls do.
    """

    LOCK = ".lock"

    def __init__(self, root: str | Path, *, is_shared: bool = False) -> None:
        """`is_shared` is for a process that works for the one that holds the directory."""
        self.root = Path(root).absolute()
        self.location = str(self.root)
        self._trust = Trust()
        self._replacing = threading.Lock()  # two threads may want to replace the same file, and a draft has one name
        if is_shared:
            self._lock = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return
        self.root.parent.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(DIRECTORY_MODE, exist_ok=True)
        self._lock = os.open(self.root / self.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise BlockingIOError(
                error.errno,
                f"the data directory {self.root} is in use by another node; stop it or choose another",
            ) from error

    def close(self) -> None:
        os.close(self._lock)

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return SystemFile(os.open(f"{self.location}/{path}", flags, FILE_MODE), self._trust, path)
        except OSError as error:
            if not create:
                check_read(error, path)
            raise

    def exists(self, path: str) -> bool:
        return os.path.exists(f"{self.location}/{path}")

    def list(self, path: str) -> list[str]:
        try:
            names = os.listdir(f"{self.location}/{path}")
        except FileNotFoundError:
            return []
        return sorted(name for name in names if name != self.LOCK)  # the lock is ours, not the node's

    def make_directory(self, path: str) -> None:
        _make_directory(self.root / path)

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def remove_directory(self, path: str) -> None:
        target = self.root / path
        if target.exists():
            shutil.rmtree(target)

    def rename(self, old: str, new: str) -> None:
        (self.root / old).replace(self.root / new)

    def read_file(self, path: str) -> bytes:
        try:
            with open(f"{self.location}/{path}", "rb", buffering=0) as file:
                return file.readall()
        except OSError as error:
            check_read(error, path)
            raise

    def write_file(self, path: str, content: bytes) -> None:
        with open(self.root / path, "wb", opener=_open_for_us_alone) as file:
            file.write(content)

    def replace_file(self, path: str, content: bytes) -> None:
        target = self.root / path
        draft = target.with_name(target.name + ".tmp")
        with self._replacing:
            try:
                with open(draft, "wb", opener=_open_for_us_alone) as file:
                    file.write(content)
                    file.flush()
                    self._trust.sync(partial(os.fsync, file.fileno()), is_draft=True)
            except OSError:
                draft.unlink(missing_ok=True)
                raise
            draft.replace(target)
            self._sync_path(target.parent)

    def sync_directory(self, path: str) -> None:
        self._sync_path(self.root / path)

    def sync_everything(self) -> None:
        self._trust.sync(partial(_libc.syncfs, self._lock))

    def total_bytes(self) -> int:
        return shutil.disk_usage(self.root).total

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.root).free

    def _sync_path(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._trust.sync(partial(os.fsync, descriptor))
        finally:
            os.close(descriptor)

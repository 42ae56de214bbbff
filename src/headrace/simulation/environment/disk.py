"""A node's view of a simulated device: the `Disk` and `File` that its code uses."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from headrace.runtime.disk import Trust, check_read
from headrace.simulation.environment.device import (
    PLENTY_BYTES,
    Device,
    EntryChange,
    Operation,
    StoredDirectory,
    StoredFile,
    os_error,
)
from headrace.simulation.environment.life import Life

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.disk import Buffer


class SimulatedDisk:
    """Belongs to one life of a node and is dead with it; the device stays for the next."""

    def __init__(self, device: Device, life: Life | None = None, *, is_used_by_a_loop: bool = False) -> None:
        """`is_used_by_a_loop`: then nobody may wait for the device but in threads."""
        self.device = device
        self._is_used_by_a_loop = is_used_by_a_loop
        self.location = f"the simulated disk {device.name}"
        self.life = life or Life("a node that never dies")
        self.trust = Trust()

    def begin(self, operation: Operation, path: str, size: int = 0) -> None:
        """Every step comes by here, so that it can fail, and so that a node can crash in the middle of a call."""
        self.life.check()
        self.device.notice(operation, path, size)
        self.life.check()

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.life.check()
        if create and self.device.find(path) is None:
            self._create(path, StoredFile())
        return SimulatedFile(self, path, self.device.file(path))

    def exists(self, path: str) -> bool:
        self.life.check()
        return self.device.find(path) is not None

    def list(self, path: str) -> list[str]:
        self.life.check()
        if self.device.find(path) is None:
            return []
        return sorted(self.device.directory(path).entries)

    def make_directory(self, path: str) -> None:
        self.life.check()
        names = path.split("/")
        for depth in range(1, len(names) + 1):
            place = "/".join(names[:depth])
            if self.device.find(place) is None:
                self._create(place, StoredDirectory())
        self.device.directory(path)

    def remove(self, path: str) -> None:
        self.life.check()
        if self.device.find(path) is None:
            return
        self.device.file(path)
        self._unlink(path)

    def remove_directory(self, path: str) -> None:
        self.life.check()
        if self.device.find(path) is None:
            return
        for name, node in sorted(self.device.directory(path).entries.items()):
            if isinstance(node, StoredDirectory):
                self.remove_directory(f"{path}/{name}")
            else:
                self._unlink(f"{path}/{name}")
        self._unlink(path)

    def rename(self, old: str, new: str) -> None:
        self.begin(Operation.RENAME, f"{old} -> {new}")
        node = self.device.find(old)
        if node is None:
            raise os_error(errno.ENOENT, old)
        self._check_replaceable(node, new)
        self.device.change(
            EntryChange(*self._place(old), None),
            EntryChange(*self._place(new), node),
        )

    def read_file(self, path: str) -> bytes:
        content = self.device.file(path)
        self.begin_read(path, content, 0, len(content.cached))
        return bytes(content.cached)

    def begin_read(self, path: str, content: StoredFile, position: int, size: int) -> None:
        try:
            self.begin(Operation.READ, path, size)
            if content.is_bad(position, size):
                raise os_error(errno.EIO, path)
        except OSError as error:
            check_read(error, path, position)
            raise

    def write_file(self, path: str, content: bytes) -> None:
        file = self.open(path, create=True)
        if file.size():
            file.truncate(0)
        if file.append([content]) < len(content):
            raise os_error(errno.ENOSPC, path)

    def replace_file(self, path: str, content: bytes) -> None:
        self.check_wait(f"replace {path}")
        draft = path + ".tmp"
        try:
            self.write_file(draft, content)
            self.trust.sync(self.open(draft).write_back, is_draft=True)
        except OSError:
            self.remove(draft)
            raise
        self.rename(draft, path)
        self.sync_directory(path.rpartition("/")[0])

    def check_wait(self, what: str) -> None:
        """A disk that is busy with others takes seconds, and a loop that waits for it is as good as dead.

        A single file's sync is not asked here: where nobody runs errands for a log, what a full disk has written in
        part must be gone before anything takes its place.
        """
        assert self.life.is_in_thread or not self._is_used_by_a_loop, f"to {what} waits for the device, on the loop"

    def sync_directory(self, path: str) -> None:
        self.check_wait(f"sync {path}")
        directory = self.device.directory(path)

        def write_back() -> None:
            self.begin(Operation.SYNC_DIRECTORY, path)
            self.device.persist_entries(directory)

        self.trust.sync(write_back)

    def sync_everything(self) -> None:
        self.check_wait("sync everything")
        self.trust.sync(self._write_everything_back)

    def _write_everything_back(self) -> None:
        dirty = [file for file in self.device.contents() if file.is_dirty]
        try:
            self.begin(Operation.SYNC_EVERYTHING, "", len(dirty))
        except OSError:
            for file in dirty:
                file.fail_sync()
            raise
        for file in dirty:
            file.sync()
        self.device.persist_entries()

    def total_bytes(self) -> int:
        self.life.check()
        return PLENTY_BYTES if self.device.capacity_bytes is None else self.device.capacity_bytes

    def free_bytes(self) -> int:
        self.life.check()
        return self.device.free_bytes()

    def _place(self, path: str) -> tuple[StoredDirectory, str]:
        parent, _, name = path.rpartition("/")
        return self.device.directory(parent), name

    def _create(self, path: str, node: StoredFile | StoredDirectory) -> None:
        place = self._place(path)
        self.begin(Operation.CREATE, path)
        self.device.change(EntryChange(*place, node))

    def _unlink(self, path: str) -> None:
        self.begin(Operation.REMOVE, path)
        self.device.change(EntryChange(*self._place(path), None))

    def _check_replaceable(self, node: StoredFile | StoredDirectory, new: str) -> None:
        """As rename(2): a file replaces a file, a directory an empty directory."""
        match node, self.device.find(new):
            case StoredFile(), StoredDirectory():
                raise os_error(errno.EISDIR, new)
            case StoredDirectory(), StoredFile():
                raise os_error(errno.ENOTDIR, new)
            case StoredDirectory(), StoredDirectory() as target if target.entries and target is not node:
                raise os_error(errno.ENOTEMPTY, new)


class SimulatedFile:
    """As in production, a handle knows its own size: what another handle appends it does not see."""

    __slots__ = ("_content", "_disk", "_is_closed", "_is_gone", "_leases", "_size", "generation", "path")

    def __init__(self, disk: SimulatedDisk, path: str, content: StoredFile) -> None:
        self._disk = disk
        self._content = content
        self._size = len(content.cached)
        self._leases = 0
        self._is_closed = False
        self._is_gone = False
        self.path = path
        self.generation = 0

    def size(self) -> int:
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> int:
        joined = b"".join(buffers)
        self._begin(Operation.WRITE, len(joined))
        free = self._disk.device.free_bytes()
        if len(joined) > free:
            joined = joined[: self._disk.device.random.randint(0, free)]
        if joined:
            self._content.write(self._size, joined)
            self._size += len(joined)
        return len(joined)

    def reserve(self, size: int) -> None:
        """The simulated device keeps no space aside, as some file systems do not."""

    def read(self, position: int, size: int) -> bytes:
        self._check_open()
        self._disk.begin_read(self.path, self._content, position, size)
        if position < 0:
            raise os_error(errno.EINVAL, self.path)
        return bytes(self._content.cached[position : position + size])

    def truncate(self, size: int) -> None:
        self.generation += 1
        self._begin(Operation.TRUNCATE, size)
        self._content.truncate(size)
        self._size = size

    def sync(self) -> None:
        self._check_open()
        self._disk.trust.sync(self.write_back)

    def write_back(self) -> None:
        try:
            self._begin(Operation.SYNC)
        except OSError:
            self._content.fail_sync()
            raise
        self._content.sync()

    def is_cached(self, position: int, size: int) -> bool:
        """Chance decides. What the device cannot read is never in memory."""
        self._check_open()
        is_warm = self._disk.device.random.random() >= self._disk.device.cold_fraction
        return is_warm and not self._content.is_bad(position, size)

    def warm(self, position: int, size: int) -> None:
        self._disk.check_wait(f"warm {self.path}")
        self.read(position, size)

    def forget_cached(self) -> None:
        self._check_open()
        self._content.forget_clean(self._disk.device.random)

    def send(self, socket_descriptor: int, position: int, size: int) -> int:  # noqa: ARG002
        raise AssertionError("simulated links read their slices: there is no socket to send to")

    def lease(self) -> None:
        self._leases += 1

    def release(self) -> None:
        self._leases -= 1
        assert self._leases >= 0, "a slice was released twice"
        self._forget_if_unused()

    @property
    def is_leased(self) -> bool:
        return self._leases > 0

    def close(self) -> None:
        self._is_closed = True
        self._forget_if_unused()

    def _forget_if_unused(self) -> None:
        if self._is_closed and self._leases == 0:
            self._is_gone = True

    def _begin(self, operation: Operation, size: int = 0) -> None:
        self._check_open()
        self._disk.begin(operation, self.path, size)

    def _check_open(self) -> None:
        self._disk.life.check()
        if self._is_gone:
            raise os_error(errno.EBADF, self.path)

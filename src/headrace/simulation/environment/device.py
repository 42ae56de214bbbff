"""A block device and the page cache in front of it: what a power cut takes and what it leaves.

The rules are harsher than most file systems, and none is impossible on some:
- bytes are safe after a sync of their file, or of everything; until then each 512-byte sector on its own may be there
  or not, in any version that it has had since, and the file may have any size between the least and the greatest it
  has had since;
- a directory entry (create, rename, remove) is safe after a sync of its directory, or of everything. A sync of the file
  does not keep its name. Until then each change on its own may be there or not; a rename is one change;
- when a sync fails, the pages count as clean: a later sync succeeds without having written them.
"""

from __future__ import annotations

import errno
import os
from copy import deepcopy
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from headrace.simulation.environment.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    Watcher = Callable[["Operation", str], None]

SECTOR = 512
PLENTY_BYTES = 1 << 40  # what a device without a limit says is free; far more than any run writes
SURVIVAL = (0.0, 0.1, 0.5, 0.9, 1.0)  # what part of the unsynced lives on differs from cut to cut


class Operation(StrEnum):
    READ = "read"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    CREATE = "create"
    REMOVE = "remove"
    RENAME = "rename"
    SYNC_DIRECTORY = "sync directory"
    SYNC_EVERYTHING = "sync everything"


class StoredFile:
    """One file's bytes, as the page cache shows them and as the device holds them."""

    __slots__ = ("_abandoned", "_bad", "_durable", "_sizes", "_versions", "cached", "is_dirty")

    def __init__(self) -> None:
        self.cached = bytearray()
        self._durable = bytearray()
        self._versions: dict[int, list[bytes]] = {}  # by sector, what it has held since the last sync
        self._abandoned: dict[int, list[bytes]] = {}  # the same, from before a sync that failed
        self._sizes: list[int] = []
        self._bad: set[int] = set()  # sectors that cannot be read until they are written again
        self.is_dirty = False
        """Something was written, or cut off, since the last sync that succeeded."""

    def write(self, position: int, piece: bytes) -> None:
        start = min(position, len(self.cached))
        self.cached.extend(bytes(max(0, position - len(self.cached))))
        self.cached[position : position + len(piece)] = piece
        self._changed(start, position + len(piece))

    def truncate(self, size: int) -> None:
        start = min(size, len(self.cached))
        if size < len(self.cached):
            del self.cached[size:]
        else:
            self.cached.extend(bytes(size - len(self.cached)))
        self._changed(start, size)

    def _changed(self, start: int, end: int) -> None:
        self.is_dirty = True
        self._sizes.append(len(self.cached))
        if self._bad:
            self._bad.difference_update(range(-(-start // SECTOR), end // SECTOR))
            self._bad = {sector for sector in self._bad if sector * SECTOR < len(self.cached)}
        for sector in range(start // SECTOR, (end + SECTOR - 1) // SECTOR):
            version = bytes(self.cached[sector * SECTOR : (sector + 1) * SECTOR])
            self._versions.setdefault(sector, []).append(version)

    def sync(self) -> None:
        _resize(self._durable, len(self.cached))
        for sector in self._versions:
            span = slice(sector * SECTOR, (sector + 1) * SECTOR)
            self._durable[span] = self.cached[span]
            self._abandoned.pop(sector, None)
        self._versions.clear()
        self._sizes.clear()
        self.is_dirty = False

    def fail_sync(self) -> None:
        for sector, versions in self._versions.items():
            self._abandoned.setdefault(sector, []).extend(versions)
        self._versions.clear()

    def forget_clean(self, random: Random) -> None:
        """Show what the device holds where nothing waits to be written. Of a failed sync each sector may be there."""
        for sector in sorted(self._abandoned.keys() - self._versions.keys()):
            versions = self._abandoned.pop(sector)
            if random.random() < 0.5:
                self._keep(sector, random.choice(versions))
            span = slice(sector * SECTOR, min((sector + 1) * SECTOR, len(self.cached)))
            held = bytes(self._durable[span])
            self.cached[span] = held.ljust(max(0, span.stop - span.start), b"\0")

    def power_cut(self, random: Random) -> None:
        survival = random.choice(SURVIVAL)
        sizes = [len(self._durable), *self._sizes]
        size = random.choice((sizes[0], sizes[-1], random.randint(min(sizes), max(sizes))))
        if not self.is_dirty and not self._abandoned:  # as most are
            assert self.cached == self._durable, "the cache differs from the device, and nothing waits to be written"
            return
        _resize(self._durable, size)
        for sector in sorted(self._versions.keys() | self._abandoned.keys()):
            if random.random() < survival:
                versions = self._abandoned.get(sector, []) + self._versions.get(sector, [])
                self._keep(sector, random.choice((versions[-1], random.choice(versions))))
        self.cached = bytearray(self._durable)
        self._versions.clear()
        self._abandoned.clear()
        self._sizes.clear()
        self.is_dirty = False

    def _keep(self, sector: int, version: bytes) -> None:
        start = sector * SECTOR
        end = min(start + SECTOR, len(self._durable))
        if start < end:
            self._durable[start:end] = version.ljust(SECTOR, b"\0")[: end - start]

    def spoil(self, position: int) -> None:
        self._bad.add(position // SECTOR)

    @property
    def has_bad_sector(self) -> bool:
        return bool(self._bad)

    def mend(self) -> None:
        self._bad.clear()

    def is_bad(self, position: int, size: int) -> bool:
        """Whether some of these bytes cannot be read."""
        if not self._bad:  # as with nearly all
            return False
        end = min(position + size, len(self.cached))
        return any(sector * SECTOR < end and position < (sector + 1) * SECTOR for sector in self._bad)

    def flip_bit(self, position: int, bit: int) -> None:
        for content in (self.cached, self._durable):
            if position < len(content):
                content[position] ^= 1 << bit


class StoredDirectory:
    __slots__ = ("durable", "durable_since", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, StoredFile | StoredDirectory] = {}
        self.durable: dict[str, StoredFile | StoredDirectory] = {}
        self.durable_since: dict[str, int] = {}
        """By name, the number of the last change that is on the device: a later sync must not bring back an older."""


class EntryChange(NamedTuple):
    directory: StoredDirectory
    name: str
    node: StoredFile | StoredDirectory | None


class _Change(NamedTuple):
    number: int
    parts: tuple[EntryChange, ...]

    def persist(self) -> None:
        for directory, name, node in self.parts:
            if directory.durable_since.get(name, 0) < self.number:
                directory.durable_since[name] = self.number
                _set(directory.durable, name, node)


class Device:
    """Outlives its node. `SimulatedDisk` is a node's way to it; the faults are the test's."""

    def __init__(self, random: Random, trace: Trace | None = None, name: str = "disk") -> None:
        self.random = random
        self.name = name
        self.root = StoredDirectory()
        self.capacity_bytes: int | None = None
        """A full disk takes a part of an append, or nothing."""
        self.cold_fraction = 0.0
        """How often `is_cached` says no."""
        self.has_lied = False
        """It has lost something that was synced. What is fetched again since then is there."""
        self._trace = trace or Trace()
        self._pending: list[_Change] = []
        self._change_count = 0
        self._watchers: list[Watcher] = []
        self._contents: list[StoredFile] | None = None  # once they were asked for, until an entry changes

    # The tree. Paths use '/' and '' is the root.

    def find(self, path: str) -> StoredFile | StoredDirectory | None:
        node: StoredFile | StoredDirectory | None = self.root
        for name in _names(path):
            if not isinstance(node, StoredDirectory):
                return None
            node = node.entries.get(name)
        return node

    def directory(self, path: str) -> StoredDirectory:
        match self.find(path):
            case StoredDirectory() as found:
                return found
            case None:
                raise os_error(errno.ENOENT, path)
            case _:
                raise os_error(errno.ENOTDIR, path)

    def file(self, path: str) -> StoredFile:
        match self.find(path):
            case StoredFile() as found:
                return found
            case None:
                raise os_error(errno.ENOENT, path)
            case _:
                raise os_error(errno.EISDIR, path)

    def files(self) -> Iterator[tuple[str, StoredFile]]:
        """Every file that has a name, with its path, in order."""
        yield from _files(self.root, "")

    def contents(self) -> list[StoredFile]:
        """The same, without their paths, in no order that means anything: a sync of everything has to be quick."""
        if self._contents is None:
            self._contents = self._find_contents()
        return self._contents

    def _find_contents(self) -> list[StoredFile]:
        found: list[StoredFile] = []
        directories = [self.root]
        while directories:
            for node in directories.pop().entries.values():
                if isinstance(node, StoredFile):
                    found.append(node)
                else:
                    directories.append(node)
        return found

    @property
    def used_bytes(self) -> int:
        return sum(map(len, map(_cached_of, self.contents())))

    def change(self, *parts: EntryChange) -> None:
        """Atomic, at once visible, durable later."""
        self._contents = None
        for directory, name, node in parts:
            _set(directory.entries, name, node)
        self._change_count += 1
        self._pending.append(_Change(self._change_count, parts))

    def persist_entries(self, directory: StoredDirectory | None = None) -> None:
        """Of one directory, or of all."""
        waiting: list[_Change] = []
        for change in self._pending:
            if directory is None or any(part.directory is directory for part in change.parts):
                change.persist()
            else:
                waiting.append(change)
        self._pending = waiting

    def free_bytes(self) -> int:
        if self.capacity_bytes is None:
            return PLENTY_BYTES
        return max(0, self.capacity_bytes - self.used_bytes)

    # Faults.

    def power_cut(self) -> None:
        """Everything that was not synced is left to chance. The page cache is gone."""
        survival = self.random.choice(SURVIVAL)
        for change in self._pending:
            if self.random.random() < survival:
                change.persist()
        self._pending.clear()
        self._contents = None
        _fall_back_to_durable(self.root)
        files = list(self.files())
        for _, file in files:
            file.power_cut(self.random)
        self._trace.note("power cut", self.name, *(f"{path}={len(file.cached)}" for path, file in files))

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        self._trace.note("bit flipped", self.name, path, position, bit)
        self.file(path).flip_bit(position, bit)

    def tear(self, path: str, lost_bytes: int) -> None:
        """The end of a file is gone, though it was synced: the device has lied."""
        self._trace.note("torn", self.name, path, lost_bytes)
        file = self.file(path)
        file.truncate(max(0, len(file.cached) - lost_bytes))
        file.sync()

    def copy(self) -> StoredDirectory:
        """All that is on it, as a backup holds it."""
        self.persist_entries()
        for file in self.contents():
            file.sync()
        return deepcopy(self.root)

    def put_back(self, copy: StoredDirectory) -> None:
        """An older copy takes the place of everything."""
        self._trace.note("older copy", self.name)
        self.root = deepcopy(copy)
        self._pending.clear()
        self._contents = None

    def spoil(self, path: str, position: int) -> None:
        """The sector with this byte cannot be read from now on, also after a power cut, until it is written again."""
        self._trace.note("bad sector", self.name, path, position)
        self.file(path).spoil(position)

    def lose(self, path: str) -> None:
        """A file or directory is gone, and no power cut brings it back."""
        self._trace.note("lost", self.name, path)
        parent, _, name = path.rpartition("/")
        self.change(EntryChange(self.directory(parent), name, None))
        self._pending.pop().persist()

    def fail(self, operation: Operation, path: str = "", *, skip: int = 0, code: int = errno.EIO) -> None:
        """The next such operation on a path that starts so fails, once, after `skip` that succeed."""

        def watcher(happening: Operation, place: str) -> None:
            nonlocal skip
            if happening is not operation or not place.startswith(path):
                return
            if skip > 0:
                skip -= 1
                return
            self._watchers.remove(watcher)
            raise os_error(code, place)

        self._watchers.append(watcher)

    def heal(self) -> None:
        """No fault that was arranged happens any more, and there is space."""
        self._trace.note("disk healed", self.name)
        self._watchers.clear()
        self.capacity_bytes = None
        for file in self.contents():
            file.mend()

    def watch(self, watcher: Watcher) -> None:
        """Called before every step that reads or changes the disk. It may raise, or crash the node."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)

    def notice(self, operation: Operation, path: str, size: int = 0) -> None:
        self._trace.note(operation, self.name, path, size)
        for watcher in list(self._watchers):
            watcher(operation, path)


_cached_of = attrgetter("cached")


def os_error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


@lru_cache(maxsize=10_000)  # a node asks for the same few again and again
def _names(path: str) -> tuple[str, ...]:
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    assert ".." not in names, f"{path} may lead out of the data directory"
    return names


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _set(
    entries: dict[str, StoredFile | StoredDirectory], name: str, node: StoredFile | StoredDirectory | None
) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _files(directory: StoredDirectory, prefix: str) -> Iterator[tuple[str, StoredFile]]:
    for name, node in sorted(directory.entries.items()):
        if isinstance(node, StoredFile):
            yield prefix + name, node
        else:
            yield from _files(node, f"{prefix}{name}/")


def _fall_back_to_durable(directory: StoredDirectory) -> None:
    directory.entries = dict(directory.durable)
    for node in directory.entries.values():
        if isinstance(node, StoredDirectory):
            _fall_back_to_durable(node)

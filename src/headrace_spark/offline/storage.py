"""Where exports lie: a directory of this machine, or whatever pyarrow reaches by a URI (`s3://`, `gs://`, `hdfs://`).

Nothing is ever seen half-written: a file gets its name when it is whole.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs

from headrace_spark.offline.errors import OfflineFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY_PREFIX: Final = "."  # Spark, DuckDB and pyarrow pass over names that begin so
TEMPORARY_SUFFIX: Final = ".tmp"
HASH_CHUNK: Final = 8 << 20


@dataclass(frozen=True)
class Storage:
    """A directory, by an absolute path or a URI. It travels to tasks, which open it for themselves."""

    location: str

    @classmethod
    def at(cls, location: str) -> Storage:
        """A directory or a URI as a user gives it. Raises OfflineFailed if it cannot be opened."""
        storage = cls(location if "://" in location else os.path.abspath(location))
        try:
            storage._opened  # noqa: B018 - a wrong URI is told at once
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as wrong:
            raise OfflineFailed(
                f"{location} is no place that can be opened: {wrong}",
                "give a directory, or a URI such as s3://bucket/path",
            ) from wrong
        return storage

    @property
    def is_on_this_machine(self) -> bool:
        """Whether it is a directory here, and not a store that all machines reach."""
        return isinstance(self._opened[0], fs.LocalFileSystem)

    @cached_property
    def _opened(self) -> tuple[fs.FileSystem, str]:
        if "://" not in self.location:
            return fs.LocalFileSystem(), self.location
        system, path = fs.FileSystem.from_uri(self.location)
        return system, path.rstrip("/")

    def __getstate__(self) -> dict[str, str]:
        return {"location": self.location}  # what is opened stays behind

    def _path(self, name: str) -> str:
        return f"{self._opened[1]}/{name}" if name else self._opened[1]

    def open(self, name: str) -> pa.NativeFile:
        """The file, for reading. Raises OSError if it is not there."""
        return self._opened[0].open_input_file(self._path(name))

    def read(self, name: str) -> bytes | None:
        """A small file; None if it is not there."""
        if self.size(name) is None:
            return None
        with self.open(name) as file:
            content: bytes = file.read()
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a small file; it is seen when it is whole."""
        with self.whole_file(name) as file:
            file.write(content)

    def size(self, name: str) -> int | None:
        """None if there is no such file."""
        (info,) = self._opened[0].get_file_info([self._path(name)])
        return int(info.size) if info.type == fs.FileType.File else None

    def list(self) -> dict[str, int]:
        """Every file below, by its name from here, and its size. Empty if nothing is there."""
        system, root = self._opened
        infos = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        prefix = root.rstrip("/") + "/"
        files = {info.path.removeprefix(prefix): int(info.size) for info in infos if info.type == fs.FileType.File}
        return dict(sorted(files.items()))

    def delete(self, name: str) -> None:
        """Delete a file. One that is not there is no error."""
        with suppress(FileNotFoundError):
            self._opened[0].delete_file(self._path(name))

    @contextmanager
    def whole_file(self, name: str) -> Iterator[HashedFile]:
        """A file that appears under its name when the block ends well, and not at all when it does not."""
        system, _ = self._opened
        directory, _, base = name.rpartition("/")
        # Of one's own: an earlier attempt, or a twin on another machine, may still be writing its copy.
        temporary = f"{TEMPORARY_PREFIX}{base}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
        path = self._path(f"{directory}/{temporary}" if directory else temporary)
        system.create_dir(self._path(directory), recursive=True)
        file = HashedFile(system.open_output_stream(path))
        try:
            yield file
            file.close()
            if self.is_on_this_machine:
                _flush(path)
            system.move(path, self._path(name))
        except BaseException:
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                system.delete_file(path)
            raise

    def sha256(self, name: str) -> str:
        """The file's SHA-256 in hexadecimal: the whole file is read for it."""
        digest = hashlib.sha256()
        with self.open(name) as file:
            while chunk := file.read(HASH_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()


class HashedFile:
    """An output file that knows its size and SHA-256 when it is closed. Shaped as pyarrow wants Python files to be."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self.size = 0
        self._digest = hashlib.sha256()
        self._stream = stream

    @property
    def closed(self) -> bool:
        """Whether it is closed; pyarrow asks."""
        return bool(self._stream.closed)

    @property
    def sha256(self) -> str:
        """Of all that was written so far, in hexadecimal."""
        return self._digest.hexdigest()

    def write(self, content: Any) -> int:
        """Append bytes, or anything that has a buffer of them. Returns how many they are."""
        written = memoryview(content).nbytes
        self._digest.update(content)
        self._stream.write(content)
        self.size += written
        return written

    def flush(self) -> None:
        """When it is closed."""

    def close(self) -> None:
        """Close the file. To close it again does nothing."""
        if not self._stream.closed:
            self._stream.close()


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that was not finished."""
    base = name.rpartition("/")[2]
    return base.startswith(TEMPORARY_PREFIX) and base.endswith(TEMPORARY_SUFFIX)


def _flush(path: str) -> None:
    """Onto the disk: a manifest must not outlive, in a power cut, the files that it speaks of."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

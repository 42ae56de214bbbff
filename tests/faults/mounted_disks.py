"""Small real file systems of a test's own, which can be filled up or have their power cut."""

from __future__ import annotations

import abc
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from tests.faults.node_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

EXT4_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
WITHOUT_LOG_FLUSH = 2  # nothing more reaches the device, not even the journal: what a power cut leaves
MIB = 1 << 20
UNMOUNT_TRIES = 100
JOURNAL_MODES = (("data=ordered",), ("data=writeback",), ("data=journal",))
"""How ext4 orders data and metadata: each leaves other traces of writes that were not synced."""


def why_no_mounts() -> str | None:
    """Why file systems cannot be mounted here, None if they can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount", "losetup") if shutil.which(tool) is None]
    if missing:
        return f"mounting a file system needs {', '.join(missing)}"
    return None if Path("/dev/loop-control").exists() else "there are no loop devices"


needs_mounts = pytest.mark.skipif(why_no_mounts() is not None, reason=str(why_no_mounts()))


class MountedDisk(abc.ABC):
    """Use it with `with`: it is unmounted whatever happens."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self.root = directory / "disk"
        self.size_bytes = size_bytes
        self.is_mounted = False

    def __enter__(self) -> Self:
        self.root.mkdir()
        try:
            self.mount()
        except subprocess.CalledProcessError as refusal:
            self.remove()
            pytest.skip(f"this machine does not let us mount a file system: {refusal.stderr.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.is_mounted:
                self.unmount()
        finally:
            self.remove()

    @abc.abstractmethod
    def mount(self) -> None: ...

    def unmount(self) -> None:
        for attempt in range(1, UNMOUNT_TRIES + 1):
            try:
                _run("umount", str(self.root))
                break
            except subprocess.CalledProcessError:  # the kernel has not yet let go of a killed node's files
                if attempt == UNMOUNT_TRIES:
                    _run("umount", "--lazy", str(self.root))
                    self.is_mounted = False
                    raise
                time.sleep(0.05)
        self.is_mounted = False

    @abc.abstractmethod
    def remove(self) -> None:
        """What is left once it is unmounted."""

    @property
    def free_bytes(self) -> int:
        return shutil.disk_usage(self.root).free

    @property
    def _ballast(self) -> Path:
        return self.root / "ballast"

    def fill(self, leave_bytes: int = 0) -> None:
        """Take the space away, all of it or all but `leave_bytes`."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for chunk_bytes in (MIB, 4096, 1):
                try:
                    while self.free_bytes > leave_bytes or not leave_bytes:
                        ballast.write(bytes(chunk_bytes))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free_up(self) -> None:
        self._ballast.unlink()


class MemoryDisk(MountedDisk):
    """tmpfs."""

    def mount(self) -> None:
        _run("mount", "-t", "tmpfs", "-o", f"size={self.size_bytes}", "tmpfs", str(self.root))
        self.is_mounted = True

    def remove(self) -> None:
        """Nothing is left: it was memory."""


class LoopDisk(MountedDisk):
    """ext4 in an image file."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        super().__init__(directory, size_bytes)
        self._image = directory / "disk.img"

    def __enter__(self) -> Self:
        with self._image.open("wb") as image:
            image.truncate(self.size_bytes)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        return super().__enter__()

    def remove(self) -> None:
        self._image.unlink(missing_ok=True)

    def mount(self, options: Sequence[str] = ()) -> None:
        """Mounting replays the journal. The loop device goes away by itself when it is unmounted."""
        _run("mount", "-t", "ext4", "-o", ",".join(("loop", "noatime", *options)), str(self._image), str(self.root))
        self.is_mounted = True

    def unmount(self) -> None:
        """Also from whoever has a copy of the mount: as long as anybody has, the next mount would give the same file
        system once more, without power as it is, and not what the device has."""
        super().unmount()
        wait_until(lambda: not self._is_attached, f"nobody has {self._image} mounted any more")

    @property
    def _is_attached(self) -> bool:
        return bool(_run("losetup", "--associated", str(self._image)))

    def cut_power(self) -> None:
        """From now on nothing reaches the device. Whatever was not synced is gone after the next mount.

        Nobody may be writing meanwhile. Linux does not make this one switch: a sync that runs beside it can succeed
        without having reached the device, as a bare loop of writes and syncs shows in one of twenty tries.
        """
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, EXT4_SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
        finally:
            os.close(descriptor)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

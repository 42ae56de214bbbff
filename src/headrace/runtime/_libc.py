"""What the standard library lacks: `syncfs`, space set aside, and which errors mean a full disk."""

from __future__ import annotations

import ctypes
import errno
import os

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

_libc = ctypes.CDLL(None, use_errno=True)
_syncfs = getattr(_libc, "syncfs", None)
_fallocate = getattr(_libc, "fallocate", None)
_KEEP_SIZE = 1  # blocks beyond the end of the file, which stays where it is


def syncfs(descriptor: int) -> None:
    """Flush the whole file system that holds `descriptor`; releases the GIL meanwhile."""
    if _syncfs is None:  # pragma: no cover - not Linux
        os.sync()
        return
    if _syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def reserve(descriptor: int, position: int, size: int) -> None:
    """Give the file blocks for `size` bytes from `position` on. Where that cannot be, it has no reserve; no more."""
    if _fallocate is not None:
        _fallocate(descriptor, _KEEP_SIZE, ctypes.c_int64(position), ctypes.c_int64(size))

"""What the standard library lacks: `syncfs`, and which errors mean a full disk."""

from __future__ import annotations

import ctypes
import errno
import os

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def syncfs(descriptor: int) -> None:
    """Flush the whole file system that holds `descriptor`; releases the GIL meanwhile."""
    if _syncfs is None:  # pragma: no cover - not Linux
        os.sync()
        return
    if _syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))

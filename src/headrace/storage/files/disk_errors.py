"""What an error of the disk means: room or a descriptor is waited for, everything else ends the node."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure, ErrorCode, Refusal

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})


def disk_trouble(error: OSError, what: str) -> Refusal | DiskFailure:
    """What an error of the disk means: no room is waited for, everything else ends the node."""
    if error.errno in NO_SPACE:
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk is too full to {what}; free some space")
    return DiskFailure(f"the disk refused to {what}: {error}")


def replace_if_room(disk: Disk, path: str, content: bytes) -> bool:
    """As `DiskWork.replace`, for those who are in a thread already."""
    try:
        disk.replace_file(path, content)
    except OSError as error:
        if error.errno in NO_SPACE:
            return False
        raise DiskFailure(f"the disk refused to write {path}: {error}") from error
    return True


def no_descriptor(path: str) -> Refusal:
    return Refusal(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"{path} cannot be opened: the node has no file descriptor left; raise its limit (ulimit -n)",
    )

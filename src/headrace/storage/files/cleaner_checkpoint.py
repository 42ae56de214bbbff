"""The file that says how far a log is clean. It lives in the log's own directory, and so dies with it.

It must never say too much: a tombstone that is taken for clean would go while an older record of its key stays, and
the key would be back. So it is written after the segments that it speaks of, and lowered before a log is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.runtime.disk import ReadFault
from headrace.storage.files import layout

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk

VERSION = "0"


class CleanerCheckpoint(NamedTuple):
    """How far a log is clean, as it is kept in a file beside the log."""

    clean_end_offset: int = 0
    """Below it no two records have the same key, and no tombstone hides an older record."""
    latest_horizon_ms: int = -1
    """When the last of the tombstones and markers below it may go; -1 if there are none."""


NOTHING_CLEAN = CleanerCheckpoint()


def load_cleaner_checkpoint(disk: Disk, directory: str) -> CleanerCheckpoint | None:
    """None if the log was never compacted. A file that cannot be read says that nothing is clean."""
    try:
        text = disk.read_file(f"{directory}/{layout.COMPACTED}").decode("ascii", errors="replace")
    except FileNotFoundError:
        return None
    except ReadFault:
        return NOTHING_CLEAN
    version, _, numbers = text.removesuffix("\n").partition("\n")
    fields = numbers.split(" ")
    if version != VERSION or len(fields) != 2 or not all(field.lstrip("-").isdecimal() for field in fields):
        return NOTHING_CLEAN
    return CleanerCheckpoint(int(fields[0]), int(fields[1]))


def store_cleaner_checkpoint(disk: Disk, directory: str, checkpoint: CleanerCheckpoint) -> None:
    """Durable when this returns; on a full disk an OSError, and the old one stands."""
    text = f"{VERSION}\n{checkpoint.clean_end_offset} {checkpoint.latest_horizon_ms}\n"
    disk.replace_file(f"{directory}/{layout.COMPACTED}", text.encode("ascii"))

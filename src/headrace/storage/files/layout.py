"""Where a log's files lie, and what they are called. The names are Kafka's, so that its tools can read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.names import LogId, topic_id_from_text

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPICS = "topics"
DELETED = ".deleted"
"""Ending of a partition's directory on its way out; whatever bears it is removed at the next start."""
ANEW = ".anew"
"""An empty directory that is about to take the place of a partition's."""
DAMAGED = ".damaged"
"""A replica that is being fetched again. It goes once the new one is in sync."""
STRAY = ".stray"
"""A log of a topic that the metadata does not know. Never removed by us."""

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
SNAPSHOT = ".snapshot"
ABORTED = ".txnindex"
CUT = ".log.cut"
"""Bytes that recovery took away, kept for a human to look at."""
CLEANED = ".cleaned"
"""Added to the name of a segment's file that compaction wrote anew, until it takes its place."""
SWAP = ".swap"
"""An empty file `base-end.swap`: the cleaned segment replaces all of them from `base` up to `end`, whatever happens.
`base-next-end.swap` if there are two, and so on."""

COMPACTED = "compacted"
"""How far the log is cleaned. If it is there, offsets may be missing."""
EPOCHS = "leader-epoch-checkpoint"
NAME = "partition.name"
DRAFT = ".tmp"

OFFSET_DIGITS = 20
SWAP_PARTS_MAX = 10  # more offsets do not fit into a file's name, which has 255 bytes


def directory_of(log_id: LogId) -> str:
    return f"{TOPICS}/{log_id}"


def log_id_of(directory_name: str) -> LogId | None:
    """The log that lives in a directory of this name, or None if it is not one of ours."""
    topic_text, _, partition_text = directory_name.rpartition("-")
    if not partition_text.isdecimal():
        return None
    try:
        return LogId(topic_id_from_text(topic_text), int(partition_text))
    except ValueError:
        return None


def stem(directory: str, base_offset: int) -> str:
    """The path of a segment's files, without their ending."""
    return f"{directory}/{base_offset:0{OFFSET_DIGITS}d}"


def offset_in(file_name: str, ending: str) -> int | None:
    """The offset in a name such as `00000000000000000042.log`, or None if it is not such a name."""
    digits = file_name.removesuffix(ending)
    if len(digits) != OFFSET_DIGITS or len(file_name) != OFFSET_DIGITS + len(ending) or not digits.isdecimal():
        return None
    return int(digits)


def swap_name(bounds: Sequence[int]) -> str:
    """For segments that begin at each of the bounds but the last, where the last of them ends (exclusive)."""
    return "-".join(f"{offset:0{OFFSET_DIGITS}d}" for offset in bounds) + SWAP


def bounds_in_swap(file_name: str) -> tuple[int, ...] | None:
    """The offsets in the name of a swap, or None if it is not such a name."""
    parts = file_name.removesuffix(SWAP).split("-")
    if not file_name.endswith(SWAP) or len(parts) < 2:
        return None
    if not all(len(part) == OFFSET_DIGITS and part.isdecimal() for part in parts):
        return None
    return tuple(map(int, parts))

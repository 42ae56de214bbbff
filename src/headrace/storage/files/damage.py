"""Errors for a log whose bytes are not those that were written."""

from __future__ import annotations

from typing import NamedTuple

from headrace.model.errors import Fault

RESTORE_OR_REMOVE = (
    "Restore the file from a backup, or remove the partition's directory to start it empty, then restart the node"
)


class DamagedLog(Fault):
    """A file is damaged where a crash cannot have damaged it. The partition goes offline; nothing is cut."""

    def __init__(self, path: str, position: int, offset: int, problem: str, *, advice: str = RESTORE_OR_REMOVE) -> None:
        self.finding = f"{path} is damaged at byte {position} (offset {offset}): {problem}"
        """What was found, without what to do about it."""
        super().__init__(f"{self.finding}. Nothing was cut. {advice}")
        self.path = path
        self.position = position
        self.offset = offset
        self.problem = problem


class UnreadableRecords(DamagedLog):
    """A batch is as its producer sent it, and still cannot be opened: what is compressed is looked at by nobody on its
    way in, unless its topic is compacted by then. No backup helps, and the file is whole."""

    def __init__(self, path: str, position: int, offset: int, problem: str) -> None:
        super().__init__(path, position, offset, problem)
        words = (
            f"the batch at byte {position} (offset {offset}) of {path} is whole, as its producer sent it, but its "
            f"records cannot be read: {problem}. Give the topic cleanup.policy=delete until they are gone, or delete "
            "them, then restart the node"
        )
        self.args = (words,)


class MissingLog(DamagedLog):
    """The cluster counts on a log that is not on this disk. An empty one in its place might be elected."""

    def __init__(self, path: str, offset: int) -> None:
        """`offset`: up to there it was once safe. 0 if that is not known: it may have been made just before a crash."""
        super().__init__(path, 0, offset, "the directory is missing")
        self.finding = f"{path} is missing, although this node is counted on to have it"
        words = f"{self.finding}. Restore it from a backup, or start another node that has the partition"
        self.args = (words,)


class MissingFile(DamagedLog):
    """A file is gone, and nothing else says what was in it."""

    def __init__(self, path: str, problem: str, *, advice: str) -> None:
        super().__init__(path, 0, 0, problem, advice=advice)
        self.finding = f"{path} is missing: {problem}"
        self.args = (f"{self.finding}. {advice}",)


class DamagedRange(NamedTuple):
    """Bytes that were looked at and are not what was written. No reader may get them."""

    path: str
    position: int
    first_offset: int
    end_offset: int
    """Exclusive: from here on batches are whole again, as far as this segment goes."""
    problem: str

    def __str__(self) -> str:
        offsets = f"offsets {self.first_offset} to {self.end_offset - 1}"
        return f"{self.path} is damaged at byte {self.position} ({offsets}): {self.problem}"


class KnownDamage:
    """The damaged ranges of one log, in the order of their offsets. Empty for nearly every log, and then false."""

    __slots__ = ("ranges",)

    def __init__(self) -> None:
        self.ranges: list[DamagedRange] = []

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def add(self, found: DamagedRange) -> bool:
        """False if it is known."""
        if any(known.first_offset == found.first_offset for known in self.ranges):
            return False
        self.ranges = sorted((*self.ranges, found), key=lambda known: known.first_offset)
        return True

    def next_from(self, offset: int) -> DamagedRange | None:
        """The first range that ends after `offset`."""
        return next((known for known in self.ranges if known.end_offset > offset), None)

"""Fetches that wait for more to read: how many a listener has, and what they make it remember."""

from __future__ import annotations

from typing import Final

LONG_POLLS_MAX: Final = 16  # of one connection; clients have one under way
PARKED_MAX: Final = 10_000  # of all; from there on each connection has one. Some 30 MB
PARTITIONS_MAX: Final = (
    200_000  # in fetches without a session, of all together: some 150 MB. Sessions have their own limit
)


class ParkedFetches:
    __slots__ = ("_partitions", "count")

    def __init__(self) -> None:
        self.count = 0
        self._partitions = 0

    @property
    def allowance(self) -> int:
        """How many fetches of one connection may wait; it is not read from while that many do."""
        return LONG_POLLS_MAX if self.count < PARKED_MAX else 1

    def has_room(self, partitions: int) -> bool:
        """False: a fetch that would make us remember so many is answered at once, with what there is."""
        return self._partitions + partitions <= PARTITIONS_MAX

    def add(self, partitions: int) -> None:
        self.count += 1
        self._partitions += partitions

    def remove(self, partitions: int) -> None:
        self.count -= 1
        self._partitions -= partitions

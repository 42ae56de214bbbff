"""What a coordinator wants done: records to write, answers to give once they are committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.model.names import NO_PRODUCER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.coordinators.records import LogRecord
    from headrace.model.names import Millis, ProducerId


TOMBSTONES_PER_BATCH: Final = 256  # a key has 33 KiB at most: half of what a batch may hold


class Now(NamedTuple):
    """Both clocks at one moment. Deadlines stand on the steady one; the wall's time goes into records."""

    steady_ms: int
    wall_ms: Millis


class Caller(NamedTuple):
    """Who asks, besides what the request says."""

    client_id: str
    host: str
    version: int
    """Of the request: what an answer may say depends on it."""
    fresh_member_id: str = ""
    """For a member that has no id yet. Chance comes from outside."""


Token = object
"""Whoever waits for an answer. The mind keeps it, and hands it back with the answer."""


class Reply(NamedTuple):
    token: Token
    response: Any
    """A message of `wire.messages`."""


@dataclass(slots=True)
class Effects:
    """Write the records as one batch, apply them, then give the answers.

    An answer leaves once everything that its mind has written so far is committed, whether it brought records of its
    own or not: nobody is told of a state that a crash could still take back. If the batch cannot be written, the mind
    is thrown away and loaded anew, and everybody who waits is told to try again.
    """

    records: list[LogRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    producer: tuple[ProducerId, int] = (NO_PRODUCER, -1)
    """The producer id and epoch whose transaction the records belong to, if they do."""
    is_divisible: bool = False
    """The records are tombstones that mean the same one by one. However many, they find room in several batches."""

    def batches(self) -> Iterator[list[LogRecord]]:
        size = TOMBSTONES_PER_BATCH if self.is_divisible else max(len(self.records), 1)
        return (self.records[first : first + size] for first in range(0, len(self.records), size))

    @property
    def has_orders(self) -> bool:
        """Whether something is to be done once the records are committed, besides answering."""
        return False

    def add(self, other: Effects) -> None:
        assert self.producer == other.producer, "records of two transactions do not share a batch"
        assert self.is_divisible == other.is_divisible, "what belongs together is not to be divided"
        self.records += other.records
        self.replies += other.replies

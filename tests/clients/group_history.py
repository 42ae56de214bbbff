"""What the members of a group saw, and what must hold of it whatever happened.

- No partition ever has two owners at one moment. That is more than one owner per generation: whoever gives a partition
  up does so before it joins the next one. Only those who were silent or dead may still believe in what they had.
- Once things are quiet every partition has an owner, and the node believes the same as its members.
- Every message was read, and none of them twice if all went in peace.
"""

from __future__ import annotations

import threading
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.clients.group_clients import Place


class Kind(Enum):
    GAINED = "gained"
    GAVE_UP = "gave up"
    LOST = "lost"
    READ = "read"
    FAILED = "failed"
    GONE = "gone"
    """Left, killed or made silent: from here on it owns nothing, whatever it believes."""


class Event(NamedTuple):
    at_s: float
    """On the machine's steady clock, which all its processes share."""
    member: str
    kind: Kind
    places: tuple[Place, ...] = ()
    offset: int = -1
    problem: str = ""


class GroupHistory:
    """Events of all members, each in the order of its own. Members tell of them from their threads."""

    def __init__(self, *, may_overlap: bool = False) -> None:
        """`may_overlap` is for members of the newer protocol. What they were assigned but have not taken yet may be
        given to others, as in Kafka, because they say that they do not own it; a slow client takes it all the same, and
        gives it up at once. Among them the node's own view must be free of overlaps.
        """
        self._may_overlap = may_overlap
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)

    def events(self, *kinds: Kind) -> list[Event]:
        with self._lock:
            found = [event for event in self._events if not kinds or event.kind in kinds]
        return sorted(found, key=lambda event: event.at_s)

    def moves_of(self, member: str, since_s: float = 0.0) -> list[Event]:
        """What a member gained or lost."""
        moves = self.events(Kind.GAINED, Kind.GAVE_UP, Kind.LOST)
        return [event for event in moves if event.member == member and event.at_s >= since_s and event.places]

    def owned(self) -> dict[str, set[Place]]:
        """What each member owns now. Raises AssertionError if ever somebody gained what another one had."""
        owners: dict[Place, str] = {}
        for event in self.events(Kind.GAINED, Kind.GAVE_UP, Kind.LOST, Kind.GONE):
            if event.kind is Kind.GAINED:
                for place in event.places:
                    owner = owners.get(place, event.member)
                    is_fine = owner == event.member or self._may_overlap
                    assert is_fine, f"{event.member} gained {place}, which {owner} had\n{self}"
                    owners[place] = event.member
            else:
                leaves = list(owners) if event.kind is Kind.GONE else event.places
                for place in leaves:
                    if owners.get(place) == event.member:
                        del owners[place]
        by_member: dict[str, set[Place]] = {}
        for place, owner in owners.items():
            by_member.setdefault(owner, set()).add(place)
        return by_member

    def reads(self) -> Counter[tuple[Place, int]]:
        return Counter((event.places[0], event.offset) for event in self.events(Kind.READ))

    def missing(self, written: Iterable[tuple[Place, int]]) -> list[tuple[Place, int]]:
        return sorted(set(written) - self.reads().keys())

    def twice(self) -> list[tuple[Place, int]]:
        return sorted(message for message, count in self.reads().items() if count > 1)

    def __str__(self) -> str:
        """Everything but what was read, for whoever has to find out what went wrong."""
        return "\n".join(
            f"{event.at_s:.3f} {event.member} {event.kind.value} "
            f"{sorted(f'{place.topic}/{place.partition}' for place in event.places)} {event.problem}"
            for event in self.events()
            if event.kind is not Kind.READ
        )

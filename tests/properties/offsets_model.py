"""What Kafka says of committed offsets, in plain dictionaries.

Each offset has the number of the record that committed it. Of two, the one with the higher number counts, whenever the
transaction ends that it was part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.model.names import NO_PRODUCER

if TYPE_CHECKING:
    from headrace.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

Place = tuple[str, str, int]
"""Group, topic, partition."""


class Commit(NamedTuple):
    number: int
    offset: int
    at_ms: int


class OffsetsModel:
    def __init__(self) -> None:
        self.committed: dict[Place, Commit] = {}
        self.pending: dict[int, dict[Place, Commit]] = {}
        self._numbers = 0

    def read(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        self._numbers += 1
        place = (key.group, key.topic, key.partition)
        if value is None:
            for kept in (self.committed, *self.pending.values()):
                kept.pop(place, None)
        else:
            kept = self.committed if producer_id == NO_PRODUCER else self.pending.setdefault(producer_id, {})
            kept[place] = Commit(self._numbers, value.offset, value.commit_timestamp)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        for place, commit in self.pending.pop(producer_id, {}).items():
            before = self.committed.get(place)
            if is_commit and (before is None or before.number < commit.number):
                self.committed[place] = commit

    def is_unstable(self, place: Place) -> bool:
        return any(place in waiting for waiting in self.pending.values())

    def groups(self) -> set[str]:
        return {group_id for kept in (self.committed, *self.pending.values()) for group_id, _, _ in kept}

"""What groups were told: who owns what, and how far they have read.

Everything gets a number when it begins and when it is known to have ended, so that "before" has one meaning. A
committed offset is a register: a read of it must find the last commit that was acked before, or one that may have come
later.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.simulation.history.history import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from headrace.model.names import TopicPartition
    from headrace.simulation.history.history import Figures, History, Reading

    Place = tuple[str, TopicPartition]


@dataclass(slots=True, eq=False)
class Commit:
    """Offsets that a member has asked to commit, alone or in a transaction."""

    group_id: str
    offsets: dict[TopicPartition, int]
    began: int
    is_stale: bool
    """A newer generation or epoch was known when it began: it must be refused."""
    ended: float = math.inf
    """When it was known to be done; infinite if it may still happen."""
    is_void: bool = False
    """It was surely not done."""


@dataclass(slots=True)
class Tenure:
    """A KIP-848 member's right to its partitions, as far as it knows."""

    member_id: str
    partitions: set[TopicPartition] = field(default_factory=set)
    certain_until_s: float = 0.0
    """The end of its session, counted from when its last good heartbeat left."""


class GroupHistory:
    def __init__(self, history: History, now_s: Callable[[], float]) -> None:
        self._history = history
        self._now_s = now_s
        self._moment = 0
        self._commits: dict[Place, list[Commit]] = defaultdict(list)
        self._generations: dict[str, int] = {}
        """The newest of each classic group that one of its members was told of."""
        self._epochs: dict[tuple[str, str], int] = {}
        """The newest that each member of a KIP-848 group was told."""
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}
        self._tenures: dict[str, dict[str, Tenure]] = defaultdict(dict)
        self._joined: set[tuple[str, int, str]] = set()
        self._read: dict[Place, set[int]] = defaultdict(set)
        self._every_commit: list[Commit] = []

    def moment(self) -> int:
        """Numbers what happens, in order."""
        self._moment += 1
        return self._moment

    # Who owns what: classic groups

    def given(self, group_id: str, generation: int, member_id: str, partitions: Collection[TopicPartition]) -> None:
        """A member of a classic group was told its share of a generation."""
        self._joined.add((group_id, generation, member_id))
        self._generations[group_id] = max(generation, self._generations.get(group_id, -1))
        for partition in partitions:
            owner = self._owners.setdefault((group_id, generation, partition), member_id)
            if owner != member_id:
                detail = f"{owner} and {member_id} in generation {generation} of {group_id}"
                self._history.report(Kind.TWO_OWNERS, partition, -1, detail)

    def is_stale(self, group_id: str, member_id: str, generation: int) -> bool:
        """A commit of this generation, or of this epoch of the member, must be refused from now on."""
        newest = self._epochs.get((group_id, member_id), self._generations.get(group_id, -1))
        return 0 <= generation < newest

    # Who owns what: KIP-848 groups

    def tenure(self, group_id: str, member_id: str) -> Tenure:
        return self._tenures[group_id].setdefault(member_id, Tenure(member_id))

    def heard(self, group_id: str, tenure: Tenure, epoch: int, certain_until_s: float) -> None:
        """A heartbeat was answered well."""
        self._joined.add((group_id, epoch, tenure.member_id))
        self._epochs[group_id, tenure.member_id] = epoch
        tenure.certain_until_s = max(tenure.certain_until_s, certain_until_s)

    def gain(self, group_id: str, tenure: Tenure, partitions: Collection[TopicPartition]) -> None:
        """The member was told that these are its own now."""
        for other in self._tenures[group_id].values():
            if other is tenure or other.certain_until_s <= self._now_s():
                continue
            for partition in sorted(other.partitions.intersection(partitions)):
                detail = f"{tenure.member_id} was given what {other.member_id} of {group_id} has not given up"
                self._history.report(Kind.TWO_OWNERS, partition, -1, detail)
        tenure.partitions.update(partitions)

    def end_tenure(self, group_id: str, member_id: str) -> None:
        """It has left, was told that it is out, or is dead."""
        self._tenures[group_id].pop(member_id, None)

    # Offsets

    def begin_commit(self, group_id: str, offsets: Mapping[TopicPartition, int], *, is_stale: bool) -> Commit:
        commit = Commit(group_id, dict(offsets), self.moment(), is_stale)
        self._every_commit.append(commit)
        for partition in offsets:
            self._commits[group_id, partition].append(commit)
        return commit

    def accepted(self, commit: Commit, who: str) -> None:
        """The coordinator has taken it; in a transaction it does not count yet."""
        if commit.is_stale:
            partition = next(iter(commit.offsets))
            self._history.report(Kind.STALE_COMMIT, partition, commit.offsets[partition], f"{who} of {commit.group_id}")

    def committed(self, commit: Commit) -> None:
        commit.ended = self.moment()

    def refused(self, commit: Commit) -> None:
        commit.is_void = True

    def found(self, group_id: str, offsets: Mapping[TopicPartition, int], asked: int) -> None:
        """All offsets of a group as its coordinator told them, to somebody who asked at the moment `asked`."""
        for (committer, partition), commits in self._commits.items():
            if committer != group_id:
                continue
            offset = offsets.get(partition)
            acked = [each for each in commits if each.ended < asked]
            if offset is None:
                if acked:
                    self._report_offset(group_id, partition, -1, acked)
                continue
            newest_began = max((each.began for each in acked), default=-1)
            is_possible = any(
                not (each.is_void or each.is_stale)
                and each.offsets[partition] == offset
                and each.ended >= newest_began  # else another was begun after it was done, and done before the look
                for each in commits
            )
            if not is_possible:
                self._report_offset(group_id, partition, offset, acked)

    def _report_offset(self, group_id: str, partition: TopicPartition, offset: int, acked: list[Commit]) -> None:
        last = max(acked, key=lambda each: each.began, default=None)
        expected = "nothing was" if last is None else f"{last.offsets[partition]} was the last to be"
        self._history.report(Kind.WRONG_OFFSET, partition, offset, f"{group_id}: {expected} committed for certain")

    # Reading

    def read(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        self._read[group_id, partition].add(offset)

    def check_read(
        self,
        group_id: str,
        committed: Mapping[TopicPartition, int],
        readings: Mapping[TopicPartition, Reading],
        *,
        is_committed_only: bool,
    ) -> None:
        """What lies before a group's offset was handed to one of its members."""
        for partition, offset in committed.items():
            reading = readings[partition]
            seen = self._read[group_id, partition]
            unseen = reading.aborted if is_committed_only else frozenset[int]()
            due = [place for place, _ in reading.records if place < offset and place not in unseen]
            missing = [place for place in due if place not in seen]
            if missing:
                detail = f"{group_id} stands at {offset}, and none of its members was handed {len(missing)} records"
                self._history.report(Kind.SKIPPED, partition, missing[0], detail)

    def count(self, figures: Figures) -> None:
        figures.joins = len(self._joined)
        for commit in self._every_commit:
            figures.offsets_committed += commit.ended < math.inf
            figures.offsets_unknown += commit.ended == math.inf and not commit.is_void

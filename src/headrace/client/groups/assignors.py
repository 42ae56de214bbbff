"""Who reads which partition, as the leader of a classic group decides it. Pure; names are those of Kafka's clients."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RANGE = "range"
ROUND_ROBIN = "roundrobin"
COOPERATIVE_STICKY = "cooperative-sticky"

Assignment = dict[str, list[TopicPartition]]
"""Member id to partitions; every member has an entry."""


class Member(NamedTuple):
    """A member of the group, as it introduced itself when it joined."""

    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    """What it reads now and need not give up, if it can keep things over a rebalance."""
    generation_id: int = -1
    """When it was given these."""


class Assignor(Protocol):
    """Shares the partitions of all topics among the members. Everybody who asks must come to the same result."""

    def __call__(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment: ...


def assign_ranges(members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
    """Topic by topic, neighbouring partitions to each. The same number of two topics comes to the same member."""
    ordered = _ordered(members)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    for topic in sorted(partition_counts):
        readers = [member for member in ordered if topic in member.topics]
        first = 0
        for place, member in enumerate(readers):
            size, rest = divmod(partition_counts[topic], len(readers))
            end = first + size + (place < rest)
            assignment[member.member_id] += [TopicPartition(topic, index) for index in range(first, end)]
            first = end
    return assignment


def assign_in_turns(members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
    """All partitions of all topics in a row, one to each member in turn."""
    ordered = _ordered(members)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    turns = cycle(ordered)
    for name in _all_partitions(members, partition_counts):
        reader = next(member for member in turns if name.topic in member.topics)
        assignment[reader.member_id].append(name)
    return assignment


def assign_sticky(members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
    """Evenly, and with as few moves as that takes.

    A partition that moves is given to nobody yet: its owner gives it up first, and joins again.
    """
    ordered = _ordered(members)
    partitions = _all_partitions(members, partition_counts)
    owners = _owners(ordered, frozenset(partitions))
    assignment: Assignment = {member.member_id: [] for member in ordered}
    for name in partitions:
        if name in owners:
            assignment[owners[name]].append(name)
    for name in partitions:
        if name not in owners:
            assignment[_least_loaded(ordered, assignment, name)].append(name)
    _even_out(ordered, assignment)
    return {
        member_id: sorted(name for name in names if owners.get(name, member_id) == member_id)
        for member_id, names in assignment.items()
    }


ASSIGNORS: dict[str, Assignor] = {
    RANGE: assign_ranges,
    ROUND_ROBIN: assign_in_turns,
    COOPERATIVE_STICKY: assign_sticky,
}
COOPERATIVE = frozenset({COOPERATIVE_STICKY})
"""With these alone a member goes on reading what it owns while a rebalance is under way."""


def _ordered(members: Sequence[Member]) -> list[Member]:
    """Static members first, by the name that stays: they find the same partitions after a restart."""
    return sorted(members, key=lambda member: (member.instance_id is None, member.instance_id or "", member.member_id))


def _all_partitions(members: Sequence[Member], partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    """Those that somebody wants."""
    wanted = frozenset[str]().union(*(member.topics for member in members))
    return [
        TopicPartition(topic, index)
        for topic in sorted(partition_counts)
        if topic in wanted
        for index in range(partition_counts[topic])
    ]


def _owners(members: Sequence[Member], partitions: frozenset[TopicPartition]) -> dict[TopicPartition, str]:
    """Who may keep what. Of two who claim a partition the later generation is right; in the same one, neither is."""
    claims: dict[TopicPartition, list[Member]] = {}
    for member in members:
        for name in member.owned:
            if name in partitions and name.topic in member.topics:
                claims.setdefault(name, []).append(member)
    owners: dict[TopicPartition, str] = {}
    for name, claimants in claims.items():
        newest = max(member.generation_id for member in claimants)
        latest = [member for member in claimants if member.generation_id == newest]
        if len(latest) == 1:
            owners[name] = latest[0].member_id
    return owners


def _least_loaded(members: Sequence[Member], assignment: Assignment, name: TopicPartition) -> str:
    readers = [member.member_id for member in members if name.topic in member.topics]
    return min(readers, key=lambda member_id: len(assignment[member_id]))


def _even_out(members: Sequence[Member], assignment: Assignment) -> None:
    """Move partitions from those with most to those with least, until no move makes it more even."""
    is_uneven = True
    while is_uneven:
        is_uneven = False
        for giver in sorted(members, key=lambda member: -len(assignment[member.member_id])):
            names = assignment[giver.member_id]
            for name in reversed(names):
                taker = _least_loaded(members, assignment, name)
                if len(assignment[taker]) + 1 < len(names):
                    names.remove(name)
                    assignment[taker].append(name)
                    is_uneven = True
                    break

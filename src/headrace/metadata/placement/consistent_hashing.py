"""Where replicas go: consistent hashing with bounded loads.

Each partition ranks the nodes by a hash of its own and takes the first that have room, on different racks if there
are enough. A node that comes or goes changes no other node's rank, so little moves; the bound keeps nodes
even, which hashing alone does not. Everything here is a function of its arguments: every controller that is asked the
same question gives the same answer.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from headrace.model.names import LogId, NodeId


class Seat(NamedTuple):
    """A node that takes replicas. Nodes without a rack count as a rack each."""

    node_id: NodeId
    rack: str | None = None

    @property
    def place(self) -> str:
        return f"node {self.node_id}" if self.rack is None else f"rack {self.rack}"


class Load(NamedTuple):
    """How much a node has: replicas, and partitions that it is the preferred leader of."""

    replicas: int = 0
    leaders: int = 0


class Loads:
    """The loads of all nodes, while partitions are being placed."""

    def __init__(self, loads: Mapping[NodeId, Load] | None = None) -> None:
        self.replicas: Counter[NodeId] = Counter()
        self.leaders: Counter[NodeId] = Counter()
        for node_id, load in (loads or {}).items():
            self.replicas[node_id], self.leaders[node_id] = load

    @classmethod
    def of(cls, assignments: Iterable[Sequence[NodeId]]) -> Loads:
        loads = cls()
        for replicas in assignments:
            loads.add(replicas)
        return loads

    def add(self, replicas: Sequence[NodeId]) -> None:
        self.replicas.update(replicas)
        self.leaders[replicas[0]] += 1

    def remove(self, replicas: Sequence[NodeId]) -> None:
        self.replicas.subtract(replicas)
        self.leaders[replicas[0]] -= 1


def place_partitions(
    seats: Sequence[Seat], loads: Loads, log_ids: Sequence[LogId], replication_factor: int
) -> list[tuple[NodeId, ...]]:
    """The replicas of each new partition, the preferred leader first. `loads` is brought up to date.

    There are at least `replication_factor` seats.
    """
    assert len(seats) >= replication_factor >= 1
    total = sum(loads.replicas[seat.node_id] for seat in seats) + replication_factor * len(log_ids)
    room = -(-total // len(seats))
    placed = []
    for log_id in log_ids:
        replicas = _led_evenly(_choose(seats, loads, log_id, replication_factor, room), loads)
        loads.add(replicas)
        placed.append(replicas)
    return placed


def place_behind(
    taken: Sequence[Seat],
    placed: Sequence[tuple[NodeId, ...]],
    others: Sequence[Seat],
    loads: Loads,
    log_ids: Sequence[LogId],
    replication_factor: int,
) -> list[tuple[NodeId, ...]]:
    """More replicas, on other seats, behind those that were placed on all that are `taken`. So none of them leads."""
    by_id = {seat.node_id: seat for seat in taken}
    total = sum(loads.replicas[seat.node_id] for seat in others) + (replication_factor - len(taken)) * len(log_ids)
    room = -(-total // len(others))
    wide = []
    for log_id, replicas in zip(log_ids, placed, strict=True):
        kept = [by_id[node_id] for node_id in replicas]
        chosen = _choose(others, loads, log_id, replication_factor, room, kept)
        wide.append(tuple(seat.node_id for seat in chosen))
        loads.replicas.update(wide[-1][len(replicas) :])
    return wide


def _choose(
    seats: Sequence[Seat], loads: Loads, log_id: LogId, count: int, room: int, kept: Sequence[Seat] = ()
) -> list[Seat]:
    """The kept seats and others up to `count`."""
    chosen = list(kept)
    ranked = [seat for seat in _ranked(seats, log_id) if seat not in chosen]
    while len(chosen) < count:
        chosen.append(_next_seat(ranked, chosen, loads, room))
        ranked.remove(chosen[-1])
    return chosen


def _next_seat(ranked: Sequence[Seat], chosen: Collection[Seat], loads: Loads, room: int) -> Seat:
    """Room on a new rack is best; then a new rack, for safety goes before evenness; then room; then the emptiest."""
    taken = {seat.place for seat in chosen}
    apart = [seat for seat in ranked if seat.place not in taken] or ranked
    with_room = [seat for seat in apart if loads.replicas[seat.node_id] < room]
    return with_room[0] if with_room else min(apart, key=lambda seat: loads.replicas[seat.node_id])


def _ranked(seats: Sequence[Seat], log_id: LogId) -> list[Seat]:
    return sorted(seats, key=lambda seat: (affinity(seat.node_id, log_id), seat.node_id))


def affinity(node_id: NodeId, log_id: LogId) -> bytes:
    digest = blake2b(digest_size=8)
    digest.update(log_id.topic_id)
    digest.update(log_id.partition.to_bytes(4, "big"))
    digest.update(node_id.to_bytes(4, "big"))
    return digest.digest()


def _led_evenly(chosen: Sequence[Seat], loads: Loads) -> tuple[NodeId, ...]:
    """Put first whoever leads least. The order of the others decides who follows a lost leader: the hash spreads it."""
    node_ids = [seat.node_id for seat in chosen]
    leader = min(node_ids, key=lambda node_id: loads.leaders[node_id])
    return leader, *(node_id for node_id in node_ids if node_id != leader)


def widened(
    seats: Sequence[Seat], loads: Loads, log_id: LogId, replicas: tuple[NodeId, ...], count: int
) -> tuple[NodeId, ...]:
    """The same replicas and others behind them, up to `count` if there are as many seats."""
    by_id = {seat.node_id: seat for seat in seats}
    kept = [by_id.get(node_id, Seat(node_id)) for node_id in replicas]
    room = -(-sum(loads.replicas[seat.node_id] for seat in seats) // len(seats)) + 1
    others = sum(seat not in kept for seat in seats)
    chosen = _choose(seats, loads, log_id, min(count, len(kept) + others), room, kept)
    return tuple(seat.node_id for seat in chosen)

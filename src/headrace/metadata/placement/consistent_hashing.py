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


class UsableNode(NamedTuple):
    """A node that takes replicas. Nodes without a rack count as a rack each."""

    node_id: NodeId
    rack: str | None = None

    @property
    def failure_domain(self) -> str:
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
    nodes: Sequence[UsableNode], loads: Loads, log_ids: Sequence[LogId], replication_factor: int
) -> list[tuple[NodeId, ...]]:
    """The replicas of each new partition, the preferred leader first. `loads` is brought up to date.

    There are at least `replication_factor` nodes.
    """
    assert len(nodes) >= replication_factor >= 1
    total = sum(loads.replicas[node.node_id] for node in nodes) + replication_factor * len(log_ids)
    room = -(-total // len(nodes))
    placed = []
    for log_id in log_ids:
        replicas = _led_evenly(_choose(nodes, loads, log_id, replication_factor, room), loads)
        loads.add(replicas)
        placed.append(replicas)
    return placed


def place_behind(
    taken: Sequence[UsableNode],
    placed: Sequence[tuple[NodeId, ...]],
    others: Sequence[UsableNode],
    loads: Loads,
    log_ids: Sequence[LogId],
    replication_factor: int,
) -> list[tuple[NodeId, ...]]:
    """More replicas, on other nodes, behind those that were placed on all that are `taken`. So none of them leads."""
    by_id = {node.node_id: node for node in taken}
    total = sum(loads.replicas[node.node_id] for node in others) + (replication_factor - len(taken)) * len(log_ids)
    room = -(-total // len(others))
    wide = []
    for log_id, replicas in zip(log_ids, placed, strict=True):
        kept = [by_id[node_id] for node_id in replicas]
        chosen = _choose(others, loads, log_id, replication_factor, room, kept)
        wide.append(tuple(node.node_id for node in chosen))
        loads.replicas.update(wide[-1][len(replicas) :])
    return wide


def _choose(
    nodes: Sequence[UsableNode], loads: Loads, log_id: LogId, count: int, room: int, kept: Sequence[UsableNode] = ()
) -> list[UsableNode]:
    """The kept nodes and others up to `count`."""
    chosen = list(kept)
    ranked = [node for node in _ranked(nodes, log_id) if node not in chosen]
    while len(chosen) < count:
        chosen.append(_next_node(ranked, chosen, loads, room))
        ranked.remove(chosen[-1])
    return chosen


def _next_node(ranked: Sequence[UsableNode], chosen: Collection[UsableNode], loads: Loads, room: int) -> UsableNode:
    """Room on a new rack is best; then a new rack, for safety goes before evenness; then room; then the emptiest."""
    taken = {node.failure_domain for node in chosen}
    apart = [node for node in ranked if node.failure_domain not in taken] or ranked
    with_room = [node for node in apart if loads.replicas[node.node_id] < room]
    return with_room[0] if with_room else min(apart, key=lambda node: loads.replicas[node.node_id])


def _ranked(nodes: Sequence[UsableNode], log_id: LogId) -> list[UsableNode]:
    return sorted(nodes, key=lambda node: (affinity(node.node_id, log_id), node.node_id))


def affinity(node_id: NodeId, log_id: LogId) -> bytes:
    digest = blake2b(digest_size=8)
    digest.update(log_id.topic_id)
    digest.update(log_id.partition.to_bytes(4, "big"))
    digest.update(node_id.to_bytes(4, "big"))
    return digest.digest()


def _led_evenly(chosen: Sequence[UsableNode], loads: Loads) -> tuple[NodeId, ...]:
    """Put first whoever leads least. The order of the others decides who follows a lost leader: the hash spreads it."""
    node_ids = [node.node_id for node in chosen]
    leader = min(node_ids, key=lambda node_id: loads.leaders[node_id])
    return leader, *(node_id for node_id in node_ids if node_id != leader)


def widened(
    nodes: Sequence[UsableNode], loads: Loads, log_id: LogId, replicas: tuple[NodeId, ...], count: int
) -> tuple[NodeId, ...]:
    """The same replicas and others behind them, up to `count` if there are as many nodes."""
    by_id = {node.node_id: node for node in nodes}
    kept = [by_id.get(node_id, UsableNode(node_id)) for node_id in replicas]
    room = -(-sum(loads.replicas[node.node_id] for node in nodes) // len(nodes)) + 1
    others = sum(node not in kept for node in nodes)
    chosen = _choose(nodes, loads, log_id, min(count, len(kept) + others), room, kept)
    return tuple(node.node_id for node in chosen)

"""Moving what is there, so that every node has its share of each topic, and of all topics together.

Both at once is always possible: where two nodes differ by two or more in total, some topic has one more replica on the
fuller of them, and moving that one leaves its topic as even as it was. Replicas are settled first, since they cost
copying, then who of them leads, which costs an order. Racks go before evenness: no move puts two replicas of a
partition on one rack that were on two. Everything here is a function of its arguments.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Final

from headrace.metadata.placement.consistent_hashing import UsableNode, affinity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.model.names import LogId, NodeId, TopicId

Placement = dict["LogId", tuple["NodeId", ...]]

PASSES_MAX: Final = 20  # over all topics; each makes the nodes more even, and two or three are enough
LONG_WAYS_MAX: Final = 1000  # leaderships that are handed on across topics; what is left then is a difference of two


def rebalanced(nodes: Sequence[UsableNode], current: Mapping[LogId, tuple[NodeId, ...]]) -> Placement:
    """New replicas for those partitions that have to change, and no others; the preferred leader first.

    Whoever is not in `nodes` (lost, or draining) gives up everything. A node with too much gives up just what is too
    much; a new one gets about its share and nothing else moves. Some only get another preferred leader.
    """
    sets = _ReplicaSets(nodes, current)
    sets.fill()
    sets.even_out()
    leaders = _Leaders(nodes, current, sets.chosen)
    leaders.even_out()
    return {log_id: new for log_id, new in leaders.placement() if new != tuple(current[log_id])}


class _ReplicaSets:
    """Which nodes have a replica of what. The order within is not decided here."""

    def __init__(self, nodes: Sequence[UsableNode], current: Mapping[LogId, tuple[NodeId, ...]]) -> None:
        self._nodes = {node.node_id: node for node in nodes}
        self._wanted = {log_id: min(len(replicas), len(nodes)) for log_id, replicas in current.items()}
        self.chosen = {
            log_id: [node_id for node_id in current[log_id] if node_id in self._nodes] for log_id in sorted(current)
        }
        self._total: Counter[NodeId] = Counter()
        self._of_topic: dict[TopicId, Counter[NodeId]] = defaultdict(Counter)
        self._held: dict[tuple[TopicId, NodeId], dict[LogId, None]] = defaultdict(dict)
        for log_id, kept in self.chosen.items():
            for node_id in kept:
                self._note(log_id, node_id)

    def _note(self, log_id: LogId, node_id: NodeId) -> None:
        self._total[node_id] += 1
        self._of_topic[log_id.topic_id][node_id] += 1
        self._held[log_id.topic_id, node_id][log_id] = None

    def fill(self) -> None:
        """Replicas for those that were lost."""
        for log_id, kept in self.chosen.items():
            while len(kept) < self._wanted[log_id]:
                kept.append(self._emptiest(log_id, kept))
                self._note(log_id, kept[-1])

    def _emptiest(self, log_id: LogId, kept: Sequence[NodeId]) -> NodeId:
        free = [node for node_id, node in self._nodes.items() if node_id not in kept]
        taken = {self._nodes[node_id].failure_domain for node_id in kept}
        apart = [node.node_id for node in free if node.failure_domain not in taken] or [node.node_id for node in free]
        counts = self._of_topic[log_id.topic_id]
        return min(apart, key=lambda it: (counts[it], self._total[it], affinity(it, log_id)))

    def even_out(self) -> None:
        for topic_id in sorted(self._of_topic):
            while self._even_topic(topic_id):
                pass
        for _ in range(PASSES_MAX):
            if not sum(self._even_total(topic_id) for topic_id in sorted(self._of_topic)):
                break

    def _even_topic(self, topic_id: TopicId) -> bool:
        """One replica from a node that has two more of the topic than another."""
        counts = self._of_topic[topic_id]
        fullest = sorted(self._nodes, key=lambda it: (-counts[it], -self._total[it], it))
        for giver in fullest:
            for taker in reversed(fullest):
                if counts[giver] - counts[taker] < 2:  # one more is as even as it gets
                    break
                if self._move_one(topic_id, giver, taker):
                    return True
        return False

    def _even_total(self, topic_id: TopicId) -> bool:
        """One replica from a node that has two more in total, and one more of this topic."""
        counts = self._of_topic[topic_id]
        fullest = sorted(self._nodes, key=lambda it: (-self._total[it], it))
        for giver in fullest:
            for taker in reversed(fullest):
                if self._total[giver] - self._total[taker] < 2:
                    break
                if counts[giver] > counts[taker] and self._move_one(topic_id, giver, taker):
                    return True
        return False

    def _move_one(self, topic_id: TopicId, giver: NodeId, taker: NodeId) -> bool:
        for log_id in self._held[topic_id, giver]:
            replicas = self.chosen[log_id]
            if taker not in replicas and self._keeps_racks(replicas, giver, taker):
                replicas[replicas.index(giver)] = taker
                del self._held[topic_id, giver][log_id]
                self._total[giver] -= 1
                self._of_topic[topic_id][giver] -= 1
                self._note(log_id, taker)
                return True
        return False

    def _keeps_racks(self, replicas: Sequence[NodeId], giver: NodeId, taker: NodeId) -> bool:
        others = {self._nodes[node_id].failure_domain for node_id in replicas if node_id != giver}
        return self._nodes[taker].failure_domain not in others or self._nodes[giver].failure_domain in others


class _Leaders:
    """Which replica is the preferred leader of what."""

    def __init__(
        self,
        nodes: Sequence[UsableNode],
        current: Mapping[LogId, tuple[NodeId, ...]],
        chosen: Mapping[LogId, Sequence[NodeId]],
    ) -> None:
        self._node_ids = sorted(node.node_id for node in nodes)
        self._ordered = {log_id: _as_before(current[log_id], chosen[log_id]) for log_id in chosen}
        self._leader: dict[LogId, NodeId] = {}
        self._total: Counter[NodeId] = Counter()
        self._of_topic: dict[TopicId, Counter[NodeId]] = defaultdict(Counter)
        self._could: dict[TopicId, dict[tuple[NodeId, NodeId], dict[LogId, None]]] = defaultdict(dict)
        """By topic: what one node leads and another could."""
        self._topic_ids = sorted({log_id.topic_id for log_id in chosen})
        orphans = [log_id for log_id in chosen if current[log_id][0] not in chosen[log_id]]
        for log_id in chosen:
            if current[log_id][0] in chosen[log_id]:
                self._lead(log_id, current[log_id][0])
        for log_id in orphans:
            self._lead(log_id, min(self._ordered[log_id], key=lambda it: self._load(log_id.topic_id, it)))

    def _load(self, topic_id: TopicId, node_id: NodeId) -> tuple[int, int]:
        return self._of_topic[topic_id][node_id], self._total[node_id]

    def _lead(self, log_id: LogId, leader: NodeId) -> None:
        before = self._leader.get(log_id)
        if before is not None:
            self._count(log_id, before, -1)
        self._leader[log_id] = leader
        self._count(log_id, leader, 1)

    def _count(self, log_id: LogId, leader: NodeId, change: int) -> None:
        self._total[leader] += change
        self._of_topic[log_id.topic_id][leader] += change
        could = self._could[log_id.topic_id]
        for other in self._ordered[log_id]:
            if other != leader and change > 0:
                could.setdefault((leader, other), {})[log_id] = None
            elif other != leader:
                del could[leader, other][log_id]

    def even_out(self) -> None:
        for topic_id in self._topic_ids:
            while self._even_topic(topic_id):
                pass
        for _ in range(PASSES_MAX):
            if not sum(self._even_total(topic_id) for topic_id in self._topic_ids):
                break
        for _ in range(LONG_WAYS_MAX):
            if not self._hand_on(self._total, self._spare):
                break

    def _even_topic(self, topic_id: TopicId) -> bool:
        """From a node that leads two more of the topic than another."""
        could = self._could[topic_id]
        return self._hand_on(self._of_topic[topic_id], lambda one, other: next(iter(could.get((one, other), ())), None))

    def _even_total(self, topic_id: TopicId) -> bool:
        """From a node that leads two more in total, and one more of this topic."""
        most = sorted(self._node_ids, key=lambda it: (-self._total[it], it))
        for giver in most:
            for taker in reversed(most):
                if self._total[giver] - self._total[taker] < 2:
                    break
                spare = self._spare_of(topic_id, giver, taker)
                if spare is not None:
                    self._lead(spare, taker)
                    return True
        return False

    def _spare_of(self, topic_id: TopicId, one: NodeId, other: NodeId) -> LogId | None:
        """What one node leads and another could, without making the topic less even."""
        counts = self._of_topic[topic_id]
        return next(iter(self._could[topic_id].get((one, other), ())), None) if counts[one] > counts[other] else None

    def _spare(self, one: NodeId, other: NodeId) -> LogId | None:
        spares = (self._spare_of(topic_id, one, other) for topic_id in self._topic_ids)
        return next((spare for spare in spares if spare is not None), None)

    def _hand_on(self, counts: Counter[NodeId], spare: Callable[[NodeId, NodeId], LogId | None]) -> bool:
        """One leadership from a node that has two more than another, by way of third ones if need be."""
        for giver in sorted(self._node_ids, key=lambda it: (-counts[it], -self._total[it], it)):
            way = self._way(giver, counts, spare)
            for log_id, taker in way:
                self._lead(log_id, taker)
            if way:
                return True
        return False

    def _way(
        self, giver: NodeId, counts: Counter[NodeId], spare: Callable[[NodeId, NodeId], LogId | None]
    ) -> list[tuple[LogId, NodeId]]:
        """The shortest one from a node to any that has two less: what to hand on, and to whom. Empty: there is none."""
        ways: dict[NodeId, list[tuple[LogId, NodeId]]] = {giver: []}
        waiting = deque([giver])
        takers = sorted(self._node_ids, key=lambda it: (counts[it], self._total[it], it))
        while waiting:
            one = waiting.popleft()
            for other in takers:
                handed = None if other in ways else spare(one, other)
                if handed is None:
                    continue
                ways[other] = [*ways[one], (handed, other)]
                if counts[giver] - counts[other] >= 2:
                    return ways[other]
                waiting.append(other)
        return []

    def placement(self) -> Iterator[tuple[LogId, tuple[NodeId, ...]]]:
        for log_id, ordered in self._ordered.items():
            leader = self._leader[log_id]
            yield log_id, (leader, *(node_id for node_id in ordered if node_id != leader))


def _as_before(before: Sequence[NodeId], chosen: Sequence[NodeId]) -> list[NodeId]:
    """The order as it was, newcomers last."""
    return [it for it in before if it in chosen] + [it for it in chosen if it not in before]

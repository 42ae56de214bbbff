"""Every node has its share: of each topic, and in all; of replicas, and of preferred leaders."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest

from headrace.metadata.placement.consistent_hashing import UsableNode
from headrace.metadata.placement.rebalancing import rebalanced
from headrace.model.names import LogId, NodeId, TopicId

Placement = dict[LogId, tuple[NodeId, ...]]


def log_id(topic: int, partition: int) -> LogId:
    return LogId(TopicId(topic.to_bytes(16, "big")), partition)


def usable_nodes(count: int, racks: str = "") -> list[UsableNode]:
    return [UsableNode(NodeId(it), racks[it % len(racks)] if racks else None) for it in range(count)]


def spread(placement: Placement, node_count: int, *, leaders_only: bool) -> list[int]:
    """How far apart the fullest and the emptiest node are: for each topic, and, last, in all."""
    counts: dict[object, Counter[int]] = {}
    for it, replicas in placement.items():
        for node_id in replicas[:1] if leaders_only else replicas:
            counts.setdefault(it.topic_id, Counter())[node_id] += 1
    counts["all"] = sum(counts.values(), Counter())
    return [max(it[n] for n in range(node_count)) - min(it[n] for n in range(node_count)) for it in counts.values()]


def anyhow(random: Random, node_count: int, topics: int) -> Placement:
    placement: Placement = {}
    for topic in range(topics):
        factor = random.randint(1, min(3, node_count))
        for partition in range(random.randint(1, 20)):
            few = random.sample(range(node_count), factor)  # as it comes
            placement[log_id(topic, partition)] = tuple(NodeId(it) for it in few)
    return placement


@pytest.mark.parametrize(("node_count", "seed"), list(product([1, 2, 3, 4, 7], range(6))))
def test_topics_and_totals_are_even(node_count: int, seed: int) -> None:
    before = anyhow(Random(seed), node_count, topics=8)
    after = {**before, **rebalanced(usable_nodes(node_count), before)}
    assert all(len(set(after[it])) == len(after[it]) == len(before[it]) for it in before)
    assert max(spread(after, node_count, leaders_only=False)) <= 1
    assert max(spread(after, node_count, leaders_only=True)) <= 1
    assert rebalanced(usable_nodes(node_count), after) == {}


def test_a_topic_on_one_node_is_spread_though_totals_are_even() -> None:
    """What a plan by totals alone would leave: each topic has a node for itself."""
    before = {log_id(topic, partition): (NodeId(topic),) for topic in range(3) for partition in range(6)}
    after = {**before, **rebalanced(usable_nodes(3), before)}
    assert spread(after, 3, leaders_only=False) == [0, 0, 0, 0]
    assert sum(after[it] != before[it] for it in before) == 12


def test_leaders_are_spread_though_replicas_are_even() -> None:
    """No replica moves: the order is all that changes, and only where it must."""
    before = {log_id(0, partition): (NodeId(0), NodeId(1), NodeId(2)) for partition in range(9)}
    moves = rebalanced(usable_nodes(3), before)
    assert {tuple(sorted(it)) for it in moves.values()} == {(0, 1, 2)}
    assert len(moves) == 6
    assert spread({**before, **moves}, 3, leaders_only=True) == [0, 0]


def test_leaderships_are_handed_on_by_way_of_others() -> None:
    """Node 0 shares nothing with node 2, and has too much to lead."""
    before = {log_id(0, it): (NodeId(0), NodeId(1)) for it in range(4)}
    before |= {log_id(0, it): (NodeId(1), NodeId(2)) for it in range(4, 6)}
    before |= {log_id(0, 6): (NodeId(2), NodeId(3)), log_id(0, 7): (NodeId(3), NodeId(2))}
    after = {**before, **rebalanced(usable_nodes(4), before)}
    assert spread(after, 4, leaders_only=True) == [0, 0]


def test_racks_go_before_evenness() -> None:
    """Two racks, and three nodes in one of them: the lonely node keeps a replica of everything."""
    places = [UsableNode(NodeId(0), "a"), *(UsableNode(NodeId(it), "b") for it in (1, 2, 3))]
    before = {log_id(0, it): (NodeId(0), NodeId(1)) for it in range(9)}
    after = {**before, **rebalanced(places, before)}
    assert all(NodeId(0) in replicas for replicas in after.values())
    assert Counter(max(replicas) for replicas in after.values()) == {1: 3, 2: 3, 3: 3}


def test_a_new_node_gets_its_share_of_small_topics() -> None:
    before = {log_id(topic, it): (NodeId(it),) for topic in range(10) for it in range(3)}
    moves = rebalanced(usable_nodes(4), before)
    assert set(moves.values()) == {(NodeId(3),)}
    assert len(moves) == 7
    assert max(spread({**before, **moves}, 4, leaders_only=False)) <= 1


def test_large_clusters_are_planned_in_time() -> None:
    """Twenty thousand partitions, all on one node of three: the worst that an added pair of nodes can meet."""
    before = {log_id(topic, it): (NodeId(0),) for topic in range(200) for it in range(100)}
    after = {**before, **rebalanced(usable_nodes(3), before)}
    assert max(spread(after, 3, leaders_only=False)) <= 1

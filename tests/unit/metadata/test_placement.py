from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from headrace.metadata.placement.consistent_hashing import Loads, UsableNode, place_partitions
from headrace.metadata.placement.rebalancing import rebalanced
from headrace.model.names import LogId, NodeId, TopicId


def log_ids(count, topic=1):
    return [LogId(TopicId(bytes([topic]) * 16), number) for number in range(count)]


def usable_nodes(count, racks=None):
    return [
        UsableNode(NodeId(number), None if racks is None else racks[number % len(racks)]) for number in range(count)
    ]


def placed(nodes, count, replication_factor):
    return dict(zip(log_ids(count), place_partitions(nodes, Loads(), log_ids(count), replication_factor), strict=True))


def replicas_per_node(placement):
    return Counter(node_id for replicas in placement.values() for node_id in replicas)


def leaders_per_node(placement):
    return Counter(replicas[0] for replicas in placement.values())


@pytest.mark.parametrize(
    ("node_count", "replication_factor"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (5, 1), (5, 2), (5, 3)]
)
def test_replicas_are_spread_evenly_and_never_share_a_node(node_count, replication_factor):
    placement = placed(usable_nodes(node_count), 60, replication_factor)
    assert all(len(set(replicas)) == replication_factor for replicas in placement.values())
    share = 60 * replication_factor / node_count
    assert all(0.85 * share <= count <= 1.1 * share for count in replicas_per_node(placement).values())
    leaders = leaders_per_node(placement)
    assert all(
        0.75 * 60 / node_count <= leaders[node.node_id] <= 1.25 * 60 / node_count for node in usable_nodes(node_count)
    )


def test_the_followers_of_one_leader_are_not_always_the_same():
    followers = {replicas[1] for replicas in placed(usable_nodes(4), 60, 2).values() if replicas[0] == 0}
    assert followers == {1, 2, 3}


def test_small_topics_do_not_all_begin_on_one_node():
    loads = Loads()
    leaders = [place_partitions(usable_nodes(3), loads, log_ids(1, topic), 1)[0][0] for topic in range(9)]
    assert Counter(leaders) == {0: 3, 1: 3, 2: 3}


def test_replicas_are_on_different_racks_while_there_are_enough():
    placement = placed(usable_nodes(6, racks="abc"), 60, 3)
    assert all(len({node_id % 3 for node_id in replicas}) == 3 for replicas in placement.values())
    crowded = placed(usable_nodes(6, racks="ab"), 60, 3)
    assert all(len({node_id % 2 for node_id in replicas}) == 2 for replicas in crowded.values())


def test_an_added_node_gets_its_share_and_nothing_else_moves():
    before = placed(usable_nodes(3), 80, 3)
    moves = rebalanced(usable_nodes(4), before)
    after = {**before, **moves}
    assert set(replicas_per_node(after).values()) == {60}
    assert all(set(after[log_id]) - set(before[log_id]) == {3} for log_id in moves)
    assert len(moves) == 60
    assert max(leaders_per_node(after).values()) - min(leaders_per_node(after).values()) <= 2


def test_a_node_that_leaves_gives_up_everything_and_nothing_else_moves():
    before = placed(usable_nodes(4), 80, 3)
    moves = rebalanced(usable_nodes(3), before)
    assert moves.keys() == {log_id for log_id, replicas in before.items() if 3 in replicas}
    assert all(set(before[log_id]) - set(replicas) == {3} for log_id, replicas in moves.items())
    assert set(replicas_per_node({**before, **moves}).values()) == {80}


def test_what_is_even_stays():
    sizes = range(1, 7)
    placement = placed(usable_nodes(1), 50, 1)
    for smaller, larger in pairwise(sizes):
        assert rebalanced(usable_nodes(smaller), placement) == {}
        placement |= rebalanced(usable_nodes(larger), placement)
        spread = replicas_per_node(placement).values()
        assert max(spread) - min(spread) <= 1


def test_too_few_nodes_are_left_for_all_replicas():
    before = placed(usable_nodes(3), 4, 3)
    assert all(set(replicas) == {0, 1} for replicas in rebalanced(usable_nodes(2), before).values())

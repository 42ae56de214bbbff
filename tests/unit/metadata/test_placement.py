from __future__ import annotations

from collections import Counter

import pytest

from headrace.metadata.placement import place_partitions
from headrace.model.names import NodeId


@pytest.mark.parametrize(
    ("node_count", "replication_factor"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (5, 1), (5, 2), (5, 3)]
)
def test_leaders_and_replicas_are_spread_evenly_and_never_share_a_node(node_count, replication_factor):
    nodes = [NodeId(10 * number) for number in range(1, node_count + 1)]
    rounds = max(1, node_count - 1)
    placed = place_partitions(nodes, 7, node_count * rounds * 2, replication_factor)
    assert all(len(set(replicas)) == replication_factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    seats = Counter(node_id for replicas in placed for node_id in replicas)
    assert set(leaders.values()) == {2 * rounds}
    assert set(seats.values()) == {2 * rounds * replication_factor}


def test_the_followers_of_one_leader_are_not_always_the_same():
    nodes = [NodeId(number) for number in range(4)]
    followers = {replicas[1] for replicas in place_partitions(nodes, 0, 12, 2) if replicas[0] == 0}
    assert followers == {1, 2, 3}


def test_small_topics_do_not_all_begin_on_the_first_node():
    nodes = [NodeId(number) for number in range(3)]
    assert [place_partitions(nodes, already, 1, 1)[0][0] for already in range(4)] == [0, 1, 2, 0]

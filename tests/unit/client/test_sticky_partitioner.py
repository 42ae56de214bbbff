from __future__ import annotations

from collections import Counter

import pytest

from headrace.client.connections.view import Partition, Topic
from headrace.client.producing.partitioner import StickyPartitioner
from headrace.model.names import NO_NODE, NO_TOPIC_ID, Epoch, NodeId


def topic(*leaders: int) -> Topic:
    partitions = [Partition(i, NodeId(leader), Epoch(0), (1,), (1,), ()) for i, leader in enumerate(leaders)]
    return Topic("events", NO_TOPIC_ID, False, tuple(partitions))


def test_it_stays_until_the_batch_is_closed() -> None:
    sticky = StickyPartitioner(topic(1, 1, 1), 0.0)
    assert [sticky.partition for _ in range(3)] == [0, 0, 0]
    sticky.move_on()
    assert sticky.partition == 1


@pytest.mark.parametrize("start", [0.0, 0.34, 0.99])
def test_every_partition_gets_its_share(start: float) -> None:
    sticky = StickyPartitioner(topic(1, 1, 1), start)
    chosen: Counter[int] = Counter()
    for _ in range(300):
        chosen[sticky.partition] += 1
        sticky.move_on()
    assert chosen == {0: 100, 1: 100, 2: 100}


def test_the_start_is_by_chance() -> None:
    assert {StickyPartitioner(topic(1, 1, 1), start).partition for start in (0.0, 0.4, 0.7)} == {0, 1, 2}


def test_partitions_without_a_leader_are_left_out_while_others_live() -> None:
    sticky = StickyPartitioner(topic(1, NO_NODE, 1), 0.0)
    chosen = set()
    for _ in range(6):
        chosen.add(sticky.partition)
        sticky.move_on()
    assert chosen == {0, 2}


def test_without_any_leader_all_are_tried() -> None:
    assert StickyPartitioner(topic(NO_NODE, NO_NODE), 0.6).partition == 1


def test_it_moves_when_its_partition_loses_the_leader_and_finds_new_partitions() -> None:
    sticky = StickyPartitioner(topic(1, 1), 0.6)
    assert sticky.partition == 1
    sticky.learn(topic(1, NO_NODE))
    assert sticky.partition == 0
    sticky.learn(topic(1, 1, 1))
    sticky.move_on()
    sticky.move_on()
    assert sticky.partition == 2

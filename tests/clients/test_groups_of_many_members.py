"""Large groups: how long after the last join everybody has its share, with the clients' own settings.

The figures are printed, not judged: how fast a group settles depends mostly on how often its clients send heartbeats,
every 3 s by default in the classic protocol and as the node says (5 s) in the newer one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.clients.group_clients import DEFAULTS, FLAVOURS, LASTING, MODERN
from tests.clients.living_groups import LivingGroup
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.group_clients import Timing
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures", "tests.clients.group_fixtures"]

NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


def let_many_join(node: NodeProcess, flavour: str, timing: Timing, members: int, partitions: int) -> None:
    """All at once, then one more into a group that has settled, then one of them leaves."""
    topic = node.create_topic(new_name(flavour), partitions)
    with LivingGroup(node, flavour, {topic: partitions}, timing) as group:
        names = [group.join() for _ in range(members - 1)]
        at_once_s = settle_s(group, names)
        names.append(group.join())
        last_s = settle_s(group, names)
        group.leave(names.pop(0))
        left_s = settle_s(group, names)
        group.write(2)
        group.wait_all_read()
        print(
            f"\n{flavour}, {members} members, {partitions} partitions: all at once {at_once_s:.2f} s, "
            f"one more {last_s:.2f} s, one less {left_s:.2f} s"
        )


def settle_s(group: LivingGroup, names: list[str]) -> float:
    """Until everybody has its share for good; from now on, which is just after the last has begun to join or left."""
    began_s = time.monotonic()
    group.wait_settled(*names)
    return max(0.0, group.last_move_s() - began_s)


@pytest.mark.parametrize("flavour", ["confluent-cooperative", MODERN])
def test_a_group_of_some_members(swift_node: NodeProcess, flavour: str) -> None:
    let_many_join(swift_node, flavour, LASTING, members=8, partitions=80)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_twenty_members_share_two_hundred_partitions(
    start_node: Callable[[dict[str, str]], NodeProcess], flavour: str
) -> None:
    let_many_join(start_node(NO_DELAY), flavour, DEFAULTS, members=20, partitions=200)

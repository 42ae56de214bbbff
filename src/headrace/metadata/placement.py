"""Where replicas go. Everything that places partitions asks `place_partitions` and nothing else.

Today an even spread in the order of node ids. It is a function of its arguments alone: every controller that is asked
the same question gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.model.names import NodeId


def place_partitions(
    nodes: Sequence[NodeId], first_seat: int, partition_count: int, replication_factor: int
) -> list[tuple[NodeId, ...]]:
    """The replicas of each new partition, the preferred leader first.

    Leaders go round from `first_seat` on: hand in how many partitions there are already, and topics of one partition do
    not all begin on the same node. `nodes` is sorted and has at least `replication_factor` members.
    """
    assert len(nodes) >= replication_factor >= 1
    return [_seats(nodes, first_seat + number, replication_factor) for number in range(partition_count)]


def _seats(nodes: Sequence[NodeId], seat: int, replication_factor: int) -> tuple[NodeId, ...]:
    leader = seat % len(nodes)
    others = len(nodes) - 1
    # Each time round the followers shift by one, so that a lost leader's work falls to all nodes, not to its neighbour.
    shift = seat // len(nodes)
    followers = (
        nodes[(leader + 1 + (shift + follower) % others) % len(nodes)] for follower in range(replication_factor - 1)
    )
    return nodes[leader], *followers

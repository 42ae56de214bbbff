"""Who leads after an outage: the logs of all who may be elected are compared, and the longest wins.

Whoever may be elected has everything that was ever committed, if its disk has kept what it promised. If one of them was
never down, it is believed: it knows what it has written. But if all of them have started again, the first that is back
may have lost the end of its log, or be an older copy, and the others would cut their logs to match it. So the
controller asks each where its log ends, and for a while waits for those who are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.decisions.decision import Decision
from headrace.metadata.elections.partition_leaders import changed, holders
from headrace.model.names import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from headrace.metadata.image.cluster_image import ClusterImage, Partition
    from headrace.model.names import Epoch, LogId, NodeId, Offset


class LogEnd(NamedTuple):
    """Where a replica's log ends. A later epoch counts for more than any number of records."""

    epoch: Epoch
    """Of its last batch."""
    end: Offset
    """Exclusive."""
    was_in_sync: bool = False
    """It was in sync since the node has started: so it has not lost anything."""


LogEnds = dict["NodeId", LogEnd | None]
"""Of one partition, as far as nodes have said. None: its log there is damaged, or ends before what was safe in it."""


class Elected(NamedTuple):
    """Who leads a partition after a comparison, and whose logs were shorter."""

    log_id: LogId
    leader: NodeId
    shorter: tuple[NodeId, ...]


def replicas_to_compare(image: ClusterImage, log_id: LogId) -> tuple[NodeId, ...]:
    """Whom to ask about a partition that nobody leads: those who may be elected, and are here."""
    partition = image.partition(*log_id)
    if partition is None or partition.has_leader:
        return ()
    return tuple(node_id for node_id in holders(partition) if image.is_here(node_id))


def elect_longest(
    image: ClusterImage, ends: Mapping[LogId, LogEnds], overdue: Container[LogId]
) -> Decision[list[Elected]]:
    """Elect leaders where nobody leads. For the `overdue`, nobody is waited for any more."""
    records, elected = [], []
    for log_id, found in ends.items():
        partition = image.partition(*log_id)
        if partition is None or partition.has_leader:
            continue  # deleted or led meanwhile
        leader = _longest(image, partition, found, is_overdue=log_id in overdue)
        if leader != NO_NODE:
            # It alone: the others have to show first that they have what it has.
            records.append(changed(log_id.topic_id, partition, leader=leader, isr=(leader,)))
            elected.append(Elected(log_id, leader, _shorter_than(found, leader)))
    return Decision(tuple(records), elected)


def _longest(image: ClusterImage, partition: Partition, ends: LogEnds, *, is_overdue: bool) -> NodeId:
    """NO_NODE while somebody is missing who may have more, or if nobody can stand."""
    asked = holders(partition)
    standing = {node_id: end for node_id in asked if (end := ends.get(node_id)) and image.is_here(node_id)}
    in_sync = {node_id: end for node_id, end in standing.items() if end.was_in_sync}
    is_somebody_missing = any(node_id not in ends or not image.is_here(node_id) for node_id in asked)
    if is_somebody_missing and not in_sync and not is_overdue:
        return NO_NODE
    candidates = in_sync or standing

    def rank(node_id: NodeId) -> tuple[Epoch, Offset, bool]:
        return (*candidates[node_id][:2], image.node_may_lead(node_id))

    return max(candidates, key=rank, default=NO_NODE)


def _shorter_than(ends: LogEnds, leader: NodeId) -> tuple[NodeId, ...]:
    best = ends[leader]
    assert best is not None
    return tuple(sorted(node_id for node_id, end in ends.items() if end is None or end[:2] < best[:2]))

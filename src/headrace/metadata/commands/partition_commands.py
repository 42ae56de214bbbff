"""Changes of a partition that a leader or an operator asks for: its in-sync set, its leader, where its replicas are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.commands.assignments import usable_nodes
from headrace.metadata.decisions.decision import Decision, Outcome
from headrace.metadata.elections.partition_leaders import (
    Election,
    ElectionKind,
    changed,
    elect,
    electable,
    elected,
    holders,
    known_partition,
    partitions_of,
)
from headrace.metadata.image.effective_configs import topic_settings
from headrace.metadata.image.records import MetadataRecord, PartitionChanged
from headrace.metadata.placement.rebalancing import rebalanced
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Epoch, LogId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.metadata.decisions.slices import PartitionChange
    from headrace.metadata.image.cluster_image import ClusterImage, Partition
    from headrace.metadata.image.effective_configs import NodeConfigs
    from headrace.model.names import NodeId, TopicId


class InSyncMember(NamedTuple):
    """A replica, and the registration of its node that the leader has seen in sync."""

    node_id: NodeId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class IsrChange:
    """What a leader proposes. The epochs say which state of the partition it speaks of."""

    log_id: LogId
    leader_epoch: Epoch
    partition_epoch: int
    isr: tuple[InSyncMember, ...]


def change_in_sync(
    image: ClusterImage, leader: NodeId, broker_epoch: int, wanted: Sequence[IsrChange]
) -> Decision[list[Outcome[Partition]]]:
    """An outcome holds the partition as it is after the change."""
    node = image.nodes.get(leader)
    if node is None or node.broker_epoch != broker_epoch:
        raise Refusal(
            ErrorCode.STALE_BROKER_EPOCH, f"node {leader} is not registered with the broker epoch {broker_epoch}"
        )
    if node.is_fenced:  # others are about to lead: whom it drops from the set, they could not elect
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"node {leader} is fenced, and leads nothing any more")
    after: dict[LogId, Partition] = {}
    records: list[MetadataRecord] = []
    outcomes: list[Outcome[Partition]] = []
    for change in wanted:
        try:
            partition = after.get(change.log_id) or known_partition(image, change.log_id)
            record = _checked_change(image, partition, leader, change)
        except Refusal as refusal:
            outcomes.append(Outcome(str(change.log_id), refusal))
            continue
        if record is not None:
            partition = after[change.log_id] = partition.after(record)
            records.append(record)
        outcomes.append(Outcome(str(change.log_id), partition))
    return Decision(tuple(records), outcomes)


def _checked_change(
    image: ClusterImage, partition: Partition, leader: NodeId, change: IsrChange
) -> PartitionChanged | None:
    """None if it is so already.

    A leader that has proposed other sets and heard nothing proposes the present one again. That raises the partition
    epoch, so that none of the earlier proposals can count any more.
    """
    if change.leader_epoch != partition.leader_epoch or partition.leader != leader:
        raise Refusal(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{image.name_of(change.log_id)} is led by node {partition.leader} in epoch {partition.leader_epoch}, "
            f"not by {leader} in {change.leader_epoch}",
        )
    isr = tuple(member.node_id for member in change.isr)
    if isr == partition.isr and change.partition_epoch < partition.partition_epoch:
        return None
    if change.partition_epoch != partition.partition_epoch:
        raise Refusal(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{image.name_of(change.log_id)} has changed meanwhile: partition epoch {partition.partition_epoch}",
        )
    if leader not in isr or len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas):
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"{list(isr)} cannot be in sync: replicas are {list(partition.replicas)}"
        )
    for member in change.isr:
        _check_eligible(image, partition, member)
    return _completed(image, change.log_id, partition, isr)


def _check_eligible(image: ClusterImage, partition: Partition, member: InSyncMember) -> None:
    """Who enters must be here, and not have started anew since the leader has seen it: its disk may be another
    (KIP-903)."""
    if member.node_id in partition.isr:
        return
    node = image.nodes.get(member.node_id)
    if node is None or node.is_fenced or node.broker_epoch != member.broker_epoch:
        raise Refusal(ErrorCode.INELIGIBLE_REPLICA, f"node {member.node_id} is fenced, or has started anew")


def _completed(image: ClusterImage, log_id: LogId, partition: Partition, isr: tuple[NodeId, ...]) -> PartitionChanged:
    """The new in-sync set; and if replicas are moving and all new ones are in it, the end of the move."""
    return ended_move(image, log_id, partition, isr) or changed(log_id.topic_id, partition, isr=isr)


def ended_move(
    image: ClusterImage, log_id: LogId, partition: Partition, isr: tuple[NodeId, ...]
) -> PartitionChanged | None:
    """The end of a move with this in-sync set. None if new replicas are missing in it, or none of them may lead yet."""
    if not partition.is_moving or not set(partition.target) <= set(isr):
        return None
    leader = _leader_among(image, partition, partition.target)
    if leader is None:
        return None
    return PartitionChanged(
        log_id.topic_id,
        log_id.partition,
        isr=tuple(node_id for node_id in isr if node_id in partition.target),
        leader=leader,
        leader_epoch=Epoch(partition.leader_epoch + 1),  # whoever is no longer a replica must notice
        partition_epoch=partition.partition_epoch + 1,
        replicas=partition.target,
    )


def give_up_replica(
    image: ClusterImage,
    node_id: NodeId,
    broker_epoch: int,
    log_id: LogId,
    *,
    is_lost: bool,
    serves_nothing: bool = False,
) -> Decision[None]:
    """A node's copy is damaged, or cannot grow: it leaves the in-sync set, and another leads. Raises Refusal if nobody
    else could.

    If several others could, their logs are compared first, and nobody leads for a moment.

    `serves_nothing`: not a record of it can be read. Then it is enough that somebody else may be elected some day: the
    partition waits for that one, rather than be led by a node that has nothing.

    With a copy that is lost the partition begins a new epoch in any case. Whoever leads it then knows nothing of what
    the node had: no fetch that is still on the way can make an empty copy look like the one that was there.
    """
    node = image.nodes.get(node_id)
    if node is None or node.broker_epoch != broker_epoch:
        raise Refusal(
            ErrorCode.STALE_BROKER_EPOCH, f"node {node_id} is not registered with the broker epoch {broker_epoch}"
        )
    partition = known_partition(image, log_id)
    if node_id not in partition.replicas:
        raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {node_id} has no replica of {image.name_of(log_id)}")
    leader, remaining = partition.leader, tuple(member for member in partition.isr if member != node_id)
    if leader in {node_id, NO_NODE}:
        leader, remaining = elected(image, partition, remaining, but=(node_id,))
    others = [other for other in holders(partition) if other != node_id]
    may_wait = bool(others) if serves_nothing and is_lost else any(map(image.is_here, others))
    if leader == NO_NODE and not may_wait:
        raise Refusal(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"no other replica of {image.name_of(log_id)} is in sync and there; in sync are {list(partition.isr)}",
        )
    record = changed(log_id.topic_id, partition, isr=remaining, leader=leader, begins_anew=is_lost)
    return Decision((record,), None, loser=node_id if is_lost else NO_NODE)


def elect_leaders(image: ClusterImage, wanted: Sequence[Election]) -> Decision[list[Outcome[None]]]:
    records: list[MetadataRecord] = []
    outcomes: list[Outcome[None]] = []
    pending = image
    for election in wanted:
        try:
            record = elect(pending, election)
        except Refusal as refusal:
            outcomes.append(Outcome(str(election.log_id), refusal))
            continue
        pending = pending.apply(record)
        records.append(record)
        outcomes.append(Outcome(str(election.log_id), None))
    return Decision(tuple(records), outcomes)


def unclean_election(configs: NodeConfigs) -> PartitionChange:
    """Where nobody leads, and the topic would rather lose records than wait (`unclean.leader.election.enable`)."""

    def elect_any(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
        if partition.has_leader or any(map(image.is_here, holders(partition))):
            return None  # somebody leads, or logs are being compared
        settings = topic_settings(image, image.topics[topic_id].name, configs)
        if settings.unclean_leader_election_enable:
            with suppress(Refusal):  # none of its replicas is there
                return elect(image, Election(LogId(topic_id, partition.partition), ElectionKind.UNCLEAN))
        return None

    return elect_any


@dataclass(frozen=True, slots=True)
class Reassignment:
    """Where a partition's replicas shall be. None: stop a move that is under way."""

    log_id: LogId
    replicas: tuple[NodeId, ...] | None


def reassign(image: ClusterImage, wanted: Sequence[Reassignment]) -> Decision[list[Outcome[None]]]:
    records: list[MetadataRecord] = []
    outcomes: list[Outcome[None]] = []
    pending = image
    for move in wanted:
        try:
            record = _checked_move(pending, move)
        except Refusal as refusal:
            outcomes.append(Outcome(str(move.log_id), refusal))
            continue
        if record is not None:
            pending = pending.apply(record)
            records.append(record)
        outcomes.append(Outcome(str(move.log_id), None))
    return Decision(tuple(records), outcomes)


def _checked_move(image: ClusterImage, move: Reassignment) -> PartitionChanged | None:
    partition = known_partition(image, move.log_id)
    if move.replicas is None:
        return _stopped(image, move.log_id, partition)
    _check_target(image, move.replicas)
    before = tuple(node_id for node_id in partition.replicas if node_id not in partition.adding)
    adding = tuple(node_id for node_id in move.replicas if node_id not in before)
    removing = tuple(node_id for node_id in before if node_id not in move.replicas)
    if not adding and not removing and not partition.is_moving and move.replicas == partition.replicas:
        return None
    replicas = (*move.replicas, *removing)
    leader_after = _leader_among(image, partition, move.replicas)
    if leader_after is not None and set(move.replicas) <= set(partition.isr):
        return _moved(move.log_id, partition, move.replicas, leader_after)  # no change of the in-sync set would end it
    leader, isr = _left_in_sync(image, move.log_id, partition, replicas)
    return PartitionChanged(
        move.log_id.topic_id,
        move.log_id.partition,
        isr=isr,
        leader=leader,
        # The leader begins anew: it has followers that it does not know yet.
        leader_epoch=Epoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
        replicas=replicas,
        adding=adding,
        removing=removing,
    )


def _leader_among(image: ClusterImage, partition: Partition, replicas: tuple[NodeId, ...]) -> NodeId | None:
    """Who leads once these are the replicas and all are in sync: the leader of now, else the first that may."""
    if partition.leader in replicas:
        return partition.leader
    return next((node_id for node_id in replicas if image.node_may_lead(node_id)), None)


def _moved(log_id: LogId, partition: Partition, replicas: tuple[NodeId, ...], leader: NodeId) -> PartitionChanged:
    """All who shall have it have it: only the order changes, or somebody goes."""
    return PartitionChanged(
        log_id.topic_id,
        log_id.partition,
        isr=tuple(node_id for node_id in partition.isr if node_id in replicas),
        leader=leader,
        leader_epoch=Epoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
        replicas=replicas,
    )


def _stopped(image: ClusterImage, log_id: LogId, partition: Partition) -> PartitionChanged:
    if not partition.is_moving:
        name = image.name_of(log_id)
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"the replicas of {name} are not being moved")
    replicas = tuple(node_id for node_id in partition.replicas if node_id not in partition.adding)
    leader, isr = _left_in_sync(image, log_id, partition, replicas)
    return PartitionChanged(
        log_id.topic_id,
        log_id.partition,
        isr=isr,
        leader=leader,
        leader_epoch=Epoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
        replicas=replicas,
    )


def _left_in_sync(
    image: ClusterImage, log_id: LogId, partition: Partition, replicas: tuple[NodeId, ...]
) -> tuple[NodeId, tuple[NodeId, ...]]:
    """Who leads and who is in sync with these replicas alone: those that an unfinished move was adding may have to
    go."""
    isr = tuple(node_id for node_id in partition.isr if node_id in replicas)
    if partition.isr and not isr:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"only replicas that are being moved to are in sync with {image.name_of(log_id)}; let the move end",
        )
    return partition.leader if partition.leader in isr else electable(image, partition, isr), isr


def _check_target(image: ClusterImage, replicas: tuple[NodeId, ...]) -> None:
    if not replicas:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition needs at least one replica")
    if len(set(replicas)) < len(replicas):
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"two replicas on one node: {list(replicas)}")
    unknown = [node_id for node_id in replicas if node_id not in image.nodes]
    if unknown:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"there are no nodes {unknown}")


def plan_rebalance(image: ClusterImage) -> list[Reassignment]:
    """Few moves after which every node that may lead has its share, of each topic and in all, and others nothing."""
    current = {
        LogId(topic.topic_id, partition.partition): partition.target for topic, partition in partitions_of(image)
    }
    return [Reassignment(log_id, replicas) for log_id, replicas in rebalanced(usable_nodes(image), current).items()]

"""Who leads a partition when somebody comes or goes.

Only a replica in the in-sync set may lead: it has every record that was ever acknowledged. If none of them is there,
an eligible one may: it has them too (see `eligible_replicas`), and from then on it alone is in sync. If there is none
either, the partition waits. The last member stays in the set even when it is away: otherwise somebody who lacks records
could be elected.

While somebody leads, replicas in sync show with every fetch what they have. Replicas that come back after nobody led
have shown nothing yet: if there are several, nobody is elected here, and their logs are compared first (see
`log_end_comparison`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from headrace.metadata.image.records import PartitionChanged
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Epoch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.metadata.decisions.slices import PartitionChange
    from headrace.metadata.image.cluster_image import ClusterImage, Partition, Topic
    from headrace.model.names import LogId, NodeId, TopicId


def changed(
    topic_id: TopicId,
    before: Partition,
    *,
    isr: tuple[NodeId, ...] | None = None,
    leader: NodeId | None = None,
    begins_anew: bool = False,
) -> PartitionChanged:
    """The record for a change of who leads and who is in sync. The leader epoch grows with a new leader, and with one
    that `begins_anew`, on an empty copy."""
    leader = before.leader if leader is None else leader
    is_new = begins_anew or leader != before.leader
    return PartitionChanged(
        topic_id,
        before.partition,
        isr=before.isr if isr is None else isr,
        leader=leader,
        leader_epoch=Epoch(before.leader_epoch + is_new),
        partition_epoch=before.partition_epoch + 1,
        adding=before.adding,
        removing=before.removing,
    )


def electable(
    image: ClusterImage, partition: Partition, among: tuple[NodeId, ...], *, but: Collection[NodeId] = ()
) -> NodeId:
    """Who of them is to lead: who is here, none of `but`, the first in the order of the replicas. NO_NODE if nobody is.

    One that is draining leads if nobody else can: to be served by it is better than not at all.
    """
    # One that is to go may be the only one that has everything.
    candidates = [
        node_id
        for node_id in (*partition.target, *partition.removing)
        if node_id not in but and node_id in among and image.is_here(node_id)
    ]
    staying = [node_id for node_id in candidates if image.node_may_lead(node_id)]
    return next(iter(staying or candidates), NO_NODE)


def holders(partition: Partition) -> tuple[NodeId, ...]:
    """Who may be elected: they have all that was ever committed. In the order in which they are to lead."""
    return tuple(
        node_id
        for node_id in (*partition.target, *partition.removing)
        if node_id in partition.isr or node_id in partition.eligible
    )


def elected(
    image: ClusterImage, partition: Partition, isr: tuple[NodeId, ...], *, but: Collection[NodeId] = ()
) -> tuple[NodeId, tuple[NodeId, ...]]:
    """Who is to lead, and who is in sync then: one of `isr` and all of them, else the one that is eligible, alone.
    NO_NODE also if there are several whose logs have to be compared first."""
    is_only_one = len({*isr, *partition.eligible}) == 1
    if partition.has_leader or is_only_one:
        leader = electable(image, partition, isr, but=but)
        if leader != NO_NODE:
            return leader, isr
    leader = electable(image, partition, partition.eligible, but=but) if is_only_one else NO_NODE
    return leader, isr if leader == NO_NODE else (leader,)


def partitions_of(image: ClusterImage) -> Iterator[tuple[Topic, Partition]]:
    return ((topic, partition) for topic in image.sorted_topics() for partition in topic.in_order())


def taken_from(
    image: ClusterImage, topic_id: TopicId, partition: Partition, *gone: NodeId, has_lost_disk: bool = False
) -> PartitionChanged | None:
    """What changes when nodes are gone: they leave the in-sync set, and another leads what they led.

    If all members are gone, the last of them stays in the set. Those who leave in the same moment have as much as it
    has, because nothing was committed without them. So they are eligible, whatever `min.insync.replicas` is.

    A node whose disk was replaced leaves even where it is the last member: what it had is gone, and it would lead with
    nothing. For the same reason it is eligible nowhere.
    """
    if not any(_has_part(partition, node_id, has_lost_disk) for node_id in gone):
        return None
    isr = tuple(member for member in partition.isr if member not in gone)
    if not isr and not has_lost_disk:
        isr = (partition.leader,) if partition.leader in partition.isr else partition.isr[:1]
    leader = partition.leader
    if leader in {*gone, NO_NODE}:
        leader, isr = elected(image, partition, isr, but=gone)
    return changed(topic_id, partition, isr=isr, leader=leader)


def _has_part(partition: Partition, node_id: NodeId, has_lost_disk: bool) -> bool:
    """Whether something is to be taken from a node that is gone. If it is the last one in sync, it stays that, unless
    its disk is lost."""
    if partition.leader == node_id:
        return True
    if node_id in partition.isr:
        return has_lost_disk or len(partition.isr) > 1
    return has_lost_disk and node_id in partition.eligible


def has_part_in_any(image: ClusterImage, node_id: NodeId, *, has_lost_disk: bool) -> bool:
    """The order does not matter for a yes or no, so nothing is sorted: each partition of the cluster holds up a node
    that starts by a fifth of a microsecond."""
    return any(
        _has_part(partition, node_id, has_lost_disk)
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )


def taking_over(*gone: NodeId, has_lost_disk: bool = False) -> tuple[PartitionChange, ...]:
    """The changes of all partitions when nodes are gone: first what they led, for nobody can write there."""

    def of_what_they_led(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
        if partition.leader not in gone:
            return None
        return taken_from(image, topic_id, partition, *gone, has_lost_disk=has_lost_disk)

    def of_the_rest(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
        if partition.leader in gone:
            return None
        return taken_from(image, topic_id, partition, *gone, has_lost_disk=has_lost_disk)

    return of_what_they_led, of_the_rest


def led_again(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
    """Somebody is there again who may lead what nobody could."""
    if partition.has_leader:
        return None
    leader, isr = elected(image, partition, partition.isr)
    return None if leader == NO_NODE else changed(topic_id, partition, leader=leader, isr=isr)


def moved_from_draining(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
    """A draining node leads, and another could. What nobody else can lead stays."""
    leader = image.nodes.get(partition.leader)
    if leader is None or not leader.is_draining:
        return None
    others = (other for other in partition.target if other in partition.isr and image.node_may_lead(other))
    successor = next(others, NO_NODE)
    return None if successor == NO_NODE else changed(topic_id, partition, leader=successor)


class ElectionKind(Enum):
    PREFERRED = 0
    """The first replica leads, if it is in sync."""
    UNCLEAN = 1
    """Any living replica leads, if nobody in sync can. What it lacks is lost."""


@dataclass(frozen=True, slots=True)
class Election:
    """A partition whose leader somebody wants to be chosen anew."""

    log_id: LogId
    kind: ElectionKind


def elect(image: ClusterImage, wanted: Election) -> PartitionChanged:
    """Raises Refusal if there is no such partition, nobody to elect, or no need."""
    partition = known_partition(image, wanted.log_id)
    if wanted.kind is ElectionKind.PREFERRED:
        return _elect_preferred(image, wanted.log_id.topic_id, partition)
    return _elect_any(image, wanted.log_id.topic_id, partition)


def known_partition(image: ClusterImage, log_id: LogId) -> Partition:
    """Raises Refusal if there is none."""
    if image.topic(log_id.topic_id) is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
    partition = image.partition(*log_id)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {image.name_of(log_id)}")
    return partition


def _elect_preferred(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged:
    preferred = partition.target[0]
    if partition.leader == preferred:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, f"node {preferred} leads already")
    if preferred not in partition.isr or not image.node_may_lead(preferred):
        raise Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, _why_not(image, partition, preferred))
    return changed(topic_id, partition, leader=preferred)


def _why_not(image: ClusterImage, partition: Partition, preferred: NodeId) -> str:
    is_here = image.is_here(preferred)
    if is_here and preferred in partition.isr:
        return f"node {preferred} is being drained"
    if not partition.has_leader:
        return _why_nobody(partition)
    if is_here:
        return f"node {preferred} is not in sync yet; it leads once it is"
    return f"node {preferred} is away; node {partition.leader} leads meanwhile"


def _why_nobody(partition: Partition) -> str:
    if partition.is_lost:
        return "nobody leads: no copy with the records is left. --unclean lets an empty or older one lead"
    holders = " or ".join(f"node {node_id}" for node_id in (*partition.isr, *partition.eligible))
    return f"nobody leads: only {holders} is known to have everything. Start it; --unclean loses what nobody else has"


def _elect_any(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged:
    if partition.has_leader:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, f"node {partition.leader} leads")
    clean = electable(image, partition, holders(partition))
    if clean != NO_NODE:  # whoever asks does not want to wait until logs are compared
        return changed(topic_id, partition, leader=clean, isr=(clean,))
    staying = [node_id for node_id in partition.target if node_id not in partition.adding]
    by_what_they_may_have = (*staying, *partition.removing, *partition.adding)  # new replicas begin with nothing
    living = next((node_id for node_id in by_what_they_may_have if image.is_here(node_id)), NO_NODE)
    if living == NO_NODE:
        raise Refusal(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"none of the replicas {list(partition.replicas)} is there"
        )
    # From here on this replica is what the partition holds: whatever others had more is cut when they follow it.
    return changed(topic_id, partition, leader=living, isr=(living,))


def is_misplaced(image: ClusterImage, partition: Partition) -> bool:
    """Whether another replica leads although the preferred one could."""
    preferred = partition.target[0]
    return partition.leader != preferred and preferred in partition.isr and image.node_may_lead(preferred)


class LeaderBalance:
    """Gives partitions back to their preferred leaders, for nodes where more than this part of them is led elsewhere.

    Two changes, one after the other: the first only counts.
    """

    def __init__(self, tolerated: float) -> None:
        self._tolerated = tolerated
        self._preferred: Counter[NodeId] = Counter()
        self._missing: Counter[NodeId] = Counter()

    def count(self, image: ClusterImage, _: TopicId, partition: Partition) -> None:
        preferred = partition.target[0]
        self._preferred[preferred] += 1
        self._missing[preferred] += is_misplaced(image, partition)

    def give_back(self, image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
        preferred = partition.target[0]
        if self._missing[preferred] <= self._tolerated * self._preferred[preferred]:
            return None
        return changed(topic_id, partition, leader=preferred) if is_misplaced(image, partition) else None

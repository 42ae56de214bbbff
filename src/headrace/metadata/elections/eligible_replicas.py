"""Who may be elected although it is not in sync: the eligible replicas of a partition (KIP-966).

Nothing is committed while fewer than `min.insync.replicas` are in sync. So a replica that leaves the in-sync set when
that becomes too small has all that was ever committed, until the set is large enough again. Without this, only the last
member of a set could ever lead; and if its disk is lost nobody could, although others have everything.

Commands say who leads and who is in sync. Who is eligible follows from that and from the topic's settings. It is worked
out here, for every decision, so that no command can forget it. A record without it makes nobody eligible, which is
always safe.

Not all nodes need to have the same settings at the same moment. An eligible replica counts for the leader's high
watermark as if it were in sync (see `Replica`): so a leader with another `min.insync.replicas` commits nothing that a
replica lacks which may be elected.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from headrace.metadata.elections.partition_leaders import changed
from headrace.metadata.image.effective_configs import topic_settings
from headrace.metadata.image.records import MetadataRecord, PartitionChanged
from headrace.model.names import NO_NODE, LogId

if TYPE_CHECKING:
    from headrace.metadata.decisions.decision import Decision
    from headrace.metadata.decisions.slices import PartitionChange
    from headrace.metadata.image.cluster_image import ClusterImage, Partition
    from headrace.metadata.image.effective_configs import NodeConfigs
    from headrace.model.names import NodeId, TopicId

Response = TypeVar("Response")

NOBODY: tuple[NodeId, ...] = ()


def with_eligible(image: ClusterImage, decision: Decision[Response], configs: NodeConfigs) -> Decision[Response]:
    """The decision, and who is eligible after it. `configs` are those of the node that decides."""
    last: dict[LogId, tuple[Partition, PartitionChanged]] = {}
    needed: dict[TopicId, int] = {}
    records: list[MetadataRecord] = []
    for record in decision.records:
        if not isinstance(record, PartitionChanged):
            records.append(record)
            continue
        log_id = LogId(record.topic_id, record.partition)
        before = last[log_id][0].after(last[log_id][1]) if log_id in last else image.partition(*log_id)
        assert before is not None, record
        if record.topic_id not in needed:
            needed[record.topic_id] = in_sync_needed(image, record.topic_id, configs)
        eligible = _eligible(before, record, needed[record.topic_id], decision.loser)
        completed = replace(record, eligible=eligible) if eligible else record
        last[log_id] = before, completed
        records.append(completed)
    return replace(decision, records=tuple(records))


def _eligible(before: Partition, record: PartitionChanged, needed: int, loser: NodeId) -> tuple[NodeId, ...]:
    replicas = before.replicas if record.replicas is None else record.replicas
    if record.leader != NO_NODE and _is_large_enough(record.isr, replicas, needed):
        return NOBODY
    # While nobody leads, nothing is committed, however many are in sync: who had everything has it still.
    have_all = ({*before.isr, *before.eligible} if needed else {*before.eligible}) - {loser}
    if record.leader != NO_NODE and record.leader not in have_all:
        return NOBODY  # an unclean election: what it lacks is given up
    return tuple(node_id for node_id in replicas if node_id in have_all and node_id not in record.isr)


def _is_large_enough(isr: tuple[NodeId, ...], replicas: tuple[NodeId, ...], needed: int) -> bool:
    """Whether a leader commits, with those who are in sync."""
    return len(isr) >= min(needed, len(replicas))


def in_sync_needed(image: ClusterImage, topic_id: TopicId, configs: NodeConfigs) -> int:
    """How many must be in sync for anything to be committed. 0 where records are committed before they are on disk: a
    power cut can take them from any replica, so that none has everything for certain."""
    topic = image.topics[topic_id]
    settings = topic_settings(image, topic.name, configs)
    return settings.min_insync_replicas if settings.commits_when_flushed else 0


def review_of_eligible(configs: NodeConfigs) -> PartitionChange:
    """Settings have changed, and with them how many are enough: leaders wait no longer for those who were eligible.

    To be completed by `with_eligible`.
    """

    def review(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
        if not partition.eligible or not partition.has_leader:
            return None
        needed = in_sync_needed(image, topic_id, configs)
        return changed(topic_id, partition) if _is_large_enough(partition.isr, partition.replicas, needed) else None

    return review

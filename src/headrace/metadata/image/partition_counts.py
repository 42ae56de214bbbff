"""How many partitions a node has and leads, and how many are not as they should be.

What is missing or too small is counted by the leader alone, as in Kafka: the sum over all nodes is that of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.metadata.image.effective_configs import topic_settings
from headrace.model.names import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.metadata.image.cluster_image import ClusterImage, Partition
    from headrace.metadata.image.effective_configs import NodeConfigs
    from headrace.model.names import TopicId


@dataclass(slots=True)
class PartitionCounts:
    here: int = 0
    """Replicas on the node."""
    led: int = 0
    offline: int = 0
    """In the whole cluster: nobody leads them, or the node does and cannot serve them."""
    under_replicated: int = 0
    """Led by the node, with a copy missing."""
    under_min_insync: int = 0
    """Led by the node, with fewer copies in sync than `acks=all` needs."""


def count_partitions(
    image: ClusterImage, configs: NodeConfigs, troubles: Mapping[TopicId, Collection[int]]
) -> PartitionCounts:
    """As the node sees them whose `configs` they are. `troubles` are the partitions that it cannot serve."""
    counts, node_id = PartitionCounts(), configs.node_id
    for topic in image.topics.values():  # in any order: only sums come of it, and it happens every few seconds
        troubled = troubles.get(topic.topic_id, ())
        lacking: list[Partition] = []
        for partition in topic.partitions.values():
            counts.here += node_id in partition.replicas
            if partition.leader == node_id:
                counts.led += 1
                counts.offline += partition.partition in troubled
                if len(partition.isr) < len(partition.replicas):
                    lacking.append(partition)
            elif partition.leader == NO_NODE:
                counts.offline += 1
        if lacking:
            needed = topic_settings(image, topic.name, configs).min_insync_replicas
            counts.under_replicated += sum(map(_misses_a_copy, lacking))
            counts.under_min_insync += sum(len(it.isr) < min(needed, len(it.replicas)) for it in lacking)
    return counts


def _misses_a_copy(partition: Partition) -> bool:
    """A copy that is only being made is not missed."""
    return not {*partition.replicas} <= {*partition.isr, *partition.adding}

"""Who leads a partition, and which nodes there are, as clients are told: what is decided, and what this node sees by
itself meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.model.names import NO_NODE

if TYPE_CHECKING:
    from headrace.broker.membership.reachability import Reachability
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.metadata.image.cluster_image import Node, Partition, Topic
    from headrace.model.names import NodeId


class ToldLeaders:
    def __init__(self, view: MetadataView, topics: TopicTable, reachability: Reachability) -> None:
        self._view = view
        self._topics = topics
        self._reachability = reachability

    def serving(self, topic: Topic, partition: Partition) -> NodeId:
        """NO_NODE where nobody leads, and where this node should and cannot. Whether others can, they say themselves.

        Nor is one named who seems to be gone, or is fenced and about to be followed: clients would dial it for a second
        or two; told of none, they ask again.
        """
        leader = partition.leader
        is_damaged = leader == self._view.node_id and self._topics.is_offline(topic.topic_id, partition.partition)
        is_gone = leader in self._reachability.doubted() or not self._view.image.is_here(leader)
        return NO_NODE if is_damaged or is_gone else leader

    def likely_successor(self, partition: Partition) -> NodeId:
        """Whom the controller elects once it misses this node, which leads the partition and has no lease; else
        NO_NODE.

        Cut off from the others it never hears whom. Clients that have a connection to it alone would ask it again for
        as long as it lasts: so they are told where to look, beside the error that says that it is not known.
        """
        own_id = self._view.node_id
        if partition.leader != own_id or self._reachability.may_lead:
            return NO_NODE
        away = {own_id, *self._reachability.unreachable()}
        return next((it for it in partition.replicas if it in partition.isr and it not in away), NO_NODE)

    def listed_nodes(self) -> list[Node]:
        return self._reachability.listed(self._view.image)

    def offline_replicas(self, topic: Topic, partition: Partition) -> list[int]:
        """Those on nodes that are away, and this node's own if it cannot be used."""
        away = set(self._nodes_away())
        if self._topics.is_offline(topic.topic_id, partition.partition):
            away.add(self._view.node_id)
        return [node_id for node_id in partition.replicas if node_id in away]

    def state(self, topic: Topic) -> object:
        """While this is the same, so is what is told of the topic's leaders."""
        return (
            self._topics.troubles(topic.topic_id),
            self._nodes_away(),
            self._reachability.doubted(),
            self._reachability.unreachable(),
        )

    def _nodes_away(self) -> tuple[NodeId, ...]:
        return tuple(sorted(node_id for node_id, node in self._view.image.nodes.items() if node.is_fenced))


def leader_error(leader: NodeId) -> int:
    return ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_NODE else ErrorCode.NONE

"""DescribeQuorum (key 55): who agrees on the metadata, and how far each of them is.

Only the leader of the metadata log knows; other nodes pass the question on. When a follower last had everything is told
while it has everything, and is unknown (-1) otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.assembly import NODES
from headrace.broker.metadata_store import METADATA_TOPIC
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_NODE, NO_TOPIC_ID, TopicId
from headrace.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionQuorum,
    ReplicaState,
    TopicQuorum,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.node import Node as LivingNode
    from headrace.model.names import NodeId
    from headrace.raft.leading import Leadership
    from headrace.servers.kafka.apis import Request

UNKNOWN: Final = -1
NODES_FROM: Final = 2  # before, an answer does not say where they listen


def handle(message: DescribeQuorumRequest, request: Request) -> DescribeQuorumResponse:
    topics = [
        TopicQuorum(topic.topic_name, [_partition(topic.topic_name, part.partition_index, request.node)])
        for topic in message.topics
        for part in topic.partitions
    ]
    nodes = list(_nodes(request.node)) if request.version >= NODES_FROM else []
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _partition(topic: str, index: int, node: LivingNode) -> PartitionQuorum:
    if (topic, index) != METADATA_TOPIC:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"only {METADATA_TOPIC} is agreed on by a quorum")
    raft = node.quorum.raft
    leadership = raft.leadership
    if leadership is None:
        return _refused(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody is known to lead the metadata log")
    return PartitionQuorum(
        index,
        ErrorCode.NONE,
        None,
        leader_id=node.node_id,
        leader_epoch=raft.term,
        high_watermark=raft.log.commit_end,
        current_voters=[
            _state(node, leadership, voter.node_id, voter.directory or b"") for voter in raft.membership.voters
        ],
        observers=[_state(node, leadership, node_id, b"") for node_id in raft.membership.learners],
    )


def _refused(index: int, code: ErrorCode, reason: str) -> PartitionQuorum:
    return PartitionQuorum(index, code, reason, leader_id=NO_NODE, leader_epoch=UNKNOWN, high_watermark=UNKNOWN)


def _state(node: LivingNode, leadership: Leadership, node_id: NodeId, directory: bytes) -> ReplicaState:
    clock = node.world.clock
    log = node.quorum.raft.log
    if node_id == node.node_id:
        return ReplicaState(node_id, _directory_id(directory), log.end, clock.wall_ms(), clock.wall_ms())
    follower = leadership.followers.get(node_id)
    if follower is None or follower.directory is None:  # it has never answered this leader
        return ReplicaState(node_id, _directory_id(directory), UNKNOWN, UNKNOWN, UNKNOWN)
    heard_ms = clock.wall_ms() - (int(clock.monotonic_s() * 1000) - follower.heard_ms)
    has_everything = follower.match_end >= log.commit_end
    return ReplicaState(
        node_id,
        _directory_id(follower.directory),
        follower.match_end,
        heard_ms,
        heard_ms if has_everything else UNKNOWN,
    )


def _directory_id(directory: bytes) -> TopicId:
    return TopicId(directory) if directory else NO_TOPIC_ID


def _nodes(node: LivingNode) -> Iterator[Node]:
    """Where each of them listens for the others."""
    for node_id in node.quorum.raft.membership.everybody:
        known = node.image.nodes.get(node_id)
        endpoint = None if known is None else known.endpoint(NODES)
        if endpoint is not None:
            yield Node(node_id, [Listener(endpoint.listener, endpoint.host, endpoint.port)])

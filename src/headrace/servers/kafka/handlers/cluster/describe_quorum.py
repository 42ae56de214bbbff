"""DescribeQuorum (key 55): who agrees on the metadata, and how far each of them is.

Only the leader of the metadata log knows; other nodes pass the question on. When a follower last had everything is told
while it has everything, and is unknown (-1) otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation
from headrace.broker.membership.local_node import NODES
from headrace.broker.metadata.store import METADATA_TOPIC
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_NODE, NO_TOPIC_ID, TopicId
from headrace.raft.ready import Role
from headrace.servers.kafka.asking import distinct
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
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

    from headrace.broker.metadata.quorum import Quorum
    from headrace.model.names import NodeId
    from headrace.raft.view import RaftView
    from headrace.runtime.clock import Clock
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request

UNKNOWN: Final = -1
PLACES_FROM: Final = 2  # before, an answer does not say where they listen, nor which disk they have


RIGHTS = Rights(whole=(on_cluster(Operation.DESCRIBE),), refused=words_of(DescribeQuorumResponse))


def handle(message: DescribeQuorumRequest, request: Request, quorum: Quorum, world: World) -> DescribeQuorumResponse:
    version = request.version
    topics = [
        TopicQuorum(name, [_partition(name, index, quorum.raft, world.clock, version) for index in indexes])
        for name, indexes in distinct(
            (topic.topic_name, [part.partition_index for part in topic.partitions]) for topic in message.topics
        ).items()
    ]
    nodes = list(_nodes(quorum)) if version >= PLACES_FROM else []
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _partition(topic: str, index: int, raft: RaftView, clock: Clock, version: int) -> PartitionQuorum:
    if (topic, index) != METADATA_TOPIC:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"only {METADATA_TOPIC} is agreed on by a quorum")
    if raft.role is not Role.LEADER:
        return _refused(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody is known to lead the metadata log")
    return PartitionQuorum(
        index,
        ErrorCode.NONE,
        None,
        leader_id=raft.me.node_id,
        leader_epoch=raft.term,
        high_watermark=raft.log.commit_end,
        current_voters=[_state(raft, clock, version, *voter) for voter in raft.membership.voters],
        observers=[_state(raft, clock, version, node_id, None) for node_id in raft.membership.learners],
    )


def _refused(index: int, code: ErrorCode, reason: str) -> PartitionQuorum:
    return PartitionQuorum(index, code, reason, leader_id=NO_NODE, leader_epoch=UNKNOWN, high_watermark=UNKNOWN)


def _state(raft: RaftView, clock: Clock, version: int, node_id: NodeId, directory: bytes | None) -> ReplicaState:
    log = raft.log
    follower = raft.followers().get(node_id)
    if node_id == raft.me.node_id:
        state = ReplicaState(node_id, NO_TOPIC_ID, log.end, clock.wall_ms(), clock.wall_ms())
    elif follower is None:  # it has never answered this leader
        state = ReplicaState(node_id, NO_TOPIC_ID, UNKNOWN, UNKNOWN, UNKNOWN)
    else:
        directory = follower.directory
        heard_ms = clock.wall_ms() - (int(clock.monotonic_s() * 1000) - follower.heard_ms)
        has_everything = follower.match_end >= log.commit_end
        caught_up_ms = heard_ms if has_everything else UNKNOWN
        state = ReplicaState(node_id, NO_TOPIC_ID, follower.match_end, heard_ms, caught_up_ms)
    if directory is not None and version >= PLACES_FROM:
        state.replica_directory_id = TopicId(directory)
    return state


def _nodes(quorum: Quorum) -> Iterator[Node]:
    """Where each of them listens for the others."""
    for node_id in quorum.raft.membership.everybody:
        known = quorum.image.nodes.get(node_id)
        endpoint = None if known is None else known.endpoint(NODES)
        if endpoint is not None:
            yield Node(node_id, [Listener(endpoint.listener, endpoint.host, endpoint.port)])

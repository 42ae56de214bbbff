"""The letters of Raft (keys 20001 to 20006). Each is answered at once and with nothing: replies are letters too."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.broker.raft_letters import from_wire
from headrace.model.errors import ErrorCode
from headrace.wire.api import response_class
from headrace.wire.batches import CorruptBatch

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.broker.raft_letters import RaftRequest
    from headrace.servers.kafka.apis import Request
    from headrace.wire.api import Message

log = logging.getLogger(__name__)


def handle(message: RaftRequest, request: Request) -> Message:
    code = _receive(message, request.node)
    return response_class(message.API_KEY)(code)  # type: ignore[call-arg]  # all of them have just this field


def _receive(message: RaftRequest, node: Node) -> ErrorCode:
    if message.target != node.node_id:
        return ErrorCode.INVALID_VOTER_KEY  # somebody else lives here now, at an address that once was another node's
    ours = node.assembly.cluster_id
    if ours and message.cluster_id and message.cluster_id != ours:
        # Node ids are the same in many clusters. One wrong address must not let two of them elect each other's leaders.
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    try:
        node.quorum.receive(from_wire(message))
    except CorruptBatch as damage:
        log.warning("a letter of node %d was damaged on its way: %s", message.source, damage)
        return ErrorCode.CORRUPT_MESSAGE
    return ErrorCode.NONE

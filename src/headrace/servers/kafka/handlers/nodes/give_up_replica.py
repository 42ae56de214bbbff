"""GiveUpReplica (key 20020, ours, between nodes): a node's copy is damaged, or finds no room for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.commands.partition_commands import give_up_replica
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import LogId, NodeId
from headrace.wire.messages.give_up_replica import GiveUpReplicaRequest, GiveUpReplicaResponse

if TYPE_CHECKING:
    from headrace.broker.metadata.quorum import Quorum
    from headrace.servers.kafka.interfaces import Request


async def handle(message: GiveUpReplicaRequest, request: Request, quorum: Quorum) -> GiveUpReplicaResponse:
    log_id = LogId(message.topic_id, message.partition_index)
    try:
        await quorum.submit(
            lambda image: give_up_replica(
                image,
                NodeId(message.node_id),
                message.broker_epoch,
                log_id,
                is_lost=message.is_lost,
                serves_nothing=message.serves_nothing,
            )
        )
    except Refusal as refusal:
        return GiveUpReplicaResponse(refusal.code, refusal.message)
    return GiveUpReplicaResponse(ErrorCode.NONE)

"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a group of the newer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import joining_caller_of
from headrace.servers.kafka.rights import Right, Rights, words_of
from headrace.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(
    whole=(
        Right(Operation.READ, ResourceType.GROUP, "group_id"),
        Right(Operation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names"),
    ),
    refused=words_of(ConsumerGroupHeartbeatResponse),
)


async def handle(
    message: ConsumerGroupHeartbeatRequest, request: Request, coordinators: Coordinators, world: World
) -> ConsumerGroupHeartbeatResponse:
    caller = joining_caller_of(request, world.entropy)
    try:
        shard = coordinators.groups_of(message.group_id)
        response: ConsumerGroupHeartbeatResponse = await shard.ask(
            lambda mind, token, now: mind.consumer_heartbeat(message, caller, token, now)
        )
    except Refusal as refusal:
        return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.message)
    return response

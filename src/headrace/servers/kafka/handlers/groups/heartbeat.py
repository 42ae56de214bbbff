"""Heartbeat (key 12): a member of a classic group is still here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.servers.kafka.rights import Right, Rights, error_of
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(Right(Operation.READ, ResourceType.GROUP, "group_id"),), refused=error_of(HeartbeatResponse))


async def handle(message: HeartbeatRequest, request: Request, coordinators: Coordinators) -> HeartbeatResponse:
    caller = caller_of(request)
    try:
        shard = coordinators.groups_of(message.group_id)
        response: HeartbeatResponse = await shard.ask(
            lambda mind, token, now: mind.heartbeat(message, caller, token, now)
        )
    except Refusal as refusal:
        if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()  # as Kafka: who is a member will be known soon, and some clients give up over it
        return HeartbeatResponse(error_code=refusal.code)
    return response

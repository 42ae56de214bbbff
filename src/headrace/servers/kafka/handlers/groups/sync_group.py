"""SyncGroup (key 14): what the leader assigned, once it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.servers.kafka.rights import Right, Rights, error_of
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(Right(Operation.READ, ResourceType.GROUP, "group_id"),), refused=error_of(SyncGroupResponse))


async def handle(message: SyncGroupRequest, request: Request, coordinators: Coordinators) -> SyncGroupResponse:
    caller = caller_of(request)
    try:
        shard = coordinators.groups_of(message.group_id)
        response: SyncGroupResponse = await shard.ask(lambda mind, token, now: mind.sync(message, caller, token, now))
    except Refusal as refusal:
        if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # As Kafka: the round that it was part of is lost, so it joins again. Older clients know no other answer.
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return SyncGroupResponse(error_code=refusal.code)
    return response

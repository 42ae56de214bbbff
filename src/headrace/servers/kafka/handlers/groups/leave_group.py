"""LeaveGroup (key 13): members leave a classic group without waiting for their sessions to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.servers.kafka.rights import Right, Rights, error_of
from headrace.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(Right(Operation.READ, ResourceType.GROUP, "group_id"),), refused=error_of(LeaveGroupResponse))


async def handle(message: LeaveGroupRequest, request: Request, coordinators: Coordinators) -> LeaveGroupResponse:
    caller = caller_of(request)
    try:
        shard = coordinators.groups_of(message.group_id)
        response: LeaveGroupResponse = await shard.ask(lambda mind, token, now: mind.leave(message, caller, token, now))
    except Refusal as refusal:
        return LeaveGroupResponse(error_code=refusal.code)
    return response

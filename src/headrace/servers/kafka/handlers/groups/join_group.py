"""JoinGroup (key 11): enter a classic group. The answer comes once the others are here, or the time is up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import joining_caller_of
from headrace.servers.kafka.rights import Right, Rights, error_of
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(Right(Operation.READ, ResourceType.GROUP, "group_id"),), refused=error_of(JoinGroupResponse))


async def handle(
    message: JoinGroupRequest, request: Request, coordinators: Coordinators, world: World
) -> JoinGroupResponse:
    caller = joining_caller_of(request, world.entropy)
    try:
        shard = coordinators.groups_of(message.group_id)
        response: JoinGroupResponse = await shard.ask(lambda mind, token, now: mind.join(message, caller, token, now))
    except Refusal as refusal:
        return JoinGroupResponse(error_code=refusal.code, protocol_name="", member_id=message.member_id)
    return response

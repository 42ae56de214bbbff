"""DescribeGroups (key 15): the members of classic groups, and what each was assigned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.servers.kafka.authorized_operations import ON_GROUP
from headrace.servers.kafka.limits.answer_budget import AnswerBudget
from headrace.servers.kafka.rights import Each, Right, Rights, Told
from headrace.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request

MESSAGES_FROM = 6


def _refused(group_id: str, refusal: Refusal) -> DescribedGroup:
    return DescribedGroup(error_code=refusal.code, group_id=group_id)


RIGHTS = Rights(
    each=(Each("groups", "groups", _refused, Right(Operation.DESCRIBE, ResourceType.GROUP)),),
    told=(Told(("groups",), "authorized_operations", ResourceType.GROUP, "group_id"),),
)


async def handle(
    message: DescribeGroupsRequest, request: Request, coordinators: Coordinators
) -> DescribeGroupsResponse:
    # Each once: one that is named a thousand times would make an answer that no memory holds.
    wanted = dict.fromkeys(message.groups)
    budget = AnswerBudget()
    groups = [await _describe(group_id, request, coordinators, budget) for group_id in wanted]
    if message.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ON_GROUP
    return DescribeGroupsResponse(groups=groups)


async def _describe(
    group_id: str, request: Request, coordinators: Coordinators, budget: AnswerBudget
) -> DescribedGroup:
    caller = caller_of(request)
    try:
        budget.check()
        shard = coordinators.groups_of(group_id)
        described: list[DescribedGroup] = await shard.look(lambda mind: mind.describe_groups([group_id], caller))
        budget.take(_size(described[0]))
    except Refusal as refusal:
        text = refusal.message if request.version >= MESSAGES_FROM else None
        return DescribedGroup(error_code=refusal.code, error_message=text, group_id=group_id)
    return described[0]


def _size(group: DescribedGroup) -> int:
    return sum(
        len(member.member_metadata) + len(member.member_assignment) + len(member.member_id) + len(member.client_id)
        for member in group.members
    )

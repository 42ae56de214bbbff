"""ConsumerGroupDescribe (key 69): the members of groups of the newer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.authorized_operations import ON_GROUP
from headrace.servers.kafka.limits.answer_budget import AnswerBudget
from headrace.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


async def handle(
    message: ConsumerGroupDescribeRequest, request: Request, coordinators: Coordinators
) -> ConsumerGroupDescribeResponse:
    # Each once: one that is named a thousand times would make an answer that no memory holds.
    wanted = dict.fromkeys(message.group_ids)
    budget = AnswerBudget()
    groups = [await _describe(group_id, coordinators, budget) for group_id in wanted]
    if message.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ON_GROUP
    return ConsumerGroupDescribeResponse(groups=groups)


async def _describe(group_id: str, coordinators: Coordinators, budget: AnswerBudget) -> DescribedGroup:
    try:
        budget.check()
        shard = coordinators.groups_of(group_id)
        described: list[DescribedGroup] = await shard.look(lambda mind: mind.describe_consumer_groups([group_id]))
        budget.take(_size(described[0]))
    except Refusal as refusal:
        return DescribedGroup(error_code=refusal.code, error_message=refusal.message, group_id=group_id)
    return described[0]


def _size(group: DescribedGroup) -> int:
    return sum(
        len(member.member_id)
        + sum(map(len, member.subscribed_topic_names))
        + _assignment_size(member.assignment)
        + _assignment_size(member.target_assignment)
        for member in group.members
    )


def _assignment_size(assignment: Assignment) -> int:
    return sum(len(topic.topic_name) + 4 * len(topic.partitions) for topic in assignment.topic_partitions)

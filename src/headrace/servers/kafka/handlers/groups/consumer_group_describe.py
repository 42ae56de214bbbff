"""ConsumerGroupDescribe (key 69): the members of groups of the newer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.authorized_operations import ON_GROUP
from headrace.servers.kafka.limits.answer_budget import AnswerBudget
from headrace.servers.kafka.rights import Caller, Each, Right, Rights, Told
from headrace.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


def _refused(group_id: str, refusal: Refusal) -> DescribedGroup:
    return DescribedGroup(error_code=refusal.code, error_message=refusal.message, group_id=group_id)


def _without_hidden_topics(answer: ConsumerGroupDescribeResponse, caller: Caller) -> Iterator[None]:
    """As in Kafka: members are not shown at all to whoever may not see each topic that they read."""
    for group in answer.groups:
        names = dict.fromkeys(name for member in group.members for name in _topics_of(member))
        is_hidden = False
        for name in names:
            yield
            is_hidden = is_hidden or not caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
        if is_hidden:
            group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group.error_message = f"{caller.identity.principal} may not see each topic that the group reads"
            group.members = []


def _topics_of(member: Member) -> Iterator[str]:
    yield from member.subscribed_topic_names
    for assignment in (member.assignment, member.target_assignment):
        yield from (topic.topic_name for topic in assignment.topic_partitions)


RIGHTS = Rights(
    each=(Each("group_ids", "groups", _refused, Right(Operation.DESCRIBE, ResourceType.GROUP)),),
    told=(Told(("groups",), "authorized_operations", ResourceType.GROUP, "group_id"),),
    seen=(Right(Operation.DESCRIBE, ResourceType.TOPIC),),
    after=_without_hidden_topics,
)


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

"""CreatePartitions (key 37): a topic can only grow. One result for each topic asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.topic_commands import MorePartitions, create_partitions
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.membership.commands import Commands
    from headrace.servers.kafka.interfaces import Request


def _refused(topic: CreatePartitionsTopic, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, refusal.code, refusal.message)


RIGHTS = Rights(
    each=(Each("topics", "results", _refused, Right(Operation.ALTER, ResourceType.TOPIC, "name")),),
)


async def handle(message: CreatePartitionsRequest, request: Request, commands: Commands) -> CreatePartitionsResponse:
    wanted = [_wanted(topic) for topic in message.topics]
    names = [topic.name for topic in message.topics]
    outcomes = await commands.submit_each(
        names, lambda image: create_partitions(image, wanted, message.validate_only), needs_room=True
    )
    results = []
    for outcome in outcomes:
        if isinstance(outcome.result, Refusal):
            refusal = outcome.result
            results.append(CreatePartitionsTopicResult(outcome.name, refusal.code, refusal.message))
        else:
            results.append(CreatePartitionsTopicResult(outcome.name, ErrorCode.NONE))
    return CreatePartitionsResponse(results=results)


def _wanted(topic: CreatePartitionsTopic) -> MorePartitions:
    if topic.assignments is None:
        return MorePartitions(topic.name, topic.count)
    assignments = tuple(
        ManualAssignment(None, tuple(map(NodeId, assigned.broker_ids))) for assigned in topic.assignments
    )
    return MorePartitions(topic.name, topic.count, assignments)

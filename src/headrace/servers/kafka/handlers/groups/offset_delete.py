"""OffsetDelete (key 47): forget a group's offsets of some partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.servers.kafka.rights import Each, Right, Rights, error_of
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


def _refused(topic: OffsetDeleteRequestTopic, refusal: Refusal) -> OffsetDeleteResponseTopic:
    partitions = [OffsetDeleteResponsePartition(part.partition_index, refusal.code) for part in topic.partitions]
    return OffsetDeleteResponseTopic(topic.name, partitions)


RIGHTS = Rights(
    whole=(Right(Operation.DELETE, ResourceType.GROUP, "group_id"),),
    each=(Each("topics", "topics", _refused, Right(Operation.READ, ResourceType.TOPIC, "name")),),
    refused=error_of(OffsetDeleteResponse),
)


async def handle(message: OffsetDeleteRequest, request: Request, coordinators: Coordinators) -> OffsetDeleteResponse:
    caller = caller_of(request)
    try:
        shard = coordinators.groups_of(message.group_id)
        response: OffsetDeleteResponse = await shard.ask(
            lambda mind, token, now: mind.delete_offsets(message, caller, token, now)
        )
    except Refusal as refusal:
        return OffsetDeleteResponse(error_code=refusal.code)
    return response

"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a group of the newer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import joining_caller_of
from headrace.servers.kafka.rights import Caller, Right, Rights, words_of
from headrace.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request


def _without_hidden_topics(answer: ConsumerGroupHeartbeatResponse, caller: Caller) -> Iterator[None]:
    """A regex may match names that its member may not see: an assignment that has them would say which there are."""
    if answer.assignment is None:
        return
    kept = []
    for topic in answer.assignment.topic_partitions:
        name = caller.topic_name(topic.topic_id)
        if name is None or caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            kept.append(topic)
        yield
    answer.assignment.topic_partitions = kept


RIGHTS = Rights(
    whole=(
        Right(Operation.READ, ResourceType.GROUP, "group_id"),
        Right(Operation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names"),
    ),
    refused=words_of(ConsumerGroupHeartbeatResponse),
    seen=(Right(Operation.DESCRIBE, ResourceType.TOPIC),),
    after=_without_hidden_topics,
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

"""DeleteTopics (key 20), by name, or from version 6 on also by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.metadata.commands.topic_commands import DeletedTopic, TopicReference, delete_topics
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.decisions.decision import Outcome
    from headrace.servers.kafka.interfaces import Request

BY_ID_FROM = 6


def _refused(topic: DeleteTopicState | str, refusal: Refusal) -> DeletableTopicResult:
    """Whoever names an id does not hear the name."""
    if isinstance(topic, str):
        return DeletableTopicResult(topic, error_code=refusal.code, error_message=refusal.message)
    return DeletableTopicResult(topic.name, topic.topic_id, refusal.code, refusal.message)


BY_ID_FROM = 6
RIGHTS = Rights(
    each=(
        Each("topic_names", "responses", _refused, Right(Operation.DELETE, ResourceType.TOPIC), until=BY_ID_FROM - 1),
        Each("topics", "responses", _refused, Right(Operation.DELETE, ResourceType.TOPIC, "name"), since=BY_ID_FROM),
    ),
)


async def handle(
    message: DeleteTopicsRequest, request: Request, view: MetadataView, commands: Commands
) -> DeleteTopicsResponse:
    if request.version >= BY_ID_FROM:
        references = [TopicReference(topic.name, topic.topic_id) for topic in message.topics]
    else:
        references = [TopicReference(name) for name in message.topic_names]
    names = [reference.name or "" for reference in references]
    outcomes = await commands.submit_each(names, lambda image: delete_topics(image, references, view.configs))
    return DeleteTopicsResponse(responses=[_result(*pair) for pair in zip(references, outcomes, strict=True)])


def _result(reference: TopicReference, outcome: Outcome[DeletedTopic]) -> DeletableTopicResult:
    deleted = outcome.result
    if isinstance(deleted, Refusal):
        return DeletableTopicResult(reference.name, reference.topic_id, deleted.code, deleted.message)
    return DeletableTopicResult(deleted.name, deleted.topic_id, ErrorCode.NONE)

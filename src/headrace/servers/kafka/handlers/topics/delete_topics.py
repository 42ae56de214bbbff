"""DeleteTopics (key 20), by name, or from version 6 on also by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.commands.topic_commands import DeletedTopic, TopicReference, delete_topics
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.decisions.decision import Outcome
    from headrace.servers.kafka.interfaces import Request

BY_ID_FROM = 6


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

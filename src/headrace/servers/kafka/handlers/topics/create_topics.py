"""CreateTopics (key 19). The answer comes when the topics can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.topic_commands import CreatedTopic, NewTopic, create_topics
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from headrace.servers.kafka.rights import Caller, Each, Right, Rights
from headrace.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.decisions.decision import Outcome
    from headrace.servers.kafka.interfaces import Request


def _refused(topic: CreatableTopic, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=refusal.code, error_message=refusal.message)


def _without_configs(answer: CreateTopicsResponse, caller: Caller) -> Iterator[None]:
    """Who may create a topic may still not look at its settings. Its sizes are settings, too."""
    for topic in answer.topics:
        yield
        if not topic.error_code and not caller.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
            topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = None


RIGHTS = Rights(
    each=(Each("topics", "topics", _refused, Right(Operation.CREATE, ResourceType.TOPIC, "name", Operation.CREATE)),),
    seen=(Right(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),),
    after=_without_configs,
)


async def handle(
    message: CreateTopicsRequest, request: Request, view: MetadataView, commands: Commands
) -> CreateTopicsResponse:
    wanted = [_wanted(topic) for topic in message.topics]
    outcomes = await commands.submit_each(
        [topic.name for topic in message.topics],
        lambda image: create_topics(image, wanted, view.configs, commands.new_topic_id, message.validate_only),
        needs_room=True,
    )
    return CreateTopicsResponse(topics=[_result(outcome) for outcome in outcomes])


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(
            ManualAssignment(assigned.partition_index, tuple(map(NodeId, assigned.broker_ids)))
            for assigned in topic.assignments
        ),
        tuple((config.name, config.value) for config in topic.configs),
    )


def _result(outcome: Outcome[CreatedTopic]) -> CreatableTopicResult:
    created = outcome.result
    if isinstance(created, Refusal):
        return CreatableTopicResult(name=outcome.name, error_code=created.code, error_message=created.message)
    return CreatableTopicResult(
        name=created.name,
        topic_id=created.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=created.partition_count,
        replication_factor=created.replication_factor,
        configs=[
            CreatableTopicConfigs(config.name, config.value, config.is_read_only, config.source, config.is_sensitive)
            for config in created.configs
        ],
    )

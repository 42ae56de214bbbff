"""Topics that a node creates on its own account: those that a client mentioned, and those that coordinators need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.errors import ClientError
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.metadata.configs.internal_topics import INTERNAL_REPLICAS, is_internal, usual_partition_count
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.configs.settings import NodeSettings


async def create_missing(commands: Commands, view: MetadataView, names: Sequence[str]) -> dict[str, Refusal]:
    """Wherever the controller is. Returns why, for those that cannot be; one that was there already is fine."""
    node_count = len(view.image.live_nodes())
    wanted = [_described(name, view.settings, node_count) for name in names]
    refusals = await (
        _create(commands, view, wanted) if commands.is_controller else _create_elsewhere(commands, wanted)
    )
    return {name: it for name, it in refusals.items() if it.code != ErrorCode.TOPIC_ALREADY_EXISTS}


def _described(name: str, settings: NodeSettings, node_count: int) -> NewTopic:
    """A topic that nobody has described: as all are, or as coordinators need it if it is one of theirs."""
    if not is_internal(name):
        return NewTopic(name)
    return NewTopic(name, usual_partition_count(name, settings), min(INTERNAL_REPLICAS, max(node_count, 1)))


async def _create(commands: Commands, view: MetadataView, wanted: Sequence[NewTopic]) -> dict[str, Refusal]:
    outcomes = await commands.submit_each(
        [topic.name for topic in wanted],
        lambda image: create_topics(image, wanted, view.configs, commands.new_topic_id),
        needs_room=True,
    )
    return {outcome.name: outcome.result for outcome in outcomes if isinstance(outcome.result, Refusal)}


async def _create_elsewhere(commands: Commands, wanted: Sequence[NewTopic]) -> dict[str, Refusal]:
    try:
        answer = await commands.forward(_request(wanted), CreateTopicsRequest.VERSIONS[1], CreateTopicsResponse)
    except ClientError as trouble:
        refusal = Refusal(ErrorCode.NOT_CONTROLLER, f"the controller cannot be reached: {trouble}")
        return {topic.name: refusal for topic in wanted}
    except Refusal as refusal:
        return {topic.name: refusal for topic in wanted}
    return {
        topic.name: Refusal(ErrorCode(topic.error_code), topic.error_message or "")
        for topic in answer.topics
        if topic.error_code
    }


def _request(wanted: Sequence[NewTopic]) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        [
            CreatableTopic(
                topic.name,
                topic.partition_count,
                topic.replication_factor,
                configs=[CreatableTopicConfig(name, value) for name, value in topic.configs],
            )
            for topic in wanted
        ]
    )

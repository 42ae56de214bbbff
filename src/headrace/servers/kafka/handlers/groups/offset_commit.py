"""OffsetCommit (key 8): a group's positions. Partitions that do not exist are refused one by one, the rest is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID
from headrace.servers.kafka.asking import caller_of, find_topic
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request

Codes = dict[tuple[str, int], int]
"""The outcome by topic name and partition."""


def _refused(topic: OffsetCommitRequestTopic, refusal: Refusal) -> OffsetCommitResponseTopic:
    partitions = [OffsetCommitResponsePartition(part.partition_index, refusal.code) for part in topic.partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)


RIGHTS = Rights(
    whole=(Right(Operation.READ, ResourceType.GROUP, "group_id"),),
    each=(Each("topics", "topics", _refused, Right(Operation.READ, ResourceType.TOPIC, "name")),),
)


async def handle(
    message: OffsetCommitRequest, request: Request, view: MetadataView, coordinators: Coordinators
) -> OffsetCommitResponse:
    known, answers = [], []
    for topic in message.topics:
        found, missing = find_topic(view.image, topic.name, topic.topic_id)
        count = 0 if found is None else found.partition_count
        if found is not None:
            topic = replace(topic, name=found.name)  # noqa: PLW2901 - from here on by name
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        inside = [part for part in topic.partitions if 0 <= part.partition_index < count]
        if inside:
            known.append(replace(topic, topic_id=NO_TOPIC_ID, partitions=inside))
        answers.append((topic, missing))
    codes = await _commit(replace(message, topics=known), request, coordinators)
    return OffsetCommitResponse(topics=[_answer(topic, codes, missing) for topic, missing in answers])


async def _commit(message: OffsetCommitRequest, request: Request, coordinators: Coordinators) -> Codes:
    if not message.topics:
        return {}
    caller = caller_of(request)
    try:
        shard = coordinators.groups_of(message.group_id)
        answer: OffsetCommitResponse = await shard.ask(
            lambda mind, token, now: mind.commit_offsets(message, caller, token, now)
        )
    except Refusal as refusal:
        return {
            (topic.name, part.partition_index): refusal.code for topic in message.topics for part in topic.partitions
        }
    return codes_of(answer.topics)


def codes_of(topics: Iterable[OffsetCommitResponseTopic]) -> Codes:
    return {(topic.name, part.partition_index): part.error_code for topic in topics for part in topic.partitions}


def _answer(topic: OffsetCommitRequestTopic, codes: Codes, missing: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [
        OffsetCommitResponsePartition(part.partition_index, codes.get((topic.name, part.partition_index), missing))
        for part in topic.partitions
    ]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)

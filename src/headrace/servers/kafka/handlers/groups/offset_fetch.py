"""OffsetFetch (key 9): where groups stand. What nobody has committed is -1, and no error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID
from headrace.servers.kafka.asking import distinct, find_topic
from headrace.servers.kafka.limits.answer_budget import AnswerBudget
from headrace.servers.kafka.rights import Each, Listed, Right, Rights
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request

SEVERAL_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
GROUP_ERROR_FROM = 2
PARTITION_BYTES = 20  # in an answer, without what its group noted


def _refused(topic: OffsetFetchRequestTopics, refusal: Refusal) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(index, committed_offset=-1, metadata="", error_code=refusal.code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)


def _refused_before_groups(topic: OffsetFetchRequestTopic, refusal: Refusal) -> OffsetFetchResponseTopic:
    partitions = [OffsetFetchResponsePartition(index, -1, -1, "", refusal.code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopic(topic.name, partitions)


def _refused_group(group: OffsetFetchRequestGroup, refusal: Refusal) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=refusal.code)


def _refused_only_group(message: OffsetFetchRequest, request: Request, refusal: Refusal) -> OffsetFetchResponse:
    return _as_only_group(message, OffsetFetchResponseGroup(error_code=refusal.code), request.version)


ALONE_UNTIL = SEVERAL_GROUPS_FROM - 1
SEE: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC, "name")
RIGHTS = Rights(
    whole=(Right(Operation.DESCRIBE, ResourceType.GROUP, "group_id", until=ALONE_UNTIL),),
    refused=_refused_only_group,
    each=(
        Each("topics", "topics", _refused_before_groups, SEE, until=ALONE_UNTIL),
        Each(
            "groups",
            "groups",
            _refused_group,
            Right(Operation.DESCRIBE, ResourceType.GROUP, "group_id"),
            inside=Each("topics", "topics", _refused, SEE),
            since=SEVERAL_GROUPS_FROM,
        ),
    ),
    listed=(Listed(("topics",), SEE), Listed(("groups", "topics"), SEE)),
)


async def handle(
    message: OffsetFetchRequest, request: Request, view: MetadataView, coordinators: Coordinators
) -> OffsetFetchResponse:
    fetching = _Fetching(request.version, view, coordinators, is_stable_required=message.require_stable)
    if request.version >= SEVERAL_GROUPS_FROM:
        # Each once: one that is named a thousand times would make an answer that no memory holds.
        wanted = {group.group_id: group for group in message.groups}.values()
        budget = AnswerBudget()
        groups = [await fetching.fetch(group, budget) for group in wanted]
        return OffsetFetchResponse(groups=groups)
    group = await fetching.fetch(_only_group(message), AnswerBudget())
    return _as_only_group(message, group, request.version)


class _Fetching:
    """What is the same for all groups of a request."""

    def __init__(
        self, version: int, view: MetadataView, coordinators: Coordinators, *, is_stable_required: bool
    ) -> None:
        self._uses_topic_ids = version >= TOPIC_IDS_FROM
        self._view = view
        self._coordinators = coordinators
        self._is_stable_required = is_stable_required

    async def fetch(self, wanted: OffsetFetchRequestGroup, budget: AnswerBudget) -> OffsetFetchResponseGroup:
        try:
            budget.check()
            topics, unknown = self._by_name(_distinct(wanted.topics))
            shard = self._coordinators.groups_of(wanted.group_id)
            found: OffsetFetchResponseGroup = await shard.look(
                lambda mind: mind.fetch_offsets(
                    wanted.group_id,
                    wanted.member_id,
                    wanted.member_epoch,
                    topics,
                    is_stable_required=self._is_stable_required,
                )
            )
            budget.take(_size(found))
        except Refusal as refusal:
            return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=_code_for(refusal.code))
        if self._uses_topic_ids and not found.error_code:
            found.topics = self._with_ids(found.topics) + unknown
        return found

    def _by_name(
        self, topics: list[OffsetFetchRequestTopics] | None
    ) -> tuple[list[OffsetFetchRequestTopics] | None, list[OffsetFetchResponseTopics]]:
        """The topics by name, and the answer for ids that name none."""
        if topics is None or not self._uses_topic_ids:
            return topics, []
        known, unknown = [], []
        for topic in topics:
            found, code = find_topic(self._view.image, topic.name, topic.topic_id)
            if found is None:
                partitions = [
                    OffsetFetchResponsePartitions(index, committed_offset=-1, metadata="", error_code=code)
                    for index in topic.partition_indexes
                ]
                unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
            else:
                known.append(OffsetFetchRequestTopics(found.name, NO_TOPIC_ID, topic.partition_indexes))
        return known, unknown

    def _with_ids(self, topics: list[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopics]:
        """Topics that were deleted since have no id to be named by, and are left out."""
        named = []
        for topic in topics:
            found = self._view.image.topic_named(topic.name)
            if found is not None:
                named.append(OffsetFetchResponseTopics(topic.name, found.topic_id, topic.partitions))
        return named


def _code_for(code: ErrorCode) -> ErrorCode:
    """Most consumers take an OffsetFetch for failed if its coordinator is not available; another they look for."""
    return ErrorCode.NOT_COORDINATOR if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else code


def _distinct(topics: list[OffsetFetchRequestTopics] | None) -> list[OffsetFetchRequestTopics] | None:
    """Each partition once: with its offset comes what its group noted there, a thousand times as long as a number."""
    if topics is None:
        return None
    asked = distinct(((topic.name, topic.topic_id), topic.partition_indexes) for topic in topics)
    return [OffsetFetchRequestTopics(*topic, list(indexes)) for topic, indexes in asked.items()]


def _size(group: OffsetFetchResponseGroup) -> int:
    return sum(
        len(topic.name) + sum(PARTITION_BYTES + len(part.metadata or "") for part in topic.partitions)
        for topic in group.topics
    )


def _only_group(message: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if message.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in message.topics
        ]
    return OffsetFetchRequestGroup(group_id=message.group_id, topics=topics)


def _as_only_group(message: OffsetFetchRequest, group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """The older form. Version 1 has no place for the group's error, so each partition bears it."""
    topics = [
        OffsetFetchResponseTopic(topic.name, [_older(part) for part in topic.partitions]) for topic in group.topics
    ]
    if group.error_code and version < GROUP_ERROR_FROM:
        topics = [
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(index, -1, -1, "", group.error_code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in message.topics or ()
        ]
        return OffsetFetchResponse(topics=topics)
    return OffsetFetchResponse(topics=topics, error_code=group.error_code or ErrorCode.NONE)


def _older(part: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        part.partition_index, part.committed_offset, part.committed_leader_epoch, part.metadata, part.error_code
    )

"""Commands about a group's offsets: from a request of each API to records and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.coordinators.effects import Effects, Reply
from headrace.coordinators.groups.classic.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from headrace.coordinators.groups.offsets.expiry import offset_tombstone
from headrace.coordinators.records import LogRecord
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Millis, ProducerId, TopicPartition
from headrace.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headrace.wire.primitives import STRING_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from headrace.coordinators.effects import Caller, Now, Token
    from headrace.coordinators.groups.group import Group
    from headrace.coordinators.groups.offsets.committed_offsets import CommittedOffset, CommittedOffsets
    from headrace.wire.messages.offset_commit import OffsetCommitRequestTopic
    from headrace.wire.messages.offset_fetch import OffsetFetchRequestTopics
    from headrace.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic

    Verdict = Callable[["OffsetToCommit"], ErrorCode]

MISSING_GROUP_KNOWN_FROM: Final = 9  # OffsetCommit: older clients do not know GROUP_ID_NOT_FOUND
COMMIT_BYTES_MAX: Final = 8 << 20  # of the records of one request; the largest batch of the log has twice as many
RECORD_BYTES: Final = 80  # what the record of an offset has besides its texts, at most
TIME_MS_MAX: Final = (1 << 63) - 1  # the latest that a record can say; an old client may ask for more


class OffsetToCommit(Protocol):
    """What OffsetCommit and TxnOffsetCommit say of a partition."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def commit(
    request: OffsetCommitRequest, group: Group | None, metadata_max_bytes: int, caller: Caller, token: Token, now: Now
) -> Effects:
    """`group` is None if there is none, and whoever commits says that it is a member of it."""
    try:
        if group is None:
            is_known = caller.version >= MISSING_GROUP_KNOWN_FROM
            raise _missing(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION)
        group.check_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            caller.version,
            is_transactional=False,
            now=now,
        )
        _check_size(request.group_id, request.topics)
    except Refusal as refusal:
        code = refusal.code
        return Effects(replies=[Reply(token, _commit_answer(request, lambda _: code))])
    keeps_ms = request.retention_time_ms
    expires_ms = NO_TIMESTAMP if keeps_ms < 0 else Millis(min(now.wall_ms + keeps_ms, TIME_MS_MAX))
    verdict = _metadata_verdict(metadata_max_bytes)
    records = _commit_records(request.group_id, request.topics, verdict, now.wall_ms, expires_ms)
    return Effects(records, [Reply(token, _commit_answer(request, verdict))])


def commit_in_transaction(
    request: TxnOffsetCommitRequest,
    group: Group | None,
    metadata_max_bytes: int,
    caller: Caller,
    token: Token,
    now: Now,
) -> Effects:
    try:
        if not request.group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        if group is None:
            raise _missing(request.group_id, ErrorCode.ILLEGAL_GENERATION)
        group.check_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            caller.version,
            is_transactional=True,
            now=now,
        )
        _check_size(request.group_id, request.topics)
    except Refusal as refusal:
        # No client of this API knows the newer error. As Kafka does, a stale epoch is an illegal generation here.
        is_stale = refusal.code is ErrorCode.STALE_MEMBER_EPOCH
        code = ErrorCode.ILLEGAL_GENERATION if is_stale else refusal.code
        return Effects(replies=[Reply(token, _txn_commit_answer(request, lambda _: code))])
    verdict = _metadata_verdict(metadata_max_bytes)
    records = _commit_records(request.group_id, request.topics, verdict, now.wall_ms, NO_TIMESTAMP)
    producer = (ProducerId(request.producer_id), request.producer_epoch)
    return Effects(records, [Reply(token, _txn_commit_answer(request, verdict))], producer)


def delete(request: OffsetDeleteRequest, group: Group | None, offsets: CommittedOffsets, token: Token) -> Effects:
    code = _deletion_problem(request.group_id, group, offsets)
    if code is not ErrorCode.NONE:
        return Effects(replies=[Reply(token, OffsetDeleteResponse(code))])
    read_topics = {topic.name for topic in request.topics if _is_read(group, topic.name)}
    places = dict.fromkeys(  # each once: a record repeats the names of the group and the topic
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        if topic.name not in read_topics
        for partition in topic.partitions
    )
    tombstones = [offset_tombstone(request.group_id, place) for place in places if offsets.has(request.group_id, place)]
    return Effects(tombstones, [Reply(token, _delete_answer(request, read_topics))])


class OffsetReader:
    """One group's offsets, as OffsetFetch answers them."""

    def __init__(self, group_id: str, offsets: CommittedOffsets, *, is_stable_required: bool) -> None:
        self._group_id = group_id
        self._offsets = offsets
        self._is_stable_required = is_stable_required

    def all_topics(self) -> list[OffsetFetchResponseTopics]:
        """Whoever wants stable offsets also hears of places where nothing counts yet and a transaction may commit, or
        has done so and only its marker is not here yet: to leave them out would say that there is no offset."""
        found: dict[str, list[OffsetFetchResponsePartitions]] = {}
        for topic, partition in self._offsets.places(self._group_id):
            offset = self._offsets.get(self._group_id, topic, partition)
            if offset is not None or self._is_stable_required:
                found.setdefault(topic, []).append(self._answer(topic, partition, offset))
        return [OffsetFetchResponseTopics(name=topic, partitions=partitions) for topic, partitions in found.items()]

    def topic(self, wanted: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        return OffsetFetchResponseTopics(
            name=wanted.name,
            topic_id=wanted.topic_id,
            partitions=[
                self._answer(wanted.name, partition, self._offsets.get(self._group_id, wanted.name, partition))
                for partition in wanted.partition_indexes
            ],
        )

    def _answer(self, topic: str, partition: int, offset: CommittedOffset | None) -> OffsetFetchResponsePartitions:
        if self._is_stable_required and self._offsets.is_unstable(self._group_id, TopicPartition(topic, partition)):
            return _no_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if offset is None:
            return _no_offset(partition, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(partition, offset.offset, offset.leader_epoch, offset.metadata)


def _no_offset(partition: int, error_code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, NO_OFFSET, NO_EPOCH, "", error_code)


def _missing(group_id: str, code: ErrorCode) -> Refusal:
    return Refusal(code, f"there is no group {group_id!r}; whoever commits as a member must join it first")


def _check_size(
    group_id: str, topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic]
) -> None:
    """Before any record is made: each repeats the group and the topic, so a small request may become a large batch."""
    size = 0
    for topic in topics:
        size += len(topic.partitions) * (RECORD_BYTES + len(group_id.encode()) + len(topic.name.encode()))
        size += sum(len((partition.committed_metadata or "").encode()) for partition in topic.partitions)
    if size > COMMIT_BYTES_MAX:
        raise Refusal(
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
            f"offsets that take {size} bytes in the log; one request may commit {COMMIT_BYTES_MAX}",
        )


def _metadata_verdict(metadata_max_bytes: int) -> Verdict:
    # What was set too high still has to go into a record, whose strings have a limit of their own.
    max_bytes = min(metadata_max_bytes, STRING_BYTES_MAX)

    def verdict(partition: OffsetToCommit) -> ErrorCode:
        metadata = partition.committed_metadata
        is_too_large = metadata is not None and len(metadata.encode()) > max_bytes
        return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE

    return verdict


def _commit_records(
    group_id: str,
    topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic],
    verdict: Verdict,
    now_ms: Millis,
    expires_ms: Millis,
) -> list[LogRecord]:
    return [
        LogRecord(
            OffsetCommitKey(group_id, topic.name, partition.partition_index),
            OffsetCommitValue(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.committed_metadata or "",
                commit_timestamp=now_ms,
                expire_timestamp=expires_ms,
            ),
        )
        for topic in topics
        for partition in topic.partitions
        if verdict(partition) is ErrorCode.NONE
    ]


def _commit_answer(request: OffsetCommitRequest, verdict: Verdict) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition.partition_index, verdict(partition))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _txn_commit_answer(request: TxnOffsetCommitRequest, verdict: Verdict) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition.partition_index, verdict(partition))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete_answer(request: OffsetDeleteRequest, read_topics: Set[str]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition.partition_index,
                        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic.name in read_topics else ErrorCode.NONE,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _deletion_problem(group_id: str, group: Group | None, offsets: CommittedOffsets) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None and not offsets.has_any(group_id):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ClassicGroup) and not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP  # what such members read, only they know
    return ErrorCode.NONE


def _is_read(group: Group | None, topic: str) -> bool:
    """Somebody in the group is subscribed to the topic, or we cannot tell."""
    if group is None or group.is_empty:
        return False
    return topic in (group.subscribed_topics() or {topic})

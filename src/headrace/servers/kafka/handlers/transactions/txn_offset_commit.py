"""TxnOffsetCommit (key 28): offsets that count if the transaction commits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.coordinators.transactions.state import BUMPING_VERSION
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ProducerId
from headrace.servers.kafka.asking import caller_of
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.servers.kafka.interfaces import Request

IMPLICIT_ADD_FROM = 5
ABORTABLE_FROM = 4

Codes = dict[tuple[str, int], int]


def _refused(topic: TxnOffsetCommitRequestTopic, refusal: Refusal) -> TxnOffsetCommitResponseTopic:
    partitions = [TxnOffsetCommitResponsePartition(part.partition_index, refusal.code) for part in topic.partitions]
    return TxnOffsetCommitResponseTopic(topic.name, partitions)


RIGHTS = Rights(
    whole=(
        Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        Right(Operation.READ, ResourceType.GROUP, "group_id"),
    ),
    each=(Each("topics", "topics", _refused, Right(Operation.READ, ResourceType.TOPIC, "name")),),
)


async def handle(
    message: TxnOffsetCommitRequest, request: Request, view: MetadataView, coordinators: Coordinators
) -> TxnOffsetCommitResponse:
    known = _of_known_topics(message, view.image)
    codes = await _commit(known, request, view, coordinators) if known.topics else {}
    return TxnOffsetCommitResponse(topics=[_answer(topic, codes) for topic in message.topics])


def _of_known_topics(message: TxnOffsetCommitRequest, image: ClusterImage) -> TxnOffsetCommitRequest:
    known = []
    for topic in message.topics:
        found = image.topic_named(topic.name)
        inside = [part for part in topic.partitions if found and 0 <= part.partition_index < found.partition_count]
        if inside:
            known.append(replace(topic, partitions=inside))
    return replace(message, topics=known)


async def _commit(
    message: TxnOffsetCommitRequest, request: Request, view: MetadataView, coordinators: Coordinators
) -> Codes:
    caller = caller_of(request)
    try:
        name = coordinators.offsets_partition(message.group_id)
        shard = coordinators.groups_of(message.group_id)
        claim = shard.partition.writer.claim_transaction(ProducerId(message.producer_id), message.producer_epoch)
        codes = await coordinators.add_to_transaction(
            message.transactional_id,
            ProducerId(message.producer_id),
            message.producer_epoch,
            [name],
            transaction_version=BUMPING_VERSION,
            verify_only=request.version < IMPLICIT_ADD_FROM,
        )
        if codes[name]:
            code = _code_for(codes[name], request.version)
            raise Refusal(code, f"the transaction of {message.transactional_id!r} cannot take offsets")
        if claim is not None:
            shard.partition.writer.grant_transaction(claim)
        coordinators.groups_of(message.group_id)  # raises if another node is to lead by now
        still_known = _of_known_topics(message, view.image)  # of those deleted meanwhile, offsets are gone already
        answer: TxnOffsetCommitResponse = await shard.ask(
            lambda mind, token, now: mind.commit_offsets_in_transaction(still_known, caller, token, now)
        )
    except Refusal as refusal:
        return {
            (topic.name, part.partition_index): refusal.code for topic in message.topics for part in topic.partitions
        }
    return {(topic.name, part.partition_index): part.error_code for topic in answer.topics for part in topic.partitions}


def _code_for(code: ErrorCode, version: int) -> ErrorCode:
    """What a producer of this version understands. A fenced one hears here, as from Produce, that its epoch is over."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _answer(topic: TxnOffsetCommitRequestTopic, codes: Codes) -> TxnOffsetCommitResponseTopic:
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TxnOffsetCommitResponseTopic(
        topic.name,
        [
            TxnOffsetCommitResponsePartition(
                part.partition_index, codes.get((topic.name, part.partition_index), missing)
            )
            for part in topic.partitions
        ],
    )

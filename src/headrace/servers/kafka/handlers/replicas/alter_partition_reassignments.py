"""AlterPartitionReassignments (key 45): where replicas shall be. It answers when the moves have begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.commands.partition_commands import Reassignment, reassign
from headrace.metadata.decisions.decision import Decision
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID, LogId, NodeId
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.decisions.decision import Outcome
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=words_of(AlterPartitionReassignmentsResponse))


async def handle(
    message: AlterPartitionReassignmentsRequest, request: Request, view: MetadataView, commands: Commands
) -> AlterPartitionReassignmentsResponse:
    wanted = _wanted(message, view.image)
    may_resize = message.allow_replication_factor_change
    try:
        outcomes = await commands.submit(lambda image: _decide(image, wanted, may_resize=may_resize))
    except Refusal as refusal:
        return AlterPartitionReassignmentsResponse(error_code=refusal.code, error_message=refusal.message)
    results = iter(outcomes)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                topic.name, [_result(part.partition_index, next(results)) for part in topic.partitions]
            )
            for topic in message.topics
        ],
    )


def _wanted(message: AlterPartitionReassignmentsRequest, image: ClusterImage) -> list[Reassignment]:
    """As they stand in the request, one after the other. A topic that nobody knows has an id that nothing has."""
    wanted = []
    for topic in message.topics:
        known = image.topic_named(topic.name)
        topic_id = NO_TOPIC_ID if known is None else known.topic_id
        for part in topic.partitions:
            replicas = None if part.replicas is None else tuple(map(NodeId, part.replicas))
            wanted.append(Reassignment(LogId(topic_id, part.partition_index), replicas))
    return wanted


def _decide(
    image: ClusterImage, wanted: Sequence[Reassignment], *, may_resize: bool
) -> Decision[list[Outcome[None] | Refusal]]:
    """Who does not want the number of replicas to change is told so, instead of losing or gaining one."""
    refusals = {} if may_resize else {move: _resized(image, move) for move in wanted}
    allowed = [move for move in wanted if refusals.get(move) is None]
    decision = reassign(image, allowed)
    outcomes = dict(zip(allowed, decision.response, strict=True))
    return Decision(decision.records, [refusals.get(move) or outcomes[move] for move in wanted])


def _resized(image: ClusterImage, move: Reassignment) -> Refusal | None:
    partition = image.partition(*move.log_id)
    if partition is None or move.replicas is None or len(move.replicas) == len(partition.target):
        return None
    return Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"it has {len(partition.target)} replicas, and {len(move.replicas)} are given; "
        "the number may change only if the request allows it",
    )


def _result(index: int, outcome: Outcome[None] | Refusal) -> ReassignablePartitionResponse:
    refusal = outcome if isinstance(outcome, Refusal) else outcome.result
    if isinstance(refusal, Refusal):
        return ReassignablePartitionResponse(index, refusal.code, refusal.message)
    return ReassignablePartitionResponse(index, ErrorCode.NONE, None)

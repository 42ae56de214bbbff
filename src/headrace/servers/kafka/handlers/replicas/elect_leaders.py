"""ElectLeaders (key 43): let the first replica lead again, or, at the price of what it lacks, any that lives.

Asked about all partitions, it answers about those that something was done or refused for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.commands.partition_commands import elect_leaders
from headrace.metadata.elections.partition_leaders import Election, ElectionKind, partitions_of
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID, LogId, TopicPartition
from headrace.servers.kafka.rights import Rights, on_cluster
from headrace.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.decisions.decision import Outcome
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.servers.kafka.interfaces import Request

ERROR_FOR_ALL_FROM = 1  # before, an answer speaks of single partitions only


def _refused_as_one(message: ElectLeadersRequest, request: Request, refusal: Refusal) -> ElectLeadersResponse:
    if request.version >= ERROR_FOR_ALL_FROM:
        return ElectLeadersResponse(error_code=refusal.code)
    topics = [
        ReplicaElectionResult(
            topic.topic, [PartitionResult(index, refusal.code, refusal.message) for index in topic.partitions]
        )
        for topic in message.topic_partitions or ()
    ]
    return ElectLeadersResponse(replica_election_results=topics)


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=_refused_as_one)


async def handle(
    message: ElectLeadersRequest, request: Request, view: MetadataView, commands: Commands
) -> ElectLeadersResponse:
    named = _named(message, view.image)
    try:
        kind = _kind(message.election_type)
        wanted = [Election(log_id, kind) for log_id in named.values()]
        outcomes = await commands.submit(lambda image: elect_leaders(image, wanted))
    except Refusal as refusal:
        refused = _answer({name: _refused(name, refusal) for name in named})  # the error for all has no room for words
        return replace(refused, error_code=refusal.code) if request.version >= ERROR_FOR_ALL_FROM else refused
    results = {name: _result(name, outcome) for name, outcome in zip(named, outcomes, strict=True)}
    if message.topic_partitions is None:
        results = {name: it for name, it in results.items() if it.error_code != ErrorCode.ELECTION_NOT_NEEDED}
    return _answer(results)


def _kind(number: int) -> ElectionKind:
    try:
        return ElectionKind(number)
    except ValueError:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"{number} is no kind of election; 0 is preferred, 1 is unclean"
        ) from None


def _named(message: ElectLeadersRequest, image: ClusterImage) -> dict[TopicPartition, LogId]:
    """Each once. A topic that nobody knows has an id that nothing has."""
    if message.topic_partitions is None:
        return {
            TopicPartition(topic.name, partition.partition): LogId(topic.topic_id, partition.partition)
            for topic, partition in partitions_of(image)
        }
    named = {}
    for topic in message.topic_partitions:
        known = image.topic_named(topic.topic)
        topic_id = NO_TOPIC_ID if known is None else known.topic_id
        for index in topic.partitions:
            named[TopicPartition(topic.topic, index)] = LogId(topic_id, index)
    return named


def _result(name: TopicPartition, outcome: Outcome[None]) -> PartitionResult:
    if isinstance(outcome.result, Refusal):
        return _refused(name, outcome.result)
    return PartitionResult(name.partition, ErrorCode.NONE, None)


def _refused(name: TopicPartition, refusal: Refusal) -> PartitionResult:
    return PartitionResult(name.partition, refusal.code, refusal.message)


def _answer(results: dict[TopicPartition, PartitionResult]) -> ElectLeadersResponse:
    topics: dict[str, list[PartitionResult]] = {}
    for name, result in results.items():
        topics.setdefault(name.topic, []).append(result)
    return ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic, partitions) for topic, partitions in topics.items()]
    )

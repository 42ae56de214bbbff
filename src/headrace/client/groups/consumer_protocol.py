"""What members of a classic group tell each other, as bytes. To the coordinator they mean nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)
from headrace.wire.primitives import Malformed, Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3  # of both records: a reader skips what it does not know, so the newest is right for everybody

Spoken = TypeVar("Spoken", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def encode_subscription(
    topics: Iterable[str], owned: Iterable[TopicPartition], generation_id: int, user_data: bytes | None
) -> bytes:
    """What a member tells when it joins: the topics it wants, and what it reads now, since which generation."""
    partitions = [OwnedPartitions(topic, indexes) for topic, indexes in by_topic(owned).items()]
    return _encode(ConsumerProtocolSubscription(sorted(topics), user_data, partitions, generation_id))


def decode_subscription(encoded: bytes) -> ConsumerProtocolSubscription:
    """Raises Refusal INCONSISTENT_GROUP_PROTOCOL for what is no subscription."""
    return _decode(ConsumerProtocolSubscription, encoded)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """What the leader gives to one member."""
    return _encode(
        ConsumerProtocolAssignment(
            [AssignedPartitions(topic, indexes) for topic, indexes in by_topic(partitions).items()]
        )
    )


def decode_assignment(encoded: bytes) -> list[TopicPartition]:
    """What this member is to read. No bytes at all mean no partitions: the leader left it out.

    Refusal INCONSISTENT_GROUP_PROTOCOL for what is no assignment.
    """
    if not encoded:
        return []
    assignment = _decode(ConsumerProtocolAssignment, encoded)
    return sorted(
        TopicPartition(share.topic, index) for share in assignment.assigned_partitions for index in share.partitions
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of the partitions of each topic, sorted."""
    topics: dict[str, list[int]] = {}
    for name in sorted(partitions):
        topics.setdefault(name.topic, []).append(name.partition)
    return topics


def _encode(spoken: Spoken) -> bytes:
    writer = Writer()
    writer.int16(NEWEST_VERSION)
    spoken.encode(writer, NEWEST_VERSION)
    return bytes(writer.buffer)


def _decode(kind: type[Spoken], encoded: bytes) -> Spoken:
    try:
        reader = Reader(encoded)
        return kind.decode(reader, max(0, min(reader.int16(), NEWEST_VERSION)))
    except Malformed as damage:
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"a member does not speak the consumer protocol: {damage}"
        ) from damage

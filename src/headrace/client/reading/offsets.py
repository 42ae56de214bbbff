"""Where to start reading: the first offset, the end, or the first message of a certain time."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.errors import refuse_unless_ok
from headrace.model.names import Offset, TopicPartition
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.client.connections.cluster import Cluster

CLIENT_REPLICA_ID = -1  # how a node tells a reader from a follower


class Edge(Enum):
    """The special timestamps of ListOffsets."""

    LATEST = -1
    EARLIEST = -2


class IsolationLevel(IntEnum):
    """What to see of transactions."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    """Only what was committed. The end is then the last stable offset: the first of an open transaction, if any."""


class Found(NamedTuple):
    """What a node answers to a question for the offset of a time."""

    offset: Offset
    """-1 if no message is that late."""
    timestamp_ms: int


async def find_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int | Edge],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, Found]:
    """For each partition the first offset at or after a time in ms, or an `Edge`. Refusal if one cannot be had."""
    for topic in dict.fromkeys(name.topic for name in wanted):
        await cluster.topic(topic)
    found: dict[TopicPartition, Found] = {}

    async def find_the_rest() -> None:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for name, timestamp in wanted.items():
            if name not in found:
                partition = cluster.leader_of(name)
                if partition is None:
                    raise cluster.why_no_leader(name)
                by_leader.setdefault(partition.leader, {})[name] = (
                    timestamp.value if isinstance(timestamp, Edge) else timestamp
                )
        for leader, share in by_leader.items():
            found.update(await _ask_leader(cluster, leader, share, isolation))

    await cluster.retry(find_the_rest)
    return found


async def find_bounds(
    cluster: Cluster,
    partitions: list[TopicPartition],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, tuple[Offset, Offset]]:
    """First offset and end (exclusive) of each partition."""
    firsts = await find_offsets(cluster, dict.fromkeys(partitions, Edge.EARLIEST))
    ends = await find_offsets(cluster, dict.fromkeys(partitions, Edge.LATEST), isolation)
    return {name: (firsts[name].offset, ends[name].offset) for name in partitions}


async def _ask_leader(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], isolation: IsolationLevel
) -> dict[TopicPartition, Found]:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, timestamp in wanted.items():
        topic = topics.setdefault(name.topic, ListOffsetsTopic(name.topic))
        topic.partitions.append(ListOffsetsPartition(name.partition, timestamp=timestamp))
    request = ListOffsetsRequest(CLIENT_REPLICA_ID, isolation, list(topics.values()), timeout_ms=_timeout_ms(cluster))
    connection = await cluster.node_connection(leader)
    answer = await connection.request(request, ListOffsetsResponse)
    found: dict[TopicPartition, Found] = {}
    for answered in answer.topics:
        for part in answered.partitions:
            name = TopicPartition(answered.name, part.partition_index)
            refuse_unless_ok(part.error_code, f"offsets of {name}", right=f"DESCRIBE on topic {name.topic!r}")
            found[name] = Found(Offset(part.offset), part.timestamp)
    return found


def _timeout_ms(cluster: Cluster) -> int:
    return int(cluster.settings.request_timeout_s * 1000)

"""Which offsets `--from` and `--to` stand for, partition by partition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.client.reading.consumer import AtTime
from headrace.client.reading.offsets import Edge, find_bounds, find_offsets
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID, TopicPartition
from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.exports.plan import PartitionRange

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import Topic
    from headrace.client.reading.offsets import IsolationLevel

    Bounds = dict[TopicPartition, tuple[int, int]]

INTERNAL_PREFIX = "__"  # what the cluster keeps for itself matches no pattern


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """This many offsets before the end of each partition."""

    count: int


OffsetSpec = int | Edge | AtTime | BeforeEnd


async def find_ranges(
    cluster: Cluster, topics: list[Topic], start: OffsetSpec, end: OffsetSpec, isolation: IsolationLevel
) -> tuple[PartitionRange, ...]:
    """What lies between the two, by topic and partition. A range without offsets begins where it ends."""
    ids = {topic.name: "" if topic.topic_id == NO_TOPIC_ID else topic.topic_id.hex() for topic in topics}
    names = [TopicPartition(topic.name, part.index) for topic in topics for part in topic.partitions]
    bounds = {
        name: (int(first), int(last)) for name, (first, last) in (await find_bounds(cluster, names, isolation)).items()
    }
    starts = await _offsets(cluster, start, bounds)
    ends = await _offsets(cluster, end, bounds)
    return tuple(
        PartitionRange(name.topic, ids[name.topic], name.partition, min(starts[name], ends[name]), ends[name])
        for name in sorted(names)
    )


async def _offsets(cluster: Cluster, offset_spec: OffsetSpec, bounds: Bounds) -> dict[TopicPartition, int]:
    """The offset that is meant in each partition, brought to the nearest edge where it lies outside."""
    match offset_spec:
        case Edge.EARLIEST:
            return {name: first for name, (first, _) in bounds.items()}
        case Edge.LATEST:
            return {name: end for name, (_, end) in bounds.items()}
        case AtTime():
            found = await find_offsets(cluster, dict.fromkeys(bounds, offset_spec.timestamp_ms))
            # Nothing is that late: the end. A time may also lead past the end of what is stable.
            wanted = {name: bounds[name][1] if each.offset < 0 else int(each.offset) for name, each in found.items()}
        case BeforeEnd(count):
            wanted = {name: end - count for name, (_, end) in bounds.items()}
        case int():
            wanted = dict.fromkeys(bounds, offset_spec)
    return {name: max(first, min(wanted[name], end)) for name, (first, end) in bounds.items()}


async def find_topics(cluster: Cluster, names: tuple[str, ...], pattern: str | None) -> list[Topic]:
    """Those with these names, all of which must be there, and those that the pattern fits as a whole."""
    topics = {name: await cluster.topic(name) for name in names}
    if pattern is not None:
        fits = re.compile(pattern).fullmatch
        found = (await cluster.full_view()).topics
        topics |= {name: found[name] for name in found if fits(name) and not name.startswith(INTERNAL_PREFIX)}
        if not topics:
            raise OfflineFailed(
                f"no topic fits the pattern {pattern!r}", "`headrace topics list` shows the topics", is_not_found=True
            )
    for topic in topics.values():
        if not topic.partitions:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name!r} has no partitions")
    return [topics[name] for name in sorted(topics)]

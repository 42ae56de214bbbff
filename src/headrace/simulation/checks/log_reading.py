"""A partition as its batches are, markers and all: what readers of committed records must get follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.client.errors import refuse_unless_ok
from headrace.wire.batches.header import read_header
from headrace.wire.batches.markers import is_commit_marker
from headrace.wire.batches.records import decode_records
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicPartition
    from headrace.wire.batches.header import BatchHeader
    from headrace.wire.batches.records import Record

VERSION = 12  # the last that names topics
FETCH_BYTES = 1 << 20
INFLATE_MAX = 64 << 20


class Markers(NamedTuple):
    """What the markers in a partition say."""

    offsets: frozenset[int]
    aborted: frozenset[int]
    """Offsets of records in transactions that were aborted, or are open."""


async def read_markers(cluster: Cluster, partition: TopicPartition, start: int, end: int) -> Markers:
    """From `start` to `end` (exclusive), which a reader of uncommitted records can see."""
    offsets: set[int] = set()
    aborted: set[int] = set()
    undecided: dict[int, list[int]] = {}
    position = start
    while position < end:
        encoded = await _fetch(cluster, partition, position)
        assert encoded, f"{partition} is said to end at {end}, and nothing comes from {position} on"
        for header, records in _batches(encoded):
            position = header.next_offset
            if header.is_control:
                offsets.update(record.offset for record in records)
                ended = undecided.pop(header.producer_id, [])
                if not is_commit_marker(records[0]):
                    aborted.update(ended)
            elif header.is_transactional:
                undecided.setdefault(header.producer_id, []).extend(record.offset for record in records)
    aborted.update(offset for begun in undecided.values() for offset in begun)
    return Markers(frozenset(offsets), frozenset(aborted))


async def _fetch(cluster: Cluster, partition: TopicPartition, offset: int) -> memoryview:
    async def attempt() -> memoryview:
        await cluster.topic(partition.topic)
        led = cluster.leader_of(partition)
        if led is None:
            raise cluster.why_no_leader(partition)
        wanted = FetchPartition(partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(topics=[FetchTopic(partition.topic, partitions=[wanted])])
        connection = await cluster.node_connection(led.leader)
        answer = await connection.request(request, FetchResponse, version=VERSION)
        refuse_unless_ok(answer.error_code, f"fetch of {partition}")
        found = answer.responses[0].partitions[0]
        refuse_unless_ok(found.error_code, f"{partition} from {offset} on")
        return memoryview(found.records or b"")

    return await cluster.retry(attempt)


def _batches(encoded: memoryview) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Whole batches; the last may be cut off by the fetch's limit."""
    position = 0
    while position < len(encoded):
        header = read_header(encoded, position)
        if position + header.size > len(encoded):
            return
        batch = encoded[position : position + header.size]
        yield header, list(decode_records(batch, inflate_max=INFLATE_MAX))
        position += header.size

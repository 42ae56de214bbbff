"""Looks at the one record that a reader would get next, without reading on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.client.errors import refuse_unless_ok
from headrace.client.reading.fetch_session import FetchSession, Wanted
from headrace.client.reading.offsets import IsolationLevel
from headrace.client.reading.partition_buffer import PartitionBuffer
from headrace.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicPartition
    from headrace.wire.batches.records import Record

ONE_BATCH_BYTES = 1  # a node always sends one whole batch, however little is asked for
STEPS_MAX = 16  # batches without anything to see: markers, aborted transactions, records that compaction took


class Peeked(NamedTuple):
    """The record that comes next, if there is one that a short look can find."""

    record: Record | None
    is_at_end: bool
    """True if there is certainly no record; without one and without this, it is too far off to be found by a look."""


async def peek(
    cluster: Cluster,
    name: TopicPartition,
    offset: int,
    end: int,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Peeked:
    """The first record from `offset` on and before `end`."""
    buffer = PartitionBuffer(name, offset, end)
    for _ in range(STEPS_MAX):
        if buffer.is_finished:
            break
        before = buffer.fetch_offset

        async def attempt() -> None:
            await _fetch_one_batch(cluster, buffer, isolation)

        await cluster.retry(attempt)
        for record in buffer.take(1):
            return Peeked(record, is_at_end=False)
        if buffer.fetch_offset == before:
            break
    return Peeked(None, buffer.is_finished)


async def _fetch_one_batch(cluster: Cluster, buffer: PartitionBuffer, isolation: IsolationLevel) -> None:
    partition = cluster.leader_of(buffer.name)
    if partition is None:
        raise cluster.why_no_leader(buffer.name)
    topic_id = cluster.topic_id(buffer.name.topic)
    wanted = {buffer.name: Wanted(topic_id, buffer.fetch_offset, partition.leader_epoch, ONE_BATCH_BYTES)}
    request = FetchSession(isolation).request(wanted, max_wait_ms=0, min_bytes=0, max_bytes=ONE_BATCH_BYTES)
    request.session_epoch = -1  # no session: nobody asks again
    connection = await cluster.node_connection(partition.leader)
    answer = await connection.request(request, FetchResponse)
    refuse_unless_ok(answer.error_code, f"a look at {buffer.name}")
    for topic in answer.responses:
        for part in topic.partitions:
            refuse_unless_ok(
                part.error_code,
                f"{buffer.name} at offset {buffer.fetch_offset}",
                right=f"READ on topic {buffer.name.topic!r}",
            )
            if part.records:
                buffer.add(memoryview(part.records), part.aborted_transactions)

"""The staging topic of a query: where attempts leave batches that only the driver's commit makes visible.

It is made when the first batch has to be left there, and holds nothing that is needed once a batch is published: it may
be deleted whenever no run of its query is under way. Partition 0 stays empty; the others take batches, each attempt in
one of them.

The topic keeps the time of arrival, so that retention counts from there: records may be years old by their own time.
Nothing but the header's greatest timestamp is lost by that, and the commit message brings it back.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.errors import ClientError, refuse_unless_ok
from headrace.client.reading.offsets import CLIENT_REPLICA_ID
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, NO_OFFSET
from headrace.wire.batches.header import (
    ATTRIBUTES_LOW_BYTE,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    crc_matches,
    place,
    read_header,
)
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headrace_spark.codec.encoder import EncodedBatch
from headrace_spark.sink.commit_messages import StagedBatch
from headrace_spark.sink.staging_names import OFFSETS_PARTITION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import Offset, TopicPartition
    from headrace.wire.batches.header import BatchHeader
    from headrace_spark.sink.sending import BatchSender

STAGING_PARTITIONS = 4  # of batches; the driver reads them side by side
RETENTION_MS = 24 * 3600 * 1000  # what crashed attempts leave is of no use once their batch was computed again
BATCH_BYTES_MAX = 100 << 20  # Kafka's socket.request.max.bytes: the target decides what is too large, not this topic
FETCH_BYTES = 8 << 20  # read at a time from each partition, and one answer ahead
FETCH_WAIT_MS = 500  # everything asked for is there already

_MAX_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_POSITION = 35  # in the header of a batch


async def ensure_offsets_topic(cluster: Cluster) -> None:
    """The topic for which all sinks commit their offset. No records are written to it."""
    if not await cluster.topics([OFFSETS_PARTITION.topic]):
        await _create(cluster, OFFSETS_PARTITION.topic, 1, {})


async def ensure_staging_topic(cluster: Cluster, topic: str) -> int:
    """Create it unless it is there. Returns how many partitions take batches."""
    if not await cluster.topics([topic]):
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(RETENTION_MS),
            "message.timestamp.type": "LogAppendTime",
            "compression.type": "producer",
            "max.message.bytes": str(BATCH_BYTES_MAX),
        }
        await _create(cluster, topic, 1 + STAGING_PARTITIONS, configs)
    partitions = (await cluster.retry(lambda: cluster.topic(topic))).partitions
    return len(partitions) - 1


async def _create(cluster: Cluster, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    try:
        await Admin(cluster).create_topic(topic, partitions=partitions, configs=configs)
    except Refusal as refusal:
        if refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # another task was first
            raise


class StagingWriter:
    """Leaves the batches of one attempt in one staging partition, in order."""

    def __init__(self, sender: BatchSender, partition: TopicPartition) -> None:
        self.partition = partition
        self._sender = sender
        self._targets: dict[TopicPartition, int] = {}
        self._sent: list[tuple[asyncio.Future[Offset], StagedBatch]] = []

    async def stage(self, target: TopicPartition, batch: EncodedBatch) -> None:
        """Send a batch to the staging topic, and note where it shall go. Waits only for room."""
        position = self._targets.setdefault(target, len(self._targets))
        max_timestamp_ms = read_header(batch.records).max_timestamp
        size_bytes = len(batch.records)
        delivered = await self._sender.send(self.partition, batch)
        self._sent.append((delivered, StagedBatch(NO_OFFSET, batch.count, size_bytes, max_timestamp_ms, position)))

    async def finish(self) -> tuple[tuple[TopicPartition, ...], tuple[StagedBatch, ...]]:
        """Wait until all is there. Returns the targets, and where each batch lies."""
        await self._sender.flush()
        staged = tuple(batch._replace(offset=delivered.result()) for delivered, batch in self._sent)
        if any(batch.offset == NO_OFFSET for batch in staged):
            raise Refusal(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"{self.partition} has a batch of this task but does not say where; Spark will try the task again",
            )
        return tuple(self._targets), staged


async def read_staged(
    cluster: Cluster, partition: TopicPartition, wanted: Mapping[int, StagedBatch]
) -> AsyncIterator[tuple[int, EncodedBatch]]:
    """The wanted batches of a staging partition, by the offset of their first record, as they were before staging.

    What lies between belongs to attempts that did not win.
    """
    offset = min(wanted)
    last_offset = max(wanted)
    fetching = asyncio.ensure_future(_fetch(cluster, partition, offset))
    try:
        while True:
            records = await fetching
            headers = _whole_batches(records)
            if not headers:
                raise _staged_is_gone(partition, offset)
            offset = headers[-1][1].next_offset
            is_last = offset > last_offset
            if not is_last:
                fetching = asyncio.ensure_future(_fetch(cluster, partition, offset))
            for position, header in headers:
                staged = wanted.get(header.base_offset)
                if staged is not None:
                    yield header.base_offset, _restored(records, position, header, staged)
            if is_last:
                return
    finally:
        fetching.cancel()


async def _fetch(cluster: Cluster, partition: TopicPartition, offset: int) -> memoryview:
    async def attempt() -> memoryview:
        leader = cluster.leader_of(partition)
        if leader is None:
            raise cluster.why_no_leader(partition)
        connection = await cluster.node_connection(leader.leader)
        share = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            replica_id=CLIENT_REPLICA_ID,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(partition.topic, cluster.topic_id(partition.topic), [share])],
        )
        answer = await connection.request(request, FetchResponse)
        refuse_unless_ok(answer.error_code, f"reading {partition}")
        found = answer.responses[0].partitions[0]
        if ErrorCode(found.error_code) == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise _staged_is_gone(partition, offset)
        refuse_unless_ok(found.error_code, f"reading {partition}")
        return memoryview(found.records or b"")

    return await cluster.retry(attempt)


def _whole_batches(records: memoryview) -> list[tuple[int, BatchHeader]]:
    """Where batches begin. The last one of an answer may be cut off."""
    found = []
    position = 0
    while len(records) - position >= HEADER_SIZE:
        header = read_header(records, position)
        if position + header.size > len(records):
            break
        found.append((position, header))
        position += header.size
    return found


def _restored(records: memoryview, position: int, header: BatchHeader, staged: StagedBatch) -> EncodedBatch:
    # The CRC is computed anew when the batch is sent on, so this is the last moment to see damage.
    if not crc_matches(records, header, position) or header.record_count != staged.record_count:
        raise ClientError(
            f"the batch staged at offset {header.base_offset} is damaged: it has {header.record_count} records, "
            f"expected are {staged.record_count}, or its CRC does not match"
        )
    batch = bytearray(records[position : position + header.size])
    place(batch, header, 0, NO_EPOCH)  # a producer's batch begins at 0
    batch[ATTRIBUTES_LOW_BYTE] &= ~TIMESTAMP_TYPE_BIT & 0xFF
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, staged.max_timestamp_ms)
    return EncodedBatch(batch, staged.record_count)


def _staged_is_gone(partition: TopicPartition, offset: int) -> Refusal:
    return Refusal(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"records that a task staged in {partition} at offset {offset} are gone; nothing of this batch was published. "
        "Start the query again from its checkpoint: it computes the batch anew",
    )

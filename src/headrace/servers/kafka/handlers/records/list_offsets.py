"""ListOffsets (key 2): the offset of a time, or of one of the named places in a log.

Looking a time up may read cold bytes and open compressed batches, so it runs in a thread.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Epoch, TopicPartition
from headrace.servers.kafka.handlers.records.fetch import READ_COMMITTED
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.storage.files.damage import DamagedLog
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.runtime.threads import Threads
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

LEADER_EPOCH_FROM: Final = 4
SETTLE_S_MAX: Final = 1.0
LOOKUPS: Final = "lookups"  # a thread of their own: who looks into huge batches holds up nobody's reads
SINCE_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

Place = tuple[int, int, int]
"""Timestamp, offset and leader epoch."""
NOWHERE: Final[Place] = (NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)


def _refused(topic: ListOffsetsTopic, refusal: Refusal) -> ListOffsetsTopicResponse:
    answers = [ListOffsetsPartitionResponse(part.partition_index, refusal.code) for part in topic.partitions]
    return ListOffsetsTopicResponse(topic.name, answers)


RIGHTS = Rights(
    each=(Each("topics", "topics", _refused, Right(Operation.DESCRIBE, ResourceType.TOPIC, "name")),),
)


async def handle(
    message: ListOffsetsRequest, request: Request, topics: TopicTable, world: World
) -> ListOffsetsResponse:
    repeated = _repeated(message)
    answer = _Answer(
        topics, world.threads, request.version, is_committed_only=message.isolation_level == READ_COMMITTED
    )
    results = []
    for topic in message.topics:
        answers = [
            ListOffsetsPartitionResponse(wanted.partition_index, ErrorCode.INVALID_REQUEST)
            if TopicPartition(topic.name, wanted.partition_index) in repeated
            else await answer.about(topic.name, wanted)
            for wanted in topic.partitions
        ]
        results.append(ListOffsetsTopicResponse(topic.name, answers))
    return ListOffsetsResponse(topics=results)


def _repeated(message: ListOffsetsRequest) -> set[TopicPartition]:
    """As in Kafka, what a request names more than once is not looked at: to find a time may take long."""
    named = Counter(
        TopicPartition(topic.name, part.partition_index) for topic in message.topics for part in topic.partitions
    )
    return {name for name, count in named.items() if count > 1}


class _Answer:
    """To one request."""

    def __init__(self, topics: TopicTable, threads: Threads, version: int, *, is_committed_only: bool) -> None:
        self._topics = topics
        self._threads = threads
        self._version = version
        self._is_committed_only = is_committed_only

    async def about(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        try:
            partition = self._topics.partition(topic, wanted.partition_index)
            partition.replica.check_read()
            partition.replica.check_epoch(Epoch(wanted.current_leader_epoch))
            timestamp, offset, epoch = await self._find(partition, wanted.timestamp)
        except Refusal as refusal:
            return ListOffsetsPartitionResponse(wanted.partition_index, refusal.code)
        except DamagedLog as damage:
            partition.met(damage)
            return ListOffsetsPartitionResponse(wanted.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
        if self._version < LEADER_EPOCH_FROM:
            epoch = NO_EPOCH
        return ListOffsetsPartitionResponse(wanted.partition_index, ErrorCode.NONE, timestamp, offset, epoch)

    async def _find(self, partition: Partition, timestamp: int) -> Place:
        if self._version < SINCE_VERSION.get(timestamp, 0) or timestamp < LATEST_TIERED:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"version {self._version} has no special time {timestamp}")
        log, is_committed_only = partition.log, self._is_committed_only
        if timestamp == LATEST:
            end = await partition.settled_end(SETTLE_S_MAX, is_committed_only=is_committed_only)
            return NO_TIMESTAMP, end, partition.replica.leader_epoch
        if timestamp in {EARLIEST, EARLIEST_LOCAL}:
            return NO_TIMESTAMP, log.start_offset, log.epochs.epoch_at(log.start_offset)
        if timestamp == LATEST_TIERED:
            return NOWHERE  # nothing is kept anywhere else
        threads = self._threads
        if timestamp == MAX_TIMESTAMP:
            found = await threads.run(lambda: log.max_timestamp(threads.breathe), lane=LOOKUPS)
        else:
            found = await threads.run(lambda: log.find_timestamp(timestamp, threads.breathe), lane=LOOKUPS)
        if found is None:
            return NOWHERE
        end = partition.readable_end(is_committed_only=is_committed_only)
        if found.offset >= end:  # perhaps its producer has just heard that it is written (acks=1), and asks where
            end = await partition.settled_end(SETTLE_S_MAX, is_committed_only=is_committed_only)
        if found.offset >= end:
            return NOWHERE  # what is not committed must not be pointed at
        return found.timestamp, found.offset, found.leader_epoch

"""Which partition each row goes to: the one it names, else that of its key, else one after the other."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.connections.cluster import RetryBackoff
from headrace.client.errors import refuse_unless_ok
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace_spark.codec.partitions import murmur2_partitions
from headrace_spark.sink.rows import record_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.client.connections.cluster import Cluster
    from headrace_spark.blocking import BlockingCluster

    Partitions = npt.NDArray[np.int64]

UNASSIGNED = -1
CREATION_PATIENCE_S = 5.0  # a cluster that creates topics on being asked needs a moment, and does not say that it does


class Partitioner:
    """Splits batches of rows by target. Looks each topic up once."""

    def __init__(self, blocking: BlockingCluster, topic: str | None, batch_bytes_max: int) -> None:
        self._blocking = blocking
        self._topic = topic
        self._batch_bytes_max = batch_bytes_max
        self._sticky: dict[str, _StickyPartition] = {}

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Rows keep their order within a partition."""
        for topic, rows in self._by_topic(batch):
            sticky = self._sticky.get(topic)
            if sticky is None:
                sticky = self._sticky[topic] = self._look_up(topic)
            records = record_columns(rows)
            partitions = self._partitions(topic, sticky, rows, records)
            for partition, share in _grouped(records, partitions):
                yield TopicPartition(topic, partition), share

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if batch.num_rows == 0:
            return
        if self._topic is not None:
            yield self._topic, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise ValueError("a row has no topic: its column 'topic' is null, and the option 'topic' is not set")
        for topic in pc.unique(topics):
            yield topic.as_py(), batch.filter(pc.equal(topics, topic))

    def _look_up(self, topic: str) -> _StickyPartition:
        count = self._blocking.run(partition_count(self._blocking.cluster, topic))
        # By chance, so that many small tasks do not all fill the same partition.
        return _StickyPartition(count, random.randrange(count), self._batch_bytes_max)  # noqa: S311

    def _partitions(
        self, topic: str, sticky: _StickyPartition, rows: pa.RecordBatch, records: pa.RecordBatch
    ) -> Partitions:
        partitions = np.full(rows.num_rows, UNASSIGNED, dtype=np.int64)
        if "partition" in rows.schema.names:
            given = rows.column("partition")
            is_given = given.is_valid().to_numpy(zero_copy_only=False)
            partitions[is_given] = given.drop_null().to_numpy(zero_copy_only=False)
            _check_range(topic, sticky.partition_count, partitions[is_given])
        if "key" in records.schema.names:
            keys = records.column("key")
            is_by_key = keys.is_valid().to_numpy(zero_copy_only=False) & (partitions == UNASSIGNED)
            if is_by_key.any():
                chosen = keys if is_by_key.all() else keys.filter(pa.array(is_by_key))
                partitions[is_by_key] = murmur2_partitions(chosen, sticky.partition_count)
        is_free = partitions == UNASSIGNED
        if free_count := int(is_free.sum()):
            partitions[is_free] = sticky.take(free_count, records.nbytes / records.num_rows)
        return partitions


class _StickyPartition:
    """Gives rows without a key to the partitions by turns, a whole batch to each."""

    def __init__(self, partition_count: int, first: int, batch_bytes_max: int) -> None:
        self.partition_count = partition_count
        self._first = first
        self._batch_bytes_max = batch_bytes_max
        self._taken_bytes = 0.0

    def take(self, row_count: int, row_bytes: float) -> Partitions:
        ends = self._taken_bytes + row_bytes * np.arange(row_count)
        self._taken_bytes += row_bytes * row_count
        turns = (ends // self._batch_bytes_max).astype(np.int64)
        return (self._first + turns) % self.partition_count


def _check_range(topic: str, partition_count: int, given: Partitions) -> None:
    wrong = given[(given < 0) | (given >= partition_count)]
    if wrong.size:
        raise ValueError(
            f"a row names partition {int(wrong[0])} of topic {topic!r}, which has partitions 0 to {partition_count - 1}"
        )


def _grouped(records: pa.RecordBatch, partitions: Partitions) -> Iterator[tuple[int, pa.RecordBatch]]:
    first = int(partitions[0])
    if (partitions == first).all():
        yield first, records
        return
    order = np.argsort(partitions, kind="stable")
    ordered = records.take(pa.array(order))
    found, starts = np.unique(partitions[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for partition, start, end in zip(found, starts, ends, strict=True):
        yield int(partition), ordered.slice(int(start), int(end - start))


async def partition_count(cluster: Cluster, topic: str) -> int:
    """How many partitions a topic has. A missing topic is created, if the cluster creates topics automatically."""
    patience = RetryBackoff(cluster, CREATION_PATIENCE_S)
    while topic not in (found := await cluster.topics([topic])):
        refused = await cluster.retry(lambda: _ask_for_creation(cluster, topic))
        if topic not in await cluster.topics([topic]):
            await patience.wait_or_raise(refused)
    return len(found[topic].partitions)


async def _ask_for_creation(cluster: Cluster, topic: str) -> Refusal:
    """A Refusal that is raised will not pass. One that is returned may: a topic is unknown while it is created."""
    request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    answer = await cluster.ask(request, MetadataResponse)
    code = ErrorCode(answer.topics[0].error_code)
    if not code.is_retriable:
        refuse_unless_ok(code, f"topic {topic!r} is not there and cannot be created")
    return Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"there is no topic {topic!r}, and the cluster does not create topics by itself; create it first",
    )

"""What a task attempt does with its rows: leave them for the driver's commit, or write them to their targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import TaskContext

from headrace.model.names import TopicPartition
from headrace_spark.blocking import BlockingCluster
from headrace_spark.sink.batching import encoded_batches
from headrace_spark.sink.commit_messages import InlineBatch, TaskOutput, WrittenDirectly
from headrace_spark.sink.partitioner import Partitioner
from headrace_spark.sink.sending import BatchSender, init_producer_id
from headrace_spark.sink.staging import StagingWriter, ensure_staging_topic
from headrace_spark.sink.staging_names import RESERVED_PARTITION, staging_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from headrace.client.connections.cluster import Cluster
    from headrace_spark.codec.encoder import EncodedBatch
    from headrace_spark.sink.options import SinkOptions

INLINE_BYTES_MAX = 64 << 10  # per task, in its message: a thousand tasks then take 64 MiB of the driver


def leave_for_commit(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, transactional_id: str, task_index: int
) -> TaskOutput:
    """Nothing of it is visible until the driver publishes it; if this attempt does not win, it never is."""
    with BlockingCluster(options.bootstrap_servers, options.settings) as blocking:
        partitioner = Partitioner(blocking, options.topic, options.batch_bytes_max)
        inline: list[InlineBatch] = []
        inline_bytes = 0
        sender: BatchSender | None = None
        staging: StagingWriter | None = None
        try:
            for target, batch in encoded_batches(batches, partitioner, options):
                inline_bytes += len(batch.records)
                if staging is None and inline_bytes <= INLINE_BYTES_MAX:
                    inline.append(InlineBatch(target, bytes(batch.records), batch.count))
                    continue
                if staging is None:
                    sender, staging = blocking.run(_open_staging(blocking.cluster, transactional_id, task_index))
                blocking.run(staging.stage(target, batch))
            if staging is None:
                return TaskOutput(transactional_id, tuple(inline))
            targets, staged = blocking.run(staging.finish())
            return TaskOutput(transactional_id, tuple(inline), staging.partition, targets, staged)
        finally:
            if sender is not None:
                blocking.run(sender.close())


async def _open_staging(cluster: Cluster, transactional_id: str, task_index: int) -> tuple[BatchSender, StagingWriter]:
    topic = staging_topic(transactional_id)
    partition_count = await ensure_staging_topic(cluster, topic)
    partition = RESERVED_PARTITION + 1 + task_index % partition_count
    sender = BatchSender(cluster, await init_producer_id(cluster))
    return sender, StagingWriter(sender, TopicPartition(topic, partition))


def write_directly(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> WrittenDirectly:
    """This attempt writes each record once, whatever happens to its requests; another attempt writes it again."""
    with BlockingCluster(options.bootstrap_servers, options.settings) as blocking:
        partitioner = Partitioner(blocking, options.topic, options.batch_bytes_max)
        sender = blocking.run(_open_sender(blocking.cluster))
        record_count = 0
        try:
            for target, batch in encoded_batches(batches, partitioner, options):
                blocking.run(_send(sender, target, batch))
                record_count += batch.count
            blocking.run(sender.flush())
        finally:
            blocking.run(sender.close())
        return WrittenDirectly(record_count)


async def _open_sender(cluster: Cluster) -> BatchSender:
    return BatchSender(cluster, await init_producer_id(cluster))


async def _send(sender: BatchSender, target: TopicPartition, batch: EncodedBatch) -> None:
    await sender.send(target, batch)


def task_index() -> int:
    """Which task of its stage this is; attempts of the same task share it."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()

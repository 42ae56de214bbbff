"""What a pipeline leaves in the cluster beside its results, and how that is cleared away. Nothing here needs Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.admin.groups import GroupAdmin
from headrace.client.producing.producer import BatchingProducer
from headrace.model.errors import ErrorCode, Refusal
from headrace_spark.pipeline.status.status_topic import PARTITION, STOP_SUFFIX, TOPIC
from headrace_spark.sink.staging_names import OFFSETS_PARTITION, former_offsets_partition, staging_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from headrace.client.connections.cluster import Cluster
    from headrace_spark.pipeline.status.run_status import RunStatus

_NOT_THERE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND}


async def clear_staging(cluster: Cluster, sink_ids: Iterable[str]) -> None:
    """Delete the staging topics of sinks that are not in use. What the sinks remember stays."""
    there = {topic.name for topic in await Admin(cluster).list_topics()}
    for sink_id in sink_ids:
        topic = staging_topic(sink_id)
        if topic in there and await _is_offset_elsewhere(cluster, sink_id):
            await _is_done(Admin(cluster).delete_topic(topic))


async def _is_offset_elsewhere(cluster: Cluster, sink_id: str) -> bool:
    """Whether the offset would outlive the staging topic. Earlier versions left it there until the next batch."""
    offsets = await GroupAdmin(cluster).offsets(sink_id)
    return former_offsets_partition(sink_id) not in offsets or OFFSETS_PARTITION in offsets


async def forget(cluster: Cluster, run: RunStatus) -> list[str]:
    """All that is kept of a pipeline that runs no more: its sinks' topics and groups, its own group, its record.

    Returns the names of what was there and is gone.
    """
    topics = [staging_topic(sink_id) for sink_id in run.sink_ids]
    groups = [*run.sink_ids, *([] if run.group is None else [run.group])]
    gone = [f"topic {topic}" for topic in topics if await _is_done(Admin(cluster).delete_topic(topic))]
    gone += [f"group {group}" for group in groups if await _is_done(GroupAdmin(cluster).delete(group))]
    async with BatchingProducer(cluster) as producer:
        for key in (run.name + STOP_SUFFIX, run.name):
            await (await producer.send(TOPIC, key.encode(), None, partition=PARTITION.partition))
    return gone


async def _is_done(deletion: Awaitable[None]) -> bool:
    """False if there was nothing to delete."""
    try:
        await deletion
    except Refusal as refusal:
        if refusal.code not in _NOT_THERE:
            raise
        return False
    return True

"""What pipelines are doing, told through the cluster: any client can ask, from any machine.

Each run keeps one record in a compacted topic: its key is the pipeline's name, its value a JSON object. The run writes
it again every few seconds; a record that is not renewed belongs to a run that died. A request to stop is a record
of its own, which names the run that it means.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.client.reading.consumer import AssignedConsumer
from headrace.client.reading.offsets import Edge, find_bounds
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace_spark.pipeline.status.run_status import RunStatus

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.wire.batches.records import Record

TOPIC = "__headrace_pipelines"
PARTITION = TopicPartition(TOPIC, 0)
"""The only one: the order of its records decides between two runs of one pipeline."""
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # Whoever asks reads the whole topic: small segments are compacted soon.
    "segment.bytes": str(4 << 20),
    "segment.ms": str(3_600_000),
}
STOP_SUFFIX = "/stop"  # a slash cannot be part of a pipeline's name


@dataclass(slots=True)
class StatusSnapshot:
    """All that the topic says."""

    runs: dict[str, RunStatus] = field(default_factory=dict)
    next_offset: int = 0
    """Where to read on."""


async def read_status(cluster: Cluster) -> StatusSnapshot:
    """The latest record of each pipeline."""
    snapshot = StatusSnapshot()
    try:
        first, end = (await find_bounds(cluster, [PARTITION]))[PARTITION]
    except Refusal as refusal:
        if refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return snapshot  # nobody ever ran a pipeline here
        raise
    snapshot.next_offset = end
    if first == end:
        return snapshot
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({PARTITION: Edge.EARLIEST}, {PARTITION: end})
        while not consumer.is_finished:
            for record in (await consumer.poll()).get(PARTITION, ()):
                _note(snapshot.runs, record)
    return snapshot


async def ask_to_stop(cluster: Cluster, run: RunStatus) -> None:
    """The run sees it within a second, and ends after the batches that it is at."""
    request = {
        "name": run.name,
        "run_id": run.run_id,
        "requested_by": f"process {os.getpid()} on {socket.gethostname()}",
    }
    async with BatchingProducer(cluster) as producer:
        await (await producer.send(TOPIC, (run.name + STOP_SUFFIX).encode(), _encode(request), partition=0))


async def write_run(producer: BatchingProducer, run: RunStatus) -> int:
    """Returns the offset of the record."""
    delivered = await (await producer.send(TOPIC, run.name.encode(), _encode(run.to_json()), partition=0))
    return delivered.offset


async def ensure_topic(cluster: Cluster) -> None:
    """Create the topic, if nobody has yet. Raises Refusal or ClientError."""
    try:
        await Admin(cluster).create_topic(TOPIC, partitions=1, configs=TOPIC_CONFIGS)
    except Refusal as refusal:
        if refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def run_of(record: Record) -> RunStatus | None:
    """None if the record is something else: a request, a deletion, or from a version that writes it differently."""
    if record.key is None or record.value is None or bytes(record.key).decode(errors="replace").endswith(STOP_SUFFIX):
        return None
    try:
        return RunStatus.from_json(json.loads(bytes(record.value)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def stop_request_of(record: Record) -> tuple[str, str] | None:
    """The run that shall stop, and who wants it."""
    if record.key is None or record.value is None or not bytes(record.key).endswith(STOP_SUFFIX.encode()):
        return None
    try:
        request = json.loads(bytes(record.value))
        return request["run_id"], request["requested_by"]
    except (ValueError, KeyError, TypeError):
        return None


def _note(runs: dict[str, RunStatus], record: Record) -> None:
    run = run_of(record)
    if run is not None:
        runs[run.name] = run
    elif record.key is not None and record.value is None:
        runs.pop(bytes(record.key).decode(errors="replace"), None)


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()

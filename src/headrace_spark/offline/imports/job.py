"""`headrace import`: look at the files, share the lanes out, and watch how far they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.admin.admin import Admin, Resource, ResourceType
from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError
from headrace.client.groups.group_offsets import fetch_offsets
from headrace.client.security.settings import OPEN
from headrace.model.errors import Refusal
from headrace_spark.blocking import BlockingCluster
from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.imports.lane_publisher import progress_partition_of
from headrace_spark.offline.imports.plan import NO_PARTITION, Input, Lane, find_input
from headrace_spark.offline.imports.task import ImportTask, lane_id
from headrace_spark.offline.scatter import Scatter

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.client.connections.cluster import Cluster
    from headrace.client.security.settings import ClientSecurity
    from headrace.wire.batches.header import Codec
    from headrace_spark.offline.imports.columns import ColumnNames
    from headrace_spark.offline.imports.rate_limit import Rate
    from headrace_spark.offline.imports.task import SentLane
    from headrace_spark.offline.storage import Storage

CLIENT_ID: Final = "headrace-import"
RETRY_FOR_S: Final = 15.0  # a person waits; longer than a leader election
BATCH_BYTES: Final = 1_000_000  # just under Kafka's default max.message.bytes; larger ones gain nothing
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
LOOK_EVERY_S: Final = 1.0  # at the positions, each of which is a question to a coordinator


@dataclass(frozen=True)
class Import:
    """What to import, from where, and into which topic."""

    bootstrap_servers: str
    topic: str
    storage: Storage
    columns: ColumnNames
    codec: Codec
    rate: Rate
    keeps_partitions: bool
    """Each message goes to the partition that it came from; otherwise to that of its key."""
    source_topic: str | None = None
    name: str | None = None
    """Of the import. Under another one, the same files are sent again."""
    security: ClientSecurity = OPEN


class PreparedImport(NamedTuple):
    """What was found before Spark is started."""

    import_id: str
    found: Input
    batch_bytes_max: int
    rows_before: int
    """Sent by earlier runs."""


class ImportResult(NamedTuple):
    """What an import has done."""

    rows: int
    rows_sent: int
    """By this run; the others were there."""
    record_bytes: int
    duration_s: float


def prepare_import(job: Import) -> PreparedImport:
    """Before Spark is started: look at files and topic, and see what an earlier run has sent."""
    found = find_input(job.storage, job.columns, job.source_topic)
    if job.keeps_partitions and not found.is_export:
        raise OfflineFailed(
            f"{job.storage.location} holds no export, so its rows have no partition to keep",
            "leave out --partition-by source",
        )
    if not job.keeps_partitions:
        lanes = tuple(Lane(lane.name, lane.files) for lane in found.lanes)
        found = Input(lanes, found.is_export)
    settings = ClusterSettings(client_id=CLIENT_ID, retry_for_s=RETRY_FOR_S, security=job.security)
    with BlockingCluster(job.bootstrap_servers, settings) as blocking:
        return blocking.run(_prepare(blocking.cluster, job, found))


async def _prepare(cluster: Cluster, job: Import, found: Input) -> PreparedImport:
    topic = await cluster.topic(job.topic)
    last = max((lane.source_partition for lane in found.lanes), default=NO_PARTITION)
    if last >= len(topic.partitions):
        raise OfflineFailed(
            f"the export has messages of partition {last}, and topic {job.topic!r} has only {len(topic.partitions)}",
            f"`headrace topics alter --name {job.topic} --partitions {last + 1}` adds partitions",
        )
    import_id = found.fingerprint(job.topic, topic.topic_id.hex(), job.name or "", repr(job.columns))
    resource = Resource(ResourceType.TOPIC, job.topic)
    configs = {config.name: config.value for config in await Admin(cluster).describe_configs(resource)}
    batch_bytes_max = min(BATCH_BYTES, int(configs.get(MAX_MESSAGE_BYTES) or BATCH_BYTES))
    positions = Positions(cluster, import_id, job.topic, found)
    return PreparedImport(import_id, found, batch_bytes_max, sum((await positions.find()).values()))


def run_import(
    spark: SparkSession, job: Import, prepared: PreparedImport, on_progress: Callable[[int], None]
) -> ImportResult:
    """Send what is not sent yet. `on_progress` hears how many rows are. OfflineFailed if something is in the way."""
    started_s = time.monotonic()
    found = prepared.found
    lanes_at_once = max(1, min(len(found.lanes), spark.sparkContext.defaultParallelism))
    task = ImportTask(
        job.bootstrap_servers,
        job.storage,
        job.topic,
        prepared.import_id,
        job.columns,
        job.codec,
        prepared.batch_bytes_max,
        job.rate.shared_by(lanes_at_once),
        job.security,
    )
    settings = ClusterSettings(client_id=CLIENT_ID, security=job.security)
    with BlockingCluster(job.bootstrap_servers, settings) as blocking:
        watch = _Watch(blocking, Positions(blocking.cluster, prepared.import_id, job.topic, found), on_progress)
        # The longest first: one that begins late would keep everybody waiting.
        lanes = sorted(found.lanes, key=lambda lane: -lane.rows)
        sent: list[SentLane] = Scatter(spark, task).run(lanes, f"import to {job.topic}", lambda _: None, watch.look)
    return ImportResult(
        found.rows,
        sum(lane.rows_sent for lane in sent),
        sum(lane.record_bytes for lane in sent),
        time.monotonic() - started_s,
    )


class Positions:
    """How many rows of each lane are sent, as its group says."""

    def __init__(self, cluster: Cluster, import_id: str, topic: str, found: Input) -> None:
        self._progress_partition = progress_partition_of(topic)
        self._coordinators = {
            lane.name: (group := lane_id(import_id, lane), Coordinator(cluster, CoordinatorKind.GROUP, group))
            for lane in found.lanes
        }

    async def find(self) -> dict[str, int]:
        """Rows that are sent of each lane, by its name."""
        found = {}
        for name, (group_id, coordinator) in self._coordinators.items():
            committed = await fetch_offsets(coordinator, group_id, [self._progress_partition])
            found[name] = (
                int(committed[self._progress_partition].offset) if self._progress_partition in committed else 0
            )
        return found


class _Watch:
    """Asks for the positions now and then. That they cannot be had is no reason to stop the import."""

    def __init__(self, blocking: BlockingCluster, positions: Positions, on_progress: Callable[[int], None]) -> None:
        self._blocking = blocking
        self._positions = positions
        self._on_progress = on_progress
        self._next_look_s = 0.0

    def look(self) -> None:
        if time.monotonic() < self._next_look_s:
            return
        try:
            self._on_progress(sum(self._blocking.run(self._positions.find()).values()))
        except (ClientError, Refusal):
            return
        finally:
            self._next_look_s = time.monotonic() + LOOK_EVERY_S

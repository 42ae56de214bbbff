"""What must hold in every run: while it goes on, as seen from inside a node; and at its end, as a client sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin, Resource, ResourceType
from headrace.client.reading.consumer import AssignedConsumer, ConsumerSettings, OutOfRange
from headrace.client.reading.offsets import IsolationLevel, find_bounds, find_offsets
from headrace.simulation.checks.log_reading import read_markers
from headrace.simulation.history.history import Kind, Reading
from headrace.simulation.workloads.topic_churn import RETENTION

if TYPE_CHECKING:
    from random import Random

    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import LogId, TopicPartition
    from headrace.simulation.history.history import History
    from headrace.simulation.workloads.topic_churn import TopicHistory
    from headrace.wire.batches.records import Record

READ_S = 30.0  # of virtual time, for a healthy node to hand over a whole partition
LOOKUPS = 5  # by time, for each partition


class NodeWatch:
    """Looks into nodes: log start ≤ high watermark ≤ flushed ≤ written, and the high watermark never falls.

    Also not over a crash: what was once below it was on the device. The same goes for the last stable offset, which
    comes before the high watermark: what was decided stays decided.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._high_watermarks: dict[LogId, int] = {}
        self._stable_offsets: dict[LogId, tuple[int, int]] = {}
        """Where a log began, and its last stable offset."""
        self.looks = 0

    def look(self, topics: TopicTable) -> None:
        self.looks += 1
        for partition in topics.partitions():
            if not partition.replica.is_leader:
                continue
            log, watermark = partition.log, partition.high_watermark
            if not log.start_offset <= watermark <= log.flushed_offset <= log.next_offset:
                detail = f"{log.start_offset} <= {watermark} <= {log.flushed_offset} <= {log.next_offset} does not hold"
                self._history.report(Kind.DISORDER, partition.name, watermark, detail)
            known = self._high_watermarks.get(log.log_id, 0)
            if watermark < known:
                self._history.report(
                    Kind.WATERMARK_FELL, partition.name, watermark, f"the node itself had {known} before"
                )
            self._high_watermarks[log.log_id] = watermark
            self._look_at_stable(partition)

    def _look_at_stable(self, partition: Partition) -> None:
        log, stable = partition.log, partition.last_stable_offset
        start, known = self._stable_offsets.get(log.log_id, (0, 0))
        if start != log.start_offset:
            known = 0  # retention may take an open transaction, and a crash bring it back
        if not known <= stable <= partition.high_watermark:
            detail = f"the last stable offset is {stable} of {partition.high_watermark}, and was {known} before"
            self._history.report(Kind.DISORDER, partition.name, stable, detail)
        self._stable_offsets[log.log_id] = (log.start_offset, stable)


async def read_all(
    cluster: Cluster, partitions: list[TopicPartition], history: History, chance: Random
) -> list[Reading]:
    """Every partition from its start to its end, and some lookups by time, held against what was read."""
    readings = []
    for partition, (start, end) in (await find_bounds(cluster, partitions)).items():
        records = await _read(cluster, partition, start, end, IsolationLevel.READ_UNCOMMITTED)
        values = [(record.offset, record.value or b"") for record in records]
        markers = await read_markers(cluster, partition, start, end)
        readings.append(Reading(partition, start, end, values, markers.offsets, markers.aborted))
        await _check_lookups(cluster, readings[-1], records, history, chance)
    return readings


async def read_all_committed(cluster: Cluster, readings: list[Reading], history: History) -> list[Reading]:
    """The same partitions for a reader of committed records, who must get what the markers say."""
    bounds = await find_bounds(cluster, [reading.partition for reading in readings], IsolationLevel.READ_COMMITTED)
    committed = []
    for partition, start, _, records, markers, aborted in readings:
        stable_end = bounds[partition][1]
        found = await _read(cluster, partition, start, stable_end, IsolationLevel.READ_COMMITTED)
        values = [(record.offset, record.value or b"") for record in found]
        expected = [(offset, value) for offset, value in records if offset < stable_end and offset not in aborted]
        if values != expected:
            wrong = sorted(set(values).symmetric_difference(expected))
            history.report(Kind.MISREAD, partition, wrong[0][0] if wrong else -1, f"{len(wrong)} records differ")
        committed.append(Reading(partition, start, stable_end, values, markers, aborted))
    return committed


async def _read(
    cluster: Cluster, partition: TopicPartition, start: int, end: int, isolation: IsolationLevel
) -> list[Record]:
    records: list[Record] = []
    if start == end:
        return records
    clock = cluster.clock
    deadline_s = clock.monotonic_s() + READ_S
    settings = ConsumerSettings(out_of_range=OutOfRange.FAIL, isolation=isolation)
    async with AssignedConsumer(cluster, settings) as consumer:
        await consumer.assign({partition: start}, {partition: end})
        while not consumer.is_finished and clock.monotonic_s() < deadline_s:
            records += (await consumer.poll(wait_s=1.0)).get(partition, [])
    return records


async def _check_lookups(
    cluster: Cluster, reading: Reading, records: list[Record], history: History, chance: Random
) -> None:
    partition = reading.partition
    for record in chance.sample(records, min(LOOKUPS, len(records))):
        wanted_ms = record.timestamp
        expected = next(other.offset for other in records if other.timestamp >= wanted_ms)
        found = (await find_offsets(cluster, {partition: wanted_ms}))[partition].offset
        # A marker has a time too; whoever starts there is handed what follows.
        if found != expected and not (found in reading.markers and found < expected):
            detail = f"the first record from {wanted_ms} on is at {expected}, the node says {found}"
            history.report(Kind.MISLED, partition, found, detail)


async def check_topics(cluster: Cluster, told: TopicHistory, history: History) -> None:
    view = await cluster.full_view()
    admin = Admin(cluster)
    retentions: dict[str, str] = {}
    for name, expected in told.topics.items():
        if name in view.topics and expected.exists and expected.is_certain:
            configs = await admin.describe_configs(Resource(ResourceType.TOPIC, name))
            retentions[name] = next(config.value or "" for config in configs if config.name == RETENTION)
    told.check(history, view.topics, retentions)

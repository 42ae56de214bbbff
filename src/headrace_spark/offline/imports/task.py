"""What a task of an import does: send one lane, from where it stopped the last time."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.errors import ProducerFenced
from headrace.client.security.settings import OPEN
from headrace.model.errors import ErrorCode, Refusal
from headrace_spark.blocking import BlockingCluster
from headrace_spark.codec.encoder import encode
from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.imports.columns import as_messages
from headrace_spark.offline.imports.lane_publisher import LanePublisher
from headrace_spark.offline.imports.plan import NO_PARTITION, open_parquet
from headrace_spark.offline.imports.rate_limit import RateLimiter
from headrace_spark.sink.partitioner import Partitioner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.security.settings import ClientSecurity
    from headrace.wire.batches.header import Codec
    from headrace_spark.offline.imports.columns import ColumnNames
    from headrace_spark.offline.imports.lane_publisher import TargetedBatch
    from headrace_spark.offline.imports.plan import Lane
    from headrace_spark.offline.imports.rate_limit import Rate
    from headrace_spark.offline.storage import Storage

CLIENT_ID: Final = "headrace-import"
RETRY_FOR_S: Final = 60.0  # a node that restarts is waited for
CHUNK_BYTES: Final = 16 << 20  # what one transaction carries: beside this much its commit costs little
CHUNK_S: Final = 0.25  # under a rate limit, no more than this at once: smooth enough that nobody sees the steps
CHUNK_ROWS_MAX: Final = 256 * 1024
TOO_LARGE: Final = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}


class SentLane(NamedTuple):
    """What a task has done for its lane."""

    name: str
    rows: int
    """In all."""
    rows_sent: int
    """By this run."""
    record_bytes: int
    """Keys and values of those."""


class Chunk(NamedTuple):
    """What one transaction carries."""

    batches: list[TargetedBatch]
    rows: int
    record_bytes: int


@dataclass(frozen=True)
class ImportTask:
    """Travels to the executors, and is called there with one lane after the other."""

    bootstrap_servers: str
    storage: Storage
    topic: str
    import_id: str
    columns: ColumnNames
    codec: Codec
    batch_bytes_max: int
    rate: Rate
    """Of each lane."""
    security: ClientSecurity = OPEN

    def __call__(self, lane: Lane) -> SentLane:
        settings = ClusterSettings(
            client_id=CLIENT_ID, retry_for_s=RETRY_FOR_S, reach_for_s=RETRY_FOR_S, security=self.security
        )
        with BlockingCluster(self.bootstrap_servers, settings) as blocking:
            publisher = LanePublisher(blocking.cluster, lane_id(self.import_id, lane), self.topic)
            try:
                return self._send(lane, blocking, publisher)
            except ProducerFenced as fenced:
                raise OfflineFailed(
                    f"another run of this import has taken over {lane.name}", "let only one of them run"
                ) from fenced
            except Refusal as refusal:
                if refusal.code not in TOO_LARGE:
                    raise
                raise OfflineFailed(
                    f"topic {self.topic!r} refuses a message of {lane.name} as too large",
                    f"raise its max.message.bytes: `headrace configs alter --topic {self.topic}`",
                ) from refusal
            finally:
                blocking.run(publisher.close())

    def _send(self, lane: Lane, blocking: BlockingCluster, publisher: LanePublisher) -> SentLane:
        """While one chunk is on its way, the next is read and encoded."""
        sent_before = position = blocking.run(publisher.take_over())
        record_bytes = 0
        limiter = RateLimiter(self.rate)
        under_way: Future[None] = Future()
        under_way.set_result(None)
        try:
            for chunk in self._chunks(lane, position, Partitioner(blocking, self.topic, self.batch_bytes_max)):
                under_way.result()
                time.sleep(limiter.wait_s(chunk.rows, chunk.record_bytes, time.monotonic()))
                position += chunk.rows
                record_bytes += chunk.record_bytes
                under_way = blocking.start(publisher.publish(chunk.batches, position))
        finally:
            under_way.exception()  # waits: whatever stopped us, what is on its way may arrive
        under_way.result()
        return SentLane(lane.name, lane.rows, position - sent_before, record_bytes)

    def _chunks(self, lane: Lane, position: int, partitioner: Partitioner) -> Iterator[Chunk]:
        for rows in self._rows(lane, position):
            if lane.source_partition != NO_PARTITION:
                partitions = pa.array([lane.source_partition], pa.int32()).take(pa.array([0] * rows.num_rows))
                rows = rows.append_column("partition", partitions)  # noqa: PLW2901
            yield Chunk(list(self._batches(rows, partitioner)), rows.num_rows, _content_bytes(rows))

    def _batches(self, rows: pa.RecordBatch, partitioner: Partitioner) -> Iterator[TargetedBatch]:
        now_ms = time.time_ns() // 1_000_000
        for partition, share in partitioner.split(rows):
            try:
                for batch in encode(share, codec=self.codec, batch_bytes_max=self.batch_bytes_max, now_ms=now_ms):
                    yield partition, batch
            except ValueError as wrong:
                raise OfflineFailed(f"rows of {self.storage.location} cannot be sent: {wrong}") from wrong

    def _rows(self, lane: Lane, position: int) -> Iterator[pa.RecordBatch]:
        """The lane's rows from a position on, a chunk at a time."""
        for file in lane.files:
            if position >= file.rows:
                position -= file.rows
                continue
            yield from self._rows_of(file.path, position)
            position = 0

    def _rows_of(self, path: str, first_row: int) -> Iterator[pa.RecordBatch]:
        where = f"{self.storage.location}/{path}"
        with open_parquet(self.storage, path) as file:
            chosen = self.columns.chosen(file.schema_arrow, where)
            groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
            skipped_groups = 0
            while skipped_groups < len(groups) and first_row >= groups[skipped_groups].num_rows:
                first_row -= groups[skipped_groups].num_rows
                skipped_groups += 1
            row_bytes = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=1.0)
            batches = file.iter_batches(
                self._chunk_rows(row_bytes),
                row_groups=list(range(skipped_groups, len(groups))),
                columns=list(chosen.values()),
                use_threads=False,  # tasks share the machine's cores already
            )
            try:
                for batch in batches:
                    rest = batch.slice(min(first_row, batch.num_rows))
                    first_row -= batch.num_rows - rest.num_rows
                    if rest.num_rows:
                        yield as_messages(rest, chosen)
            except (pa.ArrowInvalid, OSError) as damage:
                raise OfflineFailed(f"{where} cannot be read: {' '.join(str(damage).split())}") from damage

    def _chunk_rows(self, row_bytes: float) -> int:
        rows = min(CHUNK_ROWS_MAX, CHUNK_BYTES / max(1.0, row_bytes))
        limit_s = self.rate.seconds_for(1, max(1, round(row_bytes)))
        if limit_s:
            rows = min(rows, CHUNK_S / limit_s)
        return max(1, int(rows))


def lane_id(import_id: str, lane: Lane) -> str:
    """The transactional id that a lane is sent with, and the name of the group that keeps its position."""
    return f"headrace-import.{import_id}.{lane.name}"


def _content_bytes(rows: pa.RecordBatch) -> int:
    columns = (rows.column(name) for name in ("key", "value") if name in rows.schema.names)
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)

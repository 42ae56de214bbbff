"""A partition on its own, without a node around it: its log is written for real and flushed when a test says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.partitions.counters import Counters
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.writing import ACKS_ALL, AppendStage
from headrace.metadata.configs.settings import DEFAULT_TOPIC_SETTINGS
from headrace.model.names import Epoch, NodeId, Offset, TopicPartition
from headrace.replication.replica import Replica
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.storage.store.flusher import Flusher
from headrace.wire.batches.records import encode_batch

if TYPE_CHECKING:
    from headrace.broker.partitions.pending_appends import PendingAppend
    from headrace.runtime.disk import Disk
    from headrace.storage.log.partition_log import PartitionLog

NODE = NodeId(1)
NAME = TopicPartition("orders", 3)
PRODUCE_VERSION = 12
LATEST_EPOCH = Epoch(-1)


class SmallPartition:
    """The only replica, and its leader from the start."""

    def __init__(self, log: PartitionLog, disk: Disk, *, leader_epoch: int = 0) -> None:
        self.disk = disk
        self.counters = Counters()
        self.stage = AppendStage(self.counters, lambda _: None, lambda _: None)
        world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads())
        replica = Replica(
            NODE,
            log_start=Offset(log.start_offset),
            written=Offset(log.next_offset),
            flushed=Offset(log.flushed_offset),
            high_watermark=Offset(log.start_offset),
        )
        self.partition = Partition(
            NAME,
            log,
            replica,
            stage=self.stage,
            flusher=Flusher(world, on_flushed=lambda _: None),
            clock=world.clock,
        )
        settings = log.settings
        self.partition.configure(DEFAULT_TOPIC_SETTINGS)
        log.settings = settings
        self.partition.lead(Epoch(leader_epoch), [NODE], [NODE])

    @property
    def log(self) -> PartitionLog:
        return self.partition.log

    def flush(self) -> None:
        """Everything that is written becomes safe."""
        ticket = self.log.flushing.begin()
        if ticket is not None:
            ticket.sync(self.disk)
            self.log.flushing.finish(ticket)
            self.partition.flushed()

    def send(self, batch: bytearray) -> PendingAppend:
        """As a client with acks=all: what needs a grant gets it."""
        view = memoryview(batch)
        claim = self.partition.writer.wants_grant(view)
        if claim is not None:
            self.partition.writer.grant_transaction(claim)
        admitted = self.partition.writer.admit(view, ACKS_ALL, PRODUCE_VERSION)
        self.stage.commit()
        return admitted


def batch_of(
    count: int = 1,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
    timestamp_ms: int = 1_700_000_000_000,
    value_bytes: int = 10,
) -> bytearray:
    return encode_batch(
        [(timestamp_ms, b"k", b"v" * value_bytes, ()) for _ in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )

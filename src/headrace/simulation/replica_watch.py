"""What must hold of every partition's replicas while a cluster runs, as seen from inside all of its nodes at once.

- One leader in each epoch, whoever is asked: the images, and the replicas themselves.
- The high watermark never falls while one leads. Another leader may show less for a moment, but whatever was once below
  it (the *true* high watermark) is on the disk of everyone in the in-sync set, the same bytes on each.
- Nobody who is fenced is in an in-sync set, but for its last member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.names import LogId, TopicPartition
from headrace.simulation.history import Kind
from headrace.wire.batches import read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.partition import Partition
    from headrace.metadata.image import ClusterImage
    from headrace.metadata.image import Partition as PartitionState
    from headrace.model.names import Epoch, NodeId
    from headrace.simulation.cluster import NodeProcess
    from headrace.simulation.device import Device
    from headrace.simulation.history import History
    from headrace.simulation.raft_watch import RaftWatch
    from headrace.storage.log import PartitionLog


class _Batch(NamedTuple):
    next_offset: int
    crc: int
    leader_epoch: int


@dataclass(slots=True)
class _Truth:
    """What is known of one partition, whoever holds it."""

    high_watermark: int = 0
    watermark_of: dict[Epoch, int] = field(default_factory=dict)
    stable_of: dict[Epoch, int] = field(default_factory=dict)
    leader_of: dict[Epoch, NodeId] = field(default_factory=dict)
    batches: dict[int, _Batch] = field(default_factory=dict)
    """Below the true high watermark, by base offset: without a gap from the first to `known_end`."""
    known_start: int = 0
    known_end: int = 0


@dataclass(slots=True)
class _Cursor:
    """How far one replica's bytes were compared."""

    log: PartitionLog
    cuts: int
    segment_base: int
    position: int = 0


class ReplicaWatch:
    def __init__(self, history: History, metadata: RaftWatch) -> None:
        self._history = history
        self._metadata = metadata
        self._truths: dict[LogId, _Truth] = {}
        self._cursors: dict[tuple[NodeId, LogId], _Cursor] = {}

    # Images

    def look_at_image(self, image: ClusterImage) -> None:
        """Every image that was ever decided comes here once."""
        for topic in image.sorted_topics():
            for state in topic.in_order():
                log_id, name = LogId(topic.topic_id, state.partition), TopicPartition(topic.name, state.partition)
                if state.has_leader:
                    self._check_leader(log_id, name, state.leader_epoch, state.leader)
                fenced = [it for it in state.isr if it not in image.nodes or image.nodes[it].is_fenced]
                if fenced and len(state.isr) > 1:
                    self._report(Kind.FENCED_IN_SYNC, name, -1, f"in sync are {state.isr}, and fenced is {fenced}")

    def _check_leader(self, log_id: LogId, name: TopicPartition, epoch: Epoch, leader: NodeId) -> None:
        first = self._truth(log_id).leader_of.setdefault(epoch, leader)
        if first != leader:
            self._report(Kind.TWO_LEADERS, name, -1, f"nodes {first} and {leader} lead in epoch {epoch}")

    # Replicas

    def look(self, process: NodeProcess) -> None:
        image = self._metadata.newest
        if process.present is None or image is None:
            return
        for partition in process.present.topics.partitions():  # also while it starts or stops
            self._look_at_leader(process.node_id, partition)
            state = image.partition(*partition.log_id)
            if state is not None and process.node_id in state.isr:
                self._check_member(process, partition, state)

    def _look_at_leader(self, node_id: NodeId, partition: Partition) -> None:
        replica = partition.replica
        if not replica.is_leader:
            return
        epoch, truth, log = replica.leader_epoch, self._truth(partition.log_id), partition.log
        self._check_leader(partition.log_id, partition.name, epoch, node_id)
        watermark, known = partition.high_watermark, truth.watermark_of.get(epoch, 0)
        if watermark < known:
            detail = f"node {node_id} had {known} before, in epoch {epoch}"
            self._report(Kind.WATERMARK_FELL, partition.name, watermark, detail)
        stable, known = partition.last_stable_offset, truth.stable_of.get(epoch, 0)
        if not known <= stable <= watermark and stable != log.start_offset:
            detail = f"the last stable offset is {stable} of {watermark}, and was {known} before in epoch {epoch}"
            self._report(Kind.DISORDER, partition.name, stable, detail)
        if not log.start_offset <= watermark <= log.flushed_offset <= log.next_offset:
            detail = f"{log.start_offset} <= {watermark} <= {log.flushed_offset} <= {log.next_offset} does not hold"
            self._report(Kind.DISORDER, partition.name, watermark, detail)
        truth.watermark_of[epoch], truth.stable_of[epoch] = watermark, stable
        truth.high_watermark = max(truth.high_watermark, watermark)

    def _check_member(self, process: NodeProcess, partition: Partition, state: PartitionState) -> None:
        truth, log = self._truth(partition.log_id), partition.log
        if log.is_closed:
            return
        if log.flushed_offset < truth.high_watermark:
            detail = (
                f"node {process.node_id} is in sync ({state.isr}, led by {state.leader} in epoch {state.leader_epoch}) "
                f"and has {log.flushed_offset} on its disk; {truth.high_watermark} was committed"
            )
            self._report(Kind.BEHIND, partition.name, log.flushed_offset, detail)
        else:
            self._compare(process, partition, truth)

    # Bytes

    def _compare(self, process: NodeProcess, partition: Partition, truth: _Truth) -> None:
        log = partition.log
        key = (process.node_id, partition.log_id)
        cursor = self._cursors.get(key)
        is_current = cursor is not None and cursor.log is log and cursor.cuts == log.cuts
        if cursor is None or not is_current or cursor.segment_base < log.segments[0].base_offset:
            cursor = self._cursors[key] = _Cursor(log, log.cuts, log.segments[0].base_offset)
        for base_offset, batch in _batches(process.host.device, cursor, truth.high_watermark):
            if not _agrees(truth, base_offset, batch):
                detail = f"node {process.node_id} has {batch}, others have {truth.batches.get(base_offset)}"
                self._report(Kind.FORKED, partition.name, base_offset, detail)

    def _truth(self, log_id: LogId) -> _Truth:
        return self._truths.setdefault(log_id, _Truth())

    def _report(self, kind: Kind, name: TopicPartition, offset: int, detail: str) -> None:
        self._history.report(kind, name, offset, detail)


def _batches(device: Device, cursor: _Cursor, end_offset: int) -> Iterator[tuple[int, _Batch]]:
    """What follows the cursor and is below `end_offset`. Read from the device itself: a node must not notice."""
    log = cursor.log
    for segment in log.segments:
        if segment.base_offset < cursor.segment_base:
            continue
        if segment.base_offset > cursor.segment_base:
            cursor.segment_base, cursor.position = segment.base_offset, 0
        content = device.file(segment.stem + ".log").cached
        while cursor.position < segment.size:
            header = read_header(content, cursor.position)
            if header.next_offset > end_offset:
                return
            cursor.position += header.size
            yield header.base_offset, _Batch(header.next_offset, header.crc, header.leader_epoch)


def _agrees(truth: _Truth, base_offset: int, batch: _Batch) -> bool:
    known = truth.batches.get(base_offset)
    if known is not None:
        return known == batch
    if truth.known_start <= base_offset < truth.known_end:
        return False
    if base_offset > truth.known_end:  # what lies between was deleted before anybody looked
        truth.batches.clear()
        truth.known_start = base_offset
    if base_offset >= truth.known_end:
        truth.batches[base_offset] = batch
        truth.known_end = batch.next_offset
    return True

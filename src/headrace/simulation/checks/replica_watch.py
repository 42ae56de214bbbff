"""What must hold of every partition's replicas while a cluster runs, as seen from inside all of its nodes at once.

I8, I10 and I11 of the cluster's invariants:

- One leader in each epoch, whoever is asked: the images, and the replicas themselves.
- The high watermark never falls while one leads. Another leader may show less for a moment, but whatever was once below
  it (the *true* high watermark) is on the disk of everyone who may be elected, the same bytes on each: who is in the
  in-sync set, and who is eligible beside it.
- Everyone who may be elected counts for its leader.
- No leader has anything that was confirmed to be deleted.
- Nobody who is fenced leads: its lease was over before.
- Nobody who is fenced is in an in-sync set, but for its last member.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.partitions.partition import Partition
from headrace.metadata.configs.internal_topics import is_internal
from headrace.metadata.decisions import slices
from headrace.model.names import LogId, TopicPartition
from headrace.replication.replica import Replica
from headrace.simulation.checks.writes import note_writes_to, written_by
from headrace.simulation.history.history import Kind
from headrace.storage.log.partition_log import PartitionLog
from headrace.wire.batches.header import read_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.model.names import Epoch, NodeId
    from headrace.simulation.cluster import NodeProcess
    from headrace.simulation.environment.device import Device
    from headrace.simulation.history.history import History


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
    is_compacted: bool = False
    """Some replica was. Each is in its own way, and those who follow it copy what it made of its batches, which need
    not show: so from then on their bytes are not compared. `compacted_keys` looks at what they hold."""


@dataclass(slots=True)
class _Cursor:
    """How far one replica's bytes were compared."""

    log: PartitionLog
    cuts: int
    segment_base: int
    position: int = 0


_mark_of = attrgetter(
    "log",
    "replica",
    "log.start_offset",
    "log.flushed_offset",
    "log.next_offset",
    "log.cuts",
    "log.cleaner_checkpoint",
    "replica.is_leader",
    "replica.leader_epoch",
    "replica.in_sync",
    "replica.eligible",
    "replica._proposed",
    "replica._in_doubt",
    "high_watermark",
    "last_stable_offset",
)
"""Everything of a partition that the checks look at: if it has not changed, there is nothing new to see.

All of it are values that never change themselves, in attributes that are assigned to: see `writes`.
"""
_places_of = attrgetter("partitions")


@dataclass(slots=True)
class _View:
    """A node's partitions as they were seen last."""

    places: list[list[Partition | None]] = field(default_factory=list)
    """By topic."""
    partitions: list[Partition] = field(default_factory=list)
    marks: list[tuple[object, ...]] = field(default_factory=list)
    owners: dict[object, int] = field(default_factory=dict)
    """Of each thing that a partition consists of: the partition's place among all."""

    @classmethod
    def of(cls, places: list[list[Partition | None]]) -> _View:
        partitions = [partition for partition in chain.from_iterable(places) if partition is not None]
        return cls(list(map(list, places)), partitions, [()] * len(partitions))

    def changed(self, written: Iterable[object] | None = None) -> list[Partition]:
        """Those that differ from what was seen before, in their order, of those that were written to or of all."""
        owners = self.owners
        if written is None:
            touched: Iterable[int] = range(len(self.partitions))
        else:
            touched = sorted({owners[it] for it in written if it in owners})
        changed = []
        for place in touched:
            partition = self.partitions[place]
            mark = _mark_of(partition)
            if mark != self.marks[place]:
                self.marks[place] = mark
                owners[partition] = owners[partition.log] = owners[partition.replica] = place
                changed.append(partition)
        return changed


class ReplicaWatch:
    def __init__(self, nodes: Sequence[NodeProcess], history: History) -> None:
        self._nodes = nodes
        self._history = history
        self._image: ClusterImage | None = None
        """What was decided last."""
        self._truths: dict[LogId, _Truth] = {}
        self._cursors: dict[tuple[NodeId, LogId], _Cursor] = {}
        self._ends: dict[tuple[NodeId, LogId], int] = {}
        """Where each log ended at the last look."""
        self._views: dict[NodeId, _View] = {process.node_id: _View() for process in nodes}
        note_writes_to(Partition, Replica, PartitionLog)

    # Images

    def check_image(self, image: ClusterImage) -> None:
        """Every image that was ever decided comes here once."""
        is_one_slice = image.partition_count <= slices.CHANGED_MAX  # else a fenced node may be in sync for a moment
        for topic in image.sorted_topics():
            for state in topic.in_order():
                log_id, name = LogId(topic.topic_id, state.partition), TopicPartition(topic.name, state.partition)
                if state.has_leader:
                    self._check_leader(log_id, name, state.leader_epoch, state.leader)
                fenced = [it for it in state.isr if it not in image.nodes or image.nodes[it].is_fenced]
                if fenced and len(state.isr) > 1 and is_one_slice:
                    self._report(Kind.FENCED_IN_SYNC, name, -1, f"in sync are {state.isr}, and fenced is {fenced}")

    def set_image(self, image: ClusterImage) -> None:
        """Who is in sync now must have everything now, also one that does not know of it yet."""
        self._image = image
        for process in self._nodes:
            self._views[process.node_id] = _View()
            if process.host.is_up:
                self.look(process)

    def _check_leader(self, log_id: LogId, name: TopicPartition, epoch: Epoch, leader: NodeId) -> None:
        first = self._truth(log_id).leader_of.setdefault(epoch, leader)
        if first != leader:
            self._report(Kind.TWO_LEADERS, name, -1, f"nodes {first} and {leader} lead in epoch {epoch}")

    # Replicas

    def look(self, process: NodeProcess) -> None:
        """Also while it starts or stops."""
        if process.present is None:
            return
        places = list(map(_places_of, process.present.topics))
        written = written_by(process.host.life)
        view = self._views[process.node_id]
        if places != view.places:
            view = self._views[process.node_id] = _View.of(places)
            changed = view.changed()
        elif written:
            changed = view.changed(written)
        else:
            return
        for partition in changed:
            self._look_at(process, partition)

    def _look_at(self, process: NodeProcess, partition: Partition) -> None:
        if partition.log.may_have_gaps:
            self._truth(partition.log_id).is_compacted = True
        if partition.replica.is_leader:
            self._check_lease(process, partition)
        self._ends[process.node_id, partition.log_id] = partition.log.next_offset
        if partition.replica.is_leader and self._look_at_leader(process.node_id, partition):
            for other in self._nodes:
                present = other.present if other.host.is_up else None
                theirs = None if present is None else present.topics.by_log_id(partition.log_id)
                if theirs is not None:
                    self._check_member(other, theirs)
        else:
            self._check_member(process, partition)

    def _look_at_leader(self, node_id: NodeId, partition: Partition) -> bool:
        """True if more is committed now than anybody knew of before."""
        replica = partition.replica
        epoch, truth, log = replica.leader_epoch, self._truth(partition.log_id), partition.log
        self._check_leader(partition.log_id, partition.name, epoch, node_id)
        if self._is_elected(node_id, partition):
            self._check_counted(node_id, partition)
            self._check_deleted(node_id, partition)
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
        is_news = watermark > truth.high_watermark
        truth.high_watermark = max(truth.high_watermark, watermark)
        return is_news

    def _is_elected(self, node_id: NodeId, partition: Partition) -> bool:
        """By what was decided last; a leader may not have heard of that yet."""
        state = self._state_of(partition)
        return state is not None and (state.leader, state.leader_epoch) == (node_id, partition.replica.leader_epoch)

    def _check_counted(self, node_id: NodeId, partition: Partition) -> None:
        """Whoever may be elected counts for the high watermark, also while the leader has not heard of it yet."""
        state, replica = self._state_of(partition), partition._replica
        assert state is not None, "somebody was elected"
        uncounted = {*state.isr, *state.eligible} - replica._members
        if uncounted:
            detail = f"{_electable(state)}, and node {node_id} leads with {replica.in_sync}"
            self._report(Kind.UNCOUNTED, partition.name, partition.high_watermark, detail)

    def _check_deleted(self, node_id: NodeId, partition: Partition) -> None:
        """A deletion is confirmed when all who may be elected have made it."""
        start_offset, deleted = partition.log.start_offset, self._history.delete_done.get(partition.name, 0)
        if start_offset < deleted:
            detail = f"node {node_id} leads, and everything below {deleted} was to be gone"
            self._report(Kind.UNDELETED, partition.name, start_offset, detail)

    def _check_lease(self, process: NodeProcess, partition: Partition) -> None:
        """Before the controller fences a node, and others lead, it has stopped by itself: its lease is over.

        A process that stood still is told of the time only after its first turns. Until then it may believe that it
        leads, but it takes nothing of clients: others have written there.
        """
        node, life = None if self._image is None else self._image.nodes.get(process.node_id), process.host.life
        if node is None or not node.is_fenced or process.is_stopping or life.is_suspended:
            return
        key, end_offset = (process.node_id, partition.log_id), partition.log.next_offset
        has_taken = end_offset > self._ends.get(key, end_offset) and not is_internal(partition.name.topic)
        if life.resumed_s == asyncio.get_running_loop().time() and not has_taken:
            return
        if process.present is not None and process.present.registration.broker_epoch == node.broker_epoch:
            detail = f"node {process.node_id} is fenced and takes writes, in epoch {partition.replica.leader_epoch}"
            self._report(Kind.FENCED_LEADER, partition.name, partition.high_watermark, detail)

    def _check_member(self, process: NodeProcess, partition: Partition) -> None:
        state = self._state_of(partition)
        truth, log = self._truth(partition.log_id), partition.log
        if state is None or process.node_id not in {*state.isr, *state.eligible} or log.is_closed:
            return
        if process.host.device.has_lied and not partition.was_in_sync:
            return  # the node may believe that it has everything; before it leads, its log is compared
        if log.flushed_offset < truth.high_watermark:
            detail = (
                f"node {process.node_id} has {log.flushed_offset} on its disk, and {truth.high_watermark} was "
                f"committed; {_electable(state)}, led by {state.leader} in epoch {state.leader_epoch}"
            )
            self._report(Kind.BEHIND, partition.name, log.flushed_offset, detail)
        elif not truth.is_compacted:
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

    def _state_of(self, partition: Partition) -> PartitionState | None:
        return None if self._image is None else self._image.partition(*partition.log_id)

    def _truth(self, log_id: LogId) -> _Truth:
        return self._truths.setdefault(log_id, _Truth())

    def _report(self, kind: Kind, name: TopicPartition, offset: int, detail: str) -> None:
        self._history.report(kind, name, offset, detail)


def _electable(state: PartitionState) -> str:
    return f"in sync are {state.isr}" + (f" and eligible {state.eligible}" if state.eligible else "")


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

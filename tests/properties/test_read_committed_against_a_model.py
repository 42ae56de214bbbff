"""Transactions, plain batches, crashes and cuts in one partition, against a list of what was written.

The model knows batches and markers in their order, and nothing of indexes, snapshots or incremental bookkeeping. After
every step the last stable offset, the aborted transactions of any range, and all that a reader of committed records
gets to see must be what the list says.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.broker.partitions.deletion import delete_expired, delete_records
from headrace.model.names import Millis, Offset, ProducerId
from headrace.simulation.environment.device import Device
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files import layout
from headrace.storage.recovery.opening import create_log, open_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import read_header
from headrace.wire.batches.markers import decode_marker
from tests.unit.broker.small_partitions import LATEST_EPOCH, SmallPartition, batch_of
from tests.unit.storage.small_logs import LOG_ID, end_if_cut

if TYPE_CHECKING:
    from headrace.broker.partitions.partition import Partition
    from headrace.storage.log.partition_log import PartitionLog

SETTINGS = LogSettings(
    segment_bytes=1200, segment_ms=1 << 60, segment_index_bytes=200, index_interval_bytes=150, retention_ms=None
)
PRODUCER_IDS = (1, 2, 3)
SENDERS = st.lists(st.sampled_from(PRODUCER_IDS), min_size=1, max_size=4)
PLACES = st.floats(0, 1)
NOW_MS = Millis(1_700_000_000_000)


class Written(NamedTuple):
    """A batch in the log, or a marker if `is_commit` is not None."""

    base_offset: int
    next_offset: int
    producer_id: int
    is_transactional: bool
    is_commit: bool | None = None


class Transaction(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int | None
    is_commit: bool


class Client:
    """A producer as its client knows it."""

    def __init__(self) -> None:
        self.epoch = 0
        self.sequence = 0


class ReadCommitted(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.device = Device(Random(seed))
        self.disk = SimulatedDisk(self.device)
        self.written: list[Written] = []
        self.clients = {producer_id: Client() for producer_id in PRODUCER_IDS}
        self.recovery_point = 0
        self.flushed_offset = 0
        self.start_offset = 0
        self.leader_epoch = 0
        self._serve(create_log(LOG_ID, "orders", SegmentCache(self.disk, open_files=2), SETTINGS))

    def _serve(self, log: PartitionLog) -> None:
        self.small = SmallPartition(log, self.disk, leader_epoch=self.leader_epoch)
        self.leader_epoch += 1

    @property
    def log(self) -> PartitionLog:
        return self.small.log

    @property
    def partition(self) -> Partition:
        return self.small.partition

    # ---- writing

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=3), value_bytes=st.integers(0, 300))
    def send_plain(self, counts: list[int], value_bytes: int) -> None:
        for count in counts:
            self._note(self.small.send(batch_of(count, value_bytes=value_bytes)).base_offset, count)

    @rule(senders=SENDERS, value_bytes=st.integers(0, 300))
    def send_in_transactions(self, senders: list[int], value_bytes: int) -> None:
        for producer_id in senders:
            self._send(producer_id, 1 + producer_id % 2, value_bytes, is_transactional=True)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), count=st.integers(1, 3))
    def send_outside_of_transactions(self, producer_id: int, count: int) -> None:
        if producer_id not in self._open_ids():
            self._send(producer_id, count, 10, is_transactional=False)

    def _send(self, producer_id: int, count: int, value_bytes: int, *, is_transactional: bool) -> None:
        client = self.clients[producer_id]
        batch = batch_of(
            count,
            producer_id=producer_id,
            epoch=client.epoch,
            sequence=client.sequence,
            is_transactional=is_transactional,
            value_bytes=value_bytes,
        )
        client.sequence += count
        admitted = self.small.send(batch)
        self._note(admitted.base_offset, count, producer_id, is_transactional=is_transactional)

    @rule(senders=SENDERS, is_commit=st.booleans(), bumps_epoch=st.booleans())
    def send_and_end(self, senders: list[int], is_commit: bool, bumps_epoch: bool) -> None:
        self.send_in_transactions(senders, 20)
        for producer_id in sorted(set(senders)):
            self.end_transaction(producer_id, is_commit, bumps_epoch)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), is_commit=st.booleans(), bumps_epoch=st.booleans())
    def end_transaction(self, producer_id: int, is_commit: bool, bumps_epoch: bool) -> None:
        client = self.clients[producer_id]
        if bumps_epoch:
            client.epoch += 1
            client.sequence = 0
        admitted = self.partition.writer.write_marker(
            ProducerId(producer_id),
            client.epoch,
            is_commit=is_commit,
            coordinator_epoch=1,
            transaction_version=2 if bumps_epoch else 1,
        )
        self._note(admitted.base_offset, 1, producer_id, is_transactional=True, is_commit=is_commit)

    def _note(
        self,
        base_offset: int,
        count: int,
        producer_id: int = -1,
        *,
        is_transactional: bool = False,
        is_commit: bool | None = None,
    ) -> None:
        expected = self.written[-1].next_offset if self.written else 0
        assert base_offset == max(expected, self.start_offset)
        self.written.append(Written(base_offset, base_offset + count, producer_id, is_transactional, is_commit))

    # ---- the disk

    @rule()
    def flush(self) -> None:
        self.small.flush()
        self.flushed_offset = self.log.flushed_offset

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), is_commit=st.booleans())
    def end_while_flushing(self, producer_id: int, is_commit: bool) -> None:
        """The high watermark stops just before the marker."""
        ticket = self.log.flushing.begin()
        self.end_transaction(producer_id, is_commit, bumps_epoch=False)
        if ticket is not None:
            ticket.sync(self.disk)
            self.log.flushing.finish(ticket)
            self.partition.flushed()
        self.flushed_offset = self.log.flushed_offset

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def checkpoint(self) -> None:
        self.log.hints.save()
        self.disk.sync_everything()
        self.recovery_point = self.log.flushed_offset

    @rule(place=PLACES, drops_segments=st.booleans())
    def delete_records(self, place: float, drops_segments: bool) -> None:
        first = self.log.start_offset
        target = first + round(place * (self.partition.high_watermark - first))
        delete_records(self.partition, Offset(target))
        if drops_segments:
            delete_expired(self.partition, NOW_MS)
        garbage = self.log.retention.take_garbage()
        self.disk.sync_everything()  # as the store does: producers of deleted batches are not forgotten with them
        self.start_offset = self.log.start_offset
        for path in garbage:
            self.disk.remove(path)

    @rule(place=PLACES)
    def truncate(self, place: float) -> None:
        """As a follower does that was ahead of its leader. It serves again, as the leader, afterwards."""
        safe = self.partition.high_watermark
        offset = safe + round(place * (self.log.next_offset - safe))
        self.recovery_point = min(self.recovery_point, end_if_cut(self.log, offset))
        self.log.truncate(offset)
        self._lost_after(self.log.next_offset)
        self.start_offset = self.log.start_offset
        self._serve(self.log)
        self.small.flush()
        self.flushed_offset = self.log.flushed_offset

    @rule(how=st.sampled_from(["stop", "kill", "power cut", "lost hint", "damaged index"]), place=st.floats(0, 0.999))
    def die_and_start_again(self, how: str, place: float) -> None:
        if how == "stop":
            self.small.flush()
            self.log.close()
            self.disk.sync_everything()
            self.recovery_point = self.log.next_offset
        elif how == "power cut":
            self.device.power_cut()
        else:
            self.disk.sync_everything()
            if how == "lost hint":
                self._lose_a_hint(place)
            elif how == "damaged index":
                self._damage_an_aborted_index(place)
        flushed_offset, end_offset = self.flushed_offset, self.log.next_offset
        self._open()
        assert flushed_offset <= self.log.next_offset <= end_offset
        self._lost_after(self.log.next_offset)

    def _lose_a_hint(self, place: float) -> None:
        """A file that can be rebuilt goes missing. A snapshot cannot be, where the batches before it were deleted."""
        bases = [segment.base_offset for segment in self.log.segments]
        first_base = max(base for base in bases if base <= self.start_offset)
        needed = layout.stem(layout.directory_of(LOG_ID), first_base) + layout.SNAPSHOT
        hints = (layout.INDEX, layout.TIME_INDEX, layout.SNAPSHOT)
        paths = [path for path, _ in self.device.files() if path.endswith(hints) and path != needed]
        if paths:
            self.device.lose(paths[int(place * len(paths))])

    def _damage_an_aborted_index(self, place: float) -> None:
        paths = [path for path, _ in self.device.files() if path.endswith(layout.ABORTED)]
        if paths:
            self.disk.write_file(paths[int(place * len(paths))], b"nonsense")

    def _open(self) -> None:
        if not self.disk.exists(layout.directory_of(LOG_ID)):
            assert self.flushed_offset == 0
            log = create_log(LOG_ID, "orders", SegmentCache(self.disk, open_files=2), SETTINGS)
        else:
            log, _ = open_log(
                LOG_ID,
                SegmentCache(self.disk, open_files=2),
                SETTINGS,
                recovery_point=self.recovery_point,
                start_offset=self.start_offset,
                is_synced=True,
            )
        self._serve(log)
        self.flushed_offset = log.flushed_offset

    def _lost_after(self, end_offset: int) -> None:
        """The clients take up where the log ends, as they do when they are told that a write failed."""
        self.written = [batch for batch in self.written if batch.next_offset <= end_offset]
        for producer_id, client in self.clients.items():
            producer = self.log.producers.get(producer_id)
            if producer is None:
                client.epoch, client.sequence = 0, 0
            else:
                client.epoch, client.sequence = producer.epoch, producer.next_sequence

    # ---- what the list says

    def _transactions(self) -> list[Transaction]:
        found: list[Transaction] = []
        opened: dict[int, int] = {}
        for batch in self.written:
            if batch.is_commit is not None:
                first_offset = opened.pop(batch.producer_id, None)
                if first_offset is not None:
                    found.append(Transaction(batch.producer_id, first_offset, batch.base_offset, batch.is_commit))
            elif batch.is_transactional:
                opened.setdefault(batch.producer_id, batch.base_offset)
        found += [Transaction(producer_id, first, None, False) for producer_id, first in opened.items()]
        return found

    def _open_ids(self) -> set[int]:
        return {item.producer_id for item in self._transactions() if item.marker_offset is None}

    def _stable_end(self) -> int:
        high_watermark = self.partition.high_watermark
        unstable = [
            item.first_offset
            for item in self._transactions()
            if item.marker_offset is None or item.marker_offset >= high_watermark
        ]
        return max(self.log.start_offset, min([high_watermark, *unstable]))

    def _committed_offsets(self, first_offset: int, end_offset: int) -> list[int]:
        aborted: set[int] = set()
        last_marker: dict[int, bool] = {}
        for batch in reversed(self.written):
            if batch.is_commit is not None:
                last_marker[batch.producer_id] = batch.is_commit
            elif batch.is_transactional and last_marker.get(batch.producer_id) is False:
                aborted.update(range(batch.base_offset, batch.next_offset))
        return [
            offset
            for batch in self.written
            if batch.is_commit is None
            for offset in range(batch.base_offset, batch.next_offset)
            if first_offset <= offset < end_offset and offset not in aborted
        ]

    # ---- what must hold

    @invariant()
    def the_last_stable_offset_is_right(self) -> None:
        assert self.partition.last_stable_offset == self._stable_end()

    @invariant()
    def aborted_transactions_of_any_range_are_found(self) -> None:
        bounds = [batch.base_offset for batch in self.written if batch.base_offset >= self.log.start_offset]
        bounds.append(self.log.next_offset)
        aborted = [item for item in self._transactions() if item.marker_offset is not None and not item.is_commit]
        for number, first in enumerate(bounds):
            for end in {*bounds[number : number + 3], bounds[-1]}:
                found = self.log.transaction_indexes.aborted_between(first, end)
                assert sorted((item.producer_id, item.first_offset, item.last_offset) for item in found) == sorted(
                    (item.producer_id, item.first_offset, item.marker_offset)
                    for item in aborted
                    if item.marker_offset is not None and item.marker_offset >= first and item.first_offset < end
                )

    @invariant()
    def a_reader_of_committed_records_sees_just_these(self) -> None:
        start, end = self.log.start_offset, self.partition.last_stable_offset
        assert _read_committed(self.partition, start, max_bytes=400) == self._committed_offsets(start, end)

    @invariant()
    def snapshots_and_batches_agree_on_what_is_open(self) -> None:
        opened = {item.producer_id: item.first_offset for item in self._transactions() if item.marker_offset is None}
        known = {
            producer.producer_id: producer.current_txn_first_offset
            for producer in self.log.producers.entries()
            if producer.has_open_transaction
        }
        assert known == opened


def _read_committed(partition: Partition, offset: int, max_bytes: int) -> list[int]:
    """What a consumer makes of the answers: it skips the aborted producers' batches until their abort marker."""
    seen: list[int] = []
    while True:
        readable = partition.read(
            Offset(offset), max_bytes, at_least_one=True, leader_epoch=LATEST_EPOCH, is_committed_only=True
        )
        if readable.records is None:
            return seen
        run = readable.records.read()
        readable.records.release()
        to_come = sorted((item.first_offset, item.producer_id) for item in readable.aborted)
        skipped: set[int] = set()
        first_wanted, position = offset, 0
        while position < len(run):
            header = read_header(run, position)
            while to_come and to_come[0][0] <= header.last_offset:
                skipped.add(to_come.pop(0)[1])
            if header.is_control:
                if not decode_marker(run[position : position + header.size]).is_commit:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                seen += range(max(first_wanted, header.base_offset), header.next_offset)
            position += header.size
            offset = header.next_offset


TestReadCommitted = ReadCommitted.TestCase
TestReadCommitted.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

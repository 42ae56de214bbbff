"""A log that is written, read, cut, rolled, reopened, crashed and robbed of power, against a plain list of batches.

The disk is the simulator's: whatever was not synced may be lost sector by sector and name by name. What was flushed
must still be there, what is there must be a beginning of what was written, and nothing may be taken for damage.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.replication.producers import ProducerStates
from headrace.simulation.environment.device import Device
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files import layout
from headrace.storage.files.leader_epochs import LeaderEpochs
from headrace.storage.recovery.opening import create_log, open_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import BatchHeader, read_header
from tests.unit.storage.small_logs import FIRST_MS, LOG_ID, batch_at, end_if_cut

if TYPE_CHECKING:
    from headrace.model.names import Epoch, Offset
    from headrace.storage.log.flushing import FlushTicket
    from headrace.storage.log.partition_log import PartitionLog

SETTINGS = LogSettings(
    segment_bytes=1500, segment_ms=400, segment_index_bytes=80, index_interval_bytes=200, retention_ms=300
)
SHAPES = st.tuples(st.integers(1, 3), st.integers(0, 900), st.integers(-50, 50), st.booleans())


class LogAgainstAList(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.device = Device(Random(seed))
        self.disk = SimulatedDisk(self.device)
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.log: PartitionLog = create_log(LOG_ID, "orders", SegmentCache(self.disk, open_files=2), SETTINGS)
        self.start_offset = self.stored_start = 0
        self.flushed_offset = self.recovery_point = 0
        self.epoch = 0
        self.now_ms = FIRST_MS
        self.sequence = 0
        self.ticket: FlushTicket | None = None

    @property
    def next_offset(self) -> int:
        return self.log.next_offset

    @rule(shapes=st.lists(SHAPES, min_size=1, max_size=5), is_new_epoch=st.booleans())
    def append(self, shapes: list[tuple[int, int, int, bool]], is_new_epoch: bool) -> None:
        self.epoch += is_new_epoch
        offset = self.log.next_offset
        written = []
        for count, value_bytes, jitter_ms, is_idempotent in shapes:
            self.now_ms += 20
            times = [self.now_ms + jitter_ms + number for number in range(count)]
            batch = batch_at(
                offset,
                count=count,
                value_bytes=value_bytes,
                timestamps=times,
                epoch=self.epoch,
                producer_id=7 if is_idempotent else -1,
                sequence=self.sequence if is_idempotent else -1,
            )
            self.sequence += count if is_idempotent else 0
            offset += count
            written.append((read_header(batch), bytes(batch)))
        self.log.append([batch for _, batch in written], [header for header, _ in written])
        self.batches += written

    @rule(place=st.floats(0, 1), max_bytes=st.integers(1, 4000), end=st.floats(0, 1), at_least_one=st.booleans())
    def read(self, place: float, max_bytes: int, end: float, at_least_one: bool) -> None:
        first, last = self.log.start_offset, self.log.next_offset
        offset = first + round(place * (last - first))
        boundaries = [header.base_offset for header, _ in self.batches] + [last]
        end_offset = boundaries[round(end * (len(boundaries) - 1))]
        piece = self.log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)
        wanted = [
            (header, batch)
            for header, batch in self.batches
            if header.last_offset >= offset and header.next_offset <= end_offset
        ]
        if piece is None:
            assert not wanted or offset >= end_offset or (not at_least_one and len(wanted[0][1]) > max_bytes)
            return
        found = piece.read()
        piece.release()
        assert b"".join(batch for _, batch in wanted).startswith(found)
        assert any(len(found) == size for size in _sums(wanted))
        assert len(found) <= max_bytes or (at_least_one and len(found) == len(wanted[0][1]))
        if at_least_one:
            assert found

    @rule()
    def begin_flush(self) -> None:
        if self.ticket is None:
            self.ticket = self.log.flushing.begin()

    @precondition(lambda self: self.ticket is not None)
    @rule()
    def finish_flush(self) -> None:
        assert self.ticket is not None
        self.ticket.sync(self.disk)
        self.log.flushing.finish(self.ticket)
        self.ticket = None
        self.flushed_offset = self.log.flushed_offset

    @rule()
    def checkpoint(self) -> None:
        self.log.hints.save()
        self.disk.sync_everything()
        self.recovery_point = self.log.flushed_offset

    @rule(place=st.floats(0, 1))
    def truncate(self, place: float) -> None:
        first = self.log.start_offset
        offset = first + round(place * (self.log.next_offset - first))
        self.recovery_point = min(self.recovery_point, end_if_cut(self.log, offset))
        self.log.truncate(offset)
        self.start_offset = self.stored_start = self.log.start_offset
        self.batches = [(header, batch) for header, batch in self.batches if header.next_offset <= offset]
        self.flushed_offset = min(self.flushed_offset, self.log.next_offset)
        if self.batches:
            assert self.log.next_offset == max(self.batches[-1][0].next_offset, self.log.start_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(place=st.floats(0, 1))
    def advance_start(self, place: float) -> None:
        first = self.log.start_offset
        self.log.retention.advance_start(first + round(place * (self.log.flushed_offset - first)))
        self.start_offset = self.stored_start = self.log.start_offset

    @rule(is_stored=st.booleans())
    def delete_expired(self, is_stored: bool) -> None:
        self.log.high_watermark = self.log.flushed_offset
        self.log.retention.delete_expired(self.now_ms)
        self.start_offset = self.log.start_offset
        if is_stored:
            self.stored_start = self.log.start_offset
            for path in self.log.retention.take_garbage():
                self.disk.remove(path)

    @rule()
    def restart(self) -> None:
        ticket = self.log.flushing.begin()
        if ticket is not None:
            ticket.sync(self.disk)
            self.log.flushing.finish(ticket)
        self.log.close()
        self.disk.sync_everything()
        self.recovery_point = self.flushed_offset = self.log.next_offset
        self.stored_start = self.start_offset
        expected = self.log.next_offset
        self._open()
        assert self.log.next_offset == expected

    @rule()
    def kill(self) -> None:
        """The process dies; the page cache lives. The next one syncs before it looks."""
        expected = self.log.next_offset
        self.disk.sync_everything()
        self._open()
        assert self.log.next_offset == expected

    @rule()
    def power_cut(self) -> None:
        self.device.power_cut()
        self._open()
        assert self.log.next_offset >= self.flushed_offset, "flushed batches are gone"
        self.batches = [item for item in self.batches if item[0].next_offset <= self.log.next_offset]

    @rule(ending=st.sampled_from([layout.INDEX, layout.TIME_INDEX, layout.SNAPSHOT]), place=st.floats(0, 0.999))
    def lose_a_hint(self, ending: str, place: float) -> None:
        """A file that can be rebuilt goes missing while the node is down."""
        self.disk.sync_everything()
        paths = [path for path, _ in self.device.files() if path.endswith(ending)]
        if paths:
            self.device.lose(paths[int(place * len(paths))])
        self._open()

    def _open(self) -> None:
        self.ticket = None
        handles = SegmentCache(self.disk, open_files=2)
        if not self.disk.exists(layout.directory_of(LOG_ID)):
            assert self.flushed_offset == 0
            self.log = create_log(LOG_ID, "orders", handles, SETTINGS)
            return
        self.log, _ = open_log(
            LOG_ID,
            handles,
            SETTINGS,
            recovery_point=self.recovery_point,
            start_offset=self.stored_start,
            is_synced=True,
        )
        assert self.log.start_offset in {self.stored_start, self.start_offset} or self.start_offset >= self.stored_start
        self.start_offset = self.log.start_offset
        self.flushed_offset = max(self.flushed_offset, self.log.flushed_offset)

    @invariant()
    def holds_what_was_written(self) -> None:
        start, end = self.log.start_offset, self.log.next_offset
        visible = [(header, batch) for header, batch in self.batches if header.last_offset >= start]
        found = bytearray()
        offset = start
        while offset < end and (piece := self.log.read(offset, 1 << 20, end, at_least_one=True)) is not None:
            run = piece.read()
            piece.release()
            position = 0
            while position < len(run):
                header = read_header(run, position)
                position += header.size
            offset = header.next_offset
            found += run
        assert bytes(found) == b"".join(batch for _, batch in visible)
        if visible:
            assert end == visible[-1][0].next_offset

    def _ends(self, epochs: LeaderEpochs, asked: range) -> list[tuple[Epoch, Offset] | None]:
        """Where each epoch ended, if any of it is left: what is known of others depends on which files survived."""
        ends = [epochs.end_offset_for(epoch, self.log.next_offset) for epoch in asked]
        return [end if end[1] > self.log.start_offset else None for end in ends]

    @invariant()
    def knows_epochs_and_producers(self) -> None:
        epochs = LeaderEpochs()
        producers = ProducerStates()
        for header, _ in self.batches:
            epochs.note(header.leader_epoch, header.base_offset)
            producers.apply(header)
        asked = range(-1, self.epoch + 2)
        if any(header.last_offset >= self.log.start_offset for header, _ in self.batches):
            assert self._ends(self.log.epochs, asked) == self._ends(epochs, asked)
        known = {producer.producer_id: producer.last_offset for producer in producers.entries()}
        for producer_id, last_offset in known.items():
            if last_offset >= self.log.start_offset:
                producer = self.log.producers.get(producer_id)
                assert producer is not None
                assert producer.last_offset == last_offset

    @invariant()
    def finds_records_by_time(self) -> None:
        times = [
            (header.base_timestamp + number, header.base_offset + number)
            for header, _ in self.batches
            for number in range(header.record_count)
            if header.base_offset + number >= self.log.start_offset
        ]
        newest = max((time for time, _ in times), default=None)
        found = self.log.max_timestamp()
        if newest is None:
            assert found is None
            return
        assert found is not None
        assert (found.timestamp, found.offset) == next(pair for pair in times if pair[0] == newest)
        target = (times[0][0] + newest) // 2
        found = self.log.find_timestamp(target)
        assert found is not None
        assert (found.timestamp, found.offset) == next(pair for pair in times if pair[0] >= target)


def _sums(batches: list[tuple[BatchHeader, bytes]]) -> list[int]:
    total, sums = 0, []
    for _, batch in batches:
        total += len(batch)
        sums.append(total)
    return sums


TestLogAgainstAList = LogAgainstAList.TestCase
TestLogAgainstAList.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

"""A compacted log that is written, cut, rolled, crashed and robbed of power, against a plain dictionary.

The model is a list of what was written and the dictionary that it adds up to. Whatever happens, a reader who begins at
the start must end with that dictionary; so must a reader who follows along, as long as it is never behind for longer
than tombstones are kept. Nothing is lost that was flushed, and no deleted key comes back.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.simulation.environment.device import Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files import layout
from headrace.storage.recovery.opening import create_log, open_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import Codec, place, read_header
from headrace.wire.batches.markers import Marker, encode_marker
from headrace.wire.batches.records import encode_batch
from tests.unit.storage.compacted_logs import compact, flush, held, read_committed, stable_offset, values_of
from tests.unit.storage.small_logs import FIRST_MS, LOG_ID, end_if_cut

if TYPE_CHECKING:
    from headrace.storage.log.partition_log import PartitionLog

SETTINGS = LogSettings(segment_bytes=700, segment_index_bytes=200, index_interval_bytes=150, retention_ms=None)
DELETE_RETENTION_MS = 1000
KEYS = [b"a", b"b", b"c", b"d", b"a key that is somewhat longer than the others"]
PRODUCER_IDS = (1, 2, 3)
NO_PRODUCER = -1
WRITES = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 120))), min_size=1, max_size=5)
SENDERS = st.sampled_from((NO_PRODUCER, *PRODUCER_IDS))
CODECS = st.sampled_from((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD))


class Written(NamedTuple):
    offset: int
    next_offset: int
    producer_id: int
    is_transactional: bool
    records: tuple[tuple[bytes, bytes | None], ...]
    is_commit: bool | None = None
    """Not None for a marker."""


class LightsOut(BaseException):
    """The node ends here, in the middle of whatever it did."""


class CompactedLog(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.device = Device(Random(seed))
        self.disk = SimulatedDisk(self.device)
        self.log: PartitionLog = create_log(LOG_ID, "orders", SegmentCache(self.disk, open_files=2), SETTINGS)
        self.disk.sync_everything()
        self.written: list[Written] = []
        self.sequences = dict.fromkeys(PRODUCER_IDS, 0)
        self.recovery_point = 0
        self.high_watermark = 0
        self.now_ms = FIRST_MS
        self.count = 0
        self.followed: dict[bytes, bytes] = {}
        self.followed_to = 0
        self.caught_up_ms = self.now_ms
        self.has_lost_snapshots = False
        self._send([(key, 20) for key in KEYS], NO_PRODUCER, False, Codec.NONE)

    # ---- what the model says

    def open_since(self) -> dict[int, int]:
        """By producer, where its open transaction began."""
        opened: dict[int, int] = {}
        for entry in self.written:
            if entry.is_commit is not None:
                opened.pop(entry.producer_id, None)
            elif entry.is_transactional:
                opened.setdefault(entry.producer_id, entry.offset)
        return opened

    def stable(self) -> int:
        return min([self.high_watermark, *self.open_since().values(), *self._unsettled()])

    def _unsettled(self) -> list[int]:
        """First offsets of transactions whose marker is not committed yet."""
        opened: dict[int, int] = {}
        found = []
        for entry in self.written:
            if entry.is_commit is not None:
                first = opened.pop(entry.producer_id, None)
                if first is not None and entry.offset >= self.high_watermark:
                    found.append(first)
            elif entry.is_transactional:
                opened.setdefault(entry.producer_id, entry.offset)
        return found

    def dictionary(self, end_offset: int) -> dict[bytes, bytes]:
        values: dict[bytes, bytes] = {}
        for entry in self.written:
            if entry.offset >= end_offset or entry.is_commit is not None or self._is_aborted(entry):
                continue
            for key, value in entry.records:
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
        return values

    def _is_aborted(self, entry: Written) -> bool:
        if not entry.is_transactional:
            return False
        later = (
            other
            for other in self.written
            if other.offset > entry.offset and other.producer_id == entry.producer_id and other.is_commit is not None
        )
        marker = next(later, None)
        return marker is not None and marker.is_commit is False

    # ---- writing

    @rule(
        batches=st.lists(
            st.tuples(WRITES, SENDERS, st.sampled_from((False, False, True)), CODECS), min_size=1, max_size=6
        )
    )
    def send(self, batches: list[tuple[list[tuple[bytes, int | None]], int, bool, Codec]]) -> None:
        for writes, producer_id, is_transactional, codec in batches:
            self._send(writes, producer_id, is_transactional, codec)

    def _send(
        self, writes: list[tuple[bytes, int | None]], producer_id: int, is_transactional: bool, codec: Codec
    ) -> None:
        self.now_ms += 1
        if producer_id in self.open_since():
            is_transactional = True
        is_transactional = is_transactional and producer_id >= 0
        records = tuple((key, None if size is None else self._value(size)) for key, size in writes)
        offset = self.log.next_offset
        batch = encode_batch(
            [(self.now_ms, key, value, ()) for key, value in records],
            base_offset=offset,
            codec=codec,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=self.sequences[producer_id] if producer_id >= 0 else -1,
            is_transactional=is_transactional,
        )
        self.log.append([batch], [read_header(batch)])
        if producer_id >= 0:
            self.sequences[producer_id] += len(records)
        self.written.append(Written(offset, offset + len(records), producer_id, is_transactional, records))

    def _value(self, size: int) -> bytes:
        self.count += 1
        return b"%d " % self.count + b"v" * size

    @rule(choice=st.integers(0, 2), is_commit=st.booleans())
    def end_transaction(self, choice: int, is_commit: bool) -> None:
        producers = sorted(self.open_since())
        if not producers:
            return
        producer_id = producers[choice % len(producers)]
        self.now_ms += 1
        offset = self.log.next_offset
        batch = encode_marker(producer_id, 0, Marker(is_commit, 0), self.now_ms)
        place(batch, read_header(batch), offset, 0)
        self.log.append([batch], [read_header(batch)])
        self.written.append(Written(offset, offset + 1, producer_id, True, (), is_commit))

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(is_committed=st.booleans())
    def flush(self, is_committed: bool) -> None:
        flush(self.log)
        if is_committed:
            self.high_watermark = self.log.high_watermark = self.log.flushed_offset

    @rule()
    def checkpoint(self) -> None:
        self.log.hints.save()
        self.disk.sync_everything()
        self.recovery_point = self.log.flushed_offset

    @rule(duration_ms=st.sampled_from((10, 600, 1500)))
    def time_passes(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    @rule(place=st.floats(0, 1))
    def cut(self, place: float) -> None:
        """What is committed is never cut."""
        end = self.high_watermark + round(place * (self.log.next_offset - self.high_watermark))
        end = end_if_cut(self.log, end)
        self.recovery_point = min(self.recovery_point, end)
        self.log.truncate(end)
        self._forget_beyond(self.log.next_offset)

    def _forget_beyond(self, end_offset: int) -> None:
        self.written = [entry for entry in self.written if entry.next_offset <= end_offset]
        self.sequences = dict.fromkeys(PRODUCER_IDS, 0)
        for entry in self.written:
            if entry.producer_id >= 0:
                self.sequences[entry.producer_id] += len(entry.records)

    # ---- compaction, and what interrupts it

    @rule(slots=st.sampled_from((2, 3, 5, 1000)))
    def compact(self, slots: int) -> None:
        self._have_something_to_clean()
        self._compact(slots)
        self.caught_up_ms = self.now_ms if self.followed_to >= self.stable() else self.caught_up_ms

    def _have_something_to_clean(self) -> None:
        if self.count % 4:  # mostly
            if self.count % 3:
                for number in range(len(self.open_since())):
                    self.end_transaction(0, is_commit=(self.count + number) % 2 == 0)
            self.log.roll()
            self.flush(is_committed=True)

    def _compact(self, slots: int) -> None:
        before = self.log.cleaner_checkpoint.clean_end_offset if self.log.cleaner_checkpoint is not None else 0
        finished = compact(
            self.log,
            now_ms=self.now_ms,
            delete_retention_ms=DELETE_RETENTION_MS,
            key_map_bytes=slots * 24,
            stable=self.stable(),
        )
        # Of a segment that a cut has made the active one, what was clean counts as dirty once it holds more.
        whole = [
            segment.end_offset
            for segment in self.log.compaction.sealed_segments()
            if segment.end_offset <= self.stable()
        ]
        assert finished is None or finished.clean_end_offset >= min(before, whole[-1])

    @rule(
        slots=st.sampled_from((3, 1000)),
        steps=st.integers(0, 60),
        is_power_cut=st.booleans(),
        loses_snapshots=st.booleans(),
    )
    def compact_into_a_crash(self, slots: int, steps: int, is_power_cut: bool, loses_snapshots: bool) -> None:
        self._have_something_to_clean()  # before it can crash: the model would not know what is written by then
        left = steps

        def watch(operation: Operation, path: str) -> None:
            nonlocal left
            if operation is not Operation.READ:
                left -= 1
                if left < 0:
                    raise LightsOut

        self.device.watch(watch)
        try:
            self._compact(slots)
        except LightsOut:
            pass
        finally:
            self.device.unwatch(watch)
        self._reopen(is_power_cut=is_power_cut, loses_snapshots=loses_snapshots)

    @rule(is_power_cut=st.booleans(), loses_snapshots=st.booleans())
    def crash(self, is_power_cut: bool, loses_snapshots: bool) -> None:
        self._reopen(is_power_cut=is_power_cut, loses_snapshots=loses_snapshots)

    def _reopen(self, *, is_power_cut: bool, loses_snapshots: bool) -> None:
        flushed = self.log.flushed_offset
        if is_power_cut:
            self.device.power_cut()
        self.disk = SimulatedDisk(self.device)
        self.disk.sync_everything()
        self.has_lost_snapshots |= loses_snapshots
        if loses_snapshots:
            for name in self.disk.list(self.log.directory):
                if name.endswith(layout.SNAPSHOT):
                    self.disk.remove(f"{self.log.directory}/{name}")
        self.log, report = open_log(
            LOG_ID,
            SegmentCache(self.disk, open_files=2),
            SETTINGS,
            recovery_point=self.recovery_point,
            is_synced=True,
        )
        assert self.log.next_offset >= flushed, report.notes
        self.log.high_watermark = self.high_watermark
        self._forget_beyond(self.log.next_offset)

    # ---- reading

    @rule()
    def follow(self) -> None:
        """A reader that was here before goes on from where it was."""
        stable = self.stable()
        records, went_to = read_committed(self.log, self.followed_to, stable)
        for record in records:
            assert record.key is not None
            if record.value is None:
                self.followed.pop(record.key, None)
            else:
                self.followed[record.key] = record.value
        self.followed_to = max(self.followed_to, went_to)
        if self.now_ms - self.caught_up_ms < DELETE_RETENTION_MS:
            assert self.followed == self.dictionary(stable)
        else:
            self.followed = self.dictionary(stable)  # it was away for too long to trust what it has
        self.caught_up_ms = self.now_ms

    @invariant()
    def a_new_reader_finds_the_dictionary(self) -> None:
        if not hasattr(self, "log"):
            return
        stable = self.stable()
        records, went_to = read_committed(self.log, 0, stable)
        assert values_of(records) == self.dictionary(stable)
        assert went_to == stable, "a reader cannot reach the end"
        known = {(entry.offset + n): record for entry in self.written for n, record in enumerate(entry.records)}
        assert all(known[record.offset] == (record.key, record.value) for record in records)

    @invariant()
    def the_log_knows_its_producers(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.next_offset == (self.written[-1].next_offset if self.written else 0)
        opened = {
            producer.producer_id: producer.current_txn_first_offset
            for producer in self.log.producers.entries()
            if producer.has_open_transaction
        }
        assert opened == self.open_since()
        for producer_id, sequence in self.sequences.items():
            producer = self.log.producers.get(producer_id)
            known = producer.next_sequence if producer else 0
            # Compaction takes what a producer has written before its last batch. If that is cut, or a crash takes it,
            # only a snapshot knows of the producer.
            assert known == sequence or (known == 0 and self.has_lost_snapshots)

    @invariant()
    def segments_join(self) -> None:
        if not hasattr(self, "log"):
            return
        last = -1
        for header, _ in held(self.log):
            assert header.base_offset > last
            last = header.last_offset
        assert last + 1 == self.log.next_offset
        assert stable_offset(self.log) <= self.log.next_offset


CompactedLog.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
test_compaction_against_a_dictionary = CompactedLog.TestCase

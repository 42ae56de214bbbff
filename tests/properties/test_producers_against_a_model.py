"""Producers that retry, lose answers, restart and wrap, against a log that is a plain list.

The model knows nothing of windows or overlays: it holds the batches that were written, and asks of every admission
whether a reader of the log could tell that something came twice, or out of order, or not at all.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.model.errors import ErrorCode, Refusal
from headrace.replication.producer_snapshots import decode_snapshot, encode_snapshot
from headrace.replication.producers import (
    BATCHES_REMEMBERED,
    SEQUENCE_MAX,
    Duplicate,
    ProducerStates,
    StagedProducers,
)
from headrace.wire.batches.header import BatchHeader

PRODUCER_IDS = (1, 2)
SEQUENCES = SEQUENCE_MAX + 1
FIRST_SEQUENCES = st.sampled_from([0, 1, SEQUENCE_MAX - 4, SEQUENCE_MAX])  # most of them wrap within a few batches


class Client:
    """An idempotent producer: an epoch, and the sequence that it will send next."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.next_sequence: int | None = None

    def batch(self, count: int, timestamp: int) -> BatchHeader:
        assert self.next_sequence is not None
        header = BatchHeader(
            base_offset=0,
            length=100,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=0,
            last_offset_delta=count - 1,
            base_timestamp=timestamp,
            max_timestamp=timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.next_sequence,
            record_count=count,
        )
        self.next_sequence = (self.next_sequence + count) % SEQUENCES
        return header


def last_offset_of(header: BatchHeader) -> int:
    return header.base_offset + header.last_offset_delta


class Partition(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates()
        self.staged_producers = StagedProducers(self.states)
        self.clients = {producer_id: Client(producer_id) for producer_id in PRODUCER_IDS}
        self.log: list[BatchHeader] = []
        self.staged: list[BatchHeader] = []
        self.clock_ms = 0

    # ---- what clients do

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), count=st.integers(1, 4), first=FIRST_SEQUENCES)
    def send_next(self, producer_id: int, count: int, first: int) -> None:
        client = self.clients[producer_id]
        if client.next_sequence is None:
            client.next_sequence = first
        self.clock_ms += 1
        header = client.batch(count, self.clock_ms)
        assert self.admit(header) is None
        self.stage(header)

    @precondition(lambda self: self.log or self.staged)
    @rule(choice=st.integers(0), producer_id=st.sampled_from(PRODUCER_IDS))
    def repeat_one_of_the_last_five(self, choice: int, producer_id: int) -> None:
        recent = self.of_current_epoch(producer_id)[-BATCHES_REMEMBERED:]
        if not recent:
            return
        original = recent[choice % len(recent)]
        assert self.admit(original._replace(base_offset=0, leader_epoch=-1)) == Duplicate(
            original.base_offset,
            last_offset_of(original),
            original.max_timestamp,
            is_staged=original in self.staged,
        )

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), choice=st.integers(0))
    def repeat_an_older_one(self, producer_id: int, choice: int) -> None:
        older = self.of_current_epoch(producer_id)[:-BATCHES_REMEMBERED]
        if older:
            self.refused(older[choice % len(older)], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), skipped=st.integers(1, 3))
    def skip_ahead(self, producer_id: int, skipped: int) -> None:
        written = self.of_current_epoch(producer_id)
        if written:
            sequence = (written[-1].base_sequence + written[-1].record_count + skipped) % SEQUENCES
            self.refused(written[-1]._replace(base_sequence=sequence), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS))
    def bump_the_epoch(self, producer_id: int) -> None:
        client = self.clients[producer_id]
        if not self.of_current_epoch(producer_id):
            return
        client.epoch += 1
        client.next_sequence = 0
        self.send_next(producer_id, 1, 0)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), sequence=st.integers(1, 9))
    def begin_an_epoch_in_the_middle(self, producer_id: int, sequence: int) -> None:
        written = self.of_current_epoch(producer_id)
        if written:
            header = written[-1]._replace(producer_epoch=written[-1].producer_epoch + 1, base_sequence=sequence)
            self.refused(header, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS))
    def wake_a_zombie(self, producer_id: int) -> None:
        """A client of an epoch that is over goes on where it was."""
        newest = self.of_current_epoch(producer_id)
        for header in self.log + self.staged:
            if header.producer_id == producer_id and header.producer_epoch < newest[-1].producer_epoch:
                self.refused(header, ErrorCode.INVALID_PRODUCER_EPOCH)

    # ---- what the broker does

    @rule()
    def write(self) -> None:
        self.staged_producers.clear()
        for header in self.staged:
            self.states.apply(header)
        self.log += self.staged
        self.staged = []

    @rule()
    def fail_to_write(self) -> None:
        """The clients get an error and take up where the log ends, which is what a retry does."""
        self.staged_producers.clear()
        dropped, self.staged = self.staged, []
        for header in reversed(dropped):
            client = self.clients[header.producer_id]
            client.epoch, client.next_sequence = header.producer_epoch, header.base_sequence

    @precondition(lambda self: not self.staged)
    @rule()
    def restart_from_a_snapshot(self) -> None:
        before = self.states.entries()
        self.states.reset(decode_snapshot(encode_snapshot(before)).entries())
        assert self.states.entries() == before

    @precondition(lambda self: not self.staged)
    @rule(choice=st.integers(0))
    def recover_from_an_older_snapshot(self, choice: int) -> None:
        cut = choice % (len(self.log) + 1)
        older = ProducerStates()
        for header in self.log[:cut]:
            older.apply(header)
        recovered = decode_snapshot(encode_snapshot(older.entries()))
        for header in self.log[cut:]:
            recovered.apply(header)
        assert recovered.entries() == self.states.entries()
        self.states.reset(recovered.entries())

    # ---- what must hold

    @invariant()
    def every_producer_reads_back_once_and_in_order(self) -> None:
        for producer_id in PRODUCER_IDS:
            previous: BatchHeader | None = None
            for header in self.log + self.staged:
                if header.producer_id != producer_id:
                    continue
                if previous is not None and header.producer_epoch == previous.producer_epoch:
                    assert header.base_sequence == (previous.base_sequence + previous.record_count) % SEQUENCES
                elif previous is not None:
                    assert header.producer_epoch > previous.producer_epoch
                    assert header.base_sequence == 0
                previous = header

    @invariant()
    def what_is_remembered_is_the_end_of_the_log(self) -> None:
        for producer in self.states.entries():
            written = [header for header in self.log if header.producer_id == producer.producer_id]
            assert producer.epoch == written[-1].producer_epoch
            of_epoch = [header for header in written if header.producer_epoch == producer.epoch]
            assert [(batch.base_offset, batch.last_offset, batch.last_sequence) for batch in producer.batches] == [
                (
                    header.base_offset,
                    last_offset_of(header),
                    (header.base_sequence + header.record_count - 1) % SEQUENCES,
                )
                for header in of_epoch[-BATCHES_REMEMBERED:]
            ]

    # ---- tools

    @property
    def next_offset(self) -> int:
        end = self.staged or self.log
        return last_offset_of(end[-1]) + 1 if end else 0

    def of_current_epoch(self, producer_id: int) -> list[BatchHeader]:
        """What the log will hold of this producer's newest epoch once the staged batches are written."""
        written = [header for header in self.log + self.staged if header.producer_id == producer_id]
        return [header for header in written if header.producer_epoch == written[-1].producer_epoch]

    def admit(self, header: BatchHeader) -> Duplicate | None:
        return self.staged_producers.admit(header, self.next_offset)

    def stage(self, header: BatchHeader) -> None:
        self.staged.append(header._replace(base_offset=self.next_offset))

    def refused(self, header: BatchHeader, code: ErrorCode) -> None:
        with pytest.raises(Refusal) as refusal:
            self.admit(header._replace(base_offset=0))
        assert refusal.value.code is code


TestPartition = Partition.TestCase

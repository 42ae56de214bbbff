"""How batches get into partitions that this node leads: clients', coordinators', and ends of transactions.

Clients' batches are staged while one read's requests are looked at, and written together at its end: see decision 0004.
Checking and appending are plain functions without an `await` between them, so what was checked still holds when it is
written and no lock is needed.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headrace.broker.partitions.pending_appends import PendingAppend
from headrace.model.errors import Refusal
from headrace.model.names import NO_TIMESTAMP
from headrace.replication.producers import NO_SEQUENCE, StagedProducers
from headrace.replication.refused_batches import RefusedBatches, RefusedLine
from headrace.wire.batches.examination import LOOP_STEPS, ON_THE_LOOP, examine
from headrace.wire.batches.header import (
    ATTRIBUTES_LOW_BYTE,
    CRC_START,
    HEADER_SIZE,
    MAGIC,
    is_of_transaction,
    place,
    read_header,
)
from headrace.wire.batches.markers import Marker, encode_marker
from headrace.wire.batches.validation import check_batch, too_short
from headrace.wire.walk import plain_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.broker.partitions.counters import Counters
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_rules import TopicRules
    from headrace.model.errors import Reason
    from headrace.model.names import ProducerId
    from headrace.replication.open_transactions import TransactionClaim
    from headrace.replication.producers import Duplicate
    from headrace.runtime.clock import Clock
    from headrace.wire.batches.examination import Examined
    from headrace.wire.batches.header import BatchHeader, Buffer

logger = logging.getLogger(__name__)

ACKS_ALL: Final = -1
ZSTD_FROM: Final = 7  # older clients would meet a codec that they do not know


class StagedWrite:
    """The batches of one turn for one partition. If their write fails, all of them failed."""

    __slots__ = ("headers", "is_urgent", "next_offset", "refusal", "views")

    def __init__(self, next_offset: int) -> None:
        self.views: list[memoryview] = []
        self.headers: list[BatchHeader] = []
        self.next_offset = next_offset
        self.is_urgent = False
        self.refusal: Reason | None = None


class AppendStage:
    """What a node's writers share: which of them have staged batches in this turn, and whether writing works."""

    def __init__(
        self, counters: Counters, on_refused: Callable[[Partition], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        """`on_failure` ends the node: what goes wrong in a write concerns data, not whoever asked for it."""
        self.counters = counters
        self.writers: deque[PartitionWriter] = deque()
        """Those that have staged something."""
        self._is_refusing = False
        self._on_refused = on_refused
        self._on_failure = on_failure
        self.refused_line = RefusedLine()
        """Of all partitions: what is remembered of refused batches is bounded for the node, not for each of them."""

    def commit(self) -> None:
        """One write per partition. Whatever is raised has ended the node."""
        writers = self.writers
        try:
            while writers:
                writers.popleft().commit_staged()
        except Exception as error:
            self._on_failure(error)
            raise

    def wrote(self, partition: Partition, count: int) -> None:
        """Clients' records are in the log."""
        self.counters.messages_in += count
        if self._is_refusing:
            self._is_refusing = False
            logger.warning("writing works again: %s took %d records", partition.name, count)

    def refused(self, partition: Partition, reason: Reason) -> None:
        """A write did not happen. Said once until writing works again; counted each time."""
        self.counters.refused_writes += 1
        self._on_refused(partition)
        if not self._is_refusing:
            self._is_refusing = True
            logger.warning("writes are refused: %s", reason.message)


class PartitionWriter:
    """One partition's."""

    __slots__ = ("_clock", "_log", "_replica", "_stage", "_staged", "_staged_producers", "partition", "rules")

    def __init__(self, partition: Partition, rules: TopicRules, stage: AppendStage, clock: Clock) -> None:
        self.partition = partition
        self._log = partition.log
        self._replica = partition.replica
        self.rules = rules
        self._stage = stage
        self._clock = clock
        self._staged: StagedWrite | None = None
        self._staged_producers = StagedProducers(partition.log.producers, RefusedBatches(stage.refused_line))

    def begin_epoch(self) -> None:
        """This node leads anew: what was granted or refused before counts no longer."""
        self._staged_producers.claims.clear()
        self.end_epoch()

    def end_epoch(self) -> None:
        """This node leads no more, or anew: another leader may have taken meanwhile what was refused here."""
        self._staged_producers.refused.forget_all()

    def forget_old_refusals(self) -> None:
        """To be called every few minutes: who was refused before the call before will not come again."""
        self._staged_producers.refused.forget_old()

    # ---- clients' batches

    def check(self, batch: memoryview, acks: int, version: int) -> BatchHeader:
        """What can be said of a client's batch without a look at its records. Raises Refusal."""
        if acks == ACKS_ALL or not self._replica.is_leader:
            self._check_write(batch, acks)
        return self._check_header(batch, version)

    def _check_header(self, batch: memoryview, version: int) -> BatchHeader:
        size = len(batch)
        if size < HEADER_SIZE:
            raise too_short(size)
        rules = self.rules
        if size > rules.max_message_bytes:
            raise rules.too_large(size)
        header = read_header(batch)
        check_batch(batch, header, size, version >= ZSTD_FROM)
        if not rules.is_for_clients:
            raise rules.no_client()
        return header

    def admit(
        self,
        batch: memoryview,
        acks: int,
        version: int,
        examined: Examined | None = None,
        memory: bytes | bytearray | None = None,
        start: int = 0,
    ) -> PendingAppend:
        """Check a client's batch, which lies in `memory` from `start` on, and stage it for this turn's write. Raises
        Refusal; then nothing is staged.

        Raises TakesLong if its records are too much for the loop: then somebody has to look at them elsewhere, and to
        come back with what was `examined`.
        """
        if acks == ACKS_ALL or not self._replica.is_leader:  # also of what was examined: that may have changed since
            self._check_write(batch, acks)
        if examined is None:
            header, oldest_ms, newest_ms, repacked = self._look_at(batch, version, memory, start)
        else:
            header = read_header(batch)
            _, oldest_ms, newest_ms, repacked, _ = examined
        rules = self.rules
        if newest_ms > rules.plausible_until_ms or oldest_ms < 0 or rules.has_oldest_time:
            rules.check_times(oldest_ms, newest_ms)
        append_time_ms: int = NO_TIMESTAMP
        if repacked is not None or rules.stamps or newest_ms != header.max_timestamp:
            batch, header, append_time_ms = rules.change(batch, header, newest_ms, repacked)
        _, _, _, _, _, _, delta, _, _, producer_id, _, _, _ = header
        write = self._staged
        base_offset = self._log.next_offset if write is None else write.next_offset
        if producer_id >= 0:
            repeated = self._staged_producers.admit(header, base_offset)
            if repeated is not None:
                return self._repeat(repeated, append_time_ms)
        if write is None:
            write = self._staged = StagedWrite(base_offset)
            self._stage.writers.append(self)
        write.headers.append(place(batch, header, base_offset, self._replica.leader_epoch))
        write.views.append(batch)
        write.next_offset = next_offset = base_offset + delta + 1
        if acks == ACKS_ALL:
            write.is_urgent = True
        return PendingAppend(self.partition, write, base_offset, next_offset, append_time_ms)

    def _look_at(
        self, batch: memoryview, version: int, memory: bytes | bytearray | None, start: int
    ) -> tuple[BatchHeader, int, int, Buffer | None]:
        """The header, the oldest and the newest time, and the records if they were packed anew. What is plain is judged
        at once, in a third of the time that the general way takes."""
        rules = self.rules
        size = len(batch)
        fits = HEADER_SIZE <= size <= rules.plain_max_bytes
        if fits and type(memory) is bytes and not memory[start + ATTRIBUTES_LOW_BYTE]:
            header = read_header(batch)
            # The CRC goes first: it reads on and on, and brings the records into the processor's cache.
            if crc32c(batch[CRC_START:]) == header.crc:
                times = plain_times(memory, start, size, LOOP_STEPS)
                if times is not None:
                    return header, times[0], times[1], None
        header = self._check_header(batch, version)
        _, oldest_ms, newest_ms, repacked, _ = examine(batch, header, rules.demands, ON_THE_LOOP, memory, start)
        return header, oldest_ms, newest_ms, repacked

    def _check_write(self, batch: memoryview, acks: int) -> None:
        try:
            self._replica.check_write(acks)
        except Refusal as refusal:
            if self._replica.leader == self._replica.node_id:  # else nothing that was sent here will come again here
                self._note_refused(batch, refusal.reason)
            raise

    def _note_refused(self, batch: memoryview, reason: Reason) -> None:
        """Only of a batch that would have been taken: what it says of its producer may be anybody's invention."""
        size = len(batch)
        if not HEADER_SIZE <= size <= self.rules.max_message_bytes:
            return
        header = read_header(batch)
        if header.producer_id < 0:
            return
        try:
            check_batch(batch, header, size)
        except Refusal:
            return
        self._staged_producers.refused.note(header, reason)

    def _repeat(self, repeated: Duplicate, append_time_ms: int) -> PendingAppend:
        """A batch that is here already is answered as the first time; if it is only staged, it shares its fate."""
        original = self._staged if repeated.is_staged else None
        time_ms = append_time_ms if append_time_ms == NO_TIMESTAMP else repeated.timestamp_ms
        return PendingAppend(self.partition, original, repeated.base_offset, repeated.last_offset + 1, time_ms)

    def commit_staged(self) -> None:
        """Write what was staged. If the write fails, none of it has happened."""
        write, self._staged = self._staged, None
        assert write is not None, f"{self.partition.name} has nothing staged"
        self._staged_producers.clear()
        first_offset = self._log.next_offset
        try:
            self._append(write.views, write.headers, is_urgent=write.is_urgent)
        except Refusal as refusal:
            write.refusal = refusal.reason
            for header in write.headers:
                self._staged_producers.refused.note(header, refusal.reason)
            return
        write.views.clear()  # whoever waits until they are committed needs only to know what became of them
        write.headers.clear()
        self._stage.wrote(self.partition, write.next_offset - first_offset)

    def _append(self, batches: Sequence[Buffer], headers: Sequence[BatchHeader], *, is_urgent: bool) -> None:
        try:
            self._log.append(batches, headers)
        except Refusal as refusal:
            self._stage.refused(self.partition, refusal.reason)
            raise
        self.partition.wrote(is_urgent=is_urgent)

    # ---- what the node itself writes, at once and for good

    def append(self, batch: bytearray, *, needs_grant: bool = False) -> PendingAppend:
        """Write a sealed batch of a coordinator. It may belong to a producer's transaction, but has no sequence.

        Raises Refusal; then nothing is written. `needs_grant` refuses to begin a transaction without one.
        """
        self._replica.check_write(ACKS_ALL)
        if len(batch) > self.rules.max_message_bytes:
            raise self.rules.too_large(len(batch))
        self._write_staged()
        header = read_header(batch)
        if header.producer_id >= 0:
            self._log.producers.check_own(header)
            if needs_grant:
                self._staged_producers.check_granted(header)
        return self._write_own(batch)

    def write_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> PendingAppend:
        """End a producer's transaction here; also where it has written nothing. Raises Refusal if it comes too late."""
        self._replica.check_write(ACKS_ALL)
        self._write_staged()
        self._log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        marker = Marker(is_commit, coordinator_epoch)
        append = self._write_own(encode_marker(producer_id, producer_epoch, marker, self._clock.wall_ms()))
        self._staged_producers.claims.drop(producer_id)
        return append

    def _write_staged(self) -> None:
        """Before the other partitions do: something else has to come after it."""
        if self._staged is not None:
            self._stage.writers.remove(self)
            self.commit_staged()

    def _write_own(self, batch: bytearray) -> PendingAppend:
        header = place(batch, read_header(batch), self._log.next_offset, self._replica.leader_epoch)
        self._append([batch], [header], is_urgent=True)
        return PendingAppend(self.partition, None, header.base_offset, header.next_offset, NO_TIMESTAMP)

    # ---- transactions

    def wants_grant(self, batch: memoryview) -> TransactionClaim | None:
        """What the transaction's coordinator has to agree to before a client's batch can be admitted.

        None if there is nothing to ask: for all batches outside of transactions, and those that `admit` will judge by
        itself.
        """
        if not is_of_transaction(batch):
            return None
        header = read_header(batch)
        if header.magic != MAGIC or header.producer_id < 0 or header.producer_epoch < 0:
            return None
        return self._staged_producers.claim_for(header)

    def claim_transaction(self, producer_id: ProducerId, producer_epoch: int) -> TransactionClaim | None:
        """`wants_grant` for what a coordinator will `append`. Raises Refusal if the producer's epoch is over."""
        return self._staged_producers.claim(producer_id, producer_epoch, NO_SEQUENCE)

    def grant_transaction(self, claim: TransactionClaim) -> None:
        """The coordinator has agreed. A claim that a marker or a newer epoch has overtaken stays without effect."""
        self._staged_producers.claims.grant(claim)

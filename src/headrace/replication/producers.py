"""What a partition remembers of its idempotent producers: which batches came last, so that none is written twice.

A batch is *admitted* before it is written and *applied* after. Batches of one receive callback leave as one write, so
between the two they live in `StagedProducers`, an overlay that is thrown away whether the write succeeds or fails:
`ProducerStates.apply` alone changes what is remembered, live and on reload.

Two things that may surprise:
- A producer that nobody remembers may begin at any sequence: it may have expired, and its client cannot know.
- Records deleted from the front of the log take no producer with them (Kafka since KIP-360): a producer that writes
  rarely would lose its sequence. Only time (`expire`) and number (`PRODUCERS_MAX`) do.

A truncation cannot be undone from here, because older batches and epochs were already forgotten: `reset` to the newest
snapshot at or below the cut and apply the batches between.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_OFFSET
from headrace.replication.open_transactions import OpenTransactions, TransactionClaims
from headrace.replication.refused_batches import RefusedBatches
from headrace.wire.batches.header import TRANSACTIONAL_BIT, BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.replication.open_transactions import EndedTransaction, TransactionClaim
    from headrace.wire.batches.markers import Marker

BATCHES_REMEMBERED: Final = 5  # Kafka's clients keep at most five requests in flight, so no older one is repeated
PRODUCERS_MAX: Final = 100_000  # one short-lived producer a second for a day fits; some 100 MB of memory at worst
PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000  # Kafka's default: a client that is silent for a day has given up
SEQUENCE_MAX: Final = 2**31 - 1  # the next one is 0

NO_SEQUENCE: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

EPOCH_PER_TRANSACTION_FROM: Final = 2  # from this transaction version on a marker carries the next transaction's epoch

_new = tuple.__new__  # a named tuple's own constructor takes twice as long, and every batch makes two


class RememberedBatch(NamedTuple):
    """Enough of a written batch to recognise its repeat and to answer it as the first time."""

    first_sequence: int
    offset_delta: int
    base_offset: int
    timestamp_ms: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.offset_delta

    @property
    def last_sequence(self) -> int:
        # What a coordinator writes for a producer (offset commits) has no sequence.
        return NO_SEQUENCE if self.first_sequence < 0 else (self.first_sequence + self.offset_delta) & SEQUENCE_MAX


class Producer(NamedTuple):
    """One producer as this partition knows it. Immutable: it can be handed to a thread that writes the snapshot."""

    producer_id: int
    epoch: int
    batches: tuple[RememberedBatch, ...]
    """Oldest first; all of this epoch. Empty if the epoch began with a transaction marker."""
    next_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int
    """Where the open transaction began in this partition; NO_OFFSET if none is open."""

    @property
    def has_open_transaction(self) -> bool:
        return self.current_txn_first_offset >= 0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET


class Duplicate(NamedTuple):
    """The batch is already here: answer as the first time, and write nothing."""

    base_offset: int
    last_offset: int
    timestamp_ms: int
    is_staged: bool
    """True if the original is not written yet: if that write fails, so does this answer."""


class ProducerStates:
    """All producers of one partition."""

    __slots__ = ("_next_offset", "_producers", "_quiet_before", "transactions")

    def __init__(self, producers: Iterable[Producer] = ()) -> None:
        self.transactions = OpenTransactions()
        self.reset(producers)

    def reset(self, producers: Iterable[Producer] = ()) -> None:
        """Remember these instead, for whoever holds this object too: after a truncation, those of a snapshot."""
        self._producers = {producer.producer_id: producer for producer in producers}
        self._next_offset = max((producer.last_offset + 1 for producer in self._producers.values()), default=0)
        self._quiet_before = 0
        self.transactions.reset(
            (producer.producer_id, producer.current_txn_first_offset)
            for producer in self._producers.values()
            if producer.has_open_transaction
        )

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def entries(self) -> list[Producer]:
        """Every producer, by id."""
        return sorted(self._producers.values(), key=attrgetter("producer_id"))

    def apply(self, header: BatchHeader) -> None:
        """Remember a batch that is in the log. What the log holds was admitted once, so nothing is checked here."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        producer = self._producers.get(producer_id)
        self._producers[producer_id] = _after_batch(producer, header, header.base_offset)
        if header.attributes & TRANSACTIONAL_BIT and producer_id not in self.transactions:
            self.transactions.begin(producer_id, header.base_offset)
        self._next_offset = header.base_offset + header.last_offset_delta + 1
        if producer is None and len(self._producers) > PRODUCERS_MAX:
            self._forget_the_quietest()

    def apply_marker(self, header: BatchHeader, marker: Marker) -> EndedTransaction | None:
        """Remember a control batch that is in the log; which transaction it ended, if there was one."""
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        self._producers[producer_id] = _after_marker(producer, header, marker)
        self._next_offset = header.next_offset
        if producer is None and len(self._producers) > PRODUCERS_MAX:
            self._forget_the_quietest()
        return self.transactions.end(producer_id, header.base_offset, is_commit=marker.is_commit)

    def check_own(self, header: BatchHeader) -> None:
        """Refuse what a coordinator would write for a producer whose epoch is over. It numbers no batches."""
        producer = self._producers.get(header.producer_id)
        if producer is not None and header.producer_epoch < producer.epoch:
            raise _old_epoch(header.producer_id, header.producer_epoch, producer.epoch)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Refuse a marker that comes too late: it would end a transaction that it does not belong to."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        if producer_epoch < producer.epoch:
            raise _old_epoch(producer_id, producer_epoch, producer.epoch)
        # A marker of the newer kind bumps the epoch, so it cannot end a transaction of its own epoch. Where none is
        # open it is the repeat of a marker whose answer was lost, and does no harm.
        bumps_epoch = transaction_version >= EPOCH_PER_TRANSACTION_FROM
        if bumps_epoch and producer_epoch == producer.epoch and producer.has_open_transaction:
            raise _old_epoch(producer_id, producer_epoch, producer.epoch + 1)
        if coordinator_epoch < producer.coordinator_epoch:
            raise Refusal(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the coordinator of producer {producer_id} has epoch {coordinator_epoch}, expected "
                f"{producer.coordinator_epoch} or more",
            )

    def expire(self, now_ms: int, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        """Forget producers whose last record is old. Call it every few minutes: longer than any client retries.

        Timestamps are the client's, and a replay of last year's events must not forget its producer between two
        batches. So a producer goes only if it has written nothing since the previous call, whatever its records say.
        """
        expired = [
            producer.producer_id
            for producer in self._producers.values()
            if not producer.has_open_transaction
            and now_ms - producer.last_timestamp_ms >= expiration_ms
            and producer.last_offset < self._quiet_before
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self._quiet_before = self._next_offset

    def _forget_the_quietest(self) -> None:
        # A tenth at once: sorting for each newcomer would make a flood of producers dear.
        closed = [producer for producer in self._producers.values() if not producer.has_open_transaction]
        closed.sort(key=attrgetter("last_offset"))
        for producer in closed[: PRODUCERS_MAX // 10]:
            del self._producers[producer.producer_id]


class StagedProducers:
    """The producers as they will be once the batches admitted so far are written.

    One per partition can live for ever: `clear` it when the write has ended, well or badly.
    """

    __slots__ = ("_staged", "_written", "claims", "refused")

    def __init__(self, written: ProducerStates, refused: RefusedBatches | None = None) -> None:
        self._written = written
        self.refused = RefusedBatches() if refused is None else refused
        # What `_after_batch` takes. Few batches are followed by another of their producer within one callback, so
        # the state after them is worked out only when somebody asks.
        self._staged: dict[int, tuple[Producer | None, BatchHeader, int]] = {}
        self.claims = TransactionClaims()

    def admit(self, header: BatchHeader, base_offset: int) -> Duplicate | None:
        """Check a client's batch that would be written at `base_offset`, as the last check before it is staged.

        None: write it. A Duplicate: answer with that. Otherwise a Refusal, and nothing has changed.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        refused = self.refused
        if refused.by_producer:
            refused.check_order(header)
        producer = self._get(producer_id)
        if producer is None:
            _check_newcomer(header)
            if refused.has_forgotten:
                refused.check_newcomer(header)
        elif header.base_sequence != producer.next_sequence or header.producer_epoch != producer.epoch:
            original = _find_repeated(producer, header)
            if original is not None:
                return self._duplicate_of(original, producer_id)
            _check_new_epoch(producer, header)
        if header.attributes & TRANSACTIONAL_BIT:
            self._check_transaction(producer, header)
        elif producer is not None and producer.current_txn_first_offset >= 0:
            raise Refusal(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has a transaction open here and sent a batch outside of it",
            )
        self._staged[producer_id] = (producer, header, base_offset)
        return None

    def claim(self, producer_id: int, producer_epoch: int, sequence: int) -> TransactionClaim | None:
        """What has to be granted before this producer may write in a transaction; None if nothing has.

        Raises Refusal if its epoch is over.
        """
        producer = self._get(producer_id)
        if producer is not None and producer_epoch < producer.epoch:
            raise _old_epoch(producer_id, producer_epoch, producer.epoch)
        if _is_inside(producer, producer_epoch) or self.claims.granted(producer_id, producer_epoch) is not None:
            return None
        return self.claims.claim(producer_id, producer_epoch, sequence)

    def claim_for(self, header: BatchHeader) -> TransactionClaim | None:
        """`claim` for a client's batch. None too if it will be answered without being written."""
        producer = self._get(header.producer_id)
        if producer is not None and (
            header.producer_epoch < producer.epoch or _find_repeated(producer, header) is not None
        ):
            return None
        return self.claim(header.producer_id, header.producer_epoch, header.base_sequence)

    def check_granted(self, header: BatchHeader) -> None:
        """Refuse a batch that would begin a transaction of which its coordinator does not know."""
        self._check_transaction(self._get(header.producer_id), header)

    def clear(self) -> None:
        self._staged.clear()

    def _get(self, producer_id: int) -> Producer | None:
        staged = self._staged.get(producer_id)
        return self._written.get(producer_id) if staged is None else _after_batch(*staged)

    def _check_transaction(self, producer: Producer | None, header: BatchHeader) -> None:
        if _is_inside(producer, header.producer_epoch):
            return
        claim = self.claims.granted(header.producer_id, header.producer_epoch)
        if claim is None:
            raise Refusal(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has no transaction that includes this partition in epoch "
                f"{header.producer_epoch}",
            )
        if producer is None and header.base_sequence > claim.lowest_sequence:
            # A producer that is unknown may begin at any sequence, but not by overtaking a batch of its own.
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {header.base_sequence}, expected "
                f"{claim.lowest_sequence}, which arrived before",
            )

    def _duplicate_of(self, original: RememberedBatch, producer_id: int) -> Duplicate:
        written = self._written.get(producer_id)
        is_staged = written is None or original not in written.batches
        return Duplicate(original.base_offset, original.last_offset, original.timestamp_ms, is_staged)


def _is_inside(producer: Producer | None, producer_epoch: int) -> bool:
    """True if the producer has a transaction open here, and in this epoch."""
    return producer is not None and producer.current_txn_first_offset >= 0 and producer.epoch == producer_epoch


def _old_epoch(producer_id: int, producer_epoch: int, expected_epoch: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} sent epoch {producer_epoch}, expected {expected_epoch} or more",
    )


def _find_repeated(producer: Producer, header: BatchHeader) -> RememberedBatch | None:
    if header.producer_epoch != producer.epoch or header.base_sequence < 0:
        return None
    for batch in producer.batches:
        if batch.first_sequence == header.base_sequence and batch.offset_delta == header.last_offset_delta:
            return batch
    return None


def _check_newcomer(header: BatchHeader) -> None:
    if header.producer_epoch < 0:
        raise _old_epoch(header.producer_id, header.producer_epoch, 0)
    _check_has_sequence(header)


def _check_has_sequence(header: BatchHeader) -> None:
    if header.base_sequence < 0:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} sent sequence {header.base_sequence}, expected 0 or more",
        )


def _check_new_epoch(producer: Producer, header: BatchHeader) -> None:
    """`header` neither follows the producer's last batch nor repeats one: only a new epoch's first batch may stand."""
    if header.producer_epoch < producer.epoch:
        raise _old_epoch(header.producer_id, header.producer_epoch, producer.epoch)
    _check_has_sequence(header)
    if header.producer_epoch == producer.epoch:
        raise Refusal(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {producer.next_sequence}",
        )
    if header.base_sequence != 0:
        raise Refusal(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} began epoch {header.producer_epoch} with sequence {header.base_sequence}, "
            "expected 0",
        )


def _after_batch(producer: Producer | None, header: BatchHeader, base_offset: int) -> Producer:
    _, _, _, _, _, attributes, delta, _, timestamp_ms, producer_id, epoch, sequence, _ = header
    batches: tuple[RememberedBatch, ...] = (_new(RememberedBatch, (sequence, delta, base_offset, timestamp_ms)),)
    next_sequence = (sequence + delta + 1) & SEQUENCE_MAX if sequence >= 0 else 0
    coordinator_epoch = NO_COORDINATOR_EPOCH
    txn_first_offset: int = NO_OFFSET
    if producer is not None:
        _, known_epoch, known_batches, _, _, coordinator_epoch, txn_first_offset = producer
        if epoch == known_epoch:
            batches = known_batches[1 - BATCHES_REMEMBERED :] + batches
    if attributes & TRANSACTIONAL_BIT and txn_first_offset < 0:
        txn_first_offset = base_offset
    return _new(
        Producer, (producer_id, epoch, batches, next_sequence, timestamp_ms, coordinator_epoch, txn_first_offset)
    )


def _after_marker(producer: Producer | None, header: BatchHeader, marker: Marker) -> Producer:
    """A control batch ends the open transaction, and may begin an epoch."""
    batches: tuple[RememberedBatch, ...] = ()
    next_sequence = 0
    if producer is not None and header.producer_epoch == producer.epoch:
        batches, next_sequence = producer.batches, producer.next_sequence
    return Producer(
        header.producer_id,
        header.producer_epoch,
        batches,
        next_sequence,
        header.max_timestamp,
        marker.coordinator_epoch,
        NO_OFFSET,
    )

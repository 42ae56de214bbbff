"""One transactional id: who holds it, what its transaction touched, how that ends. Values, and the steps between them.

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ──▶ Ongoing or Empty
                     └──▶ PrepareAbort  ──▶ CompleteAbort  ──▶ Ongoing or Empty

The holder goes by an *identity*: a producer id and an epoch. Whoever takes the id over gets a higher epoch, and so does
a holder whose transaction ends by the newer flow (KIP-890) or is aborted from here. An answer that carries a new
identity can be lost. So we remember the identity before, as long as its owner may still come back with it: until
another takes over, or until the new identity is used.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.coordinators.records import LogRecord, UnreadableRecord
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_PRODUCER, NO_TIMESTAMP, Millis, ProducerId, TopicPartition
from headrace.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue, TransactionPartitions

if TYPE_CHECKING:
    from collections.abc import Iterable

EPOCH_MAX: Final = 2**15 - 1  # never given to a producer, so that the holder of any epoch can still be fenced
EPOCH_GIVEN_MAX: Final = EPOCH_MAX - 1  # the next step is a fresh producer id

BUMPING_VERSION: Final = 2  # of transactions: from here on, each one ends with a new epoch (KIP-890)


class Status(IntEnum):
    """Where a transaction stands; the numbers are those of Kafka's log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """As Kafka's tools print it."""
        return self.name.title().replace("_", "")

    @property
    def is_ending(self) -> bool:
        """The outcome is decided; its markers are on their way."""
        return self in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_ended(self) -> bool:
        return self in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


_NEVER_WRITTEN: Final = (Status.DEAD, Status.PREPARE_EPOCH_FENCE)  # Kafka has them in memory only


class Identity(NamedTuple):
    """The name under which a producer writes."""

    producer_id: ProducerId
    epoch: int

    @property
    def is_last(self) -> bool:
        return self.epoch >= EPOCH_GIVEN_MAX

    def next(self, fresh_producer_id: ProducerId) -> Identity:
        return Identity(fresh_producer_id, 0) if self.is_last else Identity(self.producer_id, self.epoch + 1)


class Transaction(NamedTuple):
    """All that is kept of a transactional id. Immutable: each step returns the value that its record will bring."""

    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    status: Status
    updated_ms: Millis
    previous_producer_id: ProducerId = NO_PRODUCER
    """Of the identity before, if its owner may come back with it; see `previous_identity`."""
    next_producer_id: ProducerId = NO_PRODUCER
    """Takes over once the markers are written: the epochs of the present one are used up."""
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: Millis = NO_TIMESTAMP
    transaction_version: int = 0
    """Of the last step: BUMPING_VERSION, or 0 for the older flow."""

    @property
    def identity(self) -> Identity:
        return Identity(self.producer_id, self.producer_epoch)

    @property
    def identity_to_come(self) -> Identity:
        """What the holder goes by once the transaction has ended."""
        return self.identity if self.next_producer_id == NO_PRODUCER else Identity(self.next_producer_id, 0)

    @property
    def previous_identity(self) -> Identity | None:
        if self.previous_producer_id == NO_PRODUCER:
            return None
        if self.previous_producer_id != self.producer_id:
            return Identity(self.previous_producer_id, EPOCH_GIVEN_MAX)
        return Identity(self.producer_id, self.producer_epoch - 1)

    def check_holder(self, asking: Identity) -> None:
        if asking.producer_id != self.producer_id:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"the transactional id belongs to producer {self.producer_id}, not to {asking.producer_id}",
            )
        if asking.epoch != self.producer_epoch or asking.epoch > EPOCH_GIVEN_MAX:
            raise Refusal(
                ErrorCode.PRODUCER_FENCED, f"epoch {asking.epoch} is not the present one, {self.producer_epoch}"
            )

    # Who holds the id

    def held_by(self, holder: Identity, previous: ProducerId, timeout_ms: int, now_ms: Millis) -> Transaction:
        """Idle, in the hands of `holder`. `previous` is whose answer may be lost, or NO_PRODUCER."""
        return Transaction(
            producer_id=holder.producer_id,
            producer_epoch=holder.epoch,
            timeout_ms=timeout_ms,
            status=Status.EMPTY,
            updated_ms=now_ms,
            previous_producer_id=previous,
            transaction_version=self.transaction_version,
        )

    # The way of a transaction

    def with_partitions(self, added: Iterable[TopicPartition], transaction_version: int, now_ms: Millis) -> Transaction:
        """Begins a transaction if none is open. Whoever gets here knows its identity: the one before is forgotten."""
        return self._replace(
            status=Status.ONGOING,
            updated_ms=now_ms,
            previous_producer_id=NO_PRODUCER,
            partitions=self.partitions.union(added),
            started_ms=self.started_ms if self.status is Status.ONGOING else now_ms,
            transaction_version=transaction_version,
        )

    def ending_in_place(self, is_commit: bool, now_ms: Millis) -> Transaction:
        """By the older flow, in which the holder keeps its identity."""
        return self._replace(
            status=Status.PREPARE_COMMIT if is_commit else Status.PREPARE_ABORT,
            updated_ms=now_ms,
            transaction_version=0,
        )

    def ending_with_bump(
        self, is_commit: bool, now_ms: Millis, fresh_producer_id: ProducerId = NO_PRODUCER
    ) -> Transaction:
        """From here on, nothing that the holder sent before can touch what it does next.

        Without a `fresh_producer_id` the epoch may reach EPOCH_MAX; whoever asks next gets a new producer id.
        """
        return self._replace(
            producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX),
            status=Status.PREPARE_COMMIT if is_commit else Status.PREPARE_ABORT,
            updated_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=fresh_producer_id if self.identity.is_last else NO_PRODUCER,
            started_ms=self.started_ms if self.status is Status.ONGOING else now_ms,
            transaction_version=BUMPING_VERSION,
        )

    def ended(self, now_ms: Millis) -> Transaction:
        assert self.status.is_ending
        holder = self.identity_to_come
        return self._replace(
            producer_id=holder.producer_id,
            producer_epoch=holder.epoch,
            status=Status.COMPLETE_COMMIT if self.status is Status.PREPARE_COMMIT else Status.COMPLETE_ABORT,
            updated_ms=now_ms,
            next_producer_id=NO_PRODUCER,
            partitions=frozenset(),
        )


def record_of(transactional_id: str, transaction: Transaction) -> LogRecord:
    # Kafka writes no list at all, rather than an empty one, where a transaction has not begun.
    partitions = None if transaction.status is Status.EMPTY else by_topic(transaction.partitions)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.status,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.transaction_version,
    )
    return LogRecord(TransactionLogKey(transactional_id), value)


def transaction_of(value: TransactionLogValue) -> Transaction:
    try:
        status = Status(value.transaction_status)
    except ValueError:
        raise UnreadableRecord(f"a transaction of status {value.transaction_status}; known are 0 to 7") from None
    if status in _NEVER_WRITTEN:
        raise UnreadableRecord(f"a transaction of status {status.text}, which does not belong into a log")
    return Transaction(
        producer_id=ProducerId(value.producer_id),
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        status=status,
        updated_ms=Millis(value.transaction_last_update_timestamp_ms),
        previous_producer_id=ProducerId(value.previous_producer_id),
        next_producer_id=ProducerId(value.next_producer_id),
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=Millis(value.transaction_start_timestamp_ms),
        transaction_version=value.client_transaction_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> list[TransactionPartitions]:
    """Sorted, so that the same state is the same bytes."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [TransactionPartitions(topic, numbers) for topic, numbers in topics.items()]

"""The transaction coordinator: all transactional ids of one partition of `__transaction_state`.

A transaction ends in two steps. The outcome is decided by one record, PrepareCommit or PrepareAbort; once that is
committed, the client has its answer and markers go to every partition. When all are written, a second record says so.
Between the two, nobody can do anything with the id: whoever comes is told CONCURRENT_TRANSACTIONS, and comes again.

Who ends what follows Kafka. Two flows live side by side, and an id may change between them with every transaction:
- EndTxn up to version 4: the holder keeps its epoch.
- EndTxn from version 5 on (KIP-890): each end brings a new epoch, so that nothing late can touch the next transaction.
An end that the coordinator decides itself, for a timeout or a new holder, always brings a new epoch.

Where we part from Kafka 4.3, each time to keep a promise of the protocol:
- InitProducerId with an epoch that is neither the present nor, on an idle id, the one before is fenced. Kafka lets it
  abort an open transaction of its successor.
- A producer that lost its id to another is fenced at once. Kafka answers its EndTxn as a retry until the other returns.
- The identity before the present one survives a reload, so that a retry is known for one by a new leader too.
- A commit that meets an abort by timeout is told PRODUCER_FENCED (as Kafka after 4.3), for that is what happened.
- An aborted transaction without partitions has no markers to wait for, and is complete at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.coordinators.deadlines import Deadlines
from headrace.coordinators.effects import Reply
from headrace.coordinators.records import UnreadableRecord
from headrace.coordinators.transactions import answers
from headrace.coordinators.transactions.descriptions import described_transaction, listed_transactions
from headrace.coordinators.transactions.effects import MarkerOrder, TransactionEffects
from headrace.coordinators.transactions.state import EPOCH_MAX, Identity, Status, Transaction, record_of
from headrace.coordinators.transactions.transaction_table import TransactionTable
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_PRODUCER, ProducerId, TopicPartition
from headrace.wire.messages.end_txn import EndTxnResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.coordinators.effects import Caller, Now, Token
    from headrace.coordinators.records import LogRecord
    from headrace.coordinators.transactions.settings import TransactionSettings
    from headrace.model.names import Millis
    from headrace.wire.messages.describe_transactions import TransactionState as DescribedTransaction
    from headrace.wire.messages.end_txn import EndTxnRequest
    from headrace.wire.messages.init_producer_id import InitProducerIdRequest
    from headrace.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

ABORTS_AT_ONCE_MAX: Final = 500  # in one batch: after a long outage all transactions are over their time together
ABORTED_BYTES_MAX: Final = 4 << 20  # a batch has room for four times as much; each may name many topics
RECORD_BYTES: Final = 128  # what the record of a transaction has besides its id and its partitions
PARTITION_BYTES: Final = 8

BUMPING_END_VERSION: Final = 5  # of EndTxn: the answer has room for the new identity


class AddPartitions(NamedTuple):
    """What AddPartitionsToTxn and AddOffsetsToTxn say, and Produce and TxnOffsetCommit imply, for one transaction."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    transaction_version: int = 0
    """BUMPING_VERSION from clients of the newer flow."""
    verify_only: bool = False
    """Ask whether the partitions belong to the transaction already; change nothing."""


class TransactionCoordinator:
    def __init__(self, settings: TransactionSettings, coordinator_epoch: int) -> None:
        self._settings = settings
        self._coordinator_epoch = coordinator_epoch
        self._transactions = TransactionTable()
        self._deadlines: Deadlines[str] = Deadlines()

    def configure(self, settings: TransactionSettings) -> None:
        self._settings = settings

    # What is kept

    def apply(self, record: LogRecord, producer_id: ProducerId = NO_PRODUCER) -> None:
        if producer_id != NO_PRODUCER:
            raise UnreadableRecord(f"a record about transactions inside one, of producer {producer_id}")
        transaction = self._transactions.apply(record)
        if transaction is not None and transaction.status is not Status.ONGOING:
            self._deadlines.cancel(record.key.transactional_id)

    def apply_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """No transaction writes to this log, so no marker says anything about it."""

    def loaded(self, now: Now) -> TransactionEffects:
        """Orders the markers that a leader before us may have left unwritten."""
        effects = TransactionEffects()
        for transactional_id, transaction in self._transactions.unsettled():
            if transaction.status is Status.ONGOING:
                # Between two machines there is only the wall's time. Wherever it has jumped, nobody gets more than
                # a whole timeout from here.
                left_ms = transaction.started_ms + transaction.timeout_ms - now.wall_ms
                left_ms = max(0, min(left_ms, transaction.timeout_ms))
                self._deadlines.set(transactional_id, now.steady_ms + left_ms)
            else:
                effects.markers.append(self._order(transactional_id, transaction))
        return effects

    # InitProducerId

    def init_producer_id(
        self, request: InitProducerIdRequest, caller: Caller, token: Token, now: Now, fresh_producer_id: ProducerId
    ) -> TransactionEffects:
        """Hand the id to whoever asks, under an identity that nobody has had before.

        `fresh_producer_id` is taken for a new id, and when epochs run out.
        """
        try:
            return self._initialised(request, token, now, fresh_producer_id)
        except Refusal as refusal:
            code = answers.known_error(refusal.code, caller.version, answers.INIT_KNOWS_FENCED)
            return answers.answered(token, answers.not_initialised(code))

    def _initialised(
        self, request: InitProducerIdRequest, token: Token, now: Now, fresh_producer_id: ProducerId
    ) -> TransactionEffects:
        transactional_id, timeout_ms = request.transactional_id, request.transaction_timeout_ms
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST, "an empty transactional id")
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            raise Refusal(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"a transaction may take 1 to {self._settings.max_timeout_ms} ms, not {timeout_ms}",
            )
        expected = _expected_identity(request)
        current = self._transactions.get(transactional_id)
        if current is None:
            # An expected identity is of no use: the id has expired, and nobody else can have taken it over.
            first = Transaction(fresh_producer_id, 0, timeout_ms, Status.EMPTY, now.wall_ms)
            tombstones = self._transactions.room_for(transactional_id, now.wall_ms)
            effects = self._initialised_as(first, transactional_id, token)
            effects.records[:0] = tombstones
            return effects
        if current.status.is_ending:
            raise answers.still_ending(current)
        if current.status is Status.ONGOING:
            return self._abort_for_new_holder(transactional_id, current, expected, token, now)

        match expected:
            case None:
                holder, previous = current.identity.next(fresh_producer_id), NO_PRODUCER
            case current.identity:
                holder, previous = current.identity.next(fresh_producer_id), current.producer_id
            case current.previous_identity:  # it has not seen our answer
                holder, previous = _renewed(current, fresh_producer_id)
            case _:
                raise answers.fenced(expected, current)
        renewed = current.held_by(holder, previous, timeout_ms, now.wall_ms)
        return self._initialised_as(renewed, transactional_id, token)

    def _initialised_as(self, transaction: Transaction, transactional_id: str, token: Token) -> TransactionEffects:
        effects = answers.answered(token, answers.initialised(transaction.identity))
        effects.records.append(record_of(transactional_id, transaction))
        return effects

    def _abort_for_new_holder(
        self, transactional_id: str, current: Transaction, expected: Identity | None, token: Token, now: Now
    ) -> TransactionEffects:
        """The open transaction goes first. Its end brings the fence; the asker comes again until it is over."""
        if expected is not None and expected != current.identity:
            raise answers.fenced(expected, current)
        aborting = current.ending_with_bump(is_commit=False, now_ms=now.wall_ms)
        if expected is None:
            # A new holder: the one before must find no way back.
            aborting = aborting._replace(previous_producer_id=NO_PRODUCER)
        effects = self._end(transactional_id, aborting, now)
        effects.replies.append(Reply(token, answers.not_initialised(ErrorCode.CONCURRENT_TRANSACTIONS)))
        return effects

    # Adding partitions

    def add_partitions(self, request: AddPartitions, token: Token, now: Now) -> TransactionEffects:
        """The answer is a dict of an ErrorCode per partition. PRODUCER_FENCED is up to the caller to translate."""
        try:
            if request.verify_only:
                return answers.answered(token, self._verified(request))
            return self._added(request, token, now)
        except Refusal as refusal:
            return answers.answered(token, dict.fromkeys(request.partitions, refusal.code))

    def _verified(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        current = self._transactions.known(request.transactional_id)
        current.check_holder(Identity(request.producer_id, request.producer_epoch))
        if current.status.is_ending:
            raise answers.still_ending(current)
        return {
            partition: ErrorCode.NONE if partition in current.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in request.partitions
        }

    def _added(self, request: AddPartitions, token: Token, now: Now) -> TransactionEffects:
        current = self._transactions.known(request.transactional_id)
        # First, because the asker may have been told of an identity that comes with the end.
        if current.status.is_ending:
            raise answers.still_ending(current)
        current.check_holder(Identity(request.producer_id, request.producer_epoch))
        effects = answers.answered(token, dict.fromkeys(request.partitions, ErrorCode.NONE))
        is_open = current.status is Status.ONGOING
        if is_open and current.partitions.issuperset(request.partitions):
            return effects
        if not is_open:
            self._deadlines.set(request.transactional_id, now.steady_ms + current.timeout_ms)
        extended = current.with_partitions(request.partitions, request.transaction_version, now.wall_ms)
        effects.records.append(record_of(request.transactional_id, extended))
        return effects

    # EndTxn

    def end(
        self, request: EndTxnRequest, caller: Caller, token: Token, now: Now, fresh_producer_id: ProducerId
    ) -> TransactionEffects:
        """The answer leaves when the outcome is certain; the markers follow. `fresh_producer_id`: if epochs run out."""
        try:
            if caller.version >= BUMPING_END_VERSION:
                return self._ended_with_bump(request, token, now, fresh_producer_id)
            return self._ended_in_place(request, token, now)
        except Refusal as refusal:
            code = answers.known_error(refusal.code, caller.version, answers.END_KNOWS_FENCED)
            return answers.answered(token, EndTxnResponse(error_code=code))

    def _ended_in_place(self, request: EndTxnRequest, token: Token, now: Now) -> TransactionEffects:
        current = self._transactions.known(request.transactional_id)
        current.check_holder(_asking(request))
        if current.status.is_ending:
            raise answers.still_ending(current)
        if current.status is Status.ONGOING:
            effects = self._end(request.transactional_id, current.ending_in_place(request.committed, now.wall_ms), now)
            effects.replies.append(Reply(token, EndTxnResponse()))
            return effects
        if current.status is _outcome(request):
            return answers.answered(token, EndTxnResponse())
        raise answers.nothing_to_end(current, request.committed)

    def _ended_with_bump(
        self, request: EndTxnRequest, token: Token, now: Now, fresh_producer_id: ProducerId
    ) -> TransactionEffects:
        current = self._transactions.known(request.transactional_id)
        # First, because the asker may have been told of an identity that comes with the end.
        if current.status.is_ending:
            raise answers.still_ending(current)
        if current.status.is_ended and _asking(request) == current.previous_identity:
            return self._ended_before(request, current, token, now, fresh_producer_id)
        current.check_holder(_asking(request))
        if request.committed and current.status is not Status.ONGOING:
            raise answers.nothing_to_end(current, request.committed)
        # An abort is welcome without a transaction: the client may not know whether its first partition was added.
        ending = current.ending_with_bump(request.committed, now.wall_ms, fresh_producer_id)
        effects = self._end(request.transactional_id, ending, now)
        effects.replies.append(Reply(token, answers.ended(ending.identity_to_come)))
        return effects

    def _ended_before(
        self, request: EndTxnRequest, ended: Transaction, token: Token, now: Now, fresh_producer_id: ProducerId
    ) -> TransactionEffects:
        """The same request once more, or one that the timeout has overtaken: answered as the first time."""
        if ended.status is not _outcome(request):
            if request.committed:
                raise Refusal(ErrorCode.PRODUCER_FENCED, "the transaction was aborted before the commit came")
            raise answers.nothing_to_end(ended, request.committed)
        holder, previous = _renewed(ended, fresh_producer_id)
        effects = answers.answered(token, answers.ended(holder))
        if holder != ended.identity:
            renewed = ended._replace(
                producer_id=holder.producer_id,
                producer_epoch=holder.epoch,
                previous_producer_id=previous,
                updated_ms=now.wall_ms,
            )
            effects.records.append(record_of(request.transactional_id, renewed))
        return effects

    # The end

    def _end(self, transactional_id: str, ending: Transaction, now: Now) -> TransactionEffects:
        if not ending.partitions:
            return TransactionEffects(records=[record_of(transactional_id, ending.ended(now.wall_ms))])
        return TransactionEffects(
            records=[record_of(transactional_id, ending)], markers=[self._order(transactional_id, ending)]
        )

    def _order(self, transactional_id: str, ending: Transaction) -> MarkerOrder:
        return MarkerOrder(
            transactional_id=transactional_id,
            producer_id=ending.producer_id,
            producer_epoch=ending.producer_epoch,
            is_commit=ending.status is Status.PREPARE_COMMIT,
            partitions=tuple(sorted(ending.partitions)),
            coordinator_epoch=self._coordinator_epoch,
            transaction_version=ending.transaction_version,
        )

    def markers_written(
        self, transactional_id: str, producer_id: ProducerId, producer_epoch: int, now: Now
    ) -> TransactionEffects:
        """An order is fulfilled. One that is no longer waited for is passed over."""
        current = self._transactions.get(transactional_id)
        if current is None or not current.status.is_ending or current.identity != (producer_id, producer_epoch):
            return TransactionEffects()
        return TransactionEffects(records=[record_of(transactional_id, current.ended(now.wall_ms))])

    def awaits(self, order: MarkerOrder) -> bool:
        """Whether the transaction is not over yet. By the older flow, the next one has the same identity."""
        current = self._transactions.get(order.transactional_id)
        return (
            current is not None and current.status.is_ending and order == self._order(order.transactional_id, current)
        )

    # Time

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def tick(self, now: Now) -> TransactionEffects:
        """Abort transactions that are over their time; their producers are fenced by the new epoch. What is too much
        for one batch is due at once again."""
        effects = TransactionEffects()
        written_bytes = 0
        for _ in range(ABORTS_AT_ONCE_MAX):
            due = self._deadlines.take_due(now.steady_ms, 1) if written_bytes < ABORTED_BYTES_MAX else ()
            if not due:
                break
            (transactional_id,) = due
            transaction = self._transactions.by_id[transactional_id]
            written_bytes += _record_bytes(transactional_id, transaction)
            aborting = transaction.ending_with_bump(is_commit=False, now_ms=now.wall_ms)
            effects.add(self._end(transactional_id, aborting, now))
        return effects

    def expire(self, now: Now) -> TransactionEffects:
        """Forget ids that nobody has used for long: EXPIRED_AT_ONCE_MAX of them, so call again if it was as many."""
        return TransactionEffects(records=self._transactions.expired(now.wall_ms, self._settings.id_expiration_ms))

    # What is shown

    def list(self, request: ListTransactionsRequest, now_ms: Millis) -> ListTransactionsResponse:
        return listed_transactions(request, self._transactions.by_id, now_ms)

    def describe(self, transactional_ids: Iterable[str]) -> Sequence[DescribedTransaction]:
        return [described_transaction(it, self._transactions.get(it)) for it in transactional_ids]

    def live_partitions(self, producer_id: ProducerId) -> set[TopicPartition]:
        """Where transactions of this producer are open, or wait for their markers."""
        return self._transactions.live_partitions(producer_id)


def _expected_identity(request: InitProducerIdRequest) -> Identity | None:
    """Under which the asker goes already (KIP-360), if it says so."""
    if request.producer_id == -1 and request.producer_epoch == -1:
        return None
    if request.producer_id == -1 or request.producer_epoch == -1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a producer id and an epoch come together, or not at all")
    return Identity(ProducerId(request.producer_id), request.producer_epoch)


def _renewed(current: Transaction, fresh_producer_id: ProducerId) -> tuple[Identity, ProducerId]:
    """The identity that its owner was given but may not have heard of, and the producer id of the one before.

    EPOCH_MAX was not given to anybody: the coordinator went there to fence. Its owner goes on under a fresh id.
    """
    if current.producer_epoch == EPOCH_MAX:
        return Identity(fresh_producer_id, 0), current.producer_id
    return current.identity, current.previous_producer_id


def _asking(request: EndTxnRequest) -> Identity:
    return Identity(ProducerId(request.producer_id), request.producer_epoch)


def _outcome(request: EndTxnRequest) -> Status:
    return Status.COMPLETE_COMMIT if request.committed else Status.COMPLETE_ABORT


def _record_bytes(transactional_id: str, transaction: Transaction) -> int:
    """At most: a topic's name stands there once, whatever its partitions."""
    partitions = sum(len(name.topic) + PARTITION_BYTES for name in transaction.partitions)
    return len(transactional_id.encode()) + RECORD_BYTES + partitions

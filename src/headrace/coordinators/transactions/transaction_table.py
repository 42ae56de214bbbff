"""The transactional ids of one partition, as its log says, and which of them nobody needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.records import LogRecord
from headrace.coordinators.transactions.state import Status, Transaction, transaction_of
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.transaction_records import TransactionLogKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.model.names import Millis, ProducerId, TopicPartition

IDS_BYTES_MAX: Final = 4 << 20  # of one partition, some 6,000 ids: with sixteen partitions 64 MiB for a node
ID_BYTES: Final = 600  # what an id takes beside its letters
CROWDED_IDLE_MS: Final = 3_600_000  # where there are so many, one that did nothing for an hour makes way for another
EXPIRED_AT_ONCE_MAX: Final = 1_000  # in one batch; the rest goes with the next call


class TransactionTable:
    def __init__(self) -> None:
        self._transactions: dict[str, Transaction] = {}
        """In the order of their last change, so that the silent ones stand in front."""
        self._unsettled: dict[str, None] = {}
        """Those whose transaction is open or ending: few, so that a load does not look at all of them in one turn."""
        self._ids_bytes = 0

    @property
    def by_id(self) -> Mapping[str, Transaction]:
        return self._transactions

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def known(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST, "an empty transactional id")
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"nobody holds the transactional id {transactional_id!r}; InitProducerId comes first",
            )
        return transaction

    def unsettled(self) -> Iterator[tuple[str, Transaction]]:
        """Those whose transaction is open, or waits for its markers."""
        return ((transactional_id, self._transactions[transactional_id]) for transactional_id in self._unsettled)

    def live_partitions(self, producer_id: ProducerId) -> set[TopicPartition]:
        """Where transactions of this producer are open, or wait for their markers."""
        return {name for _, one in self.unsettled() if one.producer_id == producer_id for name in one.partitions}

    def apply(self, record: LogRecord) -> Transaction | None:
        """Returns what is known of the id from now on; None if it is forgotten."""
        transactional_id = record.key.transactional_id
        if self._transactions.pop(transactional_id, None) is not None:
            self._ids_bytes -= ID_BYTES + len(transactional_id)
        self._unsettled.pop(transactional_id, None)
        if record.value is None:
            return None
        self._ids_bytes += ID_BYTES + len(transactional_id)
        self._transactions[transactional_id] = transaction = transaction_of(record.value)
        if transaction.status is Status.ONGOING or transaction.status.is_ending:
            self._unsettled[transactional_id] = None
        return transaction

    def expired(self, now_ms: Millis, id_expiration_ms: int) -> list[LogRecord]:
        """Tombstones of ids that nobody has used for long, EXPIRED_AT_ONCE_MAX of them at most."""
        tombstones: list[LogRecord] = []
        for transactional_id, transaction in self._transactions.items():
            if transaction.updated_ms + id_expiration_ms > now_ms:
                break
            if len(tombstones) == EXPIRED_AT_ONCE_MAX:
                break
            if transaction.status is Status.EMPTY or transaction.status.is_ended:
                tombstones.append(LogRecord(TransactionLogKey(transactional_id), None))
        return tombstones

    def room_for(self, transactional_id: str, now_ms: Millis) -> list[LogRecord]:
        """Tombstones of idle ids, if there are too many. Raises Refusal if none of them has been idle for long."""
        missing = self._ids_bytes + ID_BYTES + len(transactional_id) - IDS_BYTES_MAX
        forgotten: list[LogRecord] = []
        for silent, transaction in self._transactions.items():
            if missing <= 0 or transaction.updated_ms + CROWDED_IDLE_MS > now_ms:
                break
            if transaction.status is Status.EMPTY or transaction.status.is_ended:
                forgotten.append(LogRecord(TransactionLogKey(silent), None))
                missing -= ID_BYTES + len(silent)
            if len(forgotten) == EXPIRED_AT_ONCE_MAX:
                break
        if missing > 0:
            raise Refusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{len(self._transactions)} transactional ids are in use here, as many as may be; try again later, or "
                "use fewer of them",
            )
        return forgotten

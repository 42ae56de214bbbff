"""Transactions as their producers know them, held against what readers of committed records are shown.

A producer writes down each transaction, its sends, and what it was told of the end. A reader is judged at once: what it
sees must be decided. At the end each transaction must be there as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from headrace.simulation.history.history import SHOWN_BYTES, Kind, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.model.names import TopicPartition
    from headrace.simulation.history.history import Figures, History, Reading, Send


class Fate(Enum):
    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()
    """Somebody asked to commit it, and got no answer that settles it."""


@dataclass(slots=True, eq=False)
class Transaction:
    transactional_id: str
    name: str
    sends: list[Send] = field(default_factory=list)
    fate: Fate = Fate.OPEN
    is_commit_asked: bool = False
    passed: list[tuple[TopicPartition, int, str]] = field(default_factory=list)
    """Where a reader went past it while nobody had asked to commit it. Right if it was aborted by then."""

    def lost(self) -> None:
        """Its producer is gone, or has given up. If it never asked for a commit, nothing will be seen of it."""
        if self.fate is Fate.OPEN:
            self.fate = Fate.UNKNOWN if self.is_commit_asked else Fate.ABORTED

    def __str__(self) -> str:
        return f"{self.name} ({self.fate.name.lower()})"


class TransactionHistory:
    def __init__(self, history: History) -> None:
        self._history = history
        self._by_value: dict[bytes, Transaction] = {}
        self._transactions: list[Transaction] = []
        self._perhaps_open: list[Transaction] = []

    @property
    def transactional_ids(self) -> list[str]:
        return sorted({transaction.transactional_id for transaction in self._transactions})

    # Producers

    def begin(self, transactional_id: str, producer: str) -> Transaction:
        transaction = Transaction(transactional_id, f"transaction {len(self._transactions) + 1} of {producer}")
        self._transactions.append(transaction)
        self._perhaps_open.append(transaction)
        return transaction

    def add(self, transaction: Transaction, send: Send) -> None:
        """Before it leaves."""
        transaction.sends.append(send)
        self._by_value[send.value] = transaction

    # Readers

    def read_committed(self, reader: str, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A reader of committed records was handed this."""
        transaction = self._by_value.get(value)
        if transaction is not None:
            shown = f"{reader} was handed {value[:SHOWN_BYTES]!r} of {transaction}"
            if transaction.fate is Fate.ABORTED:
                self._history.report(Kind.ABORTED_READ, partition, offset, shown)
            elif not transaction.is_commit_asked:
                self._history.report(Kind.EARLY_READ, partition, offset, shown)
        self._note_passed(reader, partition, offset)

    def _note_passed(self, reader: str, partition: TopicPartition, offset: int) -> None:
        self._perhaps_open = [
            each for each in self._perhaps_open if each.fate is Fate.OPEN and not each.is_commit_asked
        ]
        for transaction in self._perhaps_open:
            for send in transaction.sends:
                if send.partition == partition and send.outcome is Outcome.OK and 0 <= send.offset < offset:
                    transaction.passed.append((partition, send.offset, f"{reader} was handed {offset} before {send}"))

    # The end

    def check(self, readings: Iterable[Reading], figures: Figures) -> None:
        """`readings` are what a reader of committed records gets at the end."""
        starts: dict[TopicPartition, int] = {}
        visible: dict[bytes, int] = {}
        for reading in readings:
            starts[reading.partition] = reading.start_offset
            visible |= {value: offset for offset, value in reading.records}
        for transaction in self._transactions:
            self._count(transaction, figures)
            sends = [
                send
                for send in transaction.sends
                if send.outcome is Outcome.OK and send.offset >= starts.get(send.partition, 0)
            ]
            seen = [send for send in transaction.sends if send.value in visible]
            unseen = [send for send in sends if send.value not in visible]
            self._check_one(transaction, seen, unseen)

    def _check_one(self, transaction: Transaction, seen: list[Send], unseen: list[Send]) -> None:
        report = self._history.report
        if transaction.fate is Fate.COMMITTED:
            for partition, offset, detail in transaction.passed:
                report(Kind.PASSED_OPEN, partition, offset, f"{detail} of {transaction}")
            for send in unseen:
                report(Kind.LOST, send.partition, send.offset, f"{send} belongs to {transaction}")
        elif seen and (transaction.fate is Fate.ABORTED or not transaction.is_commit_asked):
            report(Kind.ABORTED_READ, seen[0].partition, seen[0].offset, f"{seen[0]} belongs to {transaction}")
        elif seen and unseen:
            detail = f"of {transaction} {len(seen)} sends are there, {unseen[0]} is not"
            report(Kind.TORN, unseen[0].partition, unseen[0].offset, detail)

    @staticmethod
    def _count(transaction: Transaction, figures: Figures) -> None:
        match transaction.fate:
            case Fate.COMMITTED:
                figures.transactions_committed += 1
            case Fate.ABORTED:
                figures.transactions_aborted += 1
            case _:
                figures.transactions_unknown += 1

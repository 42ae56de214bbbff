"""Which transactions ListTransactions asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.patterns.name_patterns import NamePattern
from headrace.coordinators.transactions.state import Status

if TYPE_CHECKING:
    from headrace.coordinators.transactions.state import Transaction
    from headrace.model.names import Millis
    from headrace.wire.messages.list_transactions import ListTransactionsRequest

_TYPED: Final = frozenset(map(chr, range(128)))
_ANY_OTHER: Final = "\N{REPLACEMENT CHARACTER}"

_STATUSES: Final = {status.text: status for status in Status}


class TransactionFilter:
    """The filters of one request, ready for every coordinator on the node. An empty filter lets all pass."""

    def __init__(self, request: ListTransactionsRequest) -> None:
        """Raises Refusal for a pattern that cannot be read."""
        self.unknown_states = [text for text in request.state_filters if text not in _STATUSES]
        self._is_any_state = not request.state_filters
        self._states = {_STATUSES[text] for text in request.state_filters if text in _STATUSES}
        self._producer_ids = set(request.producer_id_filters)
        self._longer_than_ms = request.duration_filter
        pattern = request.transactional_id_pattern
        self._pattern = IdPattern(pattern) if pattern else None

    def admits(self, transactional_id: str, transaction: Transaction, now_ms: Millis) -> bool:
        """An id whose transaction has not begun counts as older than any duration, as in Kafka."""
        return (
            (self._is_any_state or transaction.status in self._states)
            and (not self._producer_ids or transaction.producer_id in self._producer_ids)
            and (self._longer_than_ms < 0 or now_ms - transaction.started_ms > self._longer_than_ms)
            and (self._pattern is None or self._pattern.matches(transactional_id))
        )


class IdPattern:
    """Ids may hold any character. Those that the pattern does not name and nobody types are all the same to it."""

    def __init__(self, text: str) -> None:
        self._alphabet = _TYPED | frozenset(text) | {_ANY_OTHER}
        self._pattern = NamePattern(text, self._alphabet)

    def matches(self, transactional_id: str) -> bool:
        if not self._alphabet.issuperset(transactional_id):
            transactional_id = "".join(
                character if character in self._alphabet else _ANY_OTHER for character in transactional_id
            )
        return self._pattern.matches(transactional_id)

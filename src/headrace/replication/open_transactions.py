"""Which transactions of a partition are undecided, and how far readers of committed records may go.

    first unstable offset ≤ first offset of every transaction that is open, or whose marker is not committed yet

Transactions begin in the order of their offsets, so the oldest is always the first in its dict, and nothing is searched
or sorted on the way. Whether a transaction *may* begin here is the question of `TransactionClaims`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.model.names import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable

CLAIMS_MAX: Final = 10_000  # per partition, a megabyte; a claim beyond it costs the oldest, whose client asks again


class EndedTransaction(NamedTuple):
    """A transaction that wrote something here and has now got its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_commit: bool
    last_stable_offset: int
    """Exclusive: where the next transaction that is still open begins, or what follows the marker."""


class OpenTransactions:
    """Offsets only: whose epoch may write is the question of `ProducerStates`."""

    __slots__ = ("_first_offsets", "_unsettled", "_unstable")

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}
        """By producer id, for those without a marker. The oldest first."""
        self._unstable: dict[int, None] = {}
        """First offsets of those without a committed marker. The oldest first."""
        self._unsettled: deque[tuple[int, int]] = deque()
        """Marker's offset and first offset of those whose marker is not committed yet."""

    def reset(self, open_transactions: Iterable[tuple[int, int]]) -> None:
        """These are open, given as producer id and first offset, and no others. Markers written before are safe."""
        self._first_offsets = dict(sorted(open_transactions, key=lambda opened: opened[1]))
        self._unstable = dict.fromkeys(self._first_offsets.values())
        self._unsettled.clear()

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._first_offsets

    @property
    def first_unstable_offset(self) -> int:
        """NO_OFFSET if everything is decided and committed."""
        return next(iter(self._unstable), NO_OFFSET)

    def begin(self, producer_id: int, first_offset: int) -> None:
        self._first_offsets[producer_id] = first_offset
        self._unstable[first_offset] = None

    def end(self, producer_id: int, marker_offset: int, *, is_commit: bool) -> EndedTransaction | None:
        """A marker was written. None if it ended nothing here."""
        first_offset = self._first_offsets.pop(producer_id, NO_OFFSET)
        if first_offset < 0:
            return None
        self._unsettled.append((marker_offset, first_offset))
        next_open = next(iter(self._first_offsets.values()), marker_offset + 1)
        return EndedTransaction(producer_id, first_offset, marker_offset, is_commit, next_open)

    def settle(self, high_watermark: int) -> None:
        """Markers below `high_watermark` can no longer be lost: their transactions are over."""
        unsettled = self._unsettled
        while unsettled and unsettled[0][0] < high_watermark:
            del self._unstable[unsettled.popleft()[1]]


class TransactionClaim:
    """A producer wants to begin a transaction here. Compared by identity: a word for an older claim is not for this."""

    __slots__ = ("is_granted", "lowest_sequence", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        """Of the batches that arrived under this claim: the one that must be written first."""
        self.is_granted = False

    def __repr__(self) -> str:
        granted = "granted" if self.is_granted else "not granted"
        return f"TransactionClaim({self.producer_id}, epoch {self.producer_epoch}, {granted})"


class TransactionClaims:
    """Producers that want to begin a transaction, and those whose coordinator agreed (KIP-890).

    Without the coordinator's word a late batch could open a transaction that nobody will ever end, and readers would
    wait behind it for ever. The word is good for the claim that it was asked for, and until the next marker: an
    agreement that arrives after the transaction's end opens nothing.
    """

    __slots__ = ("_claims",)

    def __init__(self) -> None:
        self._claims: dict[int, TransactionClaim] = {}

    def claim(self, producer_id: int, producer_epoch: int, sequence: int) -> TransactionClaim:
        """The producer's claim as it stands, or a new one if it has none of this epoch."""
        known = self._claims.get(producer_id)
        if known is not None and known.producer_epoch == producer_epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
            return known
        claim = TransactionClaim(producer_id, producer_epoch, sequence)
        if known is None or not known.is_granted or known.producer_epoch < producer_epoch:
            self._remember(claim)
        return claim

    def _remember(self, claim: TransactionClaim) -> None:
        self._claims.pop(claim.producer_id, None)
        if len(self._claims) >= CLAIMS_MAX:
            del self._claims[next(iter(self._claims))]
        self._claims[claim.producer_id] = claim

    def grant(self, claim: TransactionClaim) -> None:
        """The coordinator has agreed. Nothing happens if the claim was overtaken by a marker or a newer epoch."""
        if self._claims.get(claim.producer_id) is claim:
            claim.is_granted = True

    def granted(self, producer_id: int, producer_epoch: int) -> TransactionClaim | None:
        claim = self._claims.get(producer_id)
        return claim if claim is not None and claim.is_granted and claim.producer_epoch == producer_epoch else None

    def drop(self, producer_id: int) -> None:
        """The transaction ended: the next one needs a word of its own."""
        self._claims.pop(producer_id, None)

    def clear(self) -> None:
        """Another leader may have ended what was claimed here."""
        self._claims.clear()

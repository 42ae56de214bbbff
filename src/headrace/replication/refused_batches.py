"""Batches of idempotent producers that could not be taken for now: what came behind them must not be taken first.

A producer keeps several requests in flight. If one is refused (too few replicas, a full disk), those behind it must
not be taken before it comes again; nor be told that they are out of order: some clients then begin a new epoch, in
which they send once more what is written already. So a partition remembers the first batch of each producer that it
refused, and refuses what follows for the same reason, until that one is there again.

Anybody can invent producers, so a node remembers a bounded number of them, the newest. A partition that had to forget
one is careful until that can no longer matter: a producer whose batches it knows is checked by their sequence as ever,
and one that it does not know has to begin at sequence 0.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from headrace.model.errors import Reason
    from headrace.wire.batches.header import BatchHeader

REFUSED_MAX: Final = 10_000  # producers of a node, some 3 MB: those of a large cluster whose replicas are short


class RefusedBatch(NamedTuple):
    producer_epoch: int
    base_sequence: int
    reason: Reason

    def is_before(self, header: BatchHeader) -> bool:
        return header.producer_epoch == self.producer_epoch and header.base_sequence > self.base_sequence


class RefusedLine:
    """Which producers are remembered in which partition, over all partitions of a node; the oldest goes first."""

    __slots__ = ("_line", "_size_max")

    def __init__(self, size_max: int = REFUSED_MAX) -> None:
        self._line: OrderedDict[tuple[RefusedBatches, int], None] = OrderedDict()
        self._size_max = size_max

    def __len__(self) -> int:
        return len(self._line)

    def add(self, batches: RefusedBatches, producer_id: int) -> None:
        self._line[batches, producer_id] = None
        if len(self._line) > self._size_max:
            (others, oldest), _ = self._line.popitem(last=False)
            others.is_to_forget(oldest)

    def remove(self, batches: RefusedBatches, producer_id: int) -> None:
        self._line.pop((batches, producer_id), None)


class RefusedBatches:
    """One partition's, while it is led here."""

    __slots__ = ("_line", "_old", "_was_forgetful", "by_producer", "has_forgotten")

    def __init__(self, line: RefusedLine | None = None) -> None:
        self._line = RefusedLine() if line is None else line
        self.by_producer: dict[int, RefusedBatch] = {}
        self.has_forgotten = False
        """Somebody may send what follows a batch that was refused here, of which nothing is known any more."""
        self._old: set[int] = set()
        """Producers that were remembered at the last call of `forget_old`."""
        self._was_forgetful = False

    def note(self, header: BatchHeader, reason: Reason) -> None:
        """This batch could not be taken now, and will come again. It is a sound one: see the limit above."""
        producer_id = header.producer_id
        known = self.by_producer.get(producer_id)
        if producer_id < 0 or (known is not None and known.is_before(header)):
            return
        self.by_producer[producer_id] = RefusedBatch(header.producer_epoch, header.base_sequence, reason)
        self._old.discard(producer_id)
        self._line.add(self, producer_id)

    def check_order(self, header: BatchHeader) -> None:
        """Refuse a batch that would overtake one of its producer."""
        known = self.by_producer.get(header.producer_id)
        if known is None:
            return
        if known.is_before(header):
            raise Refusal(known.reason.code, f"an earlier batch was refused: {known.reason.message}")
        if header.producer_epoch != known.producer_epoch or header.base_sequence == known.base_sequence:
            self._forget(header.producer_id)

    def check_newcomer(self, header: BatchHeader) -> None:
        """Of a producer whose batches are not known here, in a partition that has forgotten a refusal."""
        if self.has_forgotten and header.base_sequence > 0:
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}, which is not known here, sent sequence {header.base_sequence}, "
                "expected 0: an earlier batch of it may have been refused",
            )

    def is_to_forget(self, producer_id: int) -> None:
        """The line is too long."""
        self.by_producer.pop(producer_id, None)
        self._old.discard(producer_id)
        self.has_forgotten = True
        self._was_forgetful = False

    def forget_old(self) -> None:
        """Forget what was remembered at the last call already. Call it more seldom than any client tries again."""
        for producer_id in self._old:
            self.by_producer.pop(producer_id, None)
            self._line.remove(self, producer_id)
        self._old = set(self.by_producer)
        self.has_forgotten = self.has_forgotten and not self._was_forgetful
        self._was_forgetful = self.has_forgotten

    def forget_all(self) -> None:
        """Another leader may have taken them meanwhile."""
        for producer_id in list(self.by_producer):
            self._forget(producer_id)
        self.has_forgotten = self._was_forgetful = False

    def _forget(self, producer_id: int) -> None:
        del self.by_producer[producer_id]
        self._old.discard(producer_id)
        self._line.remove(self, producer_id)

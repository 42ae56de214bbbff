"""Batches on their way into logs: staged while one read's requests are looked at, written together at its end."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from headrace.replication.refused_batches import RefusedLine
from headrace.wire.produce import ProduceOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.partitions.counters import Counters
    from headrace.broker.partitions.partition import Partition
    from headrace.model.errors import Reason
    from headrace.wire.batches.header import BatchHeader

log = logging.getLogger(__name__)

ACKS_ALL: Final = -1


class StagedWrite:
    """The batches of one turn for one partition. If their write fails, all of them failed."""

    __slots__ = ("headers", "is_urgent", "next_offset", "refusal", "views")

    def __init__(self, next_offset: int) -> None:
        self.views: list[memoryview] = []
        self.headers: list[BatchHeader] = []
        self.next_offset = next_offset
        self.is_urgent = False
        self.refusal: Reason | None = None

    def forget_batches(self) -> None:
        """They are in the log. Whoever waits until they are committed needs only to know what became of them."""
        self.views.clear()
        self.headers.clear()


class Admitted:
    """One batch that was let in. `write` is None for a repeat of a batch that is in the log already."""

    __slots__ = ("_late", "append_time_ms", "base_offset", "next_offset", "partition", "write")

    def __init__(
        self, partition: Partition, write: StagedWrite | None, base_offset: int, next_offset: int, append_time_ms: int
    ) -> None:
        self.partition = partition
        self.write = write
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.append_time_ms = append_time_ms
        self._late: Reason | None = None

    @property
    def refusal(self) -> Reason | None:
        """Why it did not get in after all."""
        return self._late if self.write is None else self.write.refusal or self._late

    @property
    def is_settled(self) -> bool:
        """True if nothing is left to wait for, also with acks=all."""
        return self.refusal is not None or self.partition.high_watermark >= self.next_offset

    def give_up(self, reason: Reason) -> None:
        """It is written, but nobody can promise any more that it is safe."""
        self._late = reason

    def outcome(self) -> ProduceOutcome:
        partition = self.partition
        refusal = self.refusal
        if refusal is not None:
            return ProduceOutcome(partition.index, refusal.code, -1, -1, -1, (), refusal.message)
        return ProduceOutcome(partition.index, 0, self.base_offset, self.append_time_ms, partition.log.start_offset)


class AppendStage:
    """The partitions that have staged batches in this turn."""

    __slots__ = ("_counters", "_is_refusing", "_on_refused", "_partitions", "refused_line")

    def __init__(self, counters: Counters, on_refused: Callable[[Partition], None]) -> None:
        self._counters = counters
        self._partitions: deque[Partition] = deque()
        self._is_refusing = False
        self._on_refused = on_refused
        self.refused_line = RefusedLine()
        """Of all partitions: what is remembered of refused batches is bounded for the node, not for each of them."""

    def add(self, partition: Partition) -> None:
        self._partitions.append(partition)

    def commit(self) -> None:
        """One write per partition. DiskFailure ends the node."""
        while self._partitions:
            self._commit(self._partitions.popleft())

    def commit_one(self, partition: Partition) -> None:
        """Write what one partition has staged before the others: something else has to come after it."""
        self._partitions.remove(partition)
        self._commit(partition)

    def _commit(self, partition: Partition) -> None:
        written = partition.writer.commit_staged()
        if written:
            self._counters.messages_in += written
            if self._is_refusing:
                self._is_refusing = False
                log.warning("writing works again: %s took %d records", partition.name, written)

    def refused(self, partition: Partition, reason: Reason) -> None:
        """A write did not happen. Said once until writing works again; counted each time."""
        self._counters.refused_writes += 1
        self._on_refused(partition)
        if not self._is_refusing:
            self._is_refusing = True
            log.warning("writes are refused: %s", reason.message)

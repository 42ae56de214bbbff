"""Batches on their way: staged, written, committed. And who waits for that."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from headrace.wire.produce import ProduceOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.writing import StagedWrite
    from headrace.model.errors import Reason
    from headrace.model.names import Offset


class PendingAppend:
    """One batch that was let in: staged, then written, then committed, unless it is refused on the way.

    `write` is None where nothing is staged: for a repeat of a batch in the log, and for what was written at once.
    """

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
        return self.partition.high_watermark >= self.next_offset or self.refusal is not None

    def give_up(self, reason: Reason) -> None:
        """It is written, but nobody can promise any more that it is safe."""
        self._late = reason

    def when_settled(self, wake: Callable[[], None], deadline_s: float) -> bool:
        """Call `wake` once it is committed, or refused, at the latest because time is up. False: it is settled, and
        nobody will call.

        To be asked for in the turn that wrote the batch. Later this node may follow another, whose high watermark says
        nothing of what was written here.
        """
        if self.partition.high_watermark >= self.next_offset or self.refusal is not None:
            return False
        self.partition.waiters.add(self, wake, deadline_s)
        return True

    def settling(self, deadline_s: float) -> asyncio.Future[None]:
        """Done once it is committed, or refused: see `when_settled`."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not settled.done():  # whoever asked may have gone
                settled.set_result(None)

        if not self.when_settled(wake, deadline_s):
            wake()
        return settled

    def outcome(self) -> ProduceOutcome:
        partition = self.partition
        refusal = self.refusal
        if refusal is not None:
            return ProduceOutcome(partition.index, refusal.code, -1, -1, -1, (), refusal.message)
        return ProduceOutcome(partition.index, 0, self.base_offset, self.append_time_ms, partition.log.start_offset)


class _Waiter(NamedTuple):
    append: PendingAppend
    deadline_s: float
    wake: Callable[[], None]


class CommitWaiters:
    """Who waits for one partition's high watermark, by offset: batches are written one after the other."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[_Waiter] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, append: PendingAppend, wake: Callable[[], None], deadline_s: float) -> None:
        self._waiting.append(_Waiter(append, deadline_s, wake))

    def wake_up_to(self, high_watermark: Offset) -> None:
        waiting = self._waiting
        while waiting and waiting[0].append.next_offset <= high_watermark:
            waiting.popleft().wake()

    def refuse_late(self, now_s: float, reason: Reason) -> None:
        """Tell those whose time is up."""
        late = [waiter for waiter in self._waiting if waiter.deadline_s <= now_s]
        if late:
            self._waiting = deque(waiter for waiter in self._waiting if waiter.deadline_s > now_s)
            _refuse(late, reason)

    def refuse_all(self, reason: Reason) -> None:
        waiting, self._waiting = list(self._waiting), deque()
        _refuse(waiting, reason)


def _refuse(waiters: list[_Waiter], reason: Reason) -> None:
    for waiter in waiters:
        waiter.append.give_up(reason)
        waiter.wake()

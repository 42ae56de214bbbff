"""Those who wait until what they wrote is committed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.partitions.appending import Admitted
    from headrace.model.errors import Reason
    from headrace.model.names import Offset


class _Waiter(NamedTuple):
    admitted: Admitted
    deadline_s: float
    wake: Callable[[], None]


class CommitWaiters:
    """One partition's, in the order of their offsets: batches are written one after the other."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[_Waiter] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, admitted: Admitted, wake: Callable[[], None], deadline_s: float) -> None:
        self._waiting.append(_Waiter(admitted, deadline_s, wake))

    def wake_up_to(self, high_watermark: Offset) -> None:
        waiting = self._waiting
        while waiting and waiting[0].admitted.next_offset <= high_watermark:
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
        waiter.admitted.give_up(reason)
        waiter.wake()

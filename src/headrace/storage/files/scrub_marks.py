"""When each log was last read through, and which is to be next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.model.names import LogId


class LogEnds(NamedTuple):
    closed: int
    """Where its closed segments end (exclusive)."""
    flushed: int
    """The same of what is on the device, also in the segment that is written to."""


class ScrubMark(NamedTuple):
    """One round through a log. Segments that are closed while it lasts belong to it too."""

    since_ms: int
    """When the round began, on the wall clock: it is to last over restarts."""
    checked_to: int
    """Exclusive: everything before this offset was found whole in this round."""


NEVER = ScrubMark(0, 0)


class ScrubMarks:
    def __init__(self, marks: Mapping[LogId, ScrubMark] | None = None) -> None:
        self._marks = dict(marks or {})

    @property
    def marks(self) -> Mapping[LogId, ScrubMark]:
        return self._marks

    def due(self, ends: Mapping[LogId, LogEnds], now_ms: int, interval_ms: int) -> list[LogId]:
        """Logs with something to check, the one that was left alone for the longest time first. The segment that is
        written to is checked once in a round, as far as it is flushed, and again when it is closed."""
        waiting = []
        for log_id, (closed, flushed) in ends.items():
            checked_to = self._checked_to(log_id, now_ms, interval_ms)
            if (closed if checked_to else flushed) > checked_to:
                waiting.append((self._marks.get(log_id, NEVER).since_ms, log_id))
        return [log_id for _, log_id in sorted(waiting)]

    def begin(self, log_id: LogId, now_ms: int, interval_ms: int) -> int:
        """From which offset on the log is to be checked now."""
        checked_to = self._checked_to(log_id, now_ms, interval_ms)
        if checked_to == 0:
            self._marks[log_id] = ScrubMark(now_ms, 0)
        return checked_to

    def checked(self, log_id: LogId, end_offset: int) -> None:
        """Everything before `end_offset` is whole."""
        self._marks[log_id] = self._marks[log_id]._replace(checked_to=end_offset)

    def forget(self, log_id: LogId) -> None:
        """It begins anew, or is damaged: it is the first to be looked at."""
        self._marks.pop(log_id, None)

    def keep_only(self, log_ids: Collection[LogId]) -> None:
        self._marks = {log_id: mark for log_id, mark in self._marks.items() if log_id in log_ids}

    def _checked_to(self, log_id: LogId, now_ms: int, interval_ms: int) -> int:
        """0 if it is time for a new round. A mark from the future is from a clock that was wrong."""
        mark = self._marks.get(log_id, NEVER)
        return mark.checked_to if 0 <= now_ms - mark.since_ms < interval_ms else 0

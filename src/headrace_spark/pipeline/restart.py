"""Whether and when a pipeline that failed is started again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace_spark.pipeline.parts import RestartPolicy


class Restarts:
    """Counts failures in a row. A batch that got through between two of them begins the count anew."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._in_a_row = 0
        self.total = 0

    def pause_s(self, *, got_through: bool) -> float | None:
        """How long to wait after this failure; None if it was the last. `got_through`: a batch was finished before."""
        if got_through:
            self._in_a_row = 0
        if self._in_a_row >= self._policy.attempts:
            return None
        pause_s = min(self._policy.backoff_first_s * 2**self._in_a_row, self._policy.backoff_max_s)
        self._in_a_row += 1
        self.total += 1
        return float(pause_s)

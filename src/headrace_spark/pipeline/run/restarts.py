"""Whether and when a pipeline that failed is started again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace_spark.pipeline.file.spec import RestartPolicy


class Restarts:
    """Counts the consecutive failures of each query. Batches that other queries finish do not reset its count."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._in_a_row: Counter[str | None] = Counter()
        self.total = 0

    def got_through(self, query: str) -> None:
        """It finished a batch, or found that there was nothing to do."""
        self._in_a_row.pop(query, None)
        self._in_a_row.pop(None, None)  # and whatever kept all of them from starting is over

    def pause_s(self, failed: Collection[str | None]) -> float | None:
        """How long to wait after these failed together, None standing for all; None if it was once too often."""
        self._in_a_row.update(failed)
        in_a_row = max(self._in_a_row[query] for query in failed)
        if in_a_row > self._policy.attempts:
            return None
        self.total += 1
        return float(min(self._policy.backoff_first_s * 2 ** (in_a_row - 1), self._policy.backoff_max_s))

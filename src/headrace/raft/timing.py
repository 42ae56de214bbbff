"""How long a leader may be silent, and how often it says that it is there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    heartbeat_ms: int = 200
    election_min_ms: int = 1000
    """So long a leader may be silent. Several heartbeats: one lost message must not cost an election."""
    election_max_ms: int = 2000
    """Each node waits a time of its own between the two, so that they rarely stand against each other."""

    @classmethod
    def of(cls, election_timeout_ms: int) -> Timing:
        """Five heartbeats in a timeout, and at most twice the timeout until somebody stands."""
        return cls(max(1, election_timeout_ms // 5), election_timeout_ms, 2 * election_timeout_ms)

"""What a node has done so far, as plain numbers: the hot path adds, /metrics reads."""

from __future__ import annotations

from dataclasses import dataclass, field

LAG_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


@dataclass(slots=True)
class LoopLag:
    """How late the event loop runs what is due: the longest single turn shows here."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LAG_BUCKETS_S) + 1))
    sum_s: float = 0.0
    max_s: float = 0.0

    def note(self, lag_s: float) -> None:
        self.sum_s += lag_s
        self.max_s = max(self.max_s, lag_s)
        for place, bound in enumerate(LAG_BUCKETS_S):
            if lag_s <= bound:
                self.counts[place] += 1
                return
        self.counts[-1] += 1


@dataclass(slots=True)
class AuditCounters:
    """What became of what was noted: a sink that is lost is seen here."""

    written: int = 0
    """Lines in the file."""
    delivered: int = 0
    """Records in the topic."""
    folded: int = 0
    """Said once, and counted."""
    not_kept: int = 0
    """Came faster than they were written."""
    not_written: int = 0
    """The file could not take them."""
    not_delivered: int = 0
    """The topic could not take them: the file has them."""


@dataclass(slots=True)
class LoginCounters:
    """Who came in, who did not, and who stayed longer than their session lasted."""

    succeeded: int = 0
    failed: int = 0
    expired: int = 0
    """Connections closed because their session had ended, and they asked for more."""


@dataclass(slots=True)
class Counters:
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    refused_writes: int = 0
    refused_connections: int = 0
    connections: int = 0
    scrubbed_bytes: int = 0
    scrubbed_segments: int = 0
    damage_found: int = 0
    replicas_given_up: int = 0
    audit: AuditCounters = field(default_factory=AuditCounters)
    logins: LoginCounters = field(default_factory=LoginCounters)
    loop_lag: LoopLag = field(default_factory=LoopLag)

"""What a topic may ask of its logs."""

from __future__ import annotations

from dataclasses import dataclass

NO_LAG_LIMIT = 2**63 - 1
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """Kafka's topic settings about compaction, with Kafka's defaults."""

    min_dirty_ratio: float = 0.5
    """What share of a log must be dirty before it is worth reading and writing all of it."""
    min_lag_ms: int = 0
    """The shortest time that a record stays as it was written."""
    max_lag_ms: int = NO_LAG_LIMIT
    """The longest time that a record waits, whatever the ratio."""
    delete_retention_ms: int = 86_400_000
    """How long tombstones are kept after they were first cleaned, so that slow readers see them."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Kafka's topic settings that storage obeys, with Kafka's defaults. May be replaced while the log is in use."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * HOUR_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int | None = 7 * 24 * HOUR_MS
    """None keeps records for ever."""
    retention_bytes: int | None = None
    compaction: CompactionSettings | None = None
    """None for a log that is not compacted (any more)."""

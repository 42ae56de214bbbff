"""What a topic may ask of its logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.storage.compaction.choice import CompactionSettings

HOUR_MS = 3_600_000


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

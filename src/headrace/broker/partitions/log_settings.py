"""What storage needs of a topic's settings, in its own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.storage.settings import CompactionSettings, LogSettings

if TYPE_CHECKING:
    from headrace.metadata.configs.settings import TopicSettings

NO_LIMIT: Final = -1


def log_settings(settings: TopicSettings) -> LogSettings:
    deletes = settings.deletes_old_segments
    compaction = _compaction_settings(settings) if settings.is_compacted else None
    return LogSettings(
        segment_bytes=settings.segment_bytes,
        # Only what is in a sealed segment can be compacted.
        segment_ms=settings.segment_ms if compaction is None else min(settings.segment_ms, compaction.max_lag_ms),
        segment_index_bytes=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        retention_ms=settings.retention_ms if deletes and settings.retention_ms != NO_LIMIT else None,
        retention_bytes=settings.retention_bytes if deletes and settings.retention_bytes != NO_LIMIT else None,
        compaction=compaction,
    )


def _compaction_settings(settings: TopicSettings) -> CompactionSettings:
    return CompactionSettings(
        min_dirty_ratio=settings.min_cleanable_dirty_ratio,
        min_lag_ms=settings.min_compaction_lag_ms,
        max_lag_ms=settings.max_compaction_lag_ms,
        delete_retention_ms=settings.delete_retention_ms,
    )

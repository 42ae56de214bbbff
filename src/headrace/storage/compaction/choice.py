"""Which logs are worth cleaning, and how far. Pure: told what a log looks like, it says what to do.

Only sealed segments are cleaned, only below the last stable offset, so that what is cleaned is committed and decided,
and only what is flushed, so that the files of a new segment are never less safe than those that it replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.storage.files.cleaner_checkpoint import CleanerCheckpoint
    from headrace.storage.segments.segment_span import SealedSegment
    from headrace.storage.settings import CompactionSettings


class Dirtiness(NamedTuple):
    first_dirty_offset: int
    end_offset: int
    """Where the cleanable part ends (exclusive); a segment ends there."""
    clean_bytes: int
    dirty_bytes: int
    is_due: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def assess(
    segments: Sequence[SealedSegment],
    checkpoint: CleanerCheckpoint,
    settings: CompactionSettings,
    *,
    start_offset: int,
    safe_offset: int,
    now_ms: int,
) -> Dirtiness:
    """What may be cleaned of a log whose sealed segments these are. `safe_offset` (exclusive) bounds what is decided
    and flushed."""
    first_dirty = max(checkpoint.clean_end_offset, start_offset)
    end_offset = start_offset
    clean_bytes = dirty_bytes = 0
    oldest_dirty_ms = -1
    for segment in segments:
        is_dirty = segment.end_offset > first_dirty
        if segment.end_offset > safe_offset or (is_dirty and _is_young(segment, settings, now_ms)):
            break
        end_offset = segment.end_offset
        if not is_dirty:
            clean_bytes += segment.size
            continue
        if not dirty_bytes:
            oldest_dirty_ms = segment.oldest_ms
        share = (segment.end_offset - max(first_dirty, segment.base_offset)) / (
            segment.end_offset - segment.base_offset
        )
        dirty_bytes += round(segment.size * share)
        clean_bytes += segment.size - round(segment.size * share)
    found = Dirtiness(min(first_dirty, end_offset), end_offset, clean_bytes, dirty_bytes, is_due=False)
    has_waited = dirty_bytes > 0 and 0 <= oldest_dirty_ms < now_ms - settings.max_lag_ms
    is_dirty_enough = dirty_bytes > 0 and found.ratio > settings.min_dirty_ratio
    has_outlived = 0 <= checkpoint.latest_horizon_ms <= now_ms and clean_bytes > 0
    return found._replace(is_due=has_waited or is_dirty_enough or has_outlived)


def _is_young(segment: SealedSegment, settings: CompactionSettings, now_ms: int) -> bool:
    return settings.min_lag_ms > 0 and segment.newest_ms > now_ms - settings.min_lag_ms

"""What recovery is asked to open, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.model.names import LogId
    from headrace.runtime.disk import Disk
    from headrace.storage.settings import LogSettings


@dataclass(slots=True)
class RecoveryReport:
    """What was found and done, for the node to tell its operator."""

    log_id: LogId
    verified_batches: int = 0
    verified_bytes: int = 0
    cut_bytes: int = 0
    cut_kept_in: list[str] = field(default_factory=list)
    """Files that hold a copy of what was cut, if whole batches were among it."""
    rebuilt_indexes: int = 0
    notes: list[str] = field(default_factory=list)
    """Sentences for the operator; empty if there is nothing to say."""


@dataclass(frozen=True, slots=True)
class RecoveryJob:
    """One log that is being opened."""

    disk: Disk
    directory: str
    settings: LogSettings
    recovery_point: int
    """Up to here (exclusive) it was once flushed."""
    start_offset: int
    """Where it begins, as far as that was stored."""
    report: RecoveryReport

"""What the parts of one log share: whose it is, where it begins and ends, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.storage.files import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.model.names import LogId
    from headrace.replication.producers import ProducerStates
    from headrace.storage.files.cleaner_checkpoint import CleanerCheckpoint
    from headrace.storage.files.leader_epochs import LeaderEpochs
    from headrace.storage.segments.segment import Segment
    from headrace.storage.settings import LogSettings


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """What was found on disk when a log was opened, or put there when it was created."""

    segments: Sequence[Segment]
    epochs: LeaderEpochs
    producers: ProducerStates
    snapshot_offset: int
    """Where the newest snapshot of its producers ends; NO_SNAPSHOT if there is none."""
    start_offset: int
    next_offset: int
    flushed_offset: int
    cleaner_checkpoint: CleanerCheckpoint | None = None


class LogState:
    """What a log's parts see of each other: retention moves its start, an append its end, a flush what is flushed."""

    __slots__ = (
        "cleaner_checkpoint",
        "cuts",
        "directory",
        "flushed_offset",
        "high_watermark",
        "is_closed",
        "log_id",
        "next_offset",
        "settings",
        "start_offset",
    )

    def __init__(self, log_id: LogId, settings: LogSettings, loaded: LoadedLog) -> None:
        self.log_id = log_id
        self.directory = layout.directory_of(log_id)
        self.settings = settings
        self.start_offset = loaded.start_offset
        self.next_offset = loaded.next_offset
        self.flushed_offset = loaded.flushed_offset
        self.high_watermark = loaded.start_offset
        """Set by the replica's mind, never decided here."""
        self.cuts = 0
        """How often the log was truncated, so that those who looked before can tell."""
        self.cleaner_checkpoint = loaded.cleaner_checkpoint
        """How far it is compacted; None if it never was, nor was copied from one that is."""
        self.is_closed = False

    @property
    def may_have_gaps(self) -> bool:
        """Whether offsets may be missing: it was compacted at some time, or copied from a log that was."""
        return self.cleaner_checkpoint is not None

"""The logs of a node: open, on disk and not opened, or prepared for whoever asks next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.storage.files.damage import DamagedLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.model.names import LogId
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.recovery.job import RecoveryReport

PreparedLog = tuple["PartitionLog", "RecoveryReport | None"] | DamagedLog | Refusal


class KnownLogs:
    def __init__(self) -> None:
        self.open: dict[LogId, PartitionLog] = {}
        self.unopened: dict[LogId, None] = {}
        """On disk, and nobody has asked for them."""
        self.prepared: dict[LogId, PreparedLog] = {}
        """Opened or created, or not, but not yet asked for."""

    def created(self, log_ids: Iterable[LogId] | None = None) -> list[PartitionLog]:
        """Those of them that are prepared, and well; all if none are named."""
        found = map(self.prepared.get, self.prepared if log_ids is None else log_ids)
        return [prepared[0] for prepared in found if isinstance(prepared, tuple)]

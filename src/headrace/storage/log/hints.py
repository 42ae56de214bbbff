"""Files that make the next start quicker: index entries and leader epochs. All of it could be read from the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.files import checkpoints, layout
from headrace.storage.files.side_files import SideFile, note_written, write_all

if TYPE_CHECKING:
    from headrace.storage.files.leader_epochs import LeaderEpochs
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.storage.log.transaction_indexes import TransactionIndexes


class Hints:
    __slots__ = ("_epochs", "_log", "_saved_epoch_changes", "_segments", "_transactions")

    def __init__(
        self, log: LogState, segments: LogSegments, transactions: TransactionIndexes, epochs: LeaderEpochs
    ) -> None:
        self._log = log
        self._segments = segments
        self._transactions = transactions
        self._epochs = epochs
        self._saved_epoch_changes = 0

    def side_files(self) -> list[SideFile]:
        """What has to be written anew as a whole."""
        epochs = self.epochs_file()
        return self._transactions.side_files() + ([] if epochs is None else [epochs])

    @property
    def has_wrong_files(self) -> bool:
        """Some of `side_files` hold what is not so."""
        return self._transactions.has_wrong_files

    def epochs_file(self) -> SideFile | None:
        """Also before a new start is stored: who wrote the last record before it cannot be read from the log later."""
        changes = self._epochs.changes
        if self._saved_epoch_changes == changes:
            return None

        def note() -> None:
            self._saved_epoch_changes = changes

        content = checkpoints.encode_epochs(self._epochs.entries)
        return SideFile(f"{self._log.directory}/{layout.EPOCHS}", content, note, is_trusted=False)

    def extend(self) -> None:
        """Append index entries that only memory has to their files, once all `side_files` are written.

        Must be followed by a sync before a recovery point beyond them is stored. A Refusal forbids that point.
        """
        active = self._segments.active
        if active.index:
            active.save_indexes(self._segments.disk)
        self._transactions.save()

    def save(self) -> None:
        """All of it at once. This may wait for the device."""
        files = self.side_files()
        write_all(self._segments.disk, files)
        if not note_written(files):
            raise self._segments.full()
        self.extend()

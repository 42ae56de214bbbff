"""The word for a log whose bytes are not what was written."""

from __future__ import annotations

from headrace.model.errors import Fault

RESTORE_OR_REMOVE = (
    "Restore the file from a backup, or remove the partition's directory to start it empty, then restart the node"
)


class DamagedLog(Fault):
    """A file is damaged where a crash cannot have damaged it. The partition goes offline; nothing is cut."""

    def __init__(self, path: str, position: int, offset: int, problem: str, *, advice: str = RESTORE_OR_REMOVE) -> None:
        super().__init__(
            f"{path} is damaged at byte {position} (offset {offset}): {problem}. Nothing was cut. {advice}"
        )
        self.path = path
        self.position = position
        self.offset = offset
        self.problem = problem

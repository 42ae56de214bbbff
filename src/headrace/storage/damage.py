"""The word for a log whose bytes are not what was written."""

from __future__ import annotations

from headrace.model.errors import Fault


class DamagedLog(Fault):
    """A file is damaged where a crash cannot have damaged it. The partition goes offline; nothing is cut."""

    def __init__(self, path: str, position: int, offset: int, problem: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {position} (offset {offset}): {problem}. Nothing was cut. Restore the file "
            f"from a backup, or remove the partition's directory to start it empty, then restart the node"
        )
        self.path = path
        self.position = position
        self.offset = offset
        self.problem = problem

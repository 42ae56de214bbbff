"""What a user is told when an export or an import cannot go on."""

from __future__ import annotations


class OfflineFailed(Exception):
    """One sentence that says what was wrong; `hint` says what to do."""

    def __init__(self, what: str, hint: str = "", *, is_not_found: bool = False) -> None:
        super().__init__(what)
        self.hint = hint
        self.is_not_found = is_not_found

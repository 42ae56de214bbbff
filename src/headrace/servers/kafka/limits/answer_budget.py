"""How large one answer may become that tells of many things, each of which others made as large as they liked.

A request of a few names would else make an answer that no memory holds. What does not fit any more is refused by
itself, and whoever asked may ask for it in another request. The first thing always fits: it has a limit of its own.
"""

from __future__ import annotations

from typing import Final

from headrace.model.errors import ErrorCode, Refusal

ANSWER_BYTES_MAX: Final = 32 << 20  # two of the largest groups; a thousand of the usual ones take less than one


class AnswerBudget:
    """For one answer. Sizes are about what its parts take."""

    __slots__ = ("_is_spent", "_taken")

    def __init__(self) -> None:
        self._taken = 0
        self._is_spent = False

    def check(self) -> None:
        """Before anything else is looked for. Raises Refusal if something did not fit already."""
        if self._is_spent:
            # Not a code that clients take as a reason to try again: the same request would end here every time.
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the answer would have more than {ANSWER_BYTES_MAX >> 20} MiB; ask for fewer at once",
            )

    def take(self, size: int) -> None:
        """Raises Refusal if so much does not fit beside what was taken before."""
        self._is_spent = self._taken > 0 and self._taken + size > ANSWER_BYTES_MAX
        self.check()
        self._taken += size

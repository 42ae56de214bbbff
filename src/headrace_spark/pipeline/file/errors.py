"""What is wrong with a pipeline's file, and where."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class PipelineError(Exception):
    """One thing that the author of a pipeline has to put right."""

    def __init__(self, path: Path, line: int | None, problem: str, hint: str = "") -> None:
        super().__init__(path, line, problem, hint)
        self.path = path
        self.line = line
        """Counted from 1; None if no line is to blame."""
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line is not None else str(self.path)
        return f"{where}: {self.problem}" + (f"; {self.hint}" if self.hint else "")


def choices_hint(wrong: str, choices: Iterable[str]) -> str:
    """The word that was probably meant, or all that there are."""
    known = sorted(choices)
    if not known:
        return "there is none"
    close = get_close_matches(wrong.lower(), known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"

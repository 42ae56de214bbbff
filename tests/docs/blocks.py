"""The fenced blocks of README.md and of the pages in docs/: what they say, and the commands in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))


class Command(NamedTuple):
    line: str
    shown: str
    """What the page shows as its output; nothing, if the page does not care."""


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def commands(self) -> list[Command]:
        """What stands after `$`, with the lines up to the next one; without any `$`, each line but comments."""
        if not re.search(r"^\$ ", self.text, flags=re.MULTILINE):
            lines = (re.sub(r"(^| {2,})#.*", "", line).strip() for line in self.text.splitlines())
            return [Command(line, "") for line in lines if line]
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [
            Command(re.sub(r" {2,}#.*", "", line), shown) for line, _, shown in (it.partition("\n") for it in parts)
        ]


def blocks_of(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text()
    for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        yield Block(page, text.count("\n", 0, fence.start()) + 1, fence[1], fence[2])

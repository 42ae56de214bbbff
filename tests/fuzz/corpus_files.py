"""The inputs that are kept: a file for each target, a line of base64 for each input.

Thousands of files would be more to carry than what is in them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

CORPUS: Final = Path(__file__).parent / "corpus"
KEPT_BYTES_MAX: Final = 100_000  # of a file; the smallest inputs first, as they are the clearest


def kept(name: str) -> list[bytes]:
    path = CORPUS / f"{name}.txt"
    return [b64decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(name: str, inputs: Iterable[bytes]) -> int:
    """Write them; how many there is room for."""
    lines: list[str] = []
    room = KEPT_BYTES_MAX
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        line = b64encode(data).decode()
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return len(lines)

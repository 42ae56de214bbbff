"""Answers go to stdout, talk goes to stderr."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class ReaderLeft(Exception):
    """Nobody reads what we print any more."""


def answer(text: str) -> None:
    answer_bytes(text.encode(errors="surrogateescape") + b"\n")


def answer_bytes(text: bytes) -> None:
    """Print at once: whoever follows a stream wants to see each message when it comes."""
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    except BrokenPipeError as gone:
        raise ReaderLeft from gone


def answer_json(value: object) -> None:
    answer(json.dumps(value, ensure_ascii=False, indent=2))


def talk(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Aligned columns, numbers to the right. Plain text, so that it can be piped."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    is_number = [any(type(row[i]) is int for row in rows) for i in range(len(columns))]
    lines = []
    for line in [list(columns), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_number, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


def printable(text: str) -> str:
    """Names of groups, clients and users are whatever somebody has sent: they must not steer the terminal of whoever
    looks at them, nor look like lines of ours."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def bytes_text(count: float) -> str:
    """A size for people: three digits and a unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def duration_text(duration_ms: int) -> str:
    """A time for people: `0.4 s`, `12 s`, `5 min`, `3.2 h`, `9 days`."""
    seconds = duration_ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"


def moment_text(timestamp_ms: int) -> str:
    """A moment for people, in UTC: what logs and other nodes say can be compared with it."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def facts_text(facts: Sequence[tuple[str, object]]) -> str:
    """One fact per line, its name before it."""
    width = max(len(label) for label, _ in facts) + 1
    return "\n".join(f"{label + ':':<{width}} {value}" for label, value in facts)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

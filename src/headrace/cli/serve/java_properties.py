"""Java's properties files: names and texts, each with the line that it begins on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = " \t\f"
_NAME = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_MEANT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    line: int
    name: str
    text: str


class NotProperties(ValueError):
    """The text says in which line, and why."""


def read_properties(content: bytes) -> list[Property]:
    """In the order of the file, as Java reads it: in Latin-1, a name may come again. Raises NotProperties."""
    return [_property(number, line) for number, line in _logical_lines(content.decode("latin-1"))]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Without comments; what an odd number of backslashes at its end continues is joined."""
    begun, begun_at = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANK)
        if not begun_at and (not line or line[0] in "#!"):
            continue
        begun_at = begun_at or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield begun_at, begun + line
        begun, begun_at = "", 0
    if begun:  # the file ends in a backslash
        yield begun_at, begun


def _property(number: int, line: str) -> Property:
    name = _NAME.match(line)
    assert name is not None  # it may be empty
    separator = _SEPARATOR.match(line, name.end())
    assert separator is not None
    if not name[0]:
        raise NotProperties(f"line {number}: there is no name before {line[:40]!r}")
    return Property(number, _unescaped(name[0], number), _unescaped(line[separator.end() :], number))


def _unescaped(text: str, number: int) -> str:
    def meant(escape: re.Match[str]) -> str:
        letter = escape[1]
        if len(letter) == 5:
            return chr(int(letter[1:], 16))
        if letter == "u":
            raise NotProperties(f"line {number}: \\u needs four hexadecimal digits")
        return _MEANT.get(letter, letter)

    return _ESCAPE.sub(meant, text)

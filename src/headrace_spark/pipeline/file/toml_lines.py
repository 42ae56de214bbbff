"""Where in a TOML file each key stands. The standard library's reader does not tell.

The text has been read by `tomllib` before, so it is well-formed, and this scanner need only find its way: past
strings, comments and brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

KeyPath = tuple[str | int, ...]
"""The way to a value: ("source", 0, "topic") is the key `topic` of the first `[[source]]`."""

_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*(?:"(?P<basic>(?:[^"\\\n]|\\.)*)"|'(?P<literal>[^'\n]*)'|(?P<bare>[A-Za-z0-9_-]+))[ \t]*""")
_PIECE_OF_VALUE = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # up to two quotes may stand before the closing three
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|.",
    re.DOTALL,
)


class _KeyLine(NamedTuple):
    line: int
    """Where the key stands, counted from 1."""
    text_line: int
    """Where the text of a string begins: a line further down if the string opens with a line break."""


@dataclass(frozen=True)
class KeyLines:
    """The line of each key of a file."""

    lines: dict[KeyPath, _KeyLine]

    def line_of(self, key_path: KeyPath) -> int | None:
        """The line of the key, or of the nearest table around it that has a line of its own."""
        found = self._nearest(key_path)
        return found.line if found else None

    def text_line_of(self, key_path: KeyPath) -> int | None:
        """The line on which the first character of a string stands."""
        found = self._nearest(key_path)
        return found.text_line if found else None

    def _nearest(self, key_path: KeyPath) -> _KeyLine | None:
        for length in range(len(key_path), 0, -1):
            if key_path[:length] in self.lines:
                return self.lines[key_path[:length]]
        return None


def find_key_lines(text: str) -> KeyLines:
    """Scan a text that `tomllib` has read without an error."""
    return KeyLines(_Scanner(text).scan())


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._table: KeyPath = ()
        self._counts: dict[KeyPath, int] = {}  # how many tables an array of tables has so far
        self._lines: dict[KeyPath, _KeyLine] = {}

    def scan(self) -> dict[KeyPath, _KeyLine]:
        while self._skip(_BLANK):
            if self._text.startswith("[[", self._at):
                self._open_table(is_array=True)
            elif self._text.startswith("[", self._at):
                self._open_table(is_array=False)
            else:
                self._pass_entry()
        return self._lines

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        """Go past it; whether there is more."""
        found = pattern.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return self._at < len(self._text)

    def _open_table(self, *, is_array: bool) -> None:
        line = self._line()
        self._at += 2 if is_array else 1
        key_path = self._inside_arrays(self._key())
        self._at += 2 if is_array else 1
        if is_array:
            index = self._counts.get(key_path, 0)
            self._counts[key_path] = index + 1
            self._lines.setdefault(key_path, _KeyLine(line, line))
            key_path = (*key_path, index)
        self._table = key_path
        self._lines[key_path] = _KeyLine(line, line)

    def _inside_arrays(self, names: list[str]) -> KeyPath:
        """`[source.options]` belongs to the last `[[source]]` before it."""
        key_path: KeyPath = ()
        for depth, name in enumerate(names):
            key_path = (*key_path, name)
            if key_path in self._counts and depth < len(names) - 1:
                key_path = (*key_path, self._counts[key_path] - 1)
        return key_path

    def _pass_entry(self) -> None:
        line = self._line()
        names = self._key()
        self._at += 1  # the equals sign
        while self._text[self._at] in " \t":
            self._at += 1
        text_line = self._line() + self._text.startswith(('"""\n', '"""\r\n', "'''\n", "'''\r\n"), self._at)
        for length in range(1, len(names) + 1):
            self._lines.setdefault((*self._table, *names[:length]), _KeyLine(line, text_line))
        self._pass_value()

    def _pass_value(self) -> None:
        depth = 0
        while self._at < len(self._text):
            piece = _PIECE_OF_VALUE.match(self._text, self._at)
            assert piece is not None
            if piece[0] == "\n" and depth == 0:
                return
            depth += (piece[0] in "[{") - (piece[0] in "]}")
            self._at = piece.end()

    def _key(self) -> list[str]:
        names = []
        while True:
            found = _KEY.match(self._text, self._at)
            assert found is not None
            names.append(next(name for name in found.groups() if name is not None))
            self._at = found.end()
            if not self._text.startswith(".", self._at):
                return names
            self._at += 1

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

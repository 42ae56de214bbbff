"""The syntax of regular expressions over names of topics and transactions: text to tree.

It is RE2's, the syntax that Kafka promises for subscriptions, as far as names have a use for it: literals, '.',
classes, groups, '|', '*', '+', '?', '{m,n}' (lazy ones too: they match the same names), '^', '$', escapes such as '\\d'
and '\\.', and '(?i)' at the beginning. RE2 knows neither look-around nor back references.
"""

from __future__ import annotations

import re
import string
from typing import Final, NamedTuple

from headrace.model.errors import ErrorCode, Refusal

PATTERN_MAX = 1_000  # characters; a list of a few dozen topic names fits
NESTING_MAX = 50  # groups within groups: the parser is recursive
REPEAT_MAX = 1_000  # of '{m,n}', as in RE2; what it makes of the automaton is limited as well

TOPIC_ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
"""What topic names are made of. Nothing else needs to be told apart."""

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_DIGITS: Final = frozenset(string.digits)
_SPACE: Final = frozenset(" \t\n\f\r")
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
"""In capitals they mean all but these."""
_GROUP_HEAD: Final = re.compile(r"(?!\?)|\?:|\?P?<\w+>")
"""None, '?:' or a name: what is captured plays no part here."""


class Characters(NamedTuple):
    """One character out of these."""

    allowed: frozenset[str]


class InTurn(NamedTuple):
    parts: tuple[Node, ...]


class EitherOf(NamedTuple):
    choices: tuple[Node, ...]


class Repeated(NamedTuple):
    part: Node
    least: int
    most: int | None
    """None without a limit."""


class AtStart(NamedTuple):
    """Matches before the first character."""


class AtEnd(NamedTuple):
    """Matches after the last character."""


Node = Characters | InTurn | EitherOf | Repeated | AtStart | AtEnd


def parse(text: str, alphabet: frozenset[str]) -> Node:
    """`alphabet` is all that the names may hold. Raises Refusal(INVALID_REGULAR_EXPRESSION)."""
    if len(text) > PATTERN_MAX:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"a regular expression of {len(text)} characters; at most {PATTERN_MAX} are allowed",
        )
    return _Parser(text, alphabet).parse()


class _Parser:
    def __init__(self, text: str, alphabet: frozenset[str]) -> None:
        self._text = text
        self._alphabet = alphabet
        self._at = 0
        self._depth = 0
        self._ignores_case = False

    def parse(self) -> Node:
        self._ignores_case = self._skip("(?i)")
        node = self._either_of()
        if self._at < len(self._text):
            raise self._invalid("a ')' without its '('")
        return node

    def _either_of(self) -> Node:
        choices = [self._in_turn()]
        while self._skip("|"):
            choices.append(self._in_turn())
        return choices[0] if len(choices) == 1 else EitherOf(tuple(choices))

    def _in_turn(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._part()))
        return parts[0] if len(parts) == 1 else InTurn(tuple(parts))

    def _repeated(self, part: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        self._skip("?")
        if self._bounds() is not None:
            raise self._invalid("a repetition of a repetition")
        return Repeated(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        """How often the part before may come, if it says so."""
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._skip(sign):
                return least, most
        begin, end = self._at, self._text.find("}", self._at)
        if not self._text.startswith("{", begin) or end < 0:
            return None
        first, comma, last = self._text[begin + 1 : end].partition(",")
        if not _is_number(first) or not (last == "" or _is_number(last)):
            return None  # '{' stands for itself, as in RE2
        self._at = end + 1
        least = int(first)
        most = least if not comma else int(last) if last else None
        if max(least, most or 0) > REPEAT_MAX or (most is not None and most < least):
            raise self._invalid(f"the repetition {self._text[begin : end + 1]}")
        return least, most

    def _part(self) -> Node:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return Characters(self._class())
            case ".":
                return Characters(self._alphabet)
            case "^":
                return AtStart()
            case "$":
                return AtEnd()
            case "*" | "+" | "?":
                raise self._invalid(f"a {character!r} with nothing before it to repeat")
            case "\\":
                return self._escape()
        return Characters(self._folded(character))

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self._invalid(f"groups nested deeper than {NESTING_MAX}")
        head = _GROUP_HEAD.match(self._text, self._at)
        if head is None:
            raise self._invalid(f"a group that begins with '({self._text[self._at : self._at + 2]}'")
        self._at = head.end()
        node = self._either_of()
        if not self._skip(")"):
            raise self._invalid("a '(' without its ')'")
        self._depth -= 1
        return node

    def _escape(self) -> Node:
        character = self._next()
        if character == "A":
            return AtStart()
        if character == "z":
            return AtEnd()
        return Characters(self._escaped(character))

    def _escaped(self, character: str) -> frozenset[str]:
        named = self._named_class(character)
        if named is not None:
            return named
        if character.isalnum():
            raise self._invalid(f"the escape '\\{character}'")
        return frozenset(character)

    def _named_class(self, character: str) -> frozenset[str] | None:
        if character in _CLASSES:
            return _CLASSES[character] & self._alphabet
        if character.isupper() and character.lower() in _CLASSES:
            return self._alphabet - _CLASSES[character.lower()]
        return None

    def _class(self) -> frozenset[str]:
        """What stands between '[' and ']'. A ']' in first place stands for itself."""
        is_negated = self._skip("^")
        allowed: set[str] = set()
        is_first = True
        while is_first or not self._skip("]"):
            is_first = False
            allowed |= self._class_item()
        folded = frozenset().union(*map(self._folded, allowed))
        return self._alphabet - folded if is_negated else folded

    def _class_item(self) -> frozenset[str]:
        first = self._next()
        if first == "[" and self._text.startswith(":", self._at):
            raise self._invalid("a named class such as [:alpha:]")
        if first == "\\":
            first = self._next()
            named = self._named_class(first)
            if named is not None:
                return named
            (first,) = self._escaped(first)
        rest = self._text[self._at : self._at + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return frozenset(first)
        self._at += 1
        last = self._next()
        if last == "\\":
            last = self._next()
        if last < first:
            raise self._invalid(f"the range {first}-{last}")
        return frozenset(character for character in self._alphabet if first <= character <= last)

    def _folded(self, character: str) -> frozenset[str]:
        return frozenset((character.lower(), character.upper()) if self._ignores_case else character)

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._invalid("an end that comes too early")
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, expected: str) -> bool:
        if not self._text.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def _invalid(self, what: str) -> Refusal:
        return Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the regular expression {self._text!r} has {what} at character {self._at}; expected RE2's syntax",
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()

"""What a certificate's name makes of a principal, by Kafka's rules (`ssl.principal.mapping.rules`).

A rule is `DEFAULT`, the name as it is, or `RULE:pattern/replacement/` with an `L` or `U` behind it for lower or upper
case. The first whose pattern fits the whole name counts. Patterns are RE2's, which need time that grows with the name
and no faster.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import re2

NAME_MAX: Final = 4096  # characters of a certificate's name
_DEFAULT: Final = "DEFAULT"
_RULE: Final = "RULE:"
_PART = re.compile(r"((?:\\.|[^\\/])*)/")
_CASE = re.compile(r"[LU]?")
_END = re.compile(r"\s*(?:,\s*|$)")
_REFERENCE = re.compile(r"\\(.)|\$([0-9]{1,2})")


class NotRules(ValueError):
    """The text says what was wrong, and what was expected."""


class _Rule(NamedTuple):
    pattern: object
    replacement: str
    case: str


class NameRules:
    def __init__(self, text: str = _DEFAULT) -> None:
        """Raises NotRules."""
        self._rules: list[_Rule | None] = []
        """None is DEFAULT."""
        text = text.strip() or _DEFAULT
        position = 0
        while position < len(text):
            position = self._take_rule(text, position)

    def name_of(self, subject: str) -> str | None:
        """The principal's name; None if no rule fits."""
        if not subject or len(subject) > NAME_MAX:
            return None
        for rule in self._rules:
            name = subject if rule is None else _mapped(rule, subject)
            if name:
                return name
        return None

    def _take_rule(self, text: str, position: int) -> int:
        """Where the next one begins."""
        if text.startswith(_DEFAULT, position):
            rule, end = None, position + len(_DEFAULT)
        elif text.startswith(_RULE, position):
            rule, end = _rule(text, position + len(_RULE))
        else:
            raise NotRules(f"{text[position:][:100]!r}: expected DEFAULT or RULE:pattern/replacement/[LU]")
        after = _END.match(text, end)
        if after is None:
            raise NotRules(f"{text[end:][:100]!r}: expected a comma between rules, and L or U at the end of one")
        self._rules.append(rule)
        return after.end()


def _rule(text: str, position: int) -> tuple[_Rule, int]:
    pattern = _PART.match(text, position)
    replacement = pattern and _PART.match(text, pattern.end())
    if pattern is None or replacement is None:
        raise NotRules(f"{text[position:][:100]!r}: expected RULE:pattern/replacement/[LU]")
    case = _CASE.match(text, replacement.end())
    assert case is not None
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern[1].replace("\\/", "/"), options)
    except re2.error:
        raise NotRules(f"{pattern[1][:100]!r} is no regular expression of RE2") from None
    referred = [int(number) for _, number in _REFERENCE.findall(replacement[1]) if number]
    if max(referred, default=0) > compiled.groups:
        raise NotRules(f"{replacement[1][:100]!r} refers to a group that {pattern[1][:100]!r} does not have")
    return _Rule(compiled, replacement[1], case[0]), case.end()


def _mapped(rule: _Rule, subject: str) -> str | None:
    found = rule.pattern.fullmatch(subject)  # type: ignore[attr-defined]
    if found is None:
        return None

    def meant(sign: re.Match[str]) -> str:
        return sign[1] if sign[1] is not None else found[int(sign[2])] or ""

    name = _REFERENCE.sub(meant, rule.replacement)
    return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name

"""Option values, which all come as text: read them, or say in one sentence what was expected."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

INT64_MAX: Final = 2**63 - 1

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")


def boolean(name: str, text: str) -> bool:
    """`true` or `false`. Raises ValueError for anything else."""
    return one_of(name, text, ("true", "false")) == "true"


def one_of(name: str, text: str, choices: Sequence[str]) -> str:
    """One of these words; upper or lower case does not matter."""
    word = text.strip().lower()
    if word not in choices:
        raise ValueError(f"option '{name}' is {text!r}; expected is {' or '.join(choices)}")
    return word


def positive_number(name: str, text: str, maximum: int = INT64_MAX) -> int:
    """A whole number from 1 to `maximum`. Raises ValueError."""
    number = _whole_number(text)
    if number is None or not 0 < number <= maximum:
        raise ValueError(f"option '{name}' is {text!r}; expected is a positive whole number")
    return number


def timestamp_ms(name: str, text: str) -> int:
    """Milliseconds since 1970. Raises ValueError."""
    number = _whole_number(text)
    if number is None or not 0 <= number <= INT64_MAX:
        raise ValueError(f"option '{name}' is {text!r}; expected are milliseconds since 1970, such as 1767225600000")
    return number


def duration_ms(name: str, text: str) -> int:
    """As Spark writes them: `90s`, `15m`; a number alone counts milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or (found[2] or "ms") not in _UNITS_MS:
        raise ValueError(f"option '{name}' is {text!r}; expected is a time such as 500ms, 90s, 15m, 1h or 1d")
    return int(found[1]) * _UNITS_MS[found[2] or "ms"]


def names_between_commas(text: str) -> tuple[str, ...]:
    """Each once, in the order given."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _whole_number(text: str) -> int | None:
    try:
        return int(text.strip())
    except ValueError:
        return None

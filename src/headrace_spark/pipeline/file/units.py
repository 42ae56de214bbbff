"""Durations and sizes as people write them: "5 seconds", "128 MiB"."""

from __future__ import annotations

import re

_NUMBER_AND_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")

_SECONDS = {
    "millisecond": 0.001,
    "ms": 0.001,
    "second": 1,
    "s": 1,
    "minute": 60,
    "min": 60,
    "m": 60,
    "hour": 3600,
    "h": 3600,
    "day": 86400,
    "d": 86400,
}
_BYTES = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}


def parse_duration_s(text: str) -> float:
    """Seconds. ValueError says what is wrong with the text."""
    number, unit = _split(text, "a number and a unit, as in '5 seconds' or '2 minutes'")
    per_unit = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
    if per_unit is None:
        raise ValueError(f"{unit!r} is no unit of time; there are milliseconds, seconds, minutes, hours and days")
    return number * per_unit


def parse_size_bytes(text: str) -> int:
    """ValueError says what is wrong with the text."""
    number, unit = _split(text, "a number and a unit, as in '128 MiB'")
    per_unit = _BYTES.get(unit)
    if per_unit is None:
        raise ValueError(f"{unit!r} is no unit of size; there are B, KB, MB, GB, KiB, MiB and GiB")
    size_bytes = int(number * per_unit)
    if size_bytes < 1:
        raise ValueError(f"{text!r} is less than a byte")
    return size_bytes


def _split(text: str, expected: str) -> tuple[float, str]:
    found = _NUMBER_AND_UNIT.fullmatch(text)
    if found is None or not found[2]:
        raise ValueError(f"{text!r} is not {expected}")
    return float(found[1]), found[2].lower()

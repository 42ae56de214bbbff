"""Where to start reading, as a person says it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.cli.terminal.numbers import INT64_MAX
from headrace.cli.terminal.timestamps import parse_timestamp
from headrace.client.reading.consumer import AtTime
from headrace.client.reading.offsets import Edge

TIMESTAMP_FROM = 100_000_000_000  # a bare number from here on is a time in ms (1973): no partition is this long

EXPECTED = (
    "expected earliest, latest, an offset, -N for the last N messages of each partition, an ISO 8601 date from 1970 "
    "on, or milliseconds since 1970 (write @N for a number below 100,000,000,000)"
)


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """This many messages before the end of each partition."""

    count: int


OffsetSpec = int | Edge | AtTime | BeforeEnd


def parse_offset_spec(text: str) -> OffsetSpec:
    """Raises ValueError with what was expected."""
    if text in {"earliest", "latest"}:
        return Edge.EARLIEST if text == "earliest" else Edge.LATEST
    if text.startswith("@") and _is_number(text[1:]):
        return _at_time(int(text[1:]))
    if text.startswith("-") and _is_number(text[1:]):
        return BeforeEnd(int(text[1:]))
    if _is_number(text):
        number = int(text)
        return _at_time(number) if number >= TIMESTAMP_FROM else number
    try:
        return AtTime(parse_timestamp(text))
    except ValueError as wrong:
        raise ValueError(f"{text!r}: {EXPECTED}") from wrong


def start_offset(start: int | BeforeEnd, first: int, end: int) -> int:
    """An offset that exists, or the end: what lies outside is brought to the nearest edge."""
    offset = end - start.count if isinstance(start, BeforeEnd) else start
    return max(first, min(offset, end))


def _at_time(timestamp_ms: int) -> AtTime:
    if timestamp_ms > INT64_MAX:
        raise ValueError(f"{timestamp_ms} is too late; expected at most {INT64_MAX} milliseconds since 1970")
    return AtTime(timestamp_ms)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()

"""Entries of the audit as they were noted, which of them are wanted, and how they are shown. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from headrace.cli.terminal.output import printable
from headrace.cli.terminal.timestamps import parse_timestamp

UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"([0-9]{1,9})([smhd])")

Entry = dict[str, Any]


def parse_line(line: bytes) -> Entry | None:
    """None if it is none: half a line, or somebody else's."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("time"), str) else None


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. Raises ValueError."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return max(now_ms - int(ago[1]) * UNITS_MS[ago[2]], 0)
    try:
        return parse_timestamp(text)
    except ValueError as wrong:
        raise ValueError(f"{text!r} is no time; expected 90s, 15m, 1h, 7d or ISO 8601: {wrong}") from wrong


@dataclass(frozen=True, slots=True)
class Filter:
    """None takes all."""

    since_ms: int | None = None
    until_ms: int | None = None
    principal: str | None = None
    action: str | None = None
    resource: str | None = None
    host: str | None = None
    outcome: str | None = None

    def takes(self, entry: Entry) -> bool:
        for name, wanted in (("principal", self.principal), ("host", self.host), ("outcome", self.outcome)):
            if wanted is not None and entry.get(name) != wanted:
                return False
        if self.action is not None and str(entry.get("action", "")).lower() != self.action.lower():
            return False
        if self.resource is not None and self.resource not in f"{entry.get('resource', '')} {entry.get('detail', '')}":
            return False
        return self._is_in_time(entry)

    def _is_in_time(self, entry: Entry) -> bool:
        if self.since_ms is None and self.until_ms is None:
            return True
        try:
            time_ms = parse_timestamp(entry["time"])
        except ValueError:
            return False
        return (self.since_ms is None or time_ms >= self.since_ms) and (
            self.until_ms is None or time_ms < self.until_ms
        )


def as_json(entry: Entry) -> str:
    return json.dumps(entry, ensure_ascii=True, separators=(",", ":"))


def as_text(entry: Entry) -> str:
    """One line, whatever clients have called themselves."""
    who = f"{entry.get('principal', '?')} from {entry.get('host') or '?'}"
    words = [
        entry["time"],
        f"node {entry.get('node', '?')}",
        who,
        f"{entry.get('action', '?')} {entry.get('outcome', '?')}",
        *(str(entry[name]) for name in ("resource", "detail") if entry.get(name)),
        *([f"client {entry['client_id']}"] if entry.get("client_id") else []),
        *([f"{entry['repeated']} times more"] if entry.get("repeated") else []),
    ]
    return "  ".join(printable(word) for word in words)

"""Says the same thing once: repeated refusals become one line and a count, so that being refused fills no disk.

What is folded is what anybody can cause as often as they like: refusals, failures, and logins. What somebody was
allowed to change is never folded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.audit import AuditEvent, Outcome
from headrace.access.identity import NOBODY

if TYPE_CHECKING:
    from headrace.access.identity import Identity

WINDOW_S: Final = 60.0
SOURCES_MAX: Final = 1000
KINDS_MAX: Final = 32  # of one source in a window; an attacker makes up as many names as it likes
LOGIN: Final = "Login"


class Folded(NamedTuple):
    """What happened several times more since it was noted first."""

    event: AuditEvent
    times: int


class _Kind(NamedTuple):
    action: str
    outcome: Outcome
    resource: str
    listener: str


@dataclass(slots=True)
class _Source:
    since_s: float
    first: dict[_Kind, AuditEvent] = field(default_factory=dict)
    more: dict[_Kind, int] = field(default_factory=dict)
    others: int = 0


def is_folded(event: AuditEvent) -> bool:
    return event.outcome is not Outcome.DONE or event.action == LOGIN


class Folding:
    def __init__(self, sources_max: int = SOURCES_MAX, kinds_max: int = KINDS_MAX) -> None:
        self._sources_max = sources_max
        self._kinds_max = kinds_max
        self._sources: dict[Identity, _Source] = {}
        """By the age of their windows, oldest first."""
        self._strangers = 0
        self._strangers_since_s = 0.0

    def __len__(self) -> int:
        return len(self._sources)

    def is_news(self, event: AuditEvent, now_s: float) -> bool:
        """Whether it is to be written now; if not, it was counted."""
        source = self._sources.get(event.identity)
        if source is None:
            if len(self._sources) >= self._sources_max:
                if not self._strangers:
                    self._strangers_since_s = now_s
                self._strangers += 1
                return False
            source = self._sources[event.identity] = _Source(now_s)
        kind = _Kind(event.action, event.outcome, event.resource, event.listener)
        if kind in source.first:
            source.more[kind] = source.more.get(kind, 0) + 1
            return False
        if len(source.first) >= self._kinds_max:
            source.others += 1
            return False
        source.first[kind] = event
        return True

    def due(self, now_s: float) -> list[Folded]:
        """What was counted in windows that are over. Call it every few seconds."""
        return self._closed(now_s - WINDOW_S)

    def close(self) -> list[Folded]:
        """All that was counted: nothing more comes."""
        return self._closed(float("inf"))

    def _closed(self, until_s: float) -> list[Folded]:
        folded: list[Folded] = []
        for identity, source in list(self._sources.items()):
            if source.since_s > until_s:
                break
            del self._sources[identity]
            folded += [Folded(source.first[kind], count) for kind, count in source.more.items()]
            if source.others:
                folded.append(_several(next(iter(source.first.values())), source.others))
        if self._strangers and self._strangers_since_s <= until_s:
            strangers, self._strangers = self._strangers, 0
            folded.append(_several(AuditEvent("", NOBODY, Outcome.REFUSED, detail="of many sources"), strangers))
        return folded


def _several(event: AuditEvent, count: int) -> Folded:
    """The rest of what one source did, without saying what each was."""
    detail = event.detail if event.identity == NOBODY else "other actions or resources"
    return Folded(replace(event, action="Several", resource="", detail=detail, outcome=Outcome.REFUSED), count)

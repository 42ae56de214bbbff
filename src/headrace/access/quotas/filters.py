"""Which quotas somebody asks for: each part of the filter is about one kind of name."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from headrace.access.quotas.entity import IP
from headrace.access.quotas.keys import KINDS, BadQuota

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.access.quotas.entity import QuotaEntity


class MatchType(IntEnum):
    """Kafka's numbers."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2
    """Whatever name, and the default."""


class FilterPart(NamedTuple):
    kind: str
    match: MatchType
    name: str | None = None


class UnknownKind(BadQuota):
    """Nothing of that kind has quotas here; where a newer Kafka runs it may."""


def check_filter(parts: Sequence[FilterPart]) -> None:
    """Raises BadQuota."""
    kinds = [part.kind for part in parts]
    for kind, match, name in parts:
        if not kind:
            raise BadQuota("a part of the filter has no entity type")
        if kind not in KINDS:
            raise UnknownKind(f"the entity type {kind[:200]!r} is not known; those are {', '.join(KINDS)}")
        if kinds.count(kind) > 1:
            raise BadQuota(f"the entity type {kind} stands in the filter more than once")
        if (match is MatchType.EXACT) != (name is not None):
            expected = "a name" if match is MatchType.EXACT else "no name"
            raise BadQuota(f"the filter for {kind} has match type {match.name.lower()}, to which belongs {expected}")
    if IP in kinds and len(kinds) > 1:
        raise BadQuota("an ip has quotas of its own: a filter for it does not go together with users or client ids")


def matches(entity: QuotaEntity, parts: Sequence[FilterPart], *, is_strict: bool) -> bool:
    """Whether the entity has all that is asked for; if `is_strict`, nothing else."""
    if is_strict and len(entity) != len(parts):
        return False
    names = dict(entity)
    return all(part.kind in names and _fits(part, names[part.kind]) for part in parts)


def _fits(part: FilterPart, name: str | None) -> bool:
    if part.match is MatchType.ANY:
        return True
    return name == part.name

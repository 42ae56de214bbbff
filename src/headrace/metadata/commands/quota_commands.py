"""Set, remove and look up quotas. Each entity is changed as a whole or not at all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.quotas.filters import FilterPart, UnknownKind, check_filter, matches
from headrace.access.quotas.keys import BadQuota, checked_value, entity_of, entity_text, key_for
from headrace.metadata.decisions.decision import Decision, Outcome
from headrace.metadata.image.access_image import NO_QUOTAS
from headrace.metadata.image.records import QuotaChanged
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.access.quotas.entity import EntityPart, QuotaEntity
    from headrace.metadata.image.cluster_image import ClusterImage

ENTITIES_MAX: Final = 10_000
"""Every node holds all of them in memory."""


class QuotaEdit(NamedTuple):
    key: str
    value: float | None
    """None removes it."""


@dataclass(frozen=True, slots=True)
class EntityEdits:
    entity: tuple[EntityPart, ...]
    """As it was asked for."""
    edits: tuple[QuotaEdit, ...]


class EntityQuotas(NamedTuple):
    entity: QuotaEntity
    values: tuple[tuple[str, float], ...]


def alter_quotas(
    image: ClusterImage, wanted: Sequence[EntityEdits], validate_only: bool = False
) -> Decision[list[Outcome[QuotaEntity]]]:
    """One outcome for each entity, in the order of the request."""
    mentions = Counter(tuple(sorted(edits.entity, key=str)) for edits in wanted)
    room = ENTITIES_MAX - len(image.access.quotas)
    records: list[QuotaChanged] = []
    outcomes: list[Outcome[QuotaEntity]] = []
    for edits in wanted:
        try:
            if mentions[tuple(sorted(edits.entity, key=str))] > 1:
                raise BadQuota("the request names this entity more than once")
            entity = entity_of(edits.entity)
            changed = _changes(image, entity, edits.edits)
        except BadQuota as problem:
            outcomes.append(Outcome("", Refusal(ErrorCode.INVALID_REQUEST, str(problem))))
            continue
        if entity not in image.access.quotas and any(record.value is not None for record in changed):
            if room <= 0:
                outcomes.append(Outcome(entity_text(entity), _too_many()))
                continue
            room -= 1
        records += changed
        outcomes.append(Outcome(entity_text(entity), entity))
    return Decision(() if validate_only else tuple(records), outcomes)


def describe_quotas(image: ClusterImage, parts: Sequence[FilterPart], *, is_strict: bool) -> list[EntityQuotas]:
    """The quotas that a filter lets through, in a fixed order. Raises Refusal."""
    try:
        check_filter(parts)
    except UnknownKind as problem:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, str(problem)) from None
    except BadQuota as problem:
        raise Refusal(ErrorCode.INVALID_REQUEST, str(problem)) from None
    quotas = image.access.quotas
    found = [entity for entity in quotas if matches(entity, parts, is_strict=is_strict)]
    return [EntityQuotas(entity, tuple(sorted(quotas[entity].items()))) for entity in sorted(found, key=_order)]


def _changes(image: ClusterImage, entity: QuotaEntity, edits: Sequence[QuotaEdit]) -> list[QuotaChanged]:
    before = image.access.quotas.get(entity, NO_QUOTAS)
    after: dict[str, float | None] = {}
    for edit in edits:
        key = key_for(entity, edit.key)
        if edit.key in after:
            raise BadQuota(f"{edit.key} is given more than once for {entity_text(entity)}")
        after[edit.key] = None if edit.value is None else checked_value(key, edit.value)
    return [QuotaChanged(entity, key, value) for key, value in after.items() if before.get(key) != value]


def _too_many() -> Refusal:
    return Refusal(
        ErrorCode.POLICY_VIOLATION,
        f"{ENTITIES_MAX} users, client ids and addresses have quotas, and no more are kept; use defaults",
    )


def _order(entity: QuotaEntity) -> list[tuple[str, bool, str]]:
    return [(part.kind, part.name is not None, part.name or "") for part in entity]

"""What the cluster has agreed on about access: who can log in, what rules there are, and which quotas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from headrace.metadata.image.maps import Map
from headrace.metadata.image.records import AclChanged, QuotaChanged, ScramChanged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.access.authentication.credentials import ScramUser, ScramVerifier
    from headrace.access.quotas.entity import QuotaEntity
    from headrace.access.rules.acl import Acl
    from headrace.metadata.image.records import AccessRecord

NO_QUOTAS: Map[str, float] = Map()


@dataclass(frozen=True, slots=True)
class AccessImage:
    """A part that has not changed is the same object in the next image: whoever compiles something from it looks at
    that."""

    verifiers: Map[ScramUser, ScramVerifier]
    acls: Map[Acl, None]
    quotas: Map[QuotaEntity, Map[str, float]]

    def after(self, record: AccessRecord) -> AccessImage:
        match record:
            case ScramChanged(user, verifier):
                if verifier is not None:
                    return replace(self, verifiers=self.verifiers.set(user, verifier))
                return replace(self, verifiers=self.verifiers.delete(user)) if user in self.verifiers else self
            case AclChanged():
                return replace(self, acls=with_changes(self.acls, [record]))
            case QuotaChanged():
                return self._with_quota(record)
            case _:
                assert_never(record)

    def _with_quota(self, record: QuotaChanged) -> AccessImage:
        before = self.quotas.get(record.entity, NO_QUOTAS)
        if record.value is not None:
            after = before.set(record.key, record.value)
        else:
            after = before.delete(record.key) if record.key in before else before
        if after:
            return replace(self, quotas=self.quotas.set(record.entity, after))
        return replace(self, quotas=self.quotas.delete(record.entity)) if record.entity in self.quotas else self

    def records(self) -> Iterator[AccessRecord]:
        """Applied to an empty image they give the same again."""
        for user in sorted(self.verifiers):
            yield ScramChanged(user, self.verifiers[user])
        for acl in sorted(self.acls):
            yield AclChanged(acl, exists=True)
        for entity in sorted(self.quotas, key=_order):
            for key in sorted(self.quotas[entity]):
                yield QuotaChanged(entity, key, self.quotas[entity][key])


def with_changes(acls: Map[Acl, None], changes: Iterable[AclChanged]) -> Map[Acl, None]:
    """Very many at once cost a microsecond each."""
    opened = acls.open()
    for change in changes:
        if change.exists:
            opened[change.acl] = None
        else:
            opened.discard(change.acl)
    return opened.close()


EMPTY_ACCESS = AccessImage(Map(), Map(), Map())


def _order(entity: QuotaEntity) -> list[tuple[str, bool, str]]:
    return [(part.kind, part.name is not None, part.name or "") for part in entity]

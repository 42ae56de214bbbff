"""Which of all quotas holds for somebody, and who has to share it with them.

Kafka's order: what names both user and client id goes before what names the user alone, and that before what names the
client id alone. In each of these the names themselves go before defaults, and a user's before a client id's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.access.quotas.entity import CLIENT_ID, DEFAULT, IP, USER, EntityPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.access.quotas.entity import QuotaEntity
    from headrace.access.quotas.keys import QuotaKey

    Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class Quota(NamedTuple):
    shared_by: QuotaEntity
    """With names, also where the quota has none: whoever has the default has it for themselves."""
    rate: float


def quota_of_client(quotas: Quotas, key: QuotaKey, user: str, client_id: str) -> Quota | None:
    for entity, shared_by in _of_client(user, client_id):
        values = quotas.get(entity)
        if values is not None and key.value in values:
            return Quota(shared_by, values[key.value])
    return None


def quota_of_address(quotas: Quotas, key: QuotaKey, address: str) -> Quota | None:
    shared_by = (EntityPart(IP, address),)
    for entity in (shared_by, (EntityPart(IP, DEFAULT),)):
        values = quotas.get(entity)
        if values is not None and key.value in values:
            return Quota(shared_by, values[key.value])
    return None


def _of_client(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, QuotaEntity]]:
    """As it may be named, and who is meant by it then."""
    own_user, any_user = EntityPart(USER, user), EntityPart(USER, DEFAULT)
    own_id, any_id = EntityPart(CLIENT_ID, client_id), EntityPart(CLIENT_ID, DEFAULT)
    for named_user in (own_user, any_user):
        yield (own_id, named_user), (own_id, own_user)
        yield (any_id, named_user), (own_id, own_user)
        yield (named_user,), (own_user,)
    for named_id in (own_id, any_id):
        yield (named_id,), (own_id,)

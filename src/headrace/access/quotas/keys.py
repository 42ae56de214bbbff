"""What can be limited, for whom, and by which numbers: Kafka's names and bounds."""

from __future__ import annotations

import math
from enum import Enum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from headrace.access.quotas.entity import CLIENT_ID, IP, USER, EntityPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.access.quotas.entity import QuotaEntity

NAME_MAX: Final = 1024
"""Characters; a name is kept on every node, in memory and on disk."""
NEARLY: Final = 1e-6
"""A number of bytes may have come through a computation: so far from a whole number it counts as one."""


class QuotaKey(Enum):
    """What is counted, each in so many per second."""

    PRODUCED_BYTES = "producer_byte_rate"
    FETCHED_BYTES = "consumer_byte_rate"
    REQUEST_TIME = "request_percentage"
    """In hundredths of the time of the thread that serves requests."""
    MUTATIONS = "controller_mutation_rate"
    """Partitions created and deleted."""
    CONNECTIONS = "connection_creation_rate"

    @property
    def is_whole(self) -> bool:
        return self in {QuotaKey.PRODUCED_BYTES, QuotaKey.FETCHED_BYTES, QuotaKey.CONNECTIONS}

    @property
    def most(self) -> float:
        """What fits into the field that it has elsewhere."""
        return float(2**31 - 1) if self is QuotaKey.CONNECTIONS else float(2**63 - 1)


KEYS_OF_IPS: Final = (QuotaKey.CONNECTIONS,)
KEYS_OF_CLIENTS: Final = tuple(key for key in QuotaKey if key not in KEYS_OF_IPS)
KINDS: Final = (CLIENT_ID, IP, USER)


class BadQuota(ValueError):
    """No quota can be as this one is; the text says why, and what could be."""


def entity_of(parts: Iterable[EntityPart]) -> QuotaEntity:
    """In its one order, if there can be such an entity; an address in its one form. Raises BadQuota."""
    found: dict[str, str | None] = {}
    for kind, name in parts:
        if kind not in KINDS:
            raise BadQuota(f"{_shown(kind)} is nothing that has quotas; those are {', '.join(KINDS)}")
        if kind in found:
            raise BadQuota(f"the entity has {kind} twice")
        found[kind] = name if name is None else _checked_name(kind, name)
    if not found:
        raise BadQuota("the entity is empty; it has a user, a client id or both, or an ip")
    if IP in found and len(found) > 1:
        raise BadQuota("an ip has quotas of its own: it does not go together with a user or a client id")
    return tuple(EntityPart(kind, found[kind]) for kind in sorted(found))


def key_for(entity: QuotaEntity, name: str) -> QuotaKey:
    """The key of that name, if the entity can have it. Raises BadQuota."""
    allowed = KEYS_OF_IPS if entity[0].kind == IP else KEYS_OF_CLIENTS
    for key in allowed:
        if key.value == name:
            return key
    words = ", ".join(key.value for key in allowed)
    raise BadQuota(f"{_shown(name)} cannot be set for {entity_text(entity)}; what can be is {words}")


def checked_value(key: QuotaKey, value: float) -> float:
    """A rate as it is kept. Raises BadQuota."""
    if not (math.isfinite(value) and 0 < value <= key.most):
        raise BadQuota(f"{key.value} is {value:g}; it must be greater than 0 and at most {key.most:.0f}")
    if not key.is_whole:
        return value
    if abs(value - round(value)) > NEARLY or not round(value):
        raise BadQuota(f"{key.value} is {value!r}; it must be a whole number")
    return float(round(value))


def entity_text(entity: Sequence[EntityPart]) -> str:
    """As `user 'alice', default client-id`."""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {_shown(name)}" for kind, name in reversed(entity))


def _checked_name(kind: str, name: str) -> str:
    if not name:
        raise BadQuota(f"the {kind} has an empty name; whoever has no quota of their own is meant by null")
    if len(name) > NAME_MAX:
        raise BadQuota(f"the {kind} has a name of {len(name)} characters, at most {NAME_MAX} are kept")
    if kind != IP:
        return name
    try:
        return str(ip_address(name))
    except ValueError:
        raise BadQuota(f"{_shown(name)} is no IP address, such as 192.0.2.7 or 2001:db8::7") from None


def _shown(name: str) -> str:
    return repr(name if len(name) <= NAME_MAX // 4 else f"{name[: NAME_MAX // 4]}…")

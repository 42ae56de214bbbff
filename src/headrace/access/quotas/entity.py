"""Whom a quota is for: a user, a client id, both, or an address; or whoever has none of their own."""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

DEFAULT: Final = None
"""In place of a name: whoever has no quota of their own."""


class EntityPart(NamedTuple):
    kind: str
    name: str | None


QuotaEntity = tuple[EntityPart, ...]
"""Its parts in the order of their kinds: two that mean the same are equal."""

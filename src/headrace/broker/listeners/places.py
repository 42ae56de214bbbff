"""Names and addresses of listeners, as Kafka writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.listeners import SecurityProtocol
from headrace.client.connections.view import parse_address
from headrace.metadata.configs.config_keys import split_list

if TYPE_CHECKING:
    from headrace.runtime.network import Address

EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - what an empty host stands for in Kafka's listeners
_PLACE: Final = re.compile(r"([A-Za-z0-9_-]+)://(\[[^\]]*\]|[^:/]*):(-?\d+)")
LISTENERS_MAX: Final = 16
"""Each has tables and a task of its own; Kafka's users have two or three."""


class UnusableListeners(ValueError):
    """Settings that no listener can be made of. The text says which, why, and what to do; it tells no secret."""

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(f"{setting}: {why}")
        self.setting = setting
        self.why = why


class Place(NamedTuple):
    name: str
    """In capitals."""
    at: Address


def places_of(text: str, setting: str) -> list[Place]:
    """`NAME://host:port,…`. Raises UnusableListeners."""
    found = [_place(part, setting) for part in split_list(text)]
    if len(found) > LISTENERS_MAX:
        raise UnusableListeners(setting, f"{len(found)} listeners; a node has {LISTENERS_MAX} at most")
    names = [place.name for place in found]
    for name in names:
        if names.count(name) > 1:
            raise UnusableListeners(setting, f"{name} is there twice; each listener has a name of its own")
    return found


def _place(text: str, setting: str) -> Place:
    parts = _PLACE.fullmatch(text)
    if parts is None:
        raise UnusableListeners(setting, f"{text[:100]!r} is no listener; expected NAME://host:port")
    name, host, port = parts.groups()
    try:
        return Place(name.upper(), parse_address(f"{host or EVERYWHERE}:{port}", port_min=0))
    except ValueError as wrong:
        raise UnusableListeners(setting, str(wrong)) from wrong


def address_of(text: str, setting: str) -> Address:
    """`host:port`. Raises UnusableListeners."""
    try:
        return parse_address(text, port_min=0)
    except ValueError as wrong:
        raise UnusableListeners(setting, str(wrong)) from wrong


def protocols_of(text: str, setting: str) -> dict[str, SecurityProtocol]:
    """`NAME:PROTOCOL,…`. Raises UnusableListeners."""
    found: dict[str, SecurityProtocol] = {}
    for part in split_list(text):
        name, colon, protocol = (it.strip().upper() for it in part.partition(":"))
        if not colon or not name:
            raise UnusableListeners(setting, f"{part[:100]!r} is no pair; expected NAME:PROTOCOL")
        if protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise UnusableListeners(setting, f"{name} has the protocol {protocol[:50]!r}; expected one of {known}")
        found[name] = SecurityProtocol[protocol]
    return found

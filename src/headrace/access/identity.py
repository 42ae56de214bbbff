"""Who asks: a principal, and the host that it asks from."""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"
SEPARATOR: Final = ":"


class Principal(NamedTuple):
    """Somebody with a name, as Kafka writes it: `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}{SEPARATOR}{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Whoever has not said who it is, where nobody has to."""

EVERYBODY: Final = Principal(USER, "*")
"""In a rule: whoever it is."""


class Identity(NamedTuple):
    """What the verdict on a request depends on."""

    principal: Principal
    host: str


NOBODY: Final = Identity(ANONYMOUS, "")
"""Before a connection has a peer."""


def parse_principal(text: str) -> Principal:
    """`User:alice`. Raises ValueError, with what was expected."""
    kind, sign, name = text.partition(SEPARATOR)
    if not sign or not kind or not name:
        raise ValueError(f"{text!r} is no principal; expected its kind and its name, such as {USER}{SEPARATOR}alice")
    return Principal(kind, name)


def parse_principals(text: str) -> frozenset[Principal]:
    """`User:alice;User:bob`: with semicolons, since the name on a certificate has commas. Raises ValueError."""
    return frozenset(parse_principal(part.strip()) for part in text.split(";") if part.strip())

"""Who can log in with a password, and what is pretended of everybody else.

An exchange for somebody who does not exist must look like one for somebody who does: it has a salt and iterations, the
same ones whenever and wherever it is tried, and costs the same work. So an unknown name is lent the shape of one of the
known users' verifiers, and a salt, chosen by a hash of the name that needs a secret of the cluster. The secret is the
salt of a verifier that belongs to the user without a name, who cannot log in: so it is where verifiers are, on every
node, and nothing else has to be kept.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.authentication.credentials import (
    SCRAM_MECHANISMS,
    USUAL_ITERATIONS,
    USUAL_SALT_BYTES,
    ScramMechanism,
    ScramUser,
    ScramVerifier,
    key_size,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET_HOLDER: Final = ScramUser("", ScramMechanism.SCRAM_SHA_512)
"""The user without a name."""

SECRET_BYTES: Final = 64


def holding_secret(secret: bytes) -> ScramVerifier:
    """What the user without a name has."""
    return ScramVerifier(secret, USUAL_ITERATIONS, bytes(key_size(SECRET_HOLDER.mechanism)), bytes(64))


class Found(NamedTuple):
    verifier: ScramVerifier
    mechanism: ScramMechanism
    is_known: bool
    """Whether there is such a user. To be looked at when everything else has been done."""


class _Shape(NamedTuple):
    mechanism: ScramMechanism
    iterations: int
    salt_bytes: int


class KnownUsers:
    """Of one state of the metadata."""

    def __init__(self, verifiers: Mapping[ScramUser, ScramVerifier], secret_of_node: bytes) -> None:
        """`secret_of_node` serves as long as the cluster has no user, and so no secret of its own."""
        self._verifiers = verifiers
        holder = verifiers.get(SECRET_HOLDER)
        self._secret = secret_of_node if holder is None else holder.salt
        self._shapes: dict[ScramMechanism | None, list[_Shape]] = {}
        """Of each mechanism; under None, what each user's PLAIN is checked by."""

    def for_scram(self, name: str, mechanism: ScramMechanism) -> Found:
        verifier = self._verifiers.get(ScramUser(name, mechanism)) if name else None
        pretended = self._pretended(name, mechanism)
        return pretended if verifier is None else Found(verifier, mechanism, is_known=True)

    def for_plain(self, name: str) -> Found:
        """Of a user's verifiers the one that costs least to check."""
        known = [it for mechanism in SCRAM_MECHANISMS.values() if (it := self.for_scram(name, mechanism)).is_known]
        return known[0] if known else self._pretended(name, None)

    def _pretended(self, name: str, mechanism: ScramMechanism | None) -> Found:
        shapes = self._shapes_of(mechanism)
        number = int.from_bytes(self._made_of(name, b"shape", 8), "big")
        shape = shapes[number % len(shapes)]
        label = shape.mechanism.hash_name.encode()
        size = key_size(shape.mechanism)
        verifier = ScramVerifier(
            self._made_of(name, b"salt" + label, shape.salt_bytes),
            shape.iterations,
            self._made_of(name, b"stored" + label, size),
            self._made_of(name, b"server" + label, size),
        )
        return Found(verifier, shape.mechanism, is_known=False)

    def _shapes_of(self, mechanism: ScramMechanism | None) -> list[_Shape]:
        shapes = self._shapes.get(mechanism)
        if shapes is None:
            shapes = self._shapes[mechanism] = self._all_shapes(mechanism)
        return shapes

    def _all_shapes(self, mechanism: ScramMechanism | None) -> list[_Shape]:
        shown: dict[str, _Shape] = {}
        for user in sorted(self._verifiers):
            verifier = self._verifiers[user]
            if user != SECRET_HOLDER and mechanism in {None, user.mechanism}:
                shown.setdefault(user.name, _Shape(user.mechanism, verifier.iterations, len(verifier.salt)))
        usual = _Shape(mechanism or ScramMechanism.SCRAM_SHA_256, USUAL_ITERATIONS, USUAL_SALT_BYTES)
        return list(shown.values()) or [usual]

    def _made_of(self, name: str, label: bytes, size: int) -> bytes:
        """Bytes that only whoever knows the secret can tell from chance. SHA-3 needs no HMAC around it."""
        parts = (self._secret, label, name.encode(errors="replace"))
        sized = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hashlib.shake_256(sized).digest(size)

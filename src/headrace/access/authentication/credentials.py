"""What is kept of a user's password: enough to check who knows it, not enough to log in with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.wire.sasl import scram_keys
from headrace.wire.sasl.scram import HASH_NAMES


class ScramMechanism(IntEnum):
    """Kafka's numbers (`ScramMechanism`)."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """hashlib's name of the hash that it is made of."""
        return HASH_NAMES[self.sasl_name]


SCRAM_MECHANISMS: Final = {
    mechanism.sasl_name: mechanism for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
}
"""By the names that SASL knows them by."""

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
SALT_BYTES_MIN: Final = 8
SALT_BYTES_MAX: Final = 128
USER_NAME_MAX: Final = 255  # bytes of UTF-8

USUAL_ITERATIONS: Final = 8192
USUAL_SALT_BYTES: Final = 32


class ScramUser(NamedTuple):
    """Each user may have a verifier for each mechanism."""

    name: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """RFC 5802: `StoredKey` checks a client's proof, `ServerKey` proves this side to the client."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def verifier_for(password: str, mechanism: ScramMechanism, salt: bytes, iterations: int) -> ScramVerifier:
    """Slow on purpose, a few milliseconds: call it in a thread."""
    salted = scram_keys.salted_password(mechanism.hash_name, password, salt, iterations)
    return verifier_from_salted(salted, mechanism, salt, iterations)


def verifier_from_salted(salted: bytes, mechanism: ScramMechanism, salt: bytes, iterations: int) -> ScramVerifier:
    """From what a client has made of the password. Whoever has that can log in, so it is not kept."""
    name = mechanism.hash_name
    stored = scram_keys.stored_key(name, scram_keys.client_key(name, salted))
    return ScramVerifier(salt, iterations, stored, scram_keys.server_key(name, salted))


def user_name_problem(name: str) -> str | None:
    """What is wrong with a user's name, and what was expected; None if nothing is."""
    if not name:
        return "a user has a name, and this one is empty"
    if len(name.encode(errors="replace")) > USER_NAME_MAX:
        return f"a user's name has {USER_NAME_MAX} bytes at most"
    if not name.isprintable() or name != name.strip():
        return "a user's name has printable characters only, and does not begin or end with a space"
    return None


def verifier_problem(mechanism: ScramMechanism, verifier: ScramVerifier) -> str | None:
    """Why this is no verifier to go by; None if it is one."""
    if not ITERATIONS_MIN <= verifier.iterations <= ITERATIONS_MAX:
        return f"{verifier.iterations} iterations; expected {ITERATIONS_MIN} to {ITERATIONS_MAX}"
    if not SALT_BYTES_MIN <= len(verifier.salt) <= SALT_BYTES_MAX:
        return f"a salt of {len(verifier.salt)} bytes; expected {SALT_BYTES_MIN} to {SALT_BYTES_MAX}"
    size = key_size(mechanism)
    if len(verifier.stored_key) != size or len(verifier.server_key) != size:
        return f"keys that are not {size} bytes long, as those of {mechanism.sasl_name} are"
    return None


def key_size(mechanism: ScramMechanism) -> int:
    """Bytes of a salted password, and of each key that is made of it."""
    return 32 if mechanism is ScramMechanism.SCRAM_SHA_256 else 64

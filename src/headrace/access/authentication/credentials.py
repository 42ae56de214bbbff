"""What is kept of a user's password: enough to check who knows it, not enough to log in with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple


class ScramMechanism(IntEnum):
    """Kafka's numbers (`ScramMechanism`)."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")


ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384


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

"""Chance. One seeded source in the simulator, the system's own in production."""

from __future__ import annotations

import random
import secrets
from typing import Protocol


class Entropy(Protocol):
    def token(self, size: int) -> bytes:
        """`size` bytes that nobody can guess."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1)."""
        ...


class SystemEntropy:
    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)

    def fraction(self) -> float:
        return random.random()  # noqa: S311 - jitter, not secrecy

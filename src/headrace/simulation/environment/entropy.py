"""Chance from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


class SeededEntropy:
    def __init__(self, random: Random) -> None:
        self._random = random

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def fraction(self) -> float:
        return self._random.random()

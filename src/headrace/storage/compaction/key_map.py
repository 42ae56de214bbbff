"""The newest offset of every key, in memory that does not grow.

An open-addressed table of plain numbers: 16 bytes of each key's hash and 8 of its offset, whatever the keys are. Two
keys with the same 128 bits would be taken for one; with four million keys that is less likely than a cosmic ray.

Who knows where a key goes could choose keys that all go to the same place, each search past all the others. So the
hash has a salt that nobody knows beforehand.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from struct import Struct

SLOT_BYTES = 24
FULL_AT = 0.75  # of all slots; beyond it a search passes by too many of the others
HASH_BYTES = 16
SALT_BYTES = 16  # as many as the hash takes; it costs no time

_HALVES = Struct("=QQ")


class KeyMap:
    __slots__ = ("_first_halves", "_limit", "_offsets", "_salt", "_second_halves", "_slots", "count")

    def __init__(self, memory_bytes: int, keys_expected: int, salt: bytes = b"") -> None:
        """Room for `keys_expected` keys, or for as many as `memory_bytes` hold: at least one."""
        slots = max(2, min(memory_bytes // SLOT_BYTES, int(keys_expected / FULL_AT) + 2))
        self._slots = slots
        self._salt = salt
        self._limit = max(1, int(slots * FULL_AT))
        self._first_halves = array("Q", (0,)) * slots
        self._second_halves = array("Q", (0,)) * slots
        self._offsets = array("q", (-1,)) * slots  # -1: the slot is free
        self.count = 0

    @property
    def memory_bytes(self) -> int:
        return self._slots * SLOT_BYTES

    def put(self, key: bytes, offset: int) -> bool:
        """Note that the key was written at `offset`, later than whatever is known. False if there is no room for it."""
        first, second = _HALVES.unpack(blake2b(key, digest_size=HASH_BYTES, salt=self._salt).digest())
        offsets, at = self._offsets, first % self._slots
        while offsets[at] >= 0:
            if self._first_halves[at] == first and self._second_halves[at] == second:
                offsets[at] = offset
                return True
            at += 1
            if at == self._slots:
                at = 0
        if self.count >= self._limit:
            return False
        self._first_halves[at], self._second_halves[at], offsets[at] = first, second, offset
        self.count += 1
        return True

    def latest(self, key: bytes) -> int:
        """The newest offset of the key, -1 if it was not met."""
        first, second = _HALVES.unpack(blake2b(key, digest_size=HASH_BYTES, salt=self._salt).digest())
        offsets, at = self._offsets, first % self._slots
        while offsets[at] >= 0:
            if self._first_halves[at] == first and self._second_halves[at] == second:
                return int(offsets[at])
            at += 1
            if at == self._slots:
                at = 0
        return -1

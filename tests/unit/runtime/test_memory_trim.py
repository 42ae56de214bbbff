"""Memory that was freed between what lives on goes back to the system."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headrace.runtime import memory_trim as free_memory
from headrace.runtime.memory_trim import MemoryTrim, glibc_trim, resident_bytes

MIB = 1 << 20
PIECE = 64 << 10  # smaller than what the C library asks the system for by itself
PIECES = 1600  # 100 MiB

pytestmark = pytest.mark.skipif(glibc_trim() is None, reason="missing: glibc, which alone has to be asked")


def test_holes_between_what_lives_on_are_given_back() -> None:
    before = resident_bytes()
    memory = MemoryTrim()
    pieces = [bytes([1]) * PIECE for _ in range(PIECES)]
    kept = pieces[::16]
    del pieces
    memory.look()
    assert resident_bytes() - before < len(kept) * PIECE + 24 * MIB
    assert all(piece == bytes([1]) * PIECE for piece in kept)


def test_what_is_needed_is_not_asked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test's own process has depends on what ran in it before, so that is made up."""
    has = [50 * MIB]
    monkeypatch.setattr(free_memory, "resident_bytes", lambda: has[-1])
    asked: list[int] = []
    memory = MemoryTrim()
    monkeypatch.setattr(memory, "_trim", lambda pad: asked.append(pad) or 1)
    has.append(150 * MIB)
    memory.look()
    memory.look()
    assert len(asked) == 1


def test_what_was_in_use_when_it_was_asked_for_is_asked_for_again_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has = [50 * MIB]
    monkeypatch.setattr(free_memory, "resident_bytes", lambda: has[-1])
    memory = MemoryTrim()
    has.append(110 * MIB)  # an attack, which goes on while it is asked
    asked: list[int] = []
    monkeypatch.setattr(memory, "_trim", lambda pad: asked.append(pad) or 1)

    def looks(count: int) -> list[bool]:
        """In which of them it was asked."""
        before = [len(asked)]
        for _ in range(count):
            memory.look()
            before.append(len(asked))
        return [later > sooner for sooner, later in pairwise(before)]

    assert [number for number, is_asked in enumerate(looks(40)) if is_asked] == [0, 2, 5, 10, 19, 36]
    has.append(60 * MIB)  # it went back
    assert not any(looks(10))
    has.append(80 * MIB)  # and grows again
    assert looks(1) == [True]

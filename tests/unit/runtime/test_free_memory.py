"""Memory that was freed between what lives on goes back to the system."""

from __future__ import annotations

import pytest

from headrace.runtime.free_memory import FreeMemory, glibc_trim, resident_bytes

MIB = 1 << 20
PIECE = 64 << 10  # smaller than what the C library asks the system for by itself
PIECES = 1600  # 100 MiB

pytestmark = pytest.mark.skipif(glibc_trim() is None, reason="missing: glibc, which alone has to be asked")


def test_holes_between_what_lives_on_are_given_back() -> None:
    before = resident_bytes()
    memory = FreeMemory()
    pieces = [bytes([1]) * PIECE for _ in range(PIECES)]
    kept = pieces[::16]
    del pieces
    memory.look()
    assert resident_bytes() - before < len(kept) * PIECE + 24 * MIB
    assert all(piece == bytes([1]) * PIECE for piece in kept)


def test_what_is_needed_is_not_asked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    memory = FreeMemory()
    monkeypatch.setattr(memory, "_trim", lambda pad: asked.append(pad) or 1)
    pieces = [bytes([1]) * PIECE for _ in range(PIECES)]
    memory.look()
    memory.look()
    assert len(asked) == 1
    assert len(pieces) == PIECES


def test_what_was_in_use_when_it_was_asked_for_is_given_back_later() -> None:
    before = resident_bytes()
    memory = FreeMemory()
    pieces = [bytes([1]) * PIECE for _ in range(PIECES)]
    memory.look()
    assert resident_bytes() - before > len(pieces) * PIECE / 2
    kept = pieces[::16]
    del pieces
    for _ in range(3):
        memory.look()
    assert resident_bytes() - before < len(kept) * PIECE + 24 * MIB

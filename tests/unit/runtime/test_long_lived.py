"""What makes up a node is kept out of the garbage collector's sight, and looked at again when much of it has gone."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.long_lived import CHANGED, COME, GONE, LongLived

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW = 10  # objects that come and go while a test runs


class Served:
    """A partition, or what stands for one: it refers to itself, so only a collection frees it."""

    living = 0

    def __init__(self) -> None:
        self.myself = self
        Served.living += 1

    def __del__(self) -> None:
        Served.living -= 1


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    Served.living = 0
    yield
    gc.unfreeze()
    gc.collect()


def test_what_has_come_is_frozen_once_it_is_much() -> None:
    served: list[Served] = []
    kept = LongLived(lambda: len(served), lambda: 0)
    before = gc.get_freeze_count()
    served += [Served() for _ in range(COME - 1)]
    kept.look()
    assert gc.get_freeze_count() == before
    served.append(Served())
    kept.look()
    assert gc.get_freeze_count() >= before + COME
    frozen = gc.get_freeze_count()
    kept.look()
    assert gc.get_freeze_count() <= frozen + FEW, "nothing has come since; what is frozen may go"


def test_what_has_changed_is_frozen_once_it_is_much() -> None:
    changes = 0
    kept = LongLived(lambda: 0, lambda: changes)
    changed = [Served() for _ in range(FEW)]
    before = gc.get_freeze_count()
    changes = CHANGED - 1
    kept.look()
    assert gc.get_freeze_count() == before
    changes = CHANGED
    kept.look()
    assert gc.get_freeze_count() >= before + len(changed)


def test_what_has_gone_is_freed_once_as_much_has_gone_as_has_stayed() -> None:
    served = [Served() for _ in range(3 * GONE)]
    count = 0
    kept = LongLived(lambda: count, lambda: 0)
    count = len(served)
    kept.look()
    del served[2 * GONE :]
    count = len(served)
    kept.look()
    assert Served.living == 3 * GONE, "what is frozen is not looked at"
    del served[GONE:]
    count = len(served)
    kept.look()
    assert Served.living == GONE

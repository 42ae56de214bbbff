"""Many who are woken at once: each is looked at, in order, and no turn is spent on all of them."""

from __future__ import annotations

import asyncio

from headrace.servers.kafka.limits.wakes import AT_ONCE, Wakes


class Sleeper:
    def __init__(self, number: int, seen: list[int]) -> None:
        self._number = number
        self._seen = seen

    def look(self) -> None:
        self._seen.append(self._number)


async def test_a_few_are_looked_at_at_once() -> None:
    wakes, seen = Wakes(), list[int]()
    for number in range(AT_ONCE):
        wakes.wake(Sleeper(number, seen))
    assert seen == list(range(AT_ONCE))


async def test_a_herd_takes_turns_and_others_have_theirs_between() -> None:
    wakes, seen = Wakes(), list[int]()
    for number in range(AT_ONCE * 5 + 3):
        wakes.wake(Sleeper(number, seen))
    most = 0
    while len(wakes):
        before = len(seen)
        await asyncio.sleep(0)
        most = max(most, len(seen) - before)
    assert most == AT_ONCE
    assert seen == list(range(AT_ONCE * 5 + 3))


async def test_whoever_is_woken_behind_a_herd_waits_for_it() -> None:
    wakes, seen = Wakes(), list[int]()
    for number in range(AT_ONCE + 2):
        wakes.wake(Sleeper(number, seen))
    await asyncio.sleep(0)
    wakes.wake(Sleeper(99, seen))
    assert seen[-1] == 99


async def test_single_wakes_are_never_held_up() -> None:
    wakes, seen = Wakes(), list[int]()
    for number in range(AT_ONCE * 4):
        wakes.wake(Sleeper(number, seen))
        assert seen[-1] == number
        await asyncio.sleep(0)

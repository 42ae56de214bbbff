"""Many who are woken at once: each is looked at, in order, and no turn is spent on all of them."""

from __future__ import annotations

import asyncio

from headrace.servers.kafka.limits.woken_fetches import AT_ONCE, WokenFetches


class WaitingFetch:
    def __init__(self, number: int, seen: list[int]) -> None:
        self._number = number
        self._seen = seen

    def look(self) -> None:
        self._seen.append(self._number)


async def test_a_few_are_looked_at_at_once() -> None:
    woken, seen = WokenFetches(), list[int]()
    for number in range(AT_ONCE):
        woken.wake(WaitingFetch(number, seen))
    assert seen == list(range(AT_ONCE))


async def test_a_herd_takes_turns_and_others_have_theirs_between() -> None:
    woken, seen = WokenFetches(), list[int]()
    for number in range(AT_ONCE * 5 + 3):
        woken.wake(WaitingFetch(number, seen))
    most = 0
    while len(woken):
        before = len(seen)
        await asyncio.sleep(0)
        most = max(most, len(seen) - before)
    assert most == AT_ONCE
    assert seen == list(range(AT_ONCE * 5 + 3))


async def test_whoever_is_woken_behind_a_herd_waits_for_it() -> None:
    woken, seen = WokenFetches(), list[int]()
    for number in range(AT_ONCE + 2):
        woken.wake(WaitingFetch(number, seen))
    await asyncio.sleep(0)
    woken.wake(WaitingFetch(99, seen))
    assert seen[-1] == 99


async def test_single_wakes_are_never_held_up() -> None:
    woken, seen = WokenFetches(), list[int]()
    for number in range(AT_ONCE * 4):
        woken.wake(WaitingFetch(number, seen))
        assert seen[-1] == number
        await asyncio.sleep(0)

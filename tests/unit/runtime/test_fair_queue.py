"""Who is next where only few may work at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from headrace.runtime.fair_queue import FairQueue


class Desk:
    """Everybody who has a turn is noted, and stays until told to go."""

    def __init__(self, places: int) -> None:
        self.turns = FairQueue(places)
        self.came: list[str] = []
        self._goes: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str) -> None:
        self._goes[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._stay(name))
        await settle()

    async def _stay(self, name: str) -> None:
        async with self.turns.turn(name[0]):
            self.came.append(name)
            await self._goes[name].wait()

    async def go(self, name: str) -> None:
        self._goes[name].set()
        await settle()

    async def lose(self, name: str) -> None:
        self._tasks[name].cancel()
        with suppress(asyncio.CancelledError):
            await self._tasks[name]
        await settle()


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def test_as_many_as_there_are_places_work_at_a_time() -> None:
    desk = Desk(2)
    for name in ("a1", "a2", "a3"):
        await desk.come(name)
    assert desk.came == ["a1", "a2"]
    assert len(desk.turns) == 1
    await desk.go("a1")
    assert desk.came == ["a1", "a2", "a3"]


async def test_addresses_come_in_turn_however_many_wait_for_one() -> None:
    desk = Desk(1)
    for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
        await desk.come(name)
    for _ in range(6):
        await desk.go(desk.came[-1])
    assert desk.came == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_who_leaves_the_line_is_not_called() -> None:
    desk = Desk(1)
    for name in ("a1", "a2", "b1"):
        await desk.come(name)
    await desk.lose("a2")
    assert len(desk.turns) == 1
    await desk.go("a1")
    assert desk.came == ["a1", "b1"]


async def test_a_place_is_not_lost_with_whoever_is_cancelled_in_it() -> None:
    desk = Desk(1)
    await desk.come("a1")
    await desk.lose("a1")
    await desk.come("a2")
    assert desk.came == ["a1", "a2"]


async def test_a_call_to_somebody_who_does_not_come_any_more_goes_to_the_next() -> None:
    turns = FairQueue(1)
    came = []

    async def work(name: str) -> None:
        async with turns.turn(name):
            came.append(name)

    first, second = asyncio.create_task(work("a")), asyncio.create_task(work("b"))
    third = asyncio.create_task(work("c"))
    await asyncio.sleep(0)  # the first has had its turn, the others stand in line
    assert (came, len(turns)) == (["a"], 2)
    await asyncio.sleep(0)  # the second is called
    assert len(turns) == 1
    second.cancel()
    await asyncio.wait({first, second, third}, timeout=5)
    assert came == ["a", "c"]


async def test_who_is_cancelled_while_it_is_called_does_not_take_the_place_along() -> None:
    """A task that was cancelled leaves the line only in its next step."""
    turns = FairQueue(1)
    came = []

    async def work(name: str) -> None:
        async with turns.turn("a"):
            came.append(name)

    async with turns.turn("a"):
        lost, next_ = asyncio.create_task(work("lost")), asyncio.create_task(work("next"))
        await settle()
    lost.cancel()
    await asyncio.wait({lost, next_}, timeout=5)
    assert came == ["next"]
    await asyncio.wait_for(work("last"), 5)
    assert (came, len(turns)) == (["next", "last"], 0)


async def test_between_two_turns_everybody_else_has_one() -> None:
    """Also if nobody awaits anything in its turn."""
    turns = FairQueue(1)
    seen: list[str] = []

    async def work() -> None:
        async with turns.turn("a"):
            seen.append("turn")

    async def other() -> None:
        for _ in range(20):
            seen.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(work(), work(), work(), other())
    text = " ".join(seen)
    assert text.count("turn") == 3
    assert "turn turn" not in text

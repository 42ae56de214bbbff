"""Waiting for many bytes: never woken too late, and looked at a few times however many appends there are."""

from __future__ import annotations

import math
import random
from collections import deque

import pytest

from headrace.broker.partitions.milestones import CHUNKS_MAX, CLEAN_FROM, ByteWait, Milestones, shares


class Part:
    """A partition as its milestones see it: batches of one offset each, some of them beyond the boundary."""

    def __init__(self) -> None:
        self.milestones = Milestones()
        self.boundary = 0
        self.end = 0
        self.written = 0
        self._beyond: deque[int] = deque()
        self.readable = 0

    def write(self, size: int) -> None:
        self._beyond.append(size)
        self.written += size
        self.milestones.wrote(self.end, self.written)
        self.end += 1

    def commit(self, count: int = 1 << 30) -> None:
        while count and self._beyond:
            self.readable += self._beyond.popleft()
            self.boundary += 1
            count -= 1
        self.milestones.moved_to(self.boundary)


class Fetch:
    """Looks when it is woken; knows whether it was needed."""

    def __init__(self, parts: list[Part], min_bytes: int) -> None:
        self.parts = parts
        self._from = sum(part.readable for part in parts)
        self.min_bytes = min_bytes
        self.looks = 0
        self._before = [part.written for part in parts]
        self.is_answered = False
        self._waiting: ByteWait | None = None
        self.look()

    @property
    def found(self) -> int:
        return sum(part.readable for part in self.parts) - self._from

    def look(self) -> None:
        self.looks += 1
        lacking = self.min_bytes - self.found
        if lacking <= 0:
            self.is_answered = True
            return
        self._waiting = ByteWait(self.look)
        gains = [part.written - before for part, before in zip(self.parts, self._before, strict=True)]
        self._before = [part.written for part in self.parts]
        for part, share in zip(self.parts, shares(lacking, gains), strict=True):
            part.milestones.wait(share, self._waiting, part.boundary, part.end, part.written)


def test_it_wakes_with_the_last_byte_and_not_before() -> None:
    part = Part()
    fetch = Fetch([part], 1000)
    for _ in range(9):
        part.write(100)
        part.commit()
    assert fetch.looks == 1
    part.write(99)
    part.commit()
    assert (fetch.looks, fetch.is_answered) == (1, False)
    part.write(1)
    part.commit()
    assert (fetch.looks, fetch.is_answered) == (2, True)


def test_bytes_count_once_they_are_readable() -> None:
    part = Part()
    fetch = Fetch([part], 1000)
    for _ in range(20):
        part.write(100)
    assert fetch.looks == 1
    part.commit(9)
    assert not fetch.is_answered
    part.commit(1)
    assert fetch.is_answered


def test_what_was_written_before_anybody_counted_is_looked_at_once_it_is_readable() -> None:
    part = Part()
    part.write(5000)
    fetch = Fetch([part], 1000)
    part.commit()
    assert fetch.is_answered


def test_a_boundary_that_stands_still_does_not_fill_the_memory() -> None:
    part = Part()
    fetch = Fetch([part], 10**9)
    for _ in range(5 * CHUNKS_MAX):
        part.write(1)
    assert len(part.milestones._chunks) == CHUNKS_MAX
    part.commit()
    assert fetch.looks == 1
    part.write(10**9)
    part.commit()
    assert fetch.is_answered


def test_those_who_have_gone_are_forgotten() -> None:
    milestones = Milestones()
    for _ in range(10_000):
        waiting = ByteWait(lambda: None)
        milestones.wait(1 << 30, waiting, 0, 0, 0)
        waiting.is_over = True
    assert len(milestones) <= 2 * CLEAN_FROM


@pytest.mark.parametrize("lacking", [1, 2, 7, 100, 10**6, 2**31])
@pytest.mark.parametrize("gains", [[0], [5], [0, 0, 0], [1, 0, 0], [7, 7, 7], [10**9, 1, 0], list(range(50))])
def test_shares_are_never_too_large_together(lacking: int, gains: list[int]) -> None:
    """Whoever gets one byte less than its share at each partition has not enough."""
    parts = shares(lacking, gains)
    assert len(parts) == len(gains)
    assert all(part >= 1 for part in parts)
    assert sum(part - 1 for part in parts) < lacking
    assert sum(parts) >= lacking


def test_nobody_to_share_with() -> None:
    assert shares(10, []) == []


@pytest.mark.parametrize("seed", range(40))
def test_a_fetch_is_woken_the_moment_it_has_enough(seed: int) -> None:
    chance = random.Random(seed)
    parts = [Part() for _ in range(chance.choice([1, 2, 5, 40]))]
    busy = parts[: chance.choice([1, len(parts)])]
    for _ in range(20):
        fetch = Fetch(parts, chance.choice([2, 100, 5000, 100_000]))
        for _ in range(10_000):
            part = chance.choice(busy)
            part.write(chance.choice([1, 70, 70, 1000, 20_000]))
            if chance.random() < 0.7:
                part.commit(chance.choice([1, 2, 1000]))
            has_enough = fetch.found >= fetch.min_bytes
            assert fetch.is_answered == has_enough, "too late" if has_enough else "too early"
            if has_enough:
                break
        for part in parts:
            part.commit()


@pytest.mark.parametrize("part_count", [1, 10, 500])
@pytest.mark.parametrize("busy_count", [1, 3, 500])
def test_looks_grow_with_the_logarithm_of_what_is_lacking(part_count: int, busy_count: int) -> None:
    parts = [Part() for _ in range(part_count)]
    busy = parts[:busy_count]
    min_bytes, size = 10_000_000, 100
    fetches = [Fetch(parts, min_bytes) for _ in range(5)]
    appends = 0
    while not fetches[0].is_answered:
        part = busy[appends % len(busy)]
        part.write(size)
        part.commit()
        appends += 1
    assert all(fetch.is_answered for fetch in fetches)
    assert appends == min_bytes // size
    # In the end a batch at any of the busy ones may be what was lacking, so each may lead to a look.
    looks = max(fetch.looks for fetch in fetches)
    print(looks)
    assert looks < 2 * math.log2(min_bytes) + len(busy)

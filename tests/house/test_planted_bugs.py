"""The catalogue of planted bugs fits the source, and is spread over all rooms. `make planted` tries each of them."""

from __future__ import annotations

from collections import Counter

import pytest

from tools.planted.catalogue import ROOMS, Bug, StaleBug, complaints, read_catalogue

IN_ALL_LEAST = 80
IN_A_ROOM_LEAST = 6


def test_every_bug_can_be_planted() -> None:
    assert complaints(read_catalogue()) == []


def test_there_are_enough_in_every_room() -> None:
    counts = Counter(bug.room for bug in read_catalogue())
    assert counts.total() >= IN_ALL_LEAST
    assert {room for room in ROOMS if counts[room] < IN_A_ROOM_LEAST} == set()


@pytest.mark.parametrize("source", ["other = 1\n", "kept = 1\nkept = 1\n"])
def test_a_text_that_is_not_there_exactly_once_is_stale(source: str) -> None:
    bug = Bug("one", "raft", "Something is wrong.", "src/one.py", "kept = 1\n", "kept = 2\n", ("tests",))
    assert bug.planted_in("kept = 1\n") == "kept = 2\n"
    with pytest.raises(StaleBug, match=r"one: its text is \d times in src/one.py, not once"):
        bug.planted_in(source)

"""A map is a dict that never changes, whatever is made from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.metadata.image.maps import BUCKET_ENTRIES, Map, OpenMap

MANY = BUCKET_ENTRIES * 20
KEYS = st.one_of(st.integers(-5, MANY), st.text(max_size=2))
CHANGES = st.lists(st.tuples(st.sampled_from(["set", "delete"]), KEYS), max_size=200)


def assert_same(found: Map[object, int] | OpenMap[object, int], expected: dict[object, int]) -> None:
    assert len(found) == len(expected)
    for key in [*expected, "not there", -1]:
        assert (key in found) == (key in expected)
        assert found.get(key) == expected.get(key)
        assert found.get(key, "default") == expected.get(key, "default")


@given(st.dictionaries(KEYS, st.integers(), max_size=MANY), st.lists(CHANGES, max_size=5))
def test_a_map_does_what_a_dict_does_and_earlier_maps_stay(
    first: dict[object, int], runs: list[list[tuple[str, object]]]
) -> None:
    history = [(Map(first), dict(first))]
    for changes in runs:
        opened, expected = history[-1][0].open(), dict(history[-1][1])
        for serial, (change, key) in enumerate(changes):
            if change == "set":
                opened[key] = expected[key] = serial
            else:
                opened.discard(key)
                expected.pop(key, None)
        assert_same(opened, expected)
        history.append((opened.close(), expected))
    for found, expected in history:
        assert_same(found, expected)
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert dict(found.items()) == expected
        assert sorted(found.values()) == sorted(expected.values())
        assert found == Map(expected)
        assert hash(found) == hash(Map(expected))


def test_what_is_written_after_closing_does_not_reach_what_was_closed() -> None:
    opened = Map({"a": 1}).open()
    opened["b"] = 2
    closed = opened.close()
    opened["b"] = 3
    assert closed == Map({"a": 1, "b": 2})
    assert opened.close() == Map({"a": 1, "b": 3})


def test_a_map_that_has_grown_equals_one_that_was_made_so() -> None:
    grown: Map[int, str] = Map()
    for number in range(MANY):
        grown = grown.set(number, "x")
    for number in range(1, MANY):
        grown = grown.delete(number)
    assert grown == Map({0: "x"})
    assert grown != Map({0: "y"})
    assert grown != Map({1: "x"})
    assert grown != {0: "x"}


def test_a_change_shares_all_but_one_bucket() -> None:
    before = Map(dict.fromkeys(range(MANY), "x"))
    after = before.set(3, "y")
    differing = [one for one, other in zip(before._buckets, after._buckets, strict=True) if one is not other]
    assert len(differing) == 1


def test_what_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(KeyError):
        Map({"a": 1}).delete("b")
    with pytest.raises(KeyError):
        Map({"a": 1}).open().pop("b")
    with pytest.raises(KeyError):
        Map({"a": 1})["b"]


@given(st.dictionaries(KEYS, st.integers(), max_size=MANY), CHANGES)
def test_what_one_map_has_and_the_other_lacks(first: dict[object, int], changes: list[tuple[str, object]]) -> None:
    before = Map(first)
    opened = before.open()
    for serial, (change, key) in enumerate(changes):
        if change == "set":
            opened[key] = serial
        else:
            opened.discard(key)
    after = opened.close()
    assert set(after.keys_not_in(before)) == set(after) - set(before)
    assert set(before.keys_not_in(after)) == set(before) - set(after)

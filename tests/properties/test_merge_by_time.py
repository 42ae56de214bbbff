"""The merge of partitions by time, against what it promises; the clock is the test's own."""

from __future__ import annotations

import math
from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.reading.merge import TimeMerge
from headrace.wire.batches.records import Record

IDLE_S = 10.0

timestamps = st.lists(st.integers(0, 50), max_size=12)
sources = st.dictionaries(st.integers(0, 5), timestamps, max_size=5)


def records_of(times: list[int]) -> list[Record]:
    return [Record(offset, time, None, None) for offset, time in enumerate(times)]


@given(sources.map(lambda found: {name: sorted(times) for name, times in found.items()}), st.integers(1, 7))
def test_sources_that_end_come_out_in_the_order_of_time(content: dict[int, list[int]], at_once: int) -> None:
    merge = TimeMerge(content)
    for name, times in content.items():
        merge.add(name, records_of(times))
        merge.end(name)
    merged: list[tuple[int, Record]] = []
    while taken := merge.take(0.0, at_once):
        assert len(taken) <= at_once
        merged += taken
    expected = sorted(
        ((name, record) for name in content for record in records_of(content[name])), key=lambda pair: pair[1].timestamp
    )
    assert [record.timestamp for _, record in merged] == [record.timestamp for _, record in expected]
    assert sorted(merged) == sorted(expected)
    assert merge.is_exhausted
    assert merge.late_count == 0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.lists(st.integers(0, 50), min_size=1, max_size=5)),
        st.tuples(st.just("end"), st.integers(0, 3), st.just([])),
        st.tuples(st.just("wait"), st.integers(1, 15), st.just([])),
    ),
    max_size=40,
)


@given(steps)
def test_nothing_is_lost_or_reordered_within_a_source_and_nobody_waits_longer_than_agreed(
    events: list[tuple[str, int, list[int]]],
) -> None:
    names = list(range(4))
    merge = TimeMerge(names, idle_wait_s=IDLE_S, now_s=0.0)
    now_s = 0.0
    given_in: dict[int, list[Record]] = {name: [] for name in names}
    came_out: dict[int, list[Record]] = {name: [] for name in names}
    ended: set[int] = set()
    for kind, number, times in events:
        if kind == "wait":
            now_s += number
        elif kind == "end":
            ended.add(number)
            merge.end(number)
        elif number not in ended:
            fresh = [Record(len(given_in[number]) + i, time, None, None) for i, time in enumerate(times)]
            given_in[number] += fresh
            merge.add(number, fresh)
        for name, record in merge.take(now_s, 10**6):
            came_out[name].append(record)
        held_back = any(len(came_out[name]) < len(given_in[name]) for name in names)
        assert held_back == (merge.ready_at_s() is not None)
        if held_back:
            ready_at_s = merge.ready_at_s()
            assert ready_at_s is not None
            assert now_s < ready_at_s <= now_s + IDLE_S
            assert merge.hungry  # it waits only for somebody
    for name, record in merge.take(now_s + IDLE_S, 10**6):
        came_out[name].append(record)
    # A source that ran dry at the last take may be waited for once more, but never in vain.
    while (ready_at_s := merge.ready_at_s()) is not None:
        for name, record in merge.take(ready_at_s, 10**6):
            came_out[name].append(record)
    assert came_out == given_in


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), min_size=1, max_size=30))
def test_late_records_are_counted(arrivals: list[tuple[int, int]]) -> None:
    merge = TimeMerge(range(3), idle_wait_s=0.0)
    seen: list[int] = []
    for name, time in arrivals:
        merge.add(name, [Record(0, time, None, None)])
        seen += [record.timestamp for _, record in merge.take(0.0, 100)]
    assert seen == [time for _, time in arrivals]  # nobody is waited for
    latest = -math.inf
    late = 0
    for time in seen:
        late += time < latest
        latest = max(latest, time)
    assert merge.late_count == late


def test_equal_times_come_out_in_the_order_of_the_sources() -> None:
    merge = TimeMerge(["b", "a"])
    for name in ("a", "b"):
        merge.add(name, records_of([5, 5]))
        merge.end(name)
    assert list(map(itemgetter(0), merge.take(0.0, 10))) == ["b", "b", "a", "a"]


def test_a_silent_source_is_waited_for_and_then_not() -> None:
    merge = TimeMerge(["busy", "silent"], idle_wait_s=IDLE_S, now_s=100.0)
    merge.add("busy", records_of([1, 2]))
    assert merge.take(109.9, 10) == []
    assert merge.ready_at_s() == 110.0
    assert merge.hungry == ["silent"]
    assert [record.timestamp for _, record in merge.take(110.0, 10)] == [1, 2]
    merge.add("busy", records_of([3]))
    assert [record.timestamp for _, record in merge.take(110.0, 10)] == [3]  # still silent: its wait is over
    merge.add("silent", records_of([0]))
    merge.add("busy", records_of([4]))
    assert [(name, record.timestamp) for name, record in merge.take(111.0, 1)] == [("silent", 0)]
    assert merge.late_count == 1
    assert merge.take(111.0, 10) == []  # it spoke, so it is waited for again

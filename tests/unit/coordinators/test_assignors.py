from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinators.groups.modern.assignors import (
    ASSIGNORS,
    Assignment,
    Subscriber,
    assign_range,
    assign_uniformly,
)
from headrace.model.names import LogId, TopicId

A, B, C = (TopicId(letter * 16) for letter in (b"a", b"b", b"c"))


def subscriber(member_id: str, *topic_ids: TopicId, held: str = "", instance_id: str | None = None) -> Subscriber:
    return Subscriber(member_id, instance_id, frozenset(topic_ids), parts(held))


def parts(text: str) -> frozenset[LogId]:
    """`a0 b12` is partition 0 of topic A and 12 of B."""
    return frozenset(LogId(TopicId(word[0].encode() * 16), int(word[1:])) for word in text.split())


def text_of(assignment: Assignment) -> dict[str, str]:
    return {
        member_id: " ".join(f"{chr(log_id.topic_id[0])}{log_id.partition}" for log_id in sorted(share))
        for member_id, share in assignment.items()
    }


def again(assignment: Assignment, *topic_ids: TopicId) -> list[Subscriber]:
    """The same members, holding what they were assigned."""
    return [Subscriber(member_id, None, frozenset(topic_ids), share) for member_id, share in assignment.items()]


@pytest.mark.parametrize(
    ("subscribers", "counts", "expected"),
    [
        pytest.param([], {}, {}, id="nobody"),
        pytest.param([subscriber("x")], {}, {"x": ""}, id="no subscription"),
        pytest.param([subscriber("x", A)], {A: 0}, {"x": ""}, id="no partitions"),
        pytest.param(
            [subscriber("x", A, B), subscriber("y", A, B)],
            {A: 3, B: 3},
            {"x": "a0 a1 b0 b1", "y": "a2 b2"},
            id="topics are cut alike",
        ),
        pytest.param(
            [subscriber("x", A), subscriber("y", A, B), subscriber("z", B)],
            {A: 2, B: 2},
            {"x": "a0", "y": "a1 b0", "z": "b1"},
            id="each topic among its subscribers",
        ),
        pytest.param(
            [subscriber("x", A), subscriber("y", A), subscriber("z", A)],
            {A: 2},
            {"x": "a0", "y": "a1", "z": ""},
            id="more members than partitions",
        ),
        pytest.param(
            [subscriber("x", A), subscriber("z", A, instance_id="1"), subscriber("y", A, instance_id="2")],
            {A: 3},
            {"z": "a0", "y": "a1", "x": "a2"},
            id="static members first, by instance id",
        ),
        pytest.param(
            [subscriber("x", A, held="a3"), subscriber("y", A, held="a0 a1 a2")],
            {A: 4},
            {"x": "a0 a1", "y": "a2 a3"},
            id="ranges before habits",
        ),
    ],
)
def test_range(subscribers: list[Subscriber], counts: dict[TopicId, int], expected: dict[str, str]) -> None:
    assert text_of(assign_range(subscribers, counts)) == expected


@pytest.mark.parametrize(
    ("subscribers", "counts", "expected"),
    [
        pytest.param([], {}, {}, id="nobody"),
        pytest.param([subscriber("x")], {}, {"x": ""}, id="no subscription"),
        pytest.param(
            [subscriber("x", A, B), subscriber("y", A, B)],
            {A: 3, B: 1},
            {"x": "a0 a2", "y": "a1 b0"},
            id="even over all topics",
        ),
        pytest.param(
            [subscriber("x", A, held="a0 a1 a2 a3"), subscriber("y", A)],
            {A: 4},
            {"x": "a0 a1", "y": "a2 a3"},
            id="a new member gets its half",
        ),
        pytest.param(
            [subscriber("x", A, held="a1 a3"), subscriber("y", A, held="a0")],
            {A: 4},
            {"x": "a1 a3", "y": "a0 a2"},
            id="what is kept stays, orphans go where there is least",
        ),
        pytest.param(
            [subscriber("x", A, held="a0 a1 b0")],
            {A: 1},
            {"x": "a0"},
            id="gone partitions and topics are let go",
        ),
        pytest.param(
            [subscriber("x", A, held="a0"), subscriber("y", A, held="a0")],
            {A: 2},
            {"x": "a0", "y": "a1"},
            id="two that held the same",
        ),
        pytest.param(
            [subscriber("x", A, B), subscriber("y", A)],
            {A: 2, B: 2},
            {"x": "b0 b1", "y": "a0 a1"},
            id="what only one may have goes first",
        ),
        pytest.param(
            [subscriber("x", A, B, held="a0 b0 b1"), subscriber("y", A), subscriber("z", B)],
            {A: 1, B: 2},
            {"x": "b0", "y": "a0", "z": "b1"},
            id="subscriptions differ: to whoever may have it and has least",
        ),
        pytest.param(
            [subscriber("x", A), subscriber("y", B)],
            {A: 5, B: 1},
            {"x": "a0 a1 a2 a3 a4", "y": "b0"},
            id="uneven if it must be",
        ),
    ],
)
def test_uniform(subscribers: list[Subscriber], counts: dict[TopicId, int], expected: dict[str, str]) -> None:
    assert text_of(assign_uniformly(subscribers, counts)) == expected


TOPIC_SETS = st.frozensets(st.sampled_from([A, B, C]))


@given(
    subscriptions=st.lists(TOPIC_SETS, max_size=8),
    before=st.lists(TOPIC_SETS, max_size=8),
    counts=st.fixed_dictionaries({A: st.integers(0, 12), B: st.integers(0, 12), C: st.integers(0, 12)}),
    assignor=st.sampled_from(sorted(ASSIGNORS)),
)
def test_every_partition_has_one_owner_who_wants_it(
    subscriptions: list[frozenset[TopicId]],
    before: list[frozenset[TopicId]],
    counts: dict[TopicId, int],
    assignor: str,
) -> None:
    old = [Subscriber(f"m{place}", None, wanted, frozenset()) for place, wanted in enumerate(before)]
    held = ASSIGNORS[assignor](old, counts)
    new = [
        Subscriber(f"m{place}", None, wanted, held.get(f"m{place}", frozenset()))
        for place, wanted in enumerate(subscriptions)
    ]
    assignment = ASSIGNORS[assignor](new, counts)
    assert assignment.keys() == {member.member_id for member in new}
    owners = Counter(log_id for share in assignment.values() for log_id in share)
    wanted_topics = frozenset().union(*subscriptions)
    everything = {LogId(topic_id, partition) for topic_id in wanted_topics for partition in range(counts[topic_id])}
    assert owners == dict.fromkeys(everything, 1)
    for member in new:
        assert {log_id.topic_id for log_id in assignment[member.member_id]} <= member.topic_ids
    if assignor == "uniform":
        no_pair_could_do_better(new, assignment)


def no_pair_could_do_better(members: list[Subscriber], assignment: Assignment) -> None:
    for giver in members:
        for taker in members:
            has_a_gift = any(log_id.topic_id in taker.topic_ids for log_id in assignment[giver.member_id])
            if has_a_gift:
                assert len(assignment[giver.member_id]) - len(assignment[taker.member_id]) <= 1


@given(counts=st.tuples(st.integers(0, 40), st.integers(0, 40)), member_count=st.integers(1, 12))
def test_a_uniform_assignment_moves_only_what_it_must(counts: tuple[int, int], member_count: int) -> None:
    partition_counts = dict(zip((A, B), counts, strict=True))
    fresh = [subscriber(f"m{place}", A, B) for place in range(member_count)]
    before = assign_uniformly(fresh, partition_counts)
    assert assign_uniformly(again(before, A, B), partition_counts) == before

    joined = assign_uniformly([*again(before, A, B), subscriber("new", A, B)], partition_counts)
    for member_id, share in before.items():
        assert joined[member_id] <= share
    assert len(joined["new"]) == sum(counts) // (member_count + 1)

    left = assign_uniformly(again(joined, A, B)[:-1], partition_counts)
    for member_id in before:
        assert left[member_id] >= joined[member_id]


def test_the_order_of_members_does_not_matter() -> None:
    members = [subscriber("x", A, B, held="a0 a1"), subscriber("y", B, held="b3"), subscriber("z", A, C)]
    counts = {A: 5, B: 4, C: 3}
    for assign in ASSIGNORS.values():
        assert assign(members, counts) == assign(members[::-1], counts)

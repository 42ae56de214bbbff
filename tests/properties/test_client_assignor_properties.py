from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.groups.assignors import ASSIGNORS, Assignment, Assignor, Member, assign_sticky
from headrace.model.names import TopicPartition

TOPICS = "tuv"
ROUNDS_MAX = 6  # two where all want the same; a few more where wishes differ

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), min_size=1)
wishes = st.lists(st.frozensets(st.sampled_from(TOPICS)), min_size=1, max_size=6)


def members(topics: list[frozenset[str]], before: Assignment | None = None) -> list[Member]:
    before = before or {}
    return [
        Member(f"m{number}", None, wanted, tuple(before.get(f"m{number}", ())), 1)
        for number, wanted in enumerate(topics)
    ]


def wanted(topics: list[frozenset[str]], partition_counts: dict[str, int]) -> list[TopicPartition]:
    read = frozenset[str]().union(*topics)
    return sorted(
        TopicPartition(topic, index)
        for topic, count in partition_counts.items()
        if topic in read
        for index in range(count)
    )


def given_out(assignment: Assignment) -> list[TopicPartition]:
    return sorted(name for share in assignment.values() for name in share)


@given(counts, wishes, st.sampled_from(list(ASSIGNORS.values())))
def test_every_partition_has_exactly_one_reader_who_wants_it(
    partition_counts: dict[str, int], topics: list[frozenset[str]], assign: Assignor
) -> None:
    assignment = assign(members(topics), partition_counts)
    assert given_out(assignment) == wanted(topics, partition_counts)
    for number, wish in enumerate(topics):
        assert {name.topic for name in assignment[f"m{number}"]} <= wish


@given(counts, wishes, wishes)
def test_sticky_never_gives_away_what_another_still_reads_and_comes_to_rest_evenly(
    partition_counts: dict[str, int], before: list[frozenset[str]], after: list[frozenset[str]]
) -> None:
    assignment = assign_sticky(members(before), partition_counts)
    for _ in range(ROUNDS_MAX):
        present = members(after, assignment)
        owners = {name: reader.member_id for reader in present for name in reader.owned if name.topic in reader.topics}
        assignment = assign_sticky(present, partition_counts)
        for reader, share in assignment.items():
            assert all(owners.get(name, reader) == reader for name in share)
        if all(set(reader.owned) <= set(assignment[reader.member_id]) for reader in present):
            break  # nobody gave anything up, so nobody joins again
    assert given_out(assignment) == wanted(after, partition_counts)
    for share in assignment.values():
        for name in share:
            takers = [f"m{number}" for number, wish in enumerate(after) if name.topic in wish]
            assert all(len(share) <= len(assignment[taker]) + 1 for taker in takers)


@given(counts, st.integers(1, 6), st.integers(1, 6))
def test_sticky_moves_no_more_than_evenness_takes(partition_counts: dict[str, int], few: int, many: int) -> None:
    everything = frozenset(TOPICS)
    old = assign_sticky(members([everything] * few), partition_counts)
    new = assign_sticky(members([everything] * many, old), partition_counts)
    total = sum(partition_counts.values())
    for reader in (f"m{number}" for number in range(min(few, many))):
        kept = len(set(old[reader]) & set(new[reader]))
        assert kept >= min(len(old[reader]), total // many)

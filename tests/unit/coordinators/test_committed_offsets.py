from __future__ import annotations

import pytest

from headrace.coordinators.groups.offsets.committed_offsets import CommittedOffset, CommittedOffsets
from headrace.model.names import TopicPartition
from headrace.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

KEY = OffsetCommitKey("readers", "orders", 0)
PLACE = TopicPartition("orders", 0)
ONE, TWO = 1, 2


@pytest.fixture
def offsets() -> CommittedOffsets:
    return CommittedOffsets()


def value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset, commit_timestamp=1_000)


def offset_of(offsets: CommittedOffsets) -> int | None:
    found = offsets.get(KEY.group, KEY.topic, KEY.partition)
    return None if found is None else found.offset


def assert_nothing_is_left(offsets: CommittedOffsets) -> None:
    assert list(offsets.groups()) == []
    assert vars(offsets) == vars(CommittedOffsets())


@pytest.mark.parametrize(
    "committed",
    [
        OffsetCommitValue(0, -1, "", 0),
        OffsetCommitValue(2**63 - 1, 2**31 - 1, "Überall Größe, \N{ROCKET}", 2**62, 2**62 + 1),
        OffsetCommitValue(-1, 3, "x" * 4_096, 1_700_000_000_000),
    ],
)
def test_every_field_comes_back(offsets, committed):
    offsets.commit(KEY, committed)
    assert offsets.get("readers", "orders", 0) == CommittedOffset(
        committed.offset,
        committed.leader_epoch,
        committed.commit_timestamp,
        committed.expire_timestamp,
        committed.metadata,
    )


def test_the_last_commit_counts_even_if_it_goes_back(offsets):
    offsets.commit(KEY, value(20))
    offsets.commit(KEY, value(10))
    assert offset_of(offsets) == 10


def test_what_was_never_committed_is_not_there(offsets):
    offsets.commit(KEY, value(20))
    for place in [("others", "orders", 0), ("readers", "other", 0), ("readers", "orders", 1)]:
        assert offsets.get(*place) is None
        assert not offsets.has(place[0], TopicPartition(*place[1:]))


def test_what_is_forgotten_leaves_nothing(offsets):
    offsets.commit(KEY, value(20))
    offsets.forget(KEY)
    offsets.forget(KEY)
    assert_nothing_is_left(offsets)


def test_forgetting_one_partition_leaves_the_others(offsets):
    other = OffsetCommitKey("readers", "orders", 1)
    offsets.commit(KEY, value(20))
    offsets.commit(other, value(30))
    offsets.forget(KEY)
    assert list(offsets.places("readers")) == [TopicPartition("orders", 1)]


def test_an_offset_in_a_transaction_counts_when_it_commits(offsets):
    offsets.commit(KEY, value(10))
    offsets.commit_in_transaction(KEY, value(20), ONE)
    assert offset_of(offsets) == 10
    assert offsets.is_unstable("readers", PLACE)
    assert offsets.has_pending(ONE)

    offsets.end_transaction(ONE, is_commit=True)
    assert offset_of(offsets) == 20
    assert not offsets.is_unstable("readers", PLACE)
    assert not offsets.has_pending(ONE)


def test_an_aborted_transaction_leaves_nothing(offsets):
    offsets.commit_in_transaction(KEY, value(20), ONE)
    assert list(offsets.groups()) == ["readers"]
    offsets.end_transaction(ONE, is_commit=False)
    assert_nothing_is_left(offsets)


def test_the_end_of_a_transaction_without_offsets_does_nothing(offsets):
    offsets.commit(KEY, value(10))
    offsets.end_transaction(TWO, is_commit=True)
    assert offset_of(offsets) == 10


def test_a_commit_after_the_transactions_record_wins(offsets):
    offsets.commit_in_transaction(KEY, value(20), ONE)
    offsets.commit(KEY, value(10))
    assert offsets.is_unstable("readers", PLACE), "the transaction is still open"
    offsets.end_transaction(ONE, is_commit=True)
    assert offset_of(offsets) == 10


def test_of_two_transactions_the_later_record_wins_whoever_ends_last(offsets):
    offsets.commit_in_transaction(KEY, value(10), ONE)
    offsets.commit_in_transaction(KEY, value(20), TWO)
    offsets.end_transaction(TWO, is_commit=True)
    offsets.end_transaction(ONE, is_commit=True)
    assert offset_of(offsets) == 20


def test_an_aborted_later_record_does_not_stand_in_the_way(offsets):
    offsets.commit_in_transaction(KEY, value(10), ONE)
    offsets.commit_in_transaction(KEY, value(20), TWO)
    offsets.end_transaction(TWO, is_commit=False)
    offsets.end_transaction(ONE, is_commit=True)
    assert offset_of(offsets) == 10


def test_a_second_commit_of_a_transaction_is_the_later_record(offsets):
    offsets.commit_in_transaction(KEY, value(10), ONE)
    offsets.commit_in_transaction(KEY, value(20), TWO)
    offsets.commit_in_transaction(KEY, value(30), ONE)
    offsets.end_transaction(TWO, is_commit=True)
    offsets.end_transaction(ONE, is_commit=True)
    assert offset_of(offsets) == 30


def test_what_is_forgotten_does_not_come_back_with_its_transaction(offsets):
    offsets.commit(KEY, value(10))
    offsets.commit_in_transaction(KEY, value(20), ONE)
    offsets.commit_in_transaction(KEY, value(30), TWO)
    offsets.forget(KEY)
    assert_nothing_is_left(offsets)
    offsets.end_transaction(ONE, is_commit=True)
    offsets.end_transaction(TWO, is_commit=True)
    assert_nothing_is_left(offsets)


def test_forgetting_one_offset_of_a_transaction_keeps_its_others(offsets):
    other = OffsetCommitKey("others", "orders", 0)
    offsets.commit_in_transaction(KEY, value(20), ONE)
    offsets.commit_in_transaction(other, value(30), ONE)
    offsets.forget(KEY)
    assert offsets.has_pending(ONE)
    offsets.end_transaction(ONE, is_commit=True)
    assert list(offsets.groups()) == ["others"]


def test_places_are_those_with_a_committed_or_a_waiting_offset_once_each(offsets):
    offsets.commit(KEY, value(10))
    offsets.commit(OffsetCommitKey("readers", "bills", 4), value(10))
    offsets.commit_in_transaction(KEY, value(20), ONE)
    offsets.commit_in_transaction(OffsetCommitKey("readers", "parcels", 1), value(20), ONE)
    bills, parcels = TopicPartition("bills", 4), TopicPartition("parcels", 1)
    assert list(offsets.places("readers")) == [PLACE, bills, parcels]
    assert list(offsets.places("readers", frozenset({"orders", "parcels"}))) == [PLACE, parcels]
    assert offsets.topics("readers") == ["orders", "bills"]


def test_groups_are_found_by_topic_of_a_committed_or_a_waiting_offset(offsets):
    offsets.commit(KEY, value(10))
    offsets.commit(OffsetCommitKey("others", "bills", 0), value(10))
    offsets.commit_in_transaction(OffsetCommitKey("waiting", "orders", 0), value(20), ONE)
    assert list(offsets.groups_with(frozenset({"orders", "parcels"}))) == ["readers", "waiting"]

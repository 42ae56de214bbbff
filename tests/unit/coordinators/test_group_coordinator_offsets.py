"""Offsets of groups: who may commit, what is fetched, what is deleted and what expires."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.coordinators.groups.coordinator import LOOKS_PER_TICK_MAX
from headrace.coordinators.groups.offsets.offset_commands import COMMIT_BYTES_MAX
from headrace.model.errors import ErrorCode
from headrace.model.names import ProducerId, TopicId
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequestTopics, OffsetFetchResponsePartitions
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinators.living_coordinator import SETTINGS, LivingCoordinator

RETENTION_MS = SETTINGS.offsets_retention_ms
NO_OFFSET = OffsetFetchResponsePartitions(0, -1, -1, "", ErrorCode.NONE)


@pytest.fixture
def coordinator() -> LivingCoordinator:
    return LivingCoordinator()


def delete(coordinator: LivingCoordinator, group_id: str, *topics: str):
    request = OffsetDeleteRequest(
        group_id, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)]) for topic in topics]
    )
    return coordinator.ask("delete_offsets", request)


def has_groups(coordinator: LivingCoordinator) -> bool:
    return bool(coordinator.mind.list_groups((), ()))


# Commits of nobody's members


def test_a_simple_commit_is_fetched_with_all_it_said(coordinator):
    assert coordinator.commit("g", 42, metadata="why") == 0
    assert coordinator.fetch("g") == OffsetFetchResponsePartitions(0, 42, 7, "why")
    coordinator.reload()
    assert coordinator.fetch("g") == OffsetFetchResponsePartitions(0, 42, 7, "why")


def test_no_metadata_is_fetched_as_an_empty_text(coordinator):
    coordinator.commit("g", 42, metadata=None)
    assert coordinator.fetch("g").metadata == ""


def test_the_group_without_a_name_may_commit(coordinator):
    assert coordinator.commit("", 42) == 0
    assert coordinator.fetch("").committed_offset == 42


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.GROUP_ID_NOT_FOUND), (8, ErrorCode.ILLEGAL_GENERATION)])
def test_a_member_of_no_group_cannot_commit(coordinator, version, code):
    assert coordinator.commit("g", 42, member_id="m", epoch=1, version=version) == code
    assert not has_groups(coordinator)


def test_a_member_of_a_group_that_only_commits_is_unknown(coordinator):
    coordinator.commit("g", 42)
    assert coordinator.commit("g", 43, member_id="m", epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.fetch("g").committed_offset == 42


def test_a_partition_with_too_much_metadata_is_refused_alone(coordinator):
    longest = "ä" * (SETTINGS.offset_metadata_max_bytes // 2)
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                "orders",
                TopicId(bytes(16)),
                [
                    OffsetCommitRequestPartition(0, 1, -1, longest),
                    OffsetCommitRequestPartition(1, 1, -1, longest + "x"),
                ],
            )
        ],
    )
    (topic,) = coordinator.ask("commit_offsets", request, 9).topics
    assert [partition.error_code for partition in topic.partitions] == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert coordinator.fetch("g").metadata == longest
    assert coordinator.fetch("g", partition=1).committed_offset == -1


@pytest.mark.parametrize("command", ["commit_offsets", "commit_offsets_in_transaction"])
def test_what_would_be_too_much_for_the_log_is_refused_before_it_is_made(coordinator, command):
    """The group's name alone is repeated in every record."""
    group_id, count = "g" * 30_000, COMMIT_BYTES_MAX // 30_000 + 1
    if command == "commit_offsets":
        partitions = [OffsetCommitRequestPartition(0, number) for number in range(count)]
        request = OffsetCommitRequest(group_id, topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])
    else:
        in_transaction = [TxnOffsetCommitRequestPartition(0, number) for number in range(count)]
        request = TxnOffsetCommitRequest(
            "tx", group_id, 7, 0, topics=[TxnOffsetCommitRequestTopic("orders", in_transaction)]
        )
    (topic,) = coordinator.ask(command, request, 5).topics
    assert {partition.error_code for partition in topic.partitions} == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert coordinator.log == []


def test_an_offset_may_be_kept_for_ever(coordinator):
    assert coordinator.commit("g", 42, version=2, retention_ms=(1 << 63) - 1) == 0
    coordinator.reload()
    coordinator.wait(10 * RETENTION_MS)
    coordinator.expire()
    assert coordinator.fetch("g").committed_offset == 42


def test_metadata_that_no_record_can_hold_is_refused_whatever_is_set(coordinator):
    coordinator.mind.settings = replace(SETTINGS, offset_metadata_max_bytes=100_000)
    assert coordinator.commit("g", 1, metadata="x" * 32_767) == 0
    assert coordinator.commit("g", 2, metadata="x" * 32_768) == ErrorCode.OFFSET_METADATA_TOO_LARGE


# Commits of members


def test_members_of_a_classic_group_commit_with_their_generation(coordinator):
    generation = coordinator.enter_classic("g")
    assert coordinator.commit("g", 1, member_id="classic-1", epoch=generation) == 0
    assert coordinator.commit("g", 2, member_id="classic-1", epoch=generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert coordinator.commit("g", 2, member_id="other", epoch=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.commit("g", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.fetch("g").committed_offset == 1
    coordinator.leave_classic("g")
    assert coordinator.commit("g", 3) == 0


def test_members_of_a_consumer_group_commit_with_their_epoch(coordinator):
    epoch = coordinator.beat_modern("g").member_epoch
    assert coordinator.commit("g", 1, member_id="modern-1", epoch=epoch) == 0
    assert coordinator.commit("g", 2, member_id="modern-1", epoch=epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert coordinator.commit("g", 2, member_id="other", epoch=epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.commit("g", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.fetch("g").committed_offset == 1
    coordinator.beat_modern("g", epoch=-1)
    assert coordinator.commit("g", 3) == 0


# Commits in transactions


def test_a_commit_in_a_transaction_counts_when_the_transaction_does(coordinator):
    coordinator.commit("g", 1)
    assert coordinator.commit_in_transaction("g", 2, producer_id=9) == 0
    assert coordinator.mind.has_pending(ProducerId(9))
    for _ in range(2):
        assert coordinator.fetch("g").committed_offset == 1
        unstable = coordinator.fetch("g", stable=True)
        assert unstable == OffsetFetchResponsePartitions(0, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert coordinator.fetch("g", partition=1, stable=True).error_code == 0
        coordinator.reload()

    coordinator.mark(9, is_commit=True)
    assert not coordinator.mind.has_pending(ProducerId(9))
    assert coordinator.fetch("g", stable=True).committed_offset == 2


def test_an_aborted_transaction_leaves_no_group_behind(coordinator):
    coordinator.commit_in_transaction("g", 2, producer_id=9)
    assert has_groups(coordinator)
    coordinator.mark(9, is_commit=False)
    assert not has_groups(coordinator)
    assert coordinator.fetch("g", stable=True) == NO_OFFSET


def test_the_records_of_a_transactional_commit_are_the_producers(coordinator):
    coordinator.commit_in_transaction("g", 2, producer_id=9)
    assert [entry.producer_id for entry in coordinator.log] == [9]


def test_membership_is_checked_in_transactions_too(coordinator):
    generation = coordinator.enter_classic("classic")
    epoch = coordinator.beat_modern("consumer").member_epoch

    def commit(group_id, member_id, number):
        return coordinator.commit_in_transaction(group_id, 2, producer_id=9, member_id=member_id, generation=number)

    assert commit("classic", "classic-1", generation) == 0
    assert commit("classic", "classic-1", generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit("classic", "other", generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("consumer", "modern-1", epoch) == 0
    assert commit("consumer", "modern-1", epoch + 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit("consumer", "other", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("nobody", "m", 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit("", "", -1) == ErrorCode.INVALID_GROUP_ID
    assert commit("classic", "", -1) == 0, "older transactional producers do not say for whom they commit"


# Fetches


def test_what_nobody_has_committed_is_no_error(coordinator):
    assert coordinator.fetch("nobody", stable=True) == NO_OFFSET
    assert coordinator.mind.fetch_offsets("nobody", None, -1, None, is_stable_required=True).topics == []
    coordinator.commit("g", 1)
    assert coordinator.fetch("g", "bills") == NO_OFFSET


def test_all_offsets_are_fetched_if_no_topics_are_named(coordinator):
    coordinator.commit("g", 1)
    coordinator.commit("g", 2, partition=3)
    coordinator.commit("g", 3, "bills")
    coordinator.commit("other", 4, "parcels")
    coordinator.commit_in_transaction("g", 5, producer_id=9)
    coordinator.commit_in_transaction("g", 6, producer_id=9, partition=4)

    def found(*, is_stable_required):
        answer = coordinator.mind.fetch_offsets("g", None, -1, None, is_stable_required=is_stable_required)
        return {
            (topic.name, partition.partition_index): (partition.committed_offset, partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        }

    kept = {("orders", 3): (2, 0), ("bills", 0): (3, 0)}
    unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert found(is_stable_required=True) == {("orders", 0): unstable, **kept, ("orders", 4): unstable}
    assert found(is_stable_required=False) == {("orders", 0): (1, 0), **kept}


def test_the_topic_id_of_a_question_comes_back_with_the_answer(coordinator):
    topic_id = TopicId(bytes(range(16)))
    wanted = [OffsetFetchRequestTopics("orders", topic_id, [0])]
    found = coordinator.mind.fetch_offsets("g", None, -1, wanted, is_stable_required=False)
    assert (found.topics[0].name, found.topics[0].topic_id) == ("orders", topic_id)


def test_consumers_are_told_if_they_are_behind_before_they_fetch(coordinator):
    epoch = coordinator.beat_modern("g").member_epoch
    fetch = coordinator.mind.fetch_offsets
    assert fetch("g", "modern-1", epoch, None, is_stable_required=True).error_code == 0
    assert fetch("g", "modern-1", epoch + 1, None, is_stable_required=True).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("g", "other", epoch, None, is_stable_required=True).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# Deletions


def test_deleted_offsets_are_gone_also_from_open_transactions(coordinator):
    coordinator.commit("g", 1)
    coordinator.commit_in_transaction("g", 2, producer_id=9)
    coordinator.commit_in_transaction("g", 2, "bills", producer_id=9)
    assert delete(coordinator, "g", "orders", "bills", "parcels").error_code == 0
    coordinator.mark(9, is_commit=True)
    assert not has_groups(coordinator)
    coordinator.reload()
    assert not has_groups(coordinator)


def test_an_offset_that_is_deleted_twice_at_once_leaves_one_record(coordinator):
    coordinator.commit("g", 1)
    twice = OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)] * 2)
    before = len(coordinator.log)
    coordinator.ask("delete_offsets", OffsetDeleteRequest("g", [twice] * 2))
    assert len(coordinator.log) == before + 1


def test_offsets_of_topics_that_members_read_are_not_deleted(coordinator):
    generation = coordinator.enter_classic("classic")
    coordinator.commit("classic", 1, member_id="classic-1", epoch=generation)
    coordinator.commit("classic", 1, "bills", member_id="classic-1", epoch=generation)
    epoch = coordinator.beat_modern("consumer").member_epoch
    coordinator.commit("consumer", 1, member_id="modern-1", epoch=epoch)
    coordinator.commit("consumer", 1, "bills", member_id="modern-1", epoch=epoch)
    for group_id in ("classic", "consumer"):
        orders, bills = delete(coordinator, group_id, "orders", "bills").topics
        assert orders.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert bills.partitions[0].error_code == 0
        assert coordinator.fetch(group_id).committed_offset == 1
        assert coordinator.fetch(group_id, "bills") == NO_OFFSET


def test_in_the_middle_of_the_first_rebalance_any_topic_may_be_read(coordinator):
    coordinator.mind.settings = replace(SETTINGS, initial_rebalance_delay_ms=3_000)
    coordinator.commit("g", 1)
    coordinator.join_classic("g")
    (orders,) = delete(coordinator, "g", "orders").topics
    assert orders.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_a_group_that_is_not_there_cannot_be_deleted(coordinator):
    assert delete(coordinator, "nobody", "orders").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(coordinator, "", "orders").error_code == ErrorCode.INVALID_GROUP_ID


def test_offsets_of_deleted_topics_are_forgotten_in_all_groups(coordinator):
    for group_id in ("one", "two"):
        coordinator.commit(group_id, 1)
        coordinator.commit(group_id, 1, "bills")
        coordinator.commit_in_transaction(group_id, 1, partition=1, producer_id=9)
    coordinator.perform(coordinator.mind.topics_deleted(["orders", "parcels"], coordinator.now))
    coordinator.mark(9, is_commit=True)
    for group_id in ("one", "two"):
        found = coordinator.mind.fetch_offsets(group_id, None, -1, None, is_stable_required=False)
        assert [topic.name for topic in found.topics] == ["bills"]


# Expiry


def test_offsets_of_a_simple_group_expire_each_by_its_commit(coordinator):
    coordinator.commit("g", 1)
    coordinator.wait(500)
    coordinator.commit("g", 2, partition=1)
    coordinator.wait(RETENTION_MS - 501)
    coordinator.expire()
    assert coordinator.fetch("g").committed_offset == 1
    coordinator.wait(1)
    coordinator.expire()
    assert coordinator.fetch("g") == NO_OFFSET
    assert coordinator.fetch("g", partition=1).committed_offset == 2
    coordinator.wait(500)
    coordinator.expire()
    assert not has_groups(coordinator)
    coordinator.reload()
    assert not has_groups(coordinator)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_that_members_read_do_not_expire_and_the_time_runs_once_they_left(coordinator, protocol):
    if protocol == "classic":
        coordinator.enter_classic("g")
        coordinator.leave_classic("g")
    coordinator.commit("g", 1)
    coordinator.commit("g", 1, "bills")
    coordinator.wait(RETENTION_MS)
    # Somebody comes after a long time, and before the sweep; it reads only one of the topics.
    if protocol == "classic":
        coordinator.enter_classic("g", topics=("orders",))
    else:
        coordinator.beat_modern("g", topics=("orders",))
    coordinator.expire()
    assert coordinator.fetch("g").committed_offset == 1
    assert coordinator.fetch("g", "bills") == NO_OFFSET

    if protocol == "classic":
        coordinator.leave_classic("g")
    else:
        coordinator.beat_modern("g", epoch=-1)
    coordinator.wait(RETENTION_MS - 1)
    coordinator.expire()
    assert coordinator.fetch("g").committed_offset == 1
    coordinator.wait(1)
    coordinator.expire()
    assert coordinator.fetch("g") == NO_OFFSET
    assert has_groups(coordinator), "it goes with the next sweep"
    coordinator.expire()
    assert not has_groups(coordinator)
    coordinator.reload()
    assert not has_groups(coordinator)


def test_whoever_sets_an_empty_groups_offsets_has_the_whole_retention(coordinator):
    coordinator.enter_classic("g")
    coordinator.leave_classic("g")
    coordinator.wait(RETENTION_MS - 1)
    coordinator.commit("g", 1)
    coordinator.wait(RETENTION_MS - 1)
    coordinator.expire()
    assert coordinator.fetch("g").committed_offset == 1


def test_an_old_client_says_itself_how_long_its_offset_is_kept(coordinator):
    coordinator.commit("g", 1, version=2, retention_ms=100)
    coordinator.reload()
    coordinator.wait(99)
    coordinator.expire()
    assert coordinator.fetch("g").committed_offset == 1
    coordinator.wait(1)
    coordinator.expire()
    assert coordinator.fetch("g") == NO_OFFSET


def test_an_offset_that_a_transaction_may_change_does_not_expire(coordinator):
    coordinator.commit("g", 1)
    coordinator.commit_in_transaction("g", 2, producer_id=9)
    coordinator.wait(RETENTION_MS)
    coordinator.expire()
    assert coordinator.fetch("g").committed_offset == 1
    coordinator.mark(9, is_commit=False)
    coordinator.expire()
    assert not has_groups(coordinator)


def test_a_group_that_expects_somebody_is_not_taken_away(coordinator):
    coordinator.mind.settings = replace(SETTINGS, initial_rebalance_delay_ms=3_000)
    coordinator.join_classic("g")
    coordinator.expire()
    assert has_groups(coordinator)


def test_a_sweep_over_many_offsets_takes_several_ticks(coordinator):
    group_ids = [f"g{number}" for number in range(LOOKS_PER_TICK_MAX)]
    for group_id in group_ids:
        coordinator.commit(group_id, 1)
    coordinator.wait(RETENTION_MS)
    coordinator.perform(coordinator.mind.expire(coordinator.now))
    left = len(coordinator.mind.list_groups((), ()))
    assert 0 < left < len(group_ids)
    assert coordinator.mind.next_deadline_ms() == 0, "the rest is due at once"
    # What was committed meanwhile is not swept with the old.
    assert coordinator.commit(group_ids[-1], 2) == 0
    coordinator.wait(0)
    assert [group.group_id for group in coordinator.mind.list_groups((), ())] == [group_ids[-1]]
    assert coordinator.mind.next_deadline_ms() is None

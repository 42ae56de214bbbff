"""Groups of both protocols under one roof: who is let in where, what is shown, what happens when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.coordinators.effects import Caller
from headrace.coordinators.groups.coordinator import GROUPS_PER_TICK_MAX
from headrace.coordinators.records import LogRecord
from headrace.model.errors import ErrorCode
from headrace.model.names import ID_BYTES_MAX
from headrace.wire.messages.group_records import ConsumerGroupMetadataKey, GroupMetadataKey
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.list_groups import ListedGroup
from headrace.wire.messages.sync_group import SyncGroupRequest
from tests.unit.coordinators.living_coordinator import PARKED, SETTINGS, LivingCoordinator

V5, V6 = Caller("client", "/127.0.0.1", 5), Caller("client", "/127.0.0.1", 6)


@pytest.fixture
def coordinator() -> LivingCoordinator:
    return LivingCoordinator()


def described(coordinator: LivingCoordinator, group_id: str):
    (group,) = coordinator.mind.describe_groups([group_id], V6)
    return group


def deleted(coordinator: LivingCoordinator, *group_ids: str) -> dict[str, int]:
    effects = coordinator.mind.delete_groups(group_ids, "token", coordinator.now)
    coordinator.answers["token"] = PARKED
    coordinator.perform(effects)
    return {result.group_id: result.error_code for result in coordinator.answers["token"]}


# Requests that meet no group


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        ("join", JoinGroupRequest(member_id="m")),
        ("sync", SyncGroupRequest()),
        ("heartbeat", HeartbeatRequest()),
        ("leave", LeaveGroupRequest()),
    ],
)
def test_a_member_needs_a_group_with_a_name(coordinator, command, request_):
    assert coordinator.ask(command, request_, 3).error_code == ErrorCode.INVALID_GROUP_ID


def test_a_static_member_whose_id_is_too_long_is_not_let_in(coordinator):
    longest = "ü" * (ID_BYTES_MAX // 2)
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest("g", 10_000, 10_000, "", f"{longest}x", "consumer", protocols)
    assert coordinator.ask("join", request, 5, "fresh").error_code == ErrorCode.INVALID_REQUEST
    assert coordinator.mind.list_groups((), ()) == []
    coordinator.ask("join", replace(request, group_instance_id=longest), 5, "fresh")
    assert [group.group_id for group in coordinator.mind.list_groups((), ())] == ["g"]


def test_a_consumer_needs_a_group_with_a_name(coordinator):
    assert coordinator.beat_modern("").error_code == ErrorCode.INVALID_REQUEST


def test_requests_of_members_of_no_group_are_unknown_members(coordinator):
    assert coordinator.join_classic("g", member_id="m").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.sync_classic("g", "m", 1, leads=True).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.ask("heartbeat", HeartbeatRequest("g", 1, "m"), 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.leave_classic("g", "m").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    several = coordinator.ask("leave", LeaveGroupRequest("g", members=[MemberIdentity("m")]), 3)
    assert (several.error_code, several.members[0].error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    assert coordinator.mind.list_groups((), ()) == []


@pytest.mark.parametrize("epoch", [3, -1])
def test_a_heartbeat_to_no_group_finds_none(coordinator, epoch):
    answer = coordinator.beat_modern("g", epoch=epoch)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "'g'" in answer.error_message


def test_a_refused_join_leaves_no_group(coordinator):
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1)
    assert coordinator.ask("join", request, 3, "m").error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert coordinator.mind.list_groups((), ()) == []
    assert coordinator.mind.next_deadline_ms() is None


# One protocol at a time


def test_a_classic_member_is_not_let_into_a_consumer_group_with_members(coordinator):
    coordinator.beat_modern("g")
    assert coordinator.join_classic("g").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.sync_classic("g", "modern-1", 1, leads=True).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.ask("heartbeat", HeartbeatRequest("g", 1, "modern-1"), 3).error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert coordinator.leave_classic("g", "modern-1").error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_a_consumer_is_not_let_into_a_classic_group_with_members(coordinator, epoch):
    coordinator.enter_classic("g")
    assert coordinator.beat_modern("g", epoch=epoch).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(coordinator):
    generation = coordinator.enter_classic("g")
    assert coordinator.commit("g", 5, member_id="classic-1", epoch=generation) == 0
    coordinator.leave_classic("g")
    assert coordinator.beat_modern("g", epoch=-1).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    written = len(coordinator.log)
    assert coordinator.beat_modern("g").error_code == 0
    assert coordinator.log[written].record == LogRecord(GroupMetadataKey("g"), None), "nothing of the old one stays"
    assert coordinator.mind.next_deadline_ms() == SETTINGS.consumer_session_timeout_ms
    assert [group.group_type for group in coordinator.mind.list_groups((), ())] == ["consumer"]
    assert coordinator.fetch("g").committed_offset == 5
    coordinator.reload()
    assert [group.group_type for group in coordinator.mind.list_groups((), ())] == ["consumer"]
    assert coordinator.fetch("g").committed_offset == 5
    assert coordinator.beat_modern("g", epoch=1).error_code == 0


def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets(coordinator):
    epoch = coordinator.beat_modern("g").member_epoch
    assert coordinator.commit("g", 5, member_id="modern-1", epoch=epoch) == 0
    coordinator.beat_modern("g", epoch=-1)

    written = len(coordinator.log)
    coordinator.enter_classic("g")
    assert LogRecord(ConsumerGroupMetadataKey("g"), None) in [entry.record for entry in coordinator.log[written:]]
    assert coordinator.mind.next_deadline_ms() == 10_000
    for _ in range(2):
        assert described(coordinator, "g").group_state == "Stable"
        assert coordinator.mind.describe_consumer_groups(["g"])[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert coordinator.fetch("g").committed_offset == 5
        coordinator.reload()


def test_a_join_that_is_refused_leaves_an_empty_consumer_group_alone(coordinator):
    coordinator.beat_modern("g")
    coordinator.beat_modern("g", epoch=-1)
    written = len(coordinator.log)
    assert coordinator.join_classic("g", member_id="unknown").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(coordinator.log) == written
    assert [group.group_type for group in coordinator.mind.list_groups((), ())] == ["consumer"]


def test_whoever_only_commits_can_become_either(coordinator):
    for group_id in ("classic", "consumer"):
        coordinator.commit(group_id, 5)
    coordinator.enter_classic("classic")
    coordinator.beat_modern("consumer")
    for _ in range(2):
        assert {group.group_id: group.group_type for group in coordinator.mind.list_groups((), ())} == {
            "classic": "classic",
            "consumer": "consumer",
        }
        coordinator.reload()


# What is shown


def test_groups_are_listed_by_state_and_type_in_any_case(coordinator):
    coordinator.commit("simple", 5)
    coordinator.enter_classic("classic")
    coordinator.beat_modern("consumer")
    simple = ListedGroup("simple", "", "Empty", "classic")
    classic = ListedGroup("classic", "consumer", "Stable", "classic")
    consumer = ListedGroup("consumer", "consumer", "Stable", "consumer")

    def listed(*, states=(), types=()):
        return sorted(coordinator.mind.list_groups(states, types), key=lambda group: group.group_id)

    assert listed() == [classic, consumer, simple]
    assert listed(states={"sTABLE"}) == [classic, consumer]
    assert listed(types={"Classic"}) == [classic, simple]
    assert listed(states={"empty", "dead"}, types={"CLASSIC"}) == [simple]
    assert listed(states={"no such state"}) == []
    assert listed(types={"share"}) == []


def test_groups_of_either_protocol_are_described_by_their_own_api(coordinator):
    coordinator.commit("simple", 5)
    coordinator.enter_classic("classic")
    coordinator.beat_modern("consumer")

    assert [member.member_id for member in described(coordinator, "classic").members] == ["classic-1"]
    simple = described(coordinator, "simple")
    assert (simple.error_code, simple.group_state, simple.protocol_type, simple.members) == (0, "Empty", "", [])
    found, *missing = coordinator.mind.describe_consumer_groups(["consumer", "classic", "simple", "nobody"])
    assert [member.member_id for member in found.members] == ["modern-1"]
    assert [group.error_code for group in missing] == [ErrorCode.GROUP_ID_NOT_FOUND] * 3
    assert [group.group_id for group in missing] == ["classic", "simple", "nobody"]


@pytest.mark.parametrize("group_id", ["nobody", "consumer"])
def test_what_is_no_classic_group_is_dead_and_from_v6_an_error(coordinator, group_id):
    coordinator.beat_modern("consumer")
    (older,) = coordinator.mind.describe_groups([group_id], V5)
    assert (older.error_code, older.group_state, older.error_message) == (0, "Dead", None)
    (newer,) = coordinator.mind.describe_groups([group_id], V6)
    assert (newer.error_code, newer.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert group_id in newer.error_message


# Deleting


def test_only_groups_without_members_are_deleted(coordinator):
    coordinator.commit("simple", 5)
    coordinator.enter_classic("classic")
    coordinator.beat_modern("consumer")
    assert deleted(coordinator, "simple", "classic", "consumer", "nobody") == {
        "simple": ErrorCode.NONE,
        "classic": ErrorCode.NON_EMPTY_GROUP,
        "consumer": ErrorCode.NON_EMPTY_GROUP,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }


def test_a_deleted_group_is_gone_with_its_offsets_and_those_of_open_transactions(coordinator):
    coordinator.enter_classic("classic")
    coordinator.leave_classic("classic")
    coordinator.beat_modern("consumer")
    coordinator.beat_modern("consumer", epoch=-1)
    for group_id in ("classic", "consumer", "simple"):
        coordinator.commit(group_id, 5)
        coordinator.commit_in_transaction(group_id, 6, producer_id=1)
        coordinator.commit_in_transaction(group_id, 6, partition=1, producer_id=1)

    assert set(deleted(coordinator, "classic", "consumer", "simple").values()) == {ErrorCode.NONE}
    coordinator.mark(1, is_commit=True)
    for mind in (coordinator.mind, coordinator.reloaded()):
        assert mind.list_groups((), ()) == []
        for group_id in ("classic", "consumer", "simple"):
            assert mind.fetch_offsets(group_id, None, -1, None, is_stable_required=True).topics == []


def test_the_group_without_a_name_is_deleted_like_any_other(coordinator):
    coordinator.commit("", 5)
    assert deleted(coordinator, "") == {"": ErrorCode.NONE}
    assert coordinator.mind.list_groups((), ()) == []


# Time


def test_a_session_that_ends_is_noticed_in_time(coordinator):
    coordinator.enter_classic("classic")
    coordinator.beat_modern("consumer")
    assert coordinator.mind.next_deadline_ms() == 10_000
    coordinator.wait(10_000)
    assert described(coordinator, "classic").group_state == "Empty"
    assert coordinator.mind.next_deadline_ms() == SETTINGS.consumer_session_timeout_ms
    coordinator.wait(SETTINGS.consumer_session_timeout_ms)
    assert {group.group_state for group in coordinator.mind.list_groups((), ())} == {"Empty"}
    assert coordinator.mind.next_deadline_ms() is None


def test_heartbeats_put_the_end_of_a_session_off(coordinator):
    generation = coordinator.enter_classic("g")
    for _ in range(20):
        coordinator.wait(3_000)
        answer = coordinator.ask("heartbeat", HeartbeatRequest("g", generation, "classic-1"), 3)
        assert answer.error_code == 0
    assert described(coordinator, "g").group_state == "Stable"


def test_sessions_begin_anew_when_a_log_was_loaded(coordinator):
    generation = coordinator.enter_classic("g")
    coordinator.wait(9_000)
    coordinator.reload()
    coordinator.wait(9_000)
    answer = coordinator.ask("heartbeat", HeartbeatRequest("g", generation, "classic-1"), 3)
    assert answer.error_code == 0


def test_many_sessions_that_end_at_once_take_several_ticks(coordinator):
    group_ids = [f"g{number}" for number in range(GROUPS_PER_TICK_MAX + 1)]
    for group_id in group_ids:
        coordinator.enter_classic(group_id)
    late = coordinator.now._replace(steady_ms=10_000)
    effects = coordinator.mind.tick(late)
    assert len(effects.records) == GROUPS_PER_TICK_MAX
    coordinator.perform(effects)
    assert coordinator.mind.next_deadline_ms() == 10_000
    coordinator.perform(coordinator.mind.tick(late))
    assert {group.group_state for group in coordinator.mind.list_groups((), ())} == {"Empty"}
    assert coordinator.mind.next_deadline_ms() is None


def test_a_topic_that_grows_moves_the_consumer_groups_that_read_it(coordinator):
    coordinator.beat_modern("g")
    coordinator.topics.partition_counts["orders"] = 8
    coordinator.perform(coordinator.mind.topics_changed(coordinator.now))
    assert coordinator.mind.describe_consumer_groups(["g"])[0].group_epoch == 2


def test_changed_settings_reach_groups_that_are_there_already(coordinator):
    coordinator.enter_classic("classic")
    coordinator.beat_modern("consumer")
    coordinator.mind.settings = replace(SETTINGS, max_size=1, consumer_max_size=1)
    assert coordinator.join_classic("classic", fresh_member_id="m2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.beat_modern("consumer", "m2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

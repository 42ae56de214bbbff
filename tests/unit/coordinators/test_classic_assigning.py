"""SyncGroup: the leader's word reaches every member, once it is written; and what becomes of those who never ask."""

from __future__ import annotations

import pytest

from headrace.coordinators.groups.classic.rebalance import RECORD_BYTES_MAX
from headrace.model.errors import ErrorCode
from tests.unit.coordinators.classic_scene import NOON_MS, RANGE, REBALANCE_MS, SESSION_MS, Scene


def assigning(scene: Scene, count: int, **offer: object) -> list[str]:
    """A generation that waits for its leader, who is the first of the members."""
    entered = [scene.enter(**offer) for _ in range(count)]
    scene.pass_time(1_000)
    assert scene.group.state_name == "CompletingRebalance"
    return [member_id for member_id, _ in entered]


@pytest.fixture
def scene() -> Scene:
    return Scene(initial_rebalance_delay_ms=100)


def test_followers_are_parked_until_the_leader_has_decided(scene: Scene) -> None:
    leader, early, late = assigning(scene, 3)
    parked = scene.sync(early, 1)
    assert parked.is_parked
    given = scene.sync(leader, 1, {leader: b"a", early: b"b", late: b"c"})
    assert given.answer.assignment == b"a"
    assert parked.answer.assignment == b"b"
    assert (parked.answer.protocol_type, parked.answer.protocol_name) == ("consumer", "range")
    assert scene.group.state_name == "Stable"
    assert scene.sync(late, 1).answer.assignment == b"c"
    assert scene.sync(late, 1).answer.assignment == b"c"


def test_what_the_leader_decides_is_written_whole(scene: Scene) -> None:
    leader, follower = assigning(scene, 2, protocols={"range": b"wants orders", "sticky": b"x"})
    assert scene.log == []
    scene.sync(leader, 1, {leader: b"a", follower: b"b"})
    (value,) = scene.values
    assert (value.protocol_type, value.protocol, value.generation, value.leader) == ("consumer", "range", 1, leader)
    assert value.current_state_timestamp == NOON_MS + scene.steady_ms
    assert [(each.member_id, each.subscription, each.assignment) for each in value.members] == [
        (leader, b"wants orders", b"a"),
        (follower, b"wants orders", b"b"),
    ]
    assert {(each.client_id, each.client_host) for each in value.members} == {("client", "127.0.0.1")}
    assert {(each.session_timeout, each.rebalance_timeout) for each in value.members} == {(SESSION_MS, REBALANCE_MS)}


def test_a_generation_that_no_record_can_hold_is_not_begun(scene: Scene) -> None:
    leader, follower = assigning(scene, 2, protocols={"range": b"x" * (RECORD_BYTES_MAX // 2)})
    parked = scene.sync(follower, 1)
    assert scene.sync(leader, 1, {leader: b"a"}).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert parked.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.log == []
    assert scene.group.state_name == "PreparingRebalance"


def test_whom_the_leader_forgets_gets_nothing_and_strangers_are_ignored(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    parked = scene.sync(follower, 1)
    scene.sync(leader, 1, {leader: b"a", "stranger": b"b"})
    assert parked.code is ErrorCode.NONE
    assert parked.answer.assignment == b""
    assert [each.member_id for each in scene.values[0].members] == [leader, follower]


def test_a_large_assignment_is_passed_on_as_it_is(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    large = bytes(range(256)) * 4_096
    parked = scene.sync(follower, 1)
    scene.sync(leader, 1, {follower: large})
    assert parked.answer.assignment == large
    assert scene.sync(follower, 1).answer.assignment == large


def test_only_the_leaders_word_counts(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    parked = scene.sync(follower, 1, {leader: b"", follower: b"all for me"})
    assert parked.is_parked
    scene.sync(leader, 1, {leader: b"a", follower: b"b"})
    assert parked.answer.assignment == b"b"


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "version", "expected"),
    [
        ("consumer", "range", 5, ErrorCode.NONE),
        ("consumer", "sticky", 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("connect", "range", 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (None, None, 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", None, 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (None, None, 4, ErrorCode.NONE),
    ],
)
def test_from_version_5_on_a_member_says_which_protocol_it_believes_in(
    scene: Scene, protocol_type: str | None, protocol: str | None, version: int, expected: ErrorCode
) -> None:
    (leader,) = assigning(scene, 1)
    assert scene.sync(leader, 1, version=version, protocol_type=protocol_type, protocol=protocol).code is expected


def test_other_generations_and_strangers_are_refused_in_every_state(scene: Scene) -> None:
    assert scene.sync("nobody", 0).code is ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = assigning(scene, 2)
    assert scene.sync(leader, 0).code is ErrorCode.ILLEGAL_GENERATION
    assert scene.sync(leader, 2).code is ErrorCode.ILLEGAL_GENERATION
    assert scene.sync("nobody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    scene.assign([leader, follower], 1)
    assert scene.sync(leader, 0).code is ErrorCode.ILLEGAL_GENERATION
    assert scene.sync("nobody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_during_the_next_rebalance_is_told_to_join(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    scene.assign([leader, follower], 1)
    scene.join(leader)
    assert scene.sync(follower, 1).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_newcomer_ends_the_wait_for_the_leader(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    parked = scene.sync(follower, 1)
    scene.enter()
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.sync(leader, 1, {follower: b"too late"}).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.log == []


def test_a_sync_that_is_overtaken_by_a_newer_one_is_answered(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    first = scene.sync(follower, 1)
    second = scene.sync(follower, 1)
    assert first.code is ErrorCode.REBALANCE_IN_PROGRESS
    scene.sync(leader, 1, {follower: b"b"})
    assert second.answer.assignment == b"b"


def test_a_member_that_waits_for_the_leader_needs_no_heartbeats_and_then_has_a_whole_session(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    scene.sync(follower, 1)
    scene.pass_time_beating(3 * SESSION_MS, [leader])
    scene.sync(leader, 1, {})
    scene.pass_time_beating(SESSION_MS - 1, [leader])
    assert scene.beat(follower, 1) is ErrorCode.NONE


def test_a_parked_sync_of_a_member_that_leaves_is_answered(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    parked = scene.sync(follower, 1)
    scene.leave((follower, None))
    assert parked.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.join(leader).answer.generation_id == 2


def test_a_leader_that_is_lost_before_it_decides_causes_another_rebalance(scene: Scene) -> None:
    leader, follower = assigning(scene, 2)
    parked = scene.sync(follower, 1)
    scene.pass_time(SESSION_MS)
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS
    again = scene.join(follower)
    assert again.answer.leader == follower
    assert [each.member_id for each in again.answer.members] == [follower]
    assert scene.join(leader).code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("leader_decides", [True, False])
def test_members_that_only_beat_and_never_sync_are_removed(scene: Scene, leader_decides: bool) -> None:
    leader, follower = assigning(scene, 2)
    silent = follower if leader_decides else leader
    active = leader if leader_decides else follower
    call = scene.sync(active, 1, {leader: b"a"})
    scene.pass_time_beating(REBALANCE_MS - 1_000, [leader, follower])
    assert scene.group.state_name == ("Stable" if leader_decides else "CompletingRebalance")
    scene.pass_time_beating(1_000, [leader, follower])
    assert scene.group.state_name == "PreparingRebalance"
    assert call.code is (ErrorCode.NONE if leader_decides else ErrorCode.REBALANCE_IN_PROGRESS)
    assert scene.beat(silent, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.join(active).answer.generation_id == 2


def test_if_all_have_synced_nothing_happens_when_the_time_for_it_is_over(scene: Scene) -> None:
    members = assigning(scene, 3)
    scene.assign(members, 1)
    scene.pass_time_beating(2 * REBALANCE_MS, members)
    assert scene.group.state_name == "Stable"
    assert scene.group.generation == 1


def test_the_time_to_sync_ends_with_its_generation(scene: Scene) -> None:
    leader, silent = assigning(scene, 2)
    scene.sync(leader, 1, {})
    scene.pass_time_beating(REBALANCE_MS - 1_000, [leader, silent])
    join = scene.join(leader)
    scene.pass_time_beating(REBALANCE_MS - 1_000, [silent])
    assert join.is_parked
    scene.join(silent)
    assert [each.member_id for each in join.answer.members] == [leader, silent]


def test_in_a_stable_group_a_lost_session_causes_a_rebalance(scene: Scene) -> None:
    leader, follower, lost = assigning(scene, 3)
    scene.assign([leader, follower, lost], 1)
    scene.pass_time_beating(SESSION_MS + 1, [leader, follower])
    assert scene.beat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.beat(lost, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    first, second = scene.join(follower), scene.join(leader)
    assert first.answer.generation_id == second.answer.generation_id == 2


def test_twenty_members_share_one_generation(scene: Scene) -> None:
    members = assigning(scene, 20, protocols=RANGE)
    shares = {member_id: b"partitions of " + member_id.encode() for member_id in members}
    parked = {member_id: scene.sync(member_id, 1) for member_id in members[1:]}
    scene.sync(members[0], 1, shares)
    assert {member_id: call.answer.assignment for member_id, call in parked.items()} == {
        member_id: shares[member_id] for member_id in members[1:]
    }
    assert len(scene.log) == 1

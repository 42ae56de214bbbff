"""JoinGroup of dynamic members: who gets in, when the wait is over, what a generation is."""

from __future__ import annotations

import pytest

from headrace.coordinators.groups.classic.joining import NEW_MEMBER_JOIN_TIMEOUT_MS
from headrace.model.errors import ErrorCode
from tests.unit.coordinators.classic_scene import RANGE, REBALANCE_MS, SESSION_MS, Scene


def test_a_new_member_is_told_its_id_first_from_version_4_on() -> None:
    scene = Scene()
    told = scene.join(version=4)
    assert told.code is ErrorCode.MEMBER_ID_REQUIRED
    assert told.answer.member_id == "client-1"
    assert scene.group.state_name == "Empty"
    joined = scene.join("client-1", version=4)
    assert joined.code is ErrorCode.NONE
    assert joined.answer.member_id == "client-1"


def test_before_version_4_a_new_member_joins_at_once() -> None:
    scene = Scene()
    joined = scene.join(version=3)
    assert joined.code is ErrorCode.NONE
    assert joined.answer.member_id == "client-1"
    assert joined.answer.generation_id == 1


def test_version_0_knows_one_timeout_for_session_and_rebalance() -> None:
    scene = Scene()
    first = scene.join(version=0, rebalance_ms=-1).answer.member_id
    second = scene.join(version=0, rebalance_ms=-1)
    scene.pass_time_beating(SESSION_MS - 1, [first])
    assert second.is_parked
    scene.pass_time(SESSION_MS)
    assert second.answer.generation_id == 2


def test_the_leader_hears_of_everybody_and_the_others_of_nobody() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    leader_id, leader = scene.enter(protocols={"range": b"a"})
    follower_id, follower = scene.enter(protocols={"range": b"b"})
    scene.pass_time(1_000)
    assert leader.answer.leader == follower.answer.leader == leader_id
    assert leader.answer.generation_id == follower.answer.generation_id == 1
    assert leader.answer.protocol_name == follower.answer.protocol_name == "range"
    assert leader.answer.protocol_type == "consumer"
    assert [(each.member_id, each.metadata) for each in leader.answer.members] == [
        (leader_id, b"a"),
        (follower_id, b"b"),
    ]
    assert follower.answer.members == []


# The first rebalance


def test_the_first_rebalance_waits_for_the_delay() -> None:
    scene = Scene(initial_rebalance_delay_ms=3_000)
    _, join = scene.enter()
    assert scene.group.state_name == "PreparingRebalance"
    scene.pass_time(2_999)
    assert join.is_parked
    scene.pass_time(1)
    assert join.answer.generation_id == 1


def test_newcomers_extend_the_first_wait_by_another_delay() -> None:
    scene = Scene(initial_rebalance_delay_ms=3_000)
    _, first = scene.enter()
    scene.pass_time(2_000)
    _, second = scene.enter()
    scene.pass_time(1_000)
    assert first.is_parked
    assert second.is_parked
    scene.pass_time(2_999)
    assert first.is_parked
    scene.pass_time(1)
    assert first.answer.generation_id == second.answer.generation_id == 1


def test_the_first_wait_is_never_longer_than_the_rebalance_timeout() -> None:
    scene = Scene(initial_rebalance_delay_ms=3_000)
    _, first = scene.enter(rebalance_ms=7_000)
    for _ in range(6):
        scene.pass_time(1_000)
        scene.enter(rebalance_ms=7_000)
    scene.pass_time(999)
    assert first.is_parked
    scene.pass_time(1)
    assert len(first.answer.members) == 7


def test_without_a_delay_the_first_member_does_not_wait_for_others_who_were_given_an_id() -> None:
    scene = Scene()
    scene.join()
    _, join = scene.enter()
    assert join.answer.generation_id == 1


def test_a_group_that_was_empty_waits_again() -> None:
    scene = Scene(initial_rebalance_delay_ms=3_000)
    member_id, join = scene.enter()
    scene.pass_time(3_000)
    scene.assign([member_id], join.answer.generation_id)
    assert scene.leave((member_id, None)) == [ErrorCode.NONE]
    assert scene.group.is_empty
    _, again = scene.enter()
    assert again.is_parked
    scene.pass_time(3_000)
    assert again.answer.generation_id == 3  # the empty group was generation 2


def test_if_all_leave_during_the_first_wait_the_group_is_empty_at_its_end() -> None:
    scene = Scene(initial_rebalance_delay_ms=3_000)
    member_id, join = scene.enter()
    scene.leave((member_id, None))
    assert join.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.group.state_name == "PreparingRebalance"
    _, other = scene.enter(protocol_type="connect")  # nobody is left whom it would have to agree with
    scene.pass_time(6_000)
    assert other.answer.generation_id == 1
    assert scene.group.protocol_type == "connect"


# Later rebalances


def test_a_newcomer_waits_until_all_members_have_joined_again() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    newcomer_id, newcomer = scene.enter()
    assert scene.group.state_name == "PreparingRebalance"
    follower_join = scene.join(follower)
    assert newcomer.is_parked
    leader_join = scene.join(leader)
    assert scene.group.state_name == "CompletingRebalance"
    assert {call.answer.generation_id for call in (newcomer, follower_join, leader_join)} == {3}
    assert leader_join.answer.leader == leader
    assert [each.member_id for each in leader_join.answer.members] == [leader, follower, newcomer_id]


def test_a_dynamic_member_that_does_not_join_again_in_time_is_removed() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    newcomer_id, newcomer = scene.enter()
    scene.join(follower)
    scene.pass_time_beating(REBALANCE_MS - 1, [leader])
    assert newcomer.is_parked
    scene.pass_time(SESSION_MS)
    assert newcomer.answer.leader == follower  # the leader is lost, and the first who joined leads
    assert scene.beat(leader, scene.group.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.member_id for member in scene.group.describe().members] == [follower, newcomer_id]


def test_the_slowest_member_decides_how_long_a_rebalance_may_take() -> None:
    scene = Scene()
    slow, _ = scene.enter(rebalance_ms=90_000)
    quick, _ = scene.enter(rebalance_ms=30_000)
    scene.join(slow, rebalance_ms=90_000)
    scene.assign([slow, quick], scene.group.generation)
    _, newcomer = scene.enter(rebalance_ms=30_000)
    scene.pass_time_beating(85_000, [slow, quick])
    assert newcomer.is_parked
    scene.pass_time_beating(5_000, [slow, quick])
    assert newcomer.code is ErrorCode.NONE


def test_a_member_that_waits_in_a_join_needs_no_heartbeats() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    scene.join(leader)
    scene.pass_time_beating(5 * SESSION_MS, [follower])
    assert scene.beat(leader, scene.group.generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_member_is_given_up_if_its_first_join_takes_too_long() -> None:
    scene = Scene()
    leader, *_ = scene.stable(1, rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    _, newcomer = scene.enter()
    scene.pass_time_beating(NEW_MEMBER_JOIN_TIMEOUT_MS - SESSION_MS, [leader])
    assert newcomer.is_parked
    scene.pass_time_beating(SESSION_MS, [leader])
    assert newcomer.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer.answer.member_id == ""


def test_a_rebalance_waits_for_clients_that_were_given_an_id() -> None:
    scene = Scene()
    leader, *_ = scene.stable(1)
    expected = scene.join().answer.member_id
    _, second = scene.enter()
    join = scene.join(leader)
    assert join.is_parked
    third = scene.join(expected)
    assert {call.answer.generation_id for call in (join, second, third)} == {2}


@pytest.mark.parametrize("departs", [True, False], ids=["it leaves", "its session ends"])
def test_a_client_that_was_given_an_id_and_is_gone_is_not_waited_for(departs: bool) -> None:
    scene = Scene()
    leader, *_ = scene.stable(1)
    expected = scene.join().answer.member_id
    _, second = scene.enter()
    join = scene.join(leader)
    if departs:
        assert scene.leave((expected, None)) == [ErrorCode.NONE]
    else:
        scene.pass_time(SESSION_MS)
    assert len(join.answer.members) == 2
    assert second.code is ErrorCode.NONE
    assert scene.join(expected).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_that_was_given_an_id_and_leaves_disturbs_nobody() -> None:
    scene = Scene()
    scene.stable(1)
    expected = scene.join().answer.member_id
    assert scene.leave((expected, None)) == [ErrorCode.NONE]
    assert scene.group.state_name == "Stable"


def test_a_join_that_is_overtaken_by_a_newer_one_is_answered() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    first = scene.join(leader)
    second = scene.join(leader)
    assert first.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.answer.member_id == leader
    assert second.is_parked
    scene.join(follower)
    assert second.answer.generation_id == 3


# Members who join again without need


def test_a_follower_that_joins_a_stable_group_unchanged_hears_of_the_generation_it_is_in() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    join = scene.join(follower)
    assert (join.answer.generation_id, join.answer.leader, join.answer.members) == (2, leader, [])
    assert scene.group.state_name == "Stable"
    assert scene.sync(follower, 2).answer.assignment == b"share 1"


@pytest.mark.parametrize(
    "protocols",
    [
        pytest.param({"range": b"wants payments", "sticky": b""}, id="other metadata"),
        pytest.param({"sticky": b"", "range": b"wants orders"}, id="another order"),
        pytest.param({"range": b"wants orders"}, id="fewer protocols"),
    ],
)
def test_a_follower_that_has_changed_causes_a_rebalance(protocols: dict[str, bytes]) -> None:
    scene = Scene()
    _, follower = scene.stable(2, protocols={"range": b"wants orders", "sticky": b""})
    assert scene.join(follower, protocols=protocols).is_parked
    assert scene.group.state_name == "PreparingRebalance"


def test_a_leader_that_joins_again_causes_a_rebalance() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    join = scene.join(leader)
    assert join.is_parked
    assert scene.beat(follower, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    scene.join(follower)
    assert join.answer.generation_id == 3


def test_before_the_assignment_members_that_join_again_unchanged_get_the_same_answer() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    leader_id, leader = scene.enter()
    follower_id, follower = scene.enter()
    scene.pass_time(1_000)
    parked = scene.sync(follower_id, 1)
    assert scene.join(leader_id).answer == leader.answer
    assert scene.join(follower_id).answer == follower.answer
    assert scene.group.state_name == "CompletingRebalance"
    scene.sync(leader_id, 1, {follower_id: b"yours"})
    assert parked.answer.assignment == b"yours"


def test_before_the_assignment_a_member_that_has_changed_causes_another_rebalance() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    leader_id, _ = scene.enter()
    follower_id, _ = scene.enter()
    scene.pass_time(1_000)
    parked = scene.sync(follower_id, 1)
    changed = scene.join(follower_id, protocols={"range": b"wants payments"})
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert changed.is_parked
    again = scene.join(leader_id)
    assert again.answer.generation_id == changed.answer.generation_id == 2
    assert again.answer.members[1].metadata == b"wants payments"


# Protocols


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        pytest.param([["range", "sticky"]], "range", id="one member: its first choice"),
        pytest.param([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky", id="most votes"),
        pytest.param([["range", "sticky"], ["sticky"]], "sticky", id="only what all support"),
        pytest.param([["a", "b", "c"], ["c", "b"], ["b", "a", "c"]], "b", id="votes go to the common ones"),
    ],
)
def test_members_vote_for_the_protocol(offers: list[list[str]], chosen: str) -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    joins = [scene.enter(protocols={name: name.encode() for name in names})[1] for names in offers]
    scene.pass_time(1_000)
    assert {join.answer.protocol_name for join in joins} == {chosen}
    assert {each.metadata for each in joins[0].answer.members} == {chosen.encode()}


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [
        pytest.param("consumer", {"sticky": b""}, id="nothing in common"),
        pytest.param("connect", RANGE, id="another type"),
        pytest.param("consumer", {}, id="no protocols"),
        pytest.param("", RANGE, id="no type"),
    ],
)
def test_who_has_no_protocol_in_common_with_the_members_stays_out(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    scene = Scene()
    leader, *_ = scene.stable(1)
    call = scene.join(protocol_type=protocol_type, protocols=protocols)
    assert call.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.join(leader, protocol_type=protocol_type, protocols=protocols).code is call.code
    assert scene.group.state_name == "Stable"


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", {})])
def test_an_empty_group_too_wants_a_protocol(protocol_type: str, protocols: dict[str, bytes]) -> None:
    call = Scene().join(version=3, protocol_type=protocol_type, protocols=protocols)
    assert call.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# Refusals


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_sessions_outside_the_bounds_are_refused(session_ms: int) -> None:
    assert Scene().join(session_ms=session_ms).code is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_sessions_at_the_bounds_are_fine(session_ms: int) -> None:
    assert Scene().join(session_ms=session_ms, version=3).code is ErrorCode.NONE


def test_nobody_joins_with_an_id_that_we_did_not_give() -> None:
    scene = Scene()
    assert scene.join("made-up").code is ErrorCode.UNKNOWN_MEMBER_ID
    scene.stable(1)
    refused = scene.join("made-up")
    assert refused.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.answer.member_id == "made-up"


def test_an_id_given_to_a_dynamic_member_cannot_be_used_with_an_instance() -> None:
    scene = Scene()
    given = scene.join().answer.member_id
    assert scene.join(given, instance="one").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.join(given).code is ErrorCode.NONE


def test_a_full_group_takes_nobody_else() -> None:
    scene = Scene(max_size=2)
    _, follower = scene.stable(2)
    assert scene.join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.join(follower, protocols={"range": b"changed"}).is_parked
    assert scene.group.state_name == "PreparingRebalance"


def test_while_it_rebalances_a_full_group_counts_those_who_have_joined() -> None:
    scene = Scene(max_size=2)
    leader, follower = scene.stable(2)
    scene.join(leader)
    _, quick = scene.enter()
    assert quick.is_parked
    late = scene.join(follower)
    assert late.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert quick.answer.generation_id == 3  # and nobody waits for the one who came too late
    assert scene.beat(follower, 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_that_is_repeated_in_a_full_group_stays_in() -> None:
    scene = Scene(max_size=1)
    leader, *_ = scene.stable(1)
    scene.join()
    assert scene.join(leader).answer.generation_id == 2

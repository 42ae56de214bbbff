"""Members with an instance id: they come back under a new id and take their old place, in every state of the group."""

from __future__ import annotations

import pytest

from headrace.model.errors import ErrorCode
from tests.unit.coordinators.classic_scene import REBALANCE_MS, SESSION_MS, Scene


def stable(scene: Scene, *instances: str) -> list[str]:
    """Static members of one stable generation, in this order; the first leads."""
    members: list[str] = []
    for instance in instances:
        member_id, call = scene.enter(instance=instance)
        others = [
            scene.join(other, instance=name) for other, name in zip(members, instances[: len(members)], strict=True)
        ]
        members.append(member_id)
        assert all(not other.is_parked for other in [*others, call])
    scene.assign(members, scene.group.generation)
    return members


def test_a_static_member_joins_without_being_told_an_id_first() -> None:
    scene = Scene()
    call = scene.join(instance="one", version=5)
    assert call.code is ErrorCode.NONE
    assert call.answer.members[0].group_instance_id == "one"


def test_a_follower_that_comes_back_takes_its_old_place_without_a_rebalance() -> None:
    scene = Scene()
    leader, old = stable(scene, "one", "two")
    call = scene.join(instance="two")
    new = call.answer.member_id
    assert new not in {leader, old}
    assert (call.answer.generation_id, call.answer.leader, call.answer.members) == (2, leader, [])
    assert call.answer.skip_assignment is False
    assert scene.group.state_name == "Stable"
    assert scene.sync(new, 2, instance="two").answer.assignment == b"share 1"
    assert scene.beat(leader, 2, instance="one") is ErrorCode.NONE


def test_a_replaced_member_is_written_with_what_the_old_one_had() -> None:
    scene = Scene()
    leader, old = stable(scene, "one", "two")
    before = scene.values[-1]
    scene.pass_time(1)
    new = scene.join(instance="two", protocols={"range": b"wants payments"}).answer.member_id
    after = scene.values[-1]
    assert (after.generation, after.leader, after.current_state_timestamp) == (
        before.generation,
        leader,
        before.current_state_timestamp,
    )
    assert {each.member_id: (each.group_instance_id, each.subscription, each.assignment) for each in after.members} == {
        leader: ("one", b"wants orders", b"share 0"),
        new: ("two", b"wants payments", b"share 1"),
    }
    scene.reload()
    assert scene.sync(new, 2, instance="two").answer.assignment == b"share 1"
    assert scene.beat(old, 2, instance="two") is ErrorCode.FENCED_INSTANCE_ID


def test_a_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    scene = Scene()
    _, follower = stable(scene, "one", "two")
    answer = scene.join(instance="one", version=9).answer
    assert answer.leader == answer.member_id
    assert answer.skip_assignment is True
    assert {each.member_id for each in answer.members} == {answer.member_id, follower}
    assert scene.sync(answer.member_id, 2, instance="one").answer.assignment == b"share 0"


def test_before_version_9_a_leader_that_comes_back_believes_that_another_leads() -> None:
    scene = Scene()
    old, _ = stable(scene, "one", "two")
    answer = scene.join(instance="one", version=8).answer
    assert answer.leader == old
    assert answer.members == []
    assert scene.sync(answer.member_id, 2, instance="one").answer.assignment == b"share 0"
    # It leads nevertheless: if it joins again, all do.
    assert scene.join(answer.member_id, instance="one").is_parked
    assert scene.group.state_name == "PreparingRebalance"


@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance", "PreparingRebalance"])
def test_whoever_uses_the_old_id_is_fenced_in_every_state(state: str) -> None:
    scene = Scene()
    leader, old = stable(scene, "one", "two")
    if state != "Stable":
        scene.join(leader, instance="one")
    if state == "CompletingRebalance":
        scene.join(old, instance="two")
    assert scene.group.state_name == state
    scene.join(instance="two")
    generation = scene.group.generation
    assert scene.join(old, instance="two").code is ErrorCode.FENCED_INSTANCE_ID
    assert scene.sync(old, generation, instance="two").code is ErrorCode.FENCED_INSTANCE_ID
    assert scene.beat(old, generation, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert scene.leave((old, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert scene.beat(old, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_parked_join_of_the_old_id_is_fenced() -> None:
    scene = Scene()
    leader, old = stable(scene, "one", "two")
    parked = scene.join(old, instance="two", protocols={"range": b"changed"})
    new = scene.join(instance="two")
    assert parked.code is ErrorCode.FENCED_INSTANCE_ID
    assert new.is_parked
    scene.join(leader, instance="one")
    assert new.answer.generation_id == 3


def test_a_parked_sync_of_the_old_id_is_fenced_and_all_join_again() -> None:
    scene = Scene()
    leader, old = stable(scene, "one", "two")
    scene.join(leader, instance="one")
    scene.join(old, instance="two")
    parked = scene.sync(old, 3, instance="two")
    new = scene.join(instance="two")
    assert parked.code is ErrorCode.FENCED_INSTANCE_ID
    assert new.is_parked
    # The leader's word was about the old id; had it counted, the new one would have got nothing.
    assert scene.sync(leader, 3, {old: b"b"}, instance="one").code is ErrorCode.REBALANCE_IN_PROGRESS
    again = scene.join(leader, instance="one")
    assert {each.member_id for each in again.answer.members} == {leader, new.answer.member_id}


def test_a_leader_that_comes_back_while_it_should_assign_leads_the_next_generation() -> None:
    scene = Scene()
    old, follower = stable(scene, "one", "two")
    scene.join(old, instance="one")
    scene.join(follower, instance="two")
    new = scene.join(instance="one")
    scene.join(follower, instance="two")
    assert new.answer.generation_id == 4
    assert new.answer.leader == new.answer.member_id


def test_a_static_member_that_changes_the_vote_causes_a_rebalance() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    both = {"range": b"", "sticky": b""}
    one, _ = scene.enter(instance="one", protocols=both)
    two, _ = scene.enter(instance="two", protocols=both)
    scene.pass_time(1_000)
    scene.assign([one, two], 1)
    assert scene.join(instance="two", protocols={"sticky": b""}).is_parked
    assert scene.join(one, instance="one", protocols=both).answer.protocol_name == "sticky"


def test_a_static_member_that_is_away_is_kept_through_a_rebalance() -> None:
    scene = Scene()
    leader, _ = scene.enter(instance="one", session_ms=120_000)
    away, _ = scene.enter(instance="two", session_ms=120_000)
    scene.join(leader, instance="one", session_ms=120_000)
    scene.assign([leader, away], 2)
    join = scene.join(leader, instance="one", session_ms=120_000)
    scene.pass_time(REBALANCE_MS)
    assert {each.member_id for each in join.answer.members} == {leader, away}
    scene.sync(leader, 3, {leader: b"a", away: b"b"}, instance="one")
    back = scene.join(instance="two", session_ms=120_000)
    assert scene.sync(back.answer.member_id, 3, instance="two").answer.assignment == b"b"


def test_a_static_leader_that_is_away_hands_the_lead_to_one_who_is_there() -> None:
    scene = Scene()
    leader, follower = stable(scene, "one", "two")
    join = scene.join(follower, instance="two", protocols={"range": b"changed"})
    scene.pass_time_beating(REBALANCE_MS, [leader])
    assert join.answer.leader == follower


def test_if_only_static_members_that_are_away_are_left_the_group_waits_for_their_sessions() -> None:
    scene = Scene()
    member_id, _ = scene.enter(instance="one", session_ms=200_000)
    scene.assign([member_id], 1)
    newcomer_id, newcomer = scene.enter()
    scene.leave((newcomer_id, None))
    assert newcomer.code is ErrorCode.UNKNOWN_MEMBER_ID
    scene.pass_time(150_000)  # the rebalance timeout is over, twice
    assert scene.group.state_name == "PreparingRebalance"
    scene.pass_time(50_000)
    assert scene.group.is_empty
    assert scene.values[-1].members == []


def test_a_lost_session_removes_a_static_member_too() -> None:
    scene = Scene()
    leader, _ = stable(scene, "one", "two")
    scene.pass_time_beating(SESSION_MS + 1, [leader])
    assert [member.group_instance_id for member in scene.group.describe().members] == ["one"]
    assert scene.group.state_name == "PreparingRebalance"


def test_an_unknown_instance_is_an_unknown_member() -> None:
    scene = Scene()
    leader, _ = stable(scene, "one", "two")
    assert scene.beat(leader, 2, instance="three") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.beat(leader, 2, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert scene.beat(leader, 2) is ErrorCode.NONE


def test_a_static_member_may_come_back_to_a_full_group() -> None:
    scene = Scene(max_size=2)
    stable(scene, "one", "two")
    assert scene.join(instance="three").code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.join(instance="two").code is ErrorCode.NONE
    assert len(scene.group.describe().members) == 2


def test_whoever_is_replaced_before_it_has_synced_does_not_cause_a_rebalance_later() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    leader, _ = scene.enter(instance="one")
    scene.enter(instance="two")
    scene.pass_time(1_000)
    scene.sync(leader, 1, {}, instance="one")
    new = scene.join(instance="two").answer.member_id
    scene.pass_time_beating(2 * REBALANCE_MS, [leader, new])
    assert scene.group.state_name == "Stable"

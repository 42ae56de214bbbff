"""A group that another node takes over: what it finds in the log, and how its members find their way back."""

from __future__ import annotations

import pytest

from headrace.coordinators.effects import Effects
from headrace.coordinators.groups.classic.classic_group import ClassicGroup
from headrace.coordinators.groups.settings import GroupSettings
from headrace.model.errors import ErrorCode
from headrace.wire.messages.group_records import GroupMetadataValue, MemberMetadata
from tests.unit.coordinators.classic_scene import NOON_MS, SESSION_MS, Scene


def test_members_go_on_as_if_nothing_had_happened() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    before = scene.group.describe()
    scene.reload()
    assert scene.group.describe() == before
    assert scene.beat(leader, 2) is ErrorCode.NONE
    assert scene.sync(follower, 2).answer.assignment == b"share 1"
    assert scene.join(follower).answer.leader == leader


def test_everybody_has_a_whole_session_to_show_up() -> None:
    scene = Scene()
    leader, lost = scene.stable(2)
    scene.pass_time(SESSION_MS - 1)
    scene.reload()
    scene.pass_time(SESSION_MS - 1)
    assert scene.beat(leader, 2) is ErrorCode.NONE
    scene.pass_time(1)
    assert scene.beat(lost, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_that_was_not_written_is_forgotten_and_done_again() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    scene.join(leader)
    scene.join(follower)
    assert scene.group.generation == 3
    scene.reload()
    assert (scene.group.generation, scene.group.state_name) == (2, "Stable")
    assert scene.sync(leader, 3, {leader: b"all"}).code is ErrorCode.ILLEGAL_GENERATION
    scene.join(leader)
    scene.join(follower)
    scene.assign([leader, follower], 3)
    assert [value.generation for value in scene.values] == [2, 3]


def test_an_empty_group_stays_empty_since_then() -> None:
    scene = Scene()
    (member_id,) = scene.stable(1)
    scene.leave((member_id, None))
    since_ms = scene.group.empty_since_ms
    scene.pass_time(5_000)
    scene.reload()
    assert scene.group.is_empty
    assert scene.group.empty_since_ms == since_ms
    assert scene.group.next_deadline_ms() is None
    assert scene.join(member_id).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.enter()[1].answer.generation_id == 3


def test_a_later_record_replaces_all_that_an_earlier_one_said_of_a_member() -> None:
    scene = Scene()
    (member_id,) = scene.stable(1, session_ms=SESSION_MS, protocols={"range": b"1", "sticky": b"1"})
    scene.join(member_id, session_ms=2 * SESSION_MS, protocols={"sticky": b"2"})
    scene.assign([member_id], 2, protocol="sticky")
    scene.reload()
    assert scene.group.describe().members[0].member_metadata == b"2"
    assert scene.join(protocols={"range": b""}).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    scene.pass_time(2 * SESSION_MS - 1)
    assert not scene.group.is_empty
    scene.pass_time(1)
    assert scene.group.is_empty


def test_if_the_limit_was_lowered_a_rebalance_lets_in_as_many_as_it_allows() -> None:
    scene = Scene()
    first, second, third = scene.stable(3)
    scene.reload(max_size=2)
    assert scene.group.state_name == "PreparingRebalance"
    joins = [scene.join(third), scene.join(second)]
    assert scene.join(first).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {join.answer.leader for join in joins} == {second}
    assert scene.group.generation == 4


@pytest.mark.parametrize(
    ("leader", "expected"), [("b", "b"), (None, "a"), ("gone", "a")], ids=["named", "not named", "no member"]
)
def test_someone_leads_whatever_the_record_says(leader: str | None, expected: str) -> None:
    group = ClassicGroup("g", GroupSettings())
    members = [MemberMetadata(member_id, session_timeout=SESSION_MS) for member_id in ("a", "b")]
    group.apply(GroupMetadataValue("consumer", 1, "range", leader, NOON_MS, members))
    scene = Scene()
    scene.group = group
    assert scene.group.loaded(scene.now) == Effects()
    assert scene.join("b" if expected == "a" else "a", protocols={"range": b""}).answer.leader == expected


def test_a_record_of_the_oldest_versions_does_not_say_since_when() -> None:
    group = ClassicGroup("g", GroupSettings())
    group.apply(GroupMetadataValue("consumer", 4, None, None))
    assert group.is_empty
    assert group.empty_since_ms is None
    assert group.generation == 4

"""Heartbeat, LeaveGroup, who may commit offsets, and what a group says about itself."""

from __future__ import annotations

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from headrace.wire.primitives import Writer
from tests.unit.coordinators.classic_scene import NOON_MS, SESSION_MS, Scene


def subscription(*topics: str, version: int = 3, as_version: int | None = None) -> bytes:
    writer = Writer()
    writer.int16(version if as_version is None else as_version)
    ConsumerProtocolSubscription(list(topics)).encode(writer, version)
    return bytes(writer.buffer)


def commit_code(
    scene: Scene, member_id: str, generation: int, instance: str | None = None, *, is_transactional: bool = False
) -> ErrorCode:
    try:
        scene.group.check_commit(member_id, instance, generation, 9, is_transactional=is_transactional, now=scene.now)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE


# Heartbeat


def test_a_heartbeat_says_how_the_group_is() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    assert scene.beat("nobody", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    member_id, _ = scene.enter()
    scene.pass_time(100)
    assert scene.beat(member_id, 1) is ErrorCode.NONE  # between join and sync
    scene.assign([member_id], 1)
    assert scene.beat(member_id, 1) is ErrorCode.NONE
    assert scene.beat(member_id, 0) is ErrorCode.ILLEGAL_GENERATION
    assert scene.beat(member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert scene.beat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    scene.enter()
    assert scene.beat(member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_refused_heartbeat_does_not_keep_a_session_alive() -> None:
    scene = Scene()
    (member_id,) = scene.stable(1)
    scene.pass_time(SESSION_MS - 1)
    assert scene.beat(member_id, 7) is ErrorCode.ILLEGAL_GENERATION
    scene.pass_time(1)
    assert scene.group.is_empty


# LeaveGroup


def test_when_the_last_member_leaves_the_group_is_empty_and_written_so() -> None:
    scene = Scene()
    (member_id,) = scene.stable(1)
    assert scene.group.empty_since_ms is None
    scene.pass_time(500)
    assert scene.leave((member_id, None)) == [ErrorCode.NONE]
    assert scene.group.state_name == "Empty"
    assert scene.group.empty_since_ms == NOON_MS + scene.steady_ms
    last = scene.values[-1]
    assert (last.generation, last.protocol_type, last.protocol, last.leader, last.members) == (
        2,
        "consumer",
        None,
        None,
        [],
    )
    assert last.current_state_timestamp == scene.group.empty_since_ms


def test_when_the_last_session_ends_the_group_is_empty_and_written_so() -> None:
    scene = Scene()
    scene.stable(1)
    scene.pass_time(SESSION_MS)
    assert scene.group.is_empty
    assert scene.values[-1].members == []
    scene.pass_time(1_000_000)
    assert scene.group.next_deadline_ms() is None


def test_one_request_may_name_several_members_each_with_its_own_result() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    dynamic, _ = scene.enter()
    stays, _ = scene.enter()
    by_instance, _ = scene.enter(instance="one")
    by_both, _ = scene.enter(instance="two")
    scene.pass_time(1_000)
    scene.assign([dynamic, stays, by_instance, by_both], 1)
    expected = scene.join().answer.member_id
    assert (
        scene.leave(
            (dynamic, None),
            ("", "one"),
            (by_both, "two"),
            (expected, None),
            (dynamic, None),
            ("", "one"),
            ("", "unknown"),
            ("", None),
            ("stranger", None),
            (stays, "two"),
        )
        == [ErrorCode.NONE] * 4 + [ErrorCode.UNKNOWN_MEMBER_ID] * 6
    )
    assert [member.member_id for member in scene.group.describe().members] == [stays]
    assert scene.join(stays).answer.generation_id == 2


def test_a_member_id_that_does_not_hold_the_instance_is_fenced() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    one, _ = scene.enter(instance="one")
    two, _ = scene.enter(instance="two")
    scene.pass_time(1_000)
    scene.assign([one, two], 1)
    assert scene.leave((one, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert scene.group.state_name == "Stable"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_requests_name_one_member(version: int) -> None:
    scene = Scene()
    (member_id,) = scene.stable(1)
    assert scene.leave_alone("stranger", version) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.leave_alone("", version) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.leave_alone(member_id, version) is ErrorCode.NONE
    assert scene.group.is_empty


def test_a_member_that_leaves_ends_the_wait_for_it() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    join = scene.join(leader)
    scene.leave((follower, None))
    assert join.answer.generation_id == 3


def test_a_member_that_leaves_while_it_joins_is_answered() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    join = scene.join(leader)
    scene.leave((leader, None))
    assert join.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.join(follower).answer.leader == follower


# Commits


def test_a_group_without_members_takes_the_commits_of_those_who_manage_themselves() -> None:
    scene = Scene()
    assert commit_code(scene, "", -1) is ErrorCode.NONE
    assert commit_code(scene, "whoever", -1) is ErrorCode.NONE
    assert commit_code(scene, "whoever", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_stable_group_takes_the_commits_of_its_members_alone() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    dynamic, _ = scene.enter()
    static, _ = scene.enter(instance="one")
    scene.pass_time(1_000)
    scene.assign([dynamic, static], 1)
    assert commit_code(scene, dynamic, 1) is ErrorCode.NONE
    assert commit_code(scene, static, 1, "one") is ErrorCode.NONE
    assert commit_code(scene, dynamic, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(scene, dynamic, 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(scene, dynamic, -1) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(scene, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(scene, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(scene, dynamic, 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    assert commit_code(scene, "", -1, "one") is ErrorCode.FENCED_INSTANCE_ID


def test_members_may_commit_before_they_join_again_but_not_before_they_know_their_partitions() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    scene.join(leader)
    assert commit_code(scene, follower, 2) is ErrorCode.NONE
    scene.join(follower)
    assert commit_code(scene, follower, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_code(scene, follower, 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(scene, follower, 3, is_transactional=True) is ErrorCode.NONE


def test_a_transaction_may_commit_without_saying_for_whom() -> None:
    scene = Scene()
    (member_id,) = scene.stable(1)
    assert commit_code(scene, "", -1, is_transactional=True) is ErrorCode.NONE
    assert commit_code(scene, member_id, 1, is_transactional=True) is ErrorCode.NONE
    assert commit_code(scene, member_id, 0, is_transactional=True) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(scene, "stranger", -1, is_transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("is_rebalancing", [False, True])
def test_a_commit_is_as_good_as_a_heartbeat(is_rebalancing: bool) -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    if is_rebalancing:
        scene.join(leader)
    for _ in range(4):
        scene.pass_time(SESSION_MS - 1)
        assert commit_code(scene, follower, 2) is ErrorCode.NONE
        assert commit_code(scene, leader, 2) is ErrorCode.NONE


# What a group says about itself


def test_a_description_shows_metadata_only_while_the_protocol_is_certain() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    member_id, _ = scene.enter(instance="one", protocols={"sticky": b"S", "range": b"R"})
    described = scene.group.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert [member.member_metadata for member in described.members] == [b""]
    scene.pass_time(100)
    scene.assign([member_id], 1, protocol="sticky")
    described = scene.group.describe()
    assert (described.group_id, described.group_state, described.protocol_data) == ("g", "Stable", "sticky")
    (member,) = described.members
    assert (member.member_id, member.group_instance_id, member.client_id, member.client_host) == (
        member_id,
        "one",
        "client",
        "127.0.0.1",
    )
    assert (member.member_metadata, member.member_assignment) == (b"S", b"share 0")


def test_the_topics_of_a_generation_are_those_that_its_members_want() -> None:
    scene = Scene(initial_rebalance_delay_ms=100)
    assert scene.group.subscribed_topics() is None
    one, _ = scene.enter(protocols={"range": subscription("orders", "payments", version=0)})
    two, _ = scene.enter(protocols={"range": subscription("orders", "refunds")})
    scene.pass_time(1_000)
    scene.assign([one, two], 1)
    assert scene.group.subscribed_topics() == {"orders", "payments", "refunds"}
    scene.enter(protocols={"range": subscription("not yet")})
    assert scene.group.subscribed_topics() == {"orders", "payments", "refunds"}
    scene.leave((one, None))
    assert scene.group.subscribed_topics() == {"orders", "refunds"}


def test_a_subscription_of_a_version_to_come_is_read_by_its_oldest_fields() -> None:
    scene = Scene()
    scene.stable(1, protocols={"range": subscription("orders", as_version=99) + b"what we cannot know"})
    assert scene.group.subscribed_topics() == {"orders"}


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\3\xff\xff\xff\xf0", b"\0\0\0\0\0\1\0\2\xff\xfe\0\0\0\0"])
def test_topics_are_unknown_if_a_subscription_cannot_be_read(metadata: bytes) -> None:
    scene = Scene()
    scene.stable(1, protocols={"range": metadata})
    assert scene.group.subscribed_topics() is None


def test_topics_of_others_than_consumers_are_unknown_and_an_empty_group_wants_none() -> None:
    scene = Scene()
    (member_id,) = scene.stable(1, protocols={"range": subscription("orders")})
    scene.leave((member_id, None))
    assert scene.group.subscribed_topics() == set()
    scene.enter(protocol_type="connect", protocols={"range": subscription("orders")})
    assert scene.group.subscribed_topics() is None

"""Heartbeats that are refused, whatever the group is like; and those that the group refuses."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.coordinators.groups.modern.checks import check_member_epoch
from headrace.coordinators.groups.modern.members import CurrentAssignment, Member, MemberState, partitions_of
from headrace.coordinators.groups.settings import GroupSettings
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ID_BYTES_MAX, LogId
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.unit.coordinators.modern_world import GROUP, TopicsInMemory, World, beat, join

LONGEST = "ü" * (ID_BYTES_MAX // 2)  # it is bytes that count
TOO_LONG = f"{LONGEST}x"


def refused(world: World, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ErrorCode:
    written = len(world.log)
    with pytest.raises(Refusal) as refusal:
        world.send(request, version)
    assert len(world.log) == written
    return refusal.value.code


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        pytest.param({"member_id": ""}, 1, id="from v1 on a member names itself"),
        pytest.param({"member_id": " "}, 1, id="a blank member id"),
        pytest.param({"member_id": "", "member_epoch": 1}, 0, id="a member must say who it is"),
        pytest.param({"member_id": "", "member_epoch": -1}, 0, id="also to leave"),
        pytest.param({"group_id": ""}, 1, id="no group"),
        pytest.param({"instance_id": ""}, 1, id="an empty instance id"),
        pytest.param({"rack_id": ""}, 1, id="an empty rack id"),
        pytest.param({"member_id": TOO_LONG}, 1, id="a member id that is too long"),
        pytest.param({"instance_id": TOO_LONG}, 1, id="an instance id that is too long"),
        pytest.param({"rack_id": TOO_LONG}, 1, id="a rack id that is too long"),
        pytest.param({"subscribed_topic_names": ["t" * 250]}, 1, id="a name that no topic can have"),
        pytest.param({"subscribed_topic_names": ["t"] * 10_001}, 1, id="more names than a record holds"),
        pytest.param({"rebalance_timeout_ms": -1}, 1, id="no rebalance timeout"),
        pytest.param({"rebalance_timeout_ms": -7}, 1, id="a negative rebalance timeout"),
        pytest.param({"topic_partitions": None}, 1, id="does not say that it owns nothing"),
        pytest.param({"topic_partitions": [TopicPartitions()]}, 1, id="joins and owns something"),
        pytest.param({"subscribed_topic_names": None}, 1, id="no subscription"),
        pytest.param({"member_epoch": -2}, 1, id="leaves for a while, but is not static"),
        pytest.param({"member_epoch": -3}, 1, id="an epoch that means nothing"),
    ],
)
def test_invalid(fields: dict[str, Any], version: int) -> None:
    world = World(TopicsInMemory(t=1))
    assert refused(world, join("a", "t", **fields), version) is ErrorCode.INVALID_REQUEST


def test_the_longest_ids() -> None:
    world = World(TopicsInMemory(t=1))
    world.send(join(LONGEST, "t", instance_id=LONGEST, rack_id=LONGEST))
    assert [member.member_id for member in world.group.describe().members] == [LONGEST]


def test_a_subscription_may_be_a_regex_or_empty() -> None:
    world = World(TopicsInMemory(t=1))
    world.send(join("a", "t", subscribed_topic_names=None, subscribed_topic_regex="t"))
    world.send(join("b"))
    assert world.group.describe().group_epoch == 1, "whoever subscribes to nothing changes nothing"
    assert {member.member_id for member in world.group.describe().members} == {"a", "b"}


def test_unknown_assignor() -> None:
    assert refused(World(TopicsInMemory()), join("a", server_assignor="magic")) is ErrorCode.UNSUPPORTED_ASSIGNOR


@pytest.mark.parametrize("regex", ["(", "a{2000}", "(?=t)"])
def test_unreadable_regex(regex: str) -> None:
    world = World(TopicsInMemory(t=1))
    request = join("a", subscribed_topic_regex=regex)
    assert refused(world, request) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.group.is_empty
    assert world.group.next_deadline_ms() is None


def test_a_regex_that_is_too_much_work_for_the_topics_there_are() -> None:
    chance = random.Random(1)
    names = {"".join(chance.choices("abc.-", k=200)): 1 for _ in range(200)}
    world = World(TopicsInMemory(**names))
    request = join("a", subscribed_topic_regex="(.{0,33}){0,9}")
    assert refused(world, request) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.group.is_empty


def test_a_bad_regex_does_not_cost_a_static_member_its_place() -> None:
    world = World(TopicsInMemory(t=1))
    world.send(join("a", "t", instance_id="i"))
    world.send(beat("a", -2, instance_id="i"))
    request = join("b", "t", instance_id="i", subscribed_topic_regex="(")
    assert refused(world, request) is ErrorCode.INVALID_REGULAR_EXPRESSION
    world.pass_time(world.settings.consumer_session_timeout_ms)
    assert world.group.is_empty


@pytest.mark.parametrize("epoch", [1, -1])
def test_unknown_member(epoch: int) -> None:
    world = World(TopicsInMemory(t=1))
    world.send(join("a", "t"))
    assert refused(world, beat("b", epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(world, beat("a", epoch, instance_id="i")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_full_group() -> None:
    world = World(TopicsInMemory(t=1), GroupSettings(consumer_max_size=2))
    world.send(join("a", "t", instance_id="i"))
    world.send(join("b", "t"))
    assert refused(world, join("c", "t")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.send(join("b", "t"))  # is a member already
    world.send(beat("a", -2, instance_id="i"))
    world.send(join("d", "t", instance_id="i"))  # takes the place of one


def moved_on() -> World:
    """The member `a` went from epoch 1 to 2, gave partition 1 up, and holds 0. The topic has 2 partitions."""
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    world.send(join("b", "t"))
    kept = frozenset({partition(world, 0)})
    assert world.send(beat("a", 1)).member_epoch == 1
    assert world.send(beat("a", 1, kept)).member_epoch == 2
    return world


def partition(world: World, number: int) -> LogId:
    topic = world.topics.named("t")
    assert topic is not None
    return LogId(topic.topic_id, number)


@pytest.mark.parametrize("owned", [[0], []])
def test_the_answer_with_the_new_epoch_got_lost(owned: list[int]) -> None:
    world = moved_on()
    response = world.send(beat("a", 1, {partition(world, number) for number in owned}))
    assert response.member_epoch == 2


@pytest.mark.parametrize(
    ("epoch", "owned"),
    [
        pytest.param(1, None, id="one behind, and does not say what it owns"),
        pytest.param(1, [0, 1], id="one behind, and owns what it gave up"),
        pytest.param(3, [0], id="ahead"),
    ],
)
def test_fenced(epoch: int, owned: list[int] | None) -> None:
    world = moved_on()
    request = beat("a", epoch, None if owned is None else {partition(world, number) for number in owned})
    assert refused(world, request) is ErrorCode.FENCED_MEMBER_EPOCH


def test_one_behind_and_owns_what_it_was_told_to_give_up() -> None:
    """It lost two answers: the one with the epoch, and the one that told it."""
    world = moved_on()
    kept, pending = frozenset({partition(world, 0)}), frozenset({partition(world, 1)})
    member = Member("a", current=CurrentAssignment(2, 1, MemberState.UNREVOKED_PARTITIONS, kept, pending))
    check_member_epoch(member, beat("a", 1, kept))
    with pytest.raises(Refusal) as refusal:
        check_member_epoch(member, beat("a", 1, kept | pending))
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_late_request_gives_nothing_up() -> None:
    """It was sent before the member got partition 1, and arrives when that is wanted for another."""
    world = moved_on()
    first, second = partition(world, 0), partition(world, 1)
    world.send(beat("b", -1))
    assert world.send(beat("a", 2, {first})).member_epoch == 3
    assert world.group._state.members["a"].current.assigned == {first, second}
    world.send(join("c", "t"))
    world.send(beat("a", 2, {first}))
    given = world.send(beat("c", 4)).assignment
    assert given is None, "nobody has given anything up"
    assert world.send(beat("a", 3, {first})).member_epoch == 4
    given = world.send(beat("c", 4)).assignment
    assert given is not None
    assert partitions_of(given.topic_partitions) == {second}


def test_two_behind_is_fenced() -> None:
    world = moved_on()
    world.send(join("c", "t"))
    assert world.send(beat("a", 2, {partition(world, 0)})).member_epoch == 3
    assert refused(world, beat("a", 1, {partition(world, 0)})) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_joins_again_with_its_id() -> None:
    world = moved_on()
    response = world.send(join("a", "t"))
    assert (response.member_id, response.member_epoch) == ("a", 2)
    assert response.assignment is not None
    assert world.group.describe().group_epoch == 2, "it is the same member with the same subscription"


def test_a_member_without_an_id_is_given_one() -> None:
    world = World(TopicsInMemory(t=1))
    assert world.send(join("", "t"), version=0).member_id == "made-for-it"
    assert world.group.group_id == GROUP

"""Members that keep their place in a KIP-848 group over a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode, Refusal
from tests.unit.coordinators.modern_world import SESSION_MS, TopicsInMemory, World, assigned, beat, join

if TYPE_CHECKING:
    from headrace.model.names import LogId
    from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def settled() -> World:
    """`a` (instance `i`) and `b` share the topic `t`; the group is stable at epoch 2."""
    world = World(TopicsInMemory(t=4))
    world.send(join("a", "t", instance_id="i"))
    world.send(join("b", "t"))
    world.send(beat("a", 1, instance_id="i"))
    world.send(beat("a", 1, owned_by(world, "a"), instance_id="i"))
    world.send(beat("b", 2))
    assert world.group.state_name == "Stable"
    return world


def owned_by(world: World, member_id: str) -> frozenset[LogId]:
    return world.group._state.members[member_id].current.assigned


def refused(world: World, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        world.send(request)
    return refusal.value.code


@pytest.mark.parametrize("reloads", [False, True])
@pytest.mark.parametrize("successor", ["c", "a"])
def test_back_within_the_session(successor: str, reloads: bool) -> None:
    world = settled()
    before = owned_by(world, "a")
    response = world.send(beat("a", -2, instance_id="i"))
    assert (response.member_id, response.member_epoch, response.assignment) == ("a", -2, None)
    if reloads:
        world.reload(compact=True)
    assert assigned(world.send(beat("b", 2))) is None, "its partitions wait for it"
    assert world.group.epoch == 2

    response = world.send(join(successor, "t", instance_id="i"))
    assert (response.member_id, response.member_epoch, assigned(response)) == (successor, 2, before)
    assert world.group.epoch == 2
    assert world.group.state_name == "Stable"
    assert {member.member_id for member in world.group.describe().members} == {successor, "b"}


def test_the_predecessor_is_fenced() -> None:
    world = settled()
    world.send(beat("a", -2, instance_id="i"))
    world.send(join("c", "t", instance_id="i"))
    for epoch in (2, -1, -2):
        assert refused(world, beat("a", epoch, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert refused(world, beat("a", 2)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_left_for_a_while_must_join_again() -> None:
    world = settled()
    world.send(beat("a", -2, instance_id="i"))
    assert refused(world, beat("a", 2, instance_id="i")) is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_instance_id_is_taken() -> None:
    world = settled()
    assert refused(world, join("c", "t", instance_id="i")) is ErrorCode.UNRELEASED_INSTANCE_ID


def test_the_answer_to_a_join_got_lost() -> None:
    """The same member id is the same process, and no other one that wants its place."""
    world = settled()
    response = world.send(join("a", "t", instance_id="i"))
    assert (response.member_epoch, assigned(response)) == (2, owned_by(world, "a"))


def test_an_instance_id_is_free_after_the_session() -> None:
    world = settled()
    orphaned = owned_by(world, "a")
    world.pass_time(SESSION_MS - 1)
    world.send(beat("b", 2))
    world.pass_time(1)
    assert assigned(world.send(join("c", "t", instance_id="i"))) == orphaned
    assert world.group.epoch == 4


def test_gone_for_a_while_is_gone_when_the_session_is_over() -> None:
    world = settled()
    world.send(beat("a", -2, instance_id="i"))
    world.pass_time(SESSION_MS - 1)
    world.send(beat("b", 2))
    world.pass_time(1)
    assert assigned(world.send(beat("b", 2))) == world.topics.partitions("t")


def test_a_successor_has_a_session_of_its_own() -> None:
    world = settled()
    world.send(beat("a", -2, instance_id="i"))
    world.pass_time(SESSION_MS - 1)
    world.send(join("c", "t", instance_id="i"))
    world.send(beat("b", 2))
    world.pass_time(SESSION_MS - 1)
    assert len(world.group.describe().members) == 2
    world.pass_time(1)
    assert world.group.is_empty


def test_leaving_for_good() -> None:
    world = settled()
    response = world.send(beat("a", -1, instance_id="i"))
    assert (response.member_id, response.member_epoch) == ("a", -1)
    assert assigned(world.send(beat("b", 2))) == world.topics.partitions("t")


def test_back_with_another_subscription() -> None:
    world = settled()
    world.topics.create("u", 1)
    world.send(beat("a", -2, instance_id="i"))
    response = world.send(join("c", "u", instance_id="i"))
    assert (response.member_epoch, assigned(response)) == (3, world.topics.partitions("u"))
    assert assigned(world.send(beat("b", 2))) == world.topics.partitions("t")


@pytest.mark.parametrize("reloads", [False, True])
def test_what_it_was_to_give_up_is_free_at_once(reloads: bool) -> None:
    world = settled()
    world.send(join("c", "t", rebalance_timeout_ms=10))
    world.send(beat("a", 2, instance_id="i", rebalance_timeout_ms=10))  # told to give one up
    world.send(beat("b", 2))
    world.send(beat("a", -2, instance_id="i"))
    if reloads:
        world.reload()
    world.pass_time(10)
    assert len(world.group.describe().members) == 3, "its session counts, and nothing else"
    given_up = world.topics.partitions("t") - owned_by(world, "a") - owned_by(world, "b")
    assert assigned(world.send(beat("c", 3))) == given_up != frozenset()

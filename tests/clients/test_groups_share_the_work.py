"""Consumer groups of every client library and protocol: members come, go, die and return, and the work gets done."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.clients.group_clients import FLAVOURS, FLEETING, LASTING
from tests.clients.group_fixtures import SWIFT
from tests.clients.living_groups import LivingGroup
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures", "tests.clients.group_fixtures"]

PARTITIONS = 6
MESSAGES = 30

every_flavour = pytest.mark.parametrize("flavour", FLAVOURS)


@pytest.fixture
def group(swift_node: NodeProcess, flavour: str) -> Iterator[LivingGroup]:
    """A group without members, and a topic for it."""
    topic = swift_node.create_topic(new_name(flavour), PARTITIONS)
    with LivingGroup(swift_node, flavour, {topic: PARTITIONS}, LASTING) as living:
        yield living


@every_flavour
def test_members_join_and_leave_and_read_everything_once(group: LivingGroup) -> None:
    first = group.join()
    group.wait_settled(first)
    group.write(MESSAGES)
    second, third = group.join(), group.join()
    group.write(MESSAGES)
    group.wait_settled(first, second, third)
    group.write(MESSAGES)
    group.leave(first)
    group.write(MESSAGES)
    group.wait_settled(second, third)
    group.wait_all_read()
    group.leave(second)
    group.write(MESSAGES)
    group.wait_all_read()
    group.wait_settled(third)
    group.leave(third)
    last = group.join()
    group.wait_settled(last)
    group.write(1)
    group.wait_all_read()
    assert group.history.twice() == []


@every_flavour
def test_a_static_member_that_restarts_moves_no_partition(group: LivingGroup) -> None:
    names = {instance: group.join(instance_id=instance) for instance in ("left", "right")}
    group.wait_settled(*names.values())
    for instance, other in (("left", "right"), ("right", "left")):  # one of them leads the group
        group.write(MESSAGES)
        group.wait_all_read()
        began_s = time.monotonic()
        had = group.history.owned()[names[instance]]
        group.leave(names[instance])
        names[instance] = group.join(instance_id=instance)
        group.wait_settled(*names.values())
        assert group.history.owned()[names[instance]] == had
        assert group.history.moves_of(names[other], since_s=began_s) == []
    group.write(MESSAGES)
    group.wait_all_read()
    assert group.history.twice() == []


@every_flavour
def test_new_partitions_and_new_subscriptions_find_owners(group: LivingGroup, swift_node: NodeProcess) -> None:
    members = [group.join(), group.join()]
    group.wait_settled(*members)
    (topic,) = group.topics
    admin = AdminClient({"bootstrap.servers": swift_node.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, PARTITIONS + 4)])[topic].result(PATIENCE_S)
    group.topics[topic] += 4
    group.write(MESSAGES)
    group.wait_settled(*members)
    group.wait_all_read()
    another = swift_node.create_topic(new_name(group.flavour), PARTITIONS)
    group.topics[another] = PARTITIONS
    for member in members:
        group.subscribe(member, group.topics)
    group.write(MESSAGES)
    group.wait_settled(*members)
    group.wait_all_read()
    del group.topics[topic]
    for member in members:
        group.subscribe(member, group.topics)
    group.wait_settled(*members)
    assert group.history.twice() == []


# ---- what mostly takes waiting: groups of every flavour at the same time


@contextmanager
def groups_of_every_flavour(node: NodeProcess) -> Iterator[list[LivingGroup]]:
    with ExitStack() as living:
        topics = [node.create_topic(new_name(flavour), PARTITIONS) for flavour in FLAVOURS]
        yield [
            living.enter_context(LivingGroup(node, flavour, {topic: PARTITIONS}, LASTING))
            for flavour, topic in zip(FLAVOURS, topics, strict=True)
        ]


def wait_settled(members: dict[LivingGroup, tuple[str, ...]]) -> None:
    for group, names in members.items():
        group.write(MESSAGES)
        group.wait_settled(*names)
        group.wait_all_read()


def test_who_falls_silent_is_replaced_and_may_come_back_until_it_dies(swift_node: NodeProcess) -> None:
    with groups_of_every_flavour(swift_node) as groups:
        steady = {group: group.join() for group in groups}
        shaky = {group: group.join(timing=FLEETING, in_process=True) for group in groups}
        both = {group: (steady[group], shaky[group]) for group in groups}
        alone = {group: (steady[group],) for group in groups}
        wait_settled(both)
        for group in groups:
            group.freeze(shaky[group])
        wait_settled(alone)
        for group in groups:
            group.thaw(shaky[group])
        wait_settled(both)
        for group in groups:
            group.kill(shaky[group])
        wait_settled(alone)


def test_groups_ride_out_restarts_of_their_node(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    node = start_node(SWIFT)
    with groups_of_every_flavour(node) as groups:
        members = {group: (group.join(), group.join()) for group in groups}
        wait_settled(members)
        for end in (node.stop, node.kill):
            end()
            node.start()
            wait_settled(members)
        for group in groups:
            group.leave(members[group][0])
        wait_settled({group: members[group][1:] for group in groups})


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [("classic", "consumer", "group id does not exist"), ("consumer", "classic", "Inconsistent group protocol")],
)
def test_a_group_has_one_protocol(
    swift_node: NodeProcess, two_partitions: str, first: str, second: str, error: str
) -> None:
    group = new_name("group")
    settings = {"bootstrap.servers": swift_node.bootstrap_servers, "group.id": group}
    inside = Consumer({**settings, "group.protocol": first})
    outside = Consumer({**settings, "group.protocol": second})
    inside.subscribe([two_partitions])
    while len(inside.assignment()) < 2:
        inside.poll(0.05)
    outside.subscribe([two_partitions])
    refused = outside.poll(PATIENCE_S)
    assert refused is not None
    assert error in str(refused.error())
    inside.poll(0)
    assert len(inside.assignment()) == 2
    outside.close()
    inside.close()

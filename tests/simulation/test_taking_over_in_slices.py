"""What a lost node had is taken over in slices, however many partitions that are, and whoever is lost in the middle."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.metadata.quorum import APPLIED_AT_ONCE
from headrace.broker.replicas import in_sync_review
from headrace.metadata.commands.partition_commands import change_in_sync
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.metadata.decisions import slices
from headrace.metadata.decisions.decision import Decision
from headrace.metadata.decisions.slices import CHANGED_MAX
from headrace.metadata.image.cluster_image import Draft
from headrace.metadata.image.records import NodeRegistered, PartitionCreated, TopicCreated
from headrace.model.names import NO_NODE, Epoch, NodeId, TopicId
from headrace.servers.kafka.handlers.nodes import alter_partition
from headrace.simulation.environment.universe import Universe, run
from headrace.simulation.scenario import run_scenario
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.broker.node import Node
    from headrace.metadata.commands.partition_commands import IsrChange
    from headrace.metadata.image.cluster_image import ClusterImage, Partition, Topic
    from headrace.metadata.image.records import MetadataRecord
    from headrace.simulation.cluster import NodeProcess

LIMIT_S = 60.0
INSTANT_S = 0.0001
LOOK_S = 0.05
PARTITIONS = 30
ELSEWHERE = (NodeId(7), NodeId(8), NodeId(9))
MANY = 1500
FEW_AT_ONCE = 2
SEEDS = (3, 5)


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "CHANGED_MAX", FEW_AT_ONCE)


@pytest.mark.usefixtures("small_slices")
def test_the_next_controller_finishes_what_the_last_one_had_begun() -> None:
    async def play(universe: Universe) -> tuple[int, int]:
        controller, (victim, *others) = controller_and_others(await ready_cluster(universe, node_count=5))
        await made_topic(controller)
        await until(lambda: all(shares(it, victim.node_id) for it in others))
        victim.host.crash()
        await until(lambda: any(is_half_taken(it, victim.node_id) for it in (controller, *others)), INSTANT_S)
        left_behind = max(len(led_by(image_of(it), victim.node_id)) for it in others)
        controller.host.crash()
        await until(lambda: all(is_free_of(it, victim.node_id, controller.node_id) for it in others))
        return left_behind, len(led_by(image_of(others[0]), NO_NODE))

    left_behind, leaderless = run(play, seed=2, limit_s=LIMIT_S)
    assert left_behind > 0, "the controller was lost too late to leave anything behind"
    assert leaderless == 0


@pytest.mark.usefixtures("small_slices")
def test_a_node_whose_last_life_was_half_taken_over_begins_the_next_one_with_nothing() -> None:
    """It comes back before anybody has finished. In the epochs of its last life it must lead nothing."""

    async def play(universe: Universe) -> list[tuple[int, int]]:
        controller, (victim, *others) = controller_and_others(await ready_cluster(universe, node_count=5))
        await made_topic(controller)
        await until(lambda: all(shares(it, victim.node_id) for it in others))
        before = led_by(image_of(others[0]), victim.node_id)
        victim.host.crash()
        await until(lambda: any(is_half_taken(it, victim.node_id) for it in others), INSTANT_S)
        controller.host.crash()
        victim.launch()
        await until(lambda: victim.is_serving)
        after = image_of(victim)
        return [
            (old.leader_epoch, new.leader_epoch)
            for old in before
            if (new := topic_of(after).partitions[old.partition]).leader == victim.node_id
        ]

    assert all(old < new for old, new in run(play, seed=2, limit_s=LIMIT_S))


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_where_every_decision_about_a_node_takes_many_slices(seed: int) -> None:
    report = run_scenario(seed, ("crash", "power cut", "pause"), ("batches", "topics"), node_count=3, trouble_s=6.0)
    assert report.is_good, report.violations


def test_no_turn_decides_or_applies_more_than_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many partitions the lost node had. Here they are all kept elsewhere, so that no logs are opened."""

    async def play(universe: Universe) -> tuple[list[int], ClusterImage]:
        controller, _ = controller_and_others(await ready_cluster(universe))
        turns = [0]
        monkeypatch.setattr(Draft, "apply", counting(Draft.apply, turns))
        assert controller.node is not None
        await controller.host.start(fill(controller.node), "fill")
        universe.loop.between_turns = lambda _: turns.append(0)
        await controller.host.start(controller.node.controller._fence(ELSEWHERE[0]), "fence")
        await asyncio.sleep(1.0)  # so that the other nodes have applied it, too
        return turns, image_of(controller)

    turns, image = run(play, seed=1, limit_s=LIMIT_S)
    taken = [it for it in topic_of(image).in_order() if ELSEWHERE[0] not in it.isr]
    assert len(taken) == MANY
    assert sum(turns) >= 4 * MANY, "pending on the controller, and agreed on at three nodes"
    # Three nodes share the loop of the simulator: one may decide a slice while each applies one.
    assert max(turns[1:]) <= CHANGED_MAX + 1 + 3 * APPLIED_AT_ONCE


def test_a_node_that_comes_back_enters_its_in_sync_sets_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def change(image: ClusterImage, leader: NodeId, epoch: int, wanted: Sequence[IsrChange]) -> Decision[Any]:
        asked.append(len(wanted))
        return change_in_sync(image, leader, epoch, wanted)

    monkeypatch.setattr(in_sync_review, "ASKED_FOR_AT_ONCE", FEW_AT_ONCE)
    for module in (in_sync_review, alter_partition):
        monkeypatch.setattr(module, "change_in_sync", change)

    async def play(universe: Universe) -> None:
        controller, (victim, *others) = controller_and_others(await ready_cluster(universe))
        await made_topic(controller)
        await until(lambda: all(shares(it, victim.node_id) for it in others))
        victim.host.crash()
        await until(lambda: all(is_free_of(it, victim.node_id) for it in others))
        victim.launch()
        await until(lambda: all(len(it.isr) == 3 for it in topic_of(image_of(controller)).in_order()))

    run(play, seed=1, limit_s=LIMIT_S)
    assert sum(asked) >= PARTITIONS
    assert max(asked) == FEW_AT_ONCE


def counting(honest: Callable[[Draft, MetadataRecord], None], turns: list[int]) -> Callable[..., None]:
    def apply(draft: Draft, record: MetadataRecord) -> None:
        turns[-1] += 1
        honest(draft, record)

    return apply


async def fill(node: Node) -> None:
    topic_id = TopicId(bytes(15) + b"\x77")
    nodes = [NodeRegistered(it, b"life", broker_epoch=100 + it) for it in ELSEWHERE]
    partitions = [
        PartitionCreated(topic_id, number, ELSEWHERE, ELSEWHERE, ELSEWHERE[number % 3], Epoch(0), 0)
        for number in range(MANY)
    ]
    await node.quorum.submit(lambda _: Decision((*nodes, TopicCreated(topic_id, "wide"), *partitions), None))


async def made_topic(controller: NodeProcess) -> None:
    node = controller.node
    assert node is not None
    wide = NewTopic("wide", PARTITIONS, 3)
    configs, new_id = node.view.configs, node.commands.new_topic_id
    await controller.host.start(
        node.quorum.submit(lambda image: create_topics(image, [wide], configs, new_id)),
        "create",
    )


async def until(is_so: Callable[[], bool], look_s: float = LOOK_S) -> None:
    while not is_so():
        await asyncio.sleep(look_s)


def image_of(process: NodeProcess) -> ClusterImage:
    assert process.node is not None
    return process.node.image


def topic_of(image: ClusterImage) -> Topic:
    topic = image.topic_named("wide")
    assert topic is not None
    return topic


def led_by(image: ClusterImage, node_id: NodeId) -> Sequence[Partition]:
    return [it for it in topic_of(image).in_order() if it.leader == node_id]


def shares(process: NodeProcess, node_id: NodeId) -> bool:
    """Whether the topic is there, as this node sees it, and the other one leads several of its partitions."""
    image = image_of(process)
    return image.topic_named("wide") is not None and len(led_by(image, node_id)) > 2 * FEW_AT_ONCE


def is_half_taken(process: NodeProcess, node_id: NodeId) -> bool:
    image = image_of(process)
    return image.nodes[node_id].is_fenced and len(led_by(image, node_id)) > 0


def is_free_of(process: NodeProcess, *absent: NodeId) -> bool:
    """Nobody counts on them any more, but for what they alone had."""
    image = image_of(process)
    return all(image.nodes[it].is_fenced for it in absent) and not any(
        it.leader in absent or (len(it.isr) > 1 and not {*it.isr}.isdisjoint(absent))
        for it in topic_of(image).in_order()
    )

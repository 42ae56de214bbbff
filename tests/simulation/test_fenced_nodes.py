"""Who is fenced may not serve, whatever was on its way when that was decided."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.metadata.commands.node_commands import register_node, reserve_producer_ids, unfence_node
from headrace.metadata.liveness import SESSION_MS
from headrace.model.errors import ErrorCode, Refusal
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from headrace.model.names import NodeId, Offset
    from headrace.simulation.cluster import NodeProcess

LIMIT_S = 60.0
LOOK_S = 0.05
LOOKS = 200  # by then the handing over has failed, and whoever was silent meanwhile is missed
INSTANT_S = 0.0001
STANDSTILL_S = 3.0  # longer than a session
SLOW_ANSWER_S = 0.3  # shorter than the time between two heartbeats


def test_a_heartbeat_that_meets_a_fence_on_its_way_is_refused() -> None:
    async def play(universe: Universe) -> bool:
        controller, late = await controller_and_another(universe)
        return bool(await controller.host.start(is_served_while_fenced(controller, late), "controller"))

    assert not run(play, seed=1, limit_s=LIMIT_S)


async def controller_and_another(universe: Universe) -> tuple[NodeProcess, NodeProcess]:
    controller, (another, _) = controller_and_others(await ready_cluster(universe))
    return controller, another


async def is_served_while_fenced(controller: NodeProcess, late: NodeProcess) -> bool:
    assert controller.node is not None
    assert late.node is not None
    deciding, epoch = controller.node, late.node.registration.broker_epoch
    fencing = asyncio.create_task(deciding.controller._fence(late.node_id))
    await asyncio.sleep(0)  # it is decided now, and not agreed on yet
    is_served = await deciding.controller.heartbeat(
        late.node_id, epoch, deciding.quorum.applied_end, wants_fence=False, wants_stop=False
    )
    assert deciding.quorum.image.nodes[late.node_id].is_fenced, "the heartbeat was answered too soon to meet the fence"
    await fencing
    return is_served


def test_who_has_not_read_of_its_fence_is_not_let_in() -> None:
    """It would go on leading what others lead by now, in an epoch that is over."""

    async def play(universe: Universe) -> list[bool]:
        controller, late = await controller_and_another(universe)
        return list(await controller.host.start(let_in_before_and_after_reading(controller, late), "controller"))

    assert run(play, seed=1, limit_s=LIMIT_S) == [False, False, True]


async def let_in_before_and_after_reading(controller: NodeProcess, late: NodeProcess) -> list[bool]:
    assert controller.node is not None
    assert late.node is not None
    deciding, epoch = controller.node, late.node.registration.broker_epoch
    before_fence = deciding.quorum.applied_end

    async def is_let_in(applied_end: Offset) -> bool:
        return await deciding.controller.heartbeat(
            late.node_id, epoch, applied_end, wants_fence=False, wants_stop=False
        )

    late.host.pause()  # so that it says nothing itself
    await deciding.controller._fence(late.node_id)
    after_fence = deciding.quorum.applied_end
    answers = [await is_let_in(before_fence)]
    for _ in range(3):  # decisions go on: it need not read of those to be let in
        await deciding.quorum.submit(lambda image: reserve_producer_ids(image, controller.node_id))
    return [*answers, await is_let_in(before_fence), await is_let_in(after_fence)]


def test_what_a_life_wants_that_is_over_does_not_befall_the_next_one() -> None:
    async def play(universe: Universe) -> tuple[ErrorCode, bool]:
        controller, late = await controller_and_another(universe)
        late.host.pause()
        return tuple(await controller.host.start(stop_of_an_old_life(controller, late), "controller"))

    assert run(play, seed=1, limit_s=LIMIT_S) == (ErrorCode.STALE_BROKER_EPOCH, False)


async def stop_of_an_old_life(controller: NodeProcess, late: NodeProcess) -> tuple[ErrorCode, bool]:
    """Its last words arrive after the next one has registered, and before that is agreed on."""
    assert controller.node is not None
    assert late.node is not None
    deciding, epoch, directory = controller.node, late.node.registration.broker_epoch, late.node.local.directory
    registering = asyncio.create_task(
        deciding.quorum.submit(lambda image: register_node(image, late.node_id, b"anew", directory=directory))
    )
    await asyncio.sleep(0)
    with pytest.raises(Refusal) as caught:
        await deciding.controller.heartbeat(
            late.node_id, epoch, deciding.quorum.applied_end, wants_fence=False, wants_stop=True
        )
    await registering
    return caught.value.code, deciding.quorum.image.nodes[late.node_id].is_draining


def test_a_life_that_ends_while_its_heartbeat_waits_is_not_served() -> None:
    async def play(universe: Universe) -> ErrorCode:
        controller, late = await controller_and_another(universe)
        late.host.pause()
        return ErrorCode(await controller.host.start(heartbeat_of_an_ending_life(controller, late), "controller"))

    assert run(play, seed=1, limit_s=LIMIT_S) is ErrorCode.STALE_BROKER_EPOCH


async def heartbeat_of_an_ending_life(controller: NodeProcess, late: NodeProcess) -> ErrorCode:
    """Another process with its id and disk registers meanwhile, and is let in."""
    assert controller.node is not None
    assert late.node is not None
    deciding, epoch, directory = controller.node, late.node.registration.broker_epoch, late.node.local.directory
    submit = deciding.quorum.submit
    beating = asyncio.create_task(
        deciding.controller.heartbeat(
            late.node_id, epoch, deciding.quorum.applied_end, wants_fence=False, wants_stop=True
        )
    )
    await asyncio.sleep(0)
    registering = asyncio.create_task(
        submit(lambda image: register_node(image, late.node_id, b"anew", directory=directory))
    )
    letting_in = asyncio.create_task(
        submit(lambda image: unfence_node(image, late.node_id, image.nodes[late.node_id].broker_epoch))
    )
    with pytest.raises(Refusal) as caught:
        await beating
    await registering
    await letting_in
    return caught.value.code


def test_an_heir_that_dies_is_fenced_and_nobody_else_though_the_controller_was_handing_over() -> None:
    async def play(universe: Universe) -> tuple[bool, int]:
        controller, heir = await controller_and_another(universe)
        assert controller.node is not None
        term = controller.node.quorum.raft.term
        controller.node.quorum.hand_over(heir.node_id)
        heir.host.crash()
        fenced: set[NodeId] = set()
        for _ in range(LOOKS):
            await asyncio.sleep(LOOK_S)
            fenced.update(it.node_id for it in controller.node.image.nodes.values() if it.is_fenced)
        assert controller.node.quorum.raft.term == term, "somebody has taken over after all"
        return heir.node_id in fenced, len(fenced)

    assert run(play, seed=1, limit_s=LIMIT_S) == (True, 1)


@pytest.mark.parametrize("seed", range(3))
def test_a_controller_that_stood_still_while_it_fenced_one_does_not_miss_the_others(seed: int) -> None:
    """Their heartbeats lie in its sockets, unread."""

    async def play(universe: Universe) -> set[NodeId]:
        configs = {"controller.quorum.election.timeout.ms": "20000"}  # it is still the controller afterwards
        cluster = await ready_cluster(universe, configs=configs)
        controller, (lost, _) = controller_and_others(cluster)
        assert controller.node is not None
        lost.host.power_cut()
        while lost.node_id not in controller.node.controller._leaving:
            await asyncio.sleep(INSTANT_S)
        controller.host.pause()
        await asyncio.sleep(STANDSTILL_S)
        controller.host.resume()
        fenced: set[NodeId] = set()
        for _ in range(LOOKS):
            await asyncio.sleep(LOOK_S)
            fenced.update(it.node_id for it in controller.node.image.nodes.values() if it.is_fenced)
        return fenced - {lost.node_id}

    assert run(play, seed=seed, limit_s=LIMIT_S) == set()


def test_a_lease_counts_from_when_the_heartbeat_was_sent() -> None:
    """Whoever fences the node counts from when it heard of it, which was earlier than the answer came back."""

    async def play(universe: Universe) -> tuple[int, int]:
        controller, other = await controller_and_another(universe)
        return tuple(await other.host.start(lease_after_a_slow_answer(controller, other), "heartbeat"))

    took_ms, left_ms = run(play, seed=1, limit_s=LIMIT_S)
    assert took_ms >= SLOW_ANSWER_S * 1000
    assert left_ms <= SESSION_MS - took_ms


async def lease_after_a_slow_answer(controller: NodeProcess, other: NodeProcess) -> tuple[int, int]:
    """How long the answer took, and how long the lease then held. The controller stands still meanwhile."""
    assert other.node is not None
    enrolment, clock = other.node.registration, other.host.world.clock
    sent_s = clock.monotonic_s()
    controller.host.pause()
    asyncio.get_running_loop().call_later(SLOW_ANSWER_S, controller.host.resume)
    assert await enrolment._beat()
    end_ms = enrolment._lease.end_ms
    assert end_ms is not None
    return int((clock.monotonic_s() - sent_s) * 1000), end_ms - int(clock.monotonic_s() * 1000)

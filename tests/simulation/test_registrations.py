"""A node makes itself known: whatever the cluster says to that, it does not wait for ever in silence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.broker.membership.registration import Registration
from headrace.model.errors import ErrorCode, Refusal
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.simulation.cluster import NodeProcess

LIMIT_S = 120.0


async def ready_follower(universe: Universe) -> tuple[NodeProcess, Node]:
    """A node of three that is not the controller."""
    cluster = await ready_cluster(universe)
    _, (process, _) = controller_and_others(cluster)
    assert process.node is not None
    return process, process.node


def test_an_image_that_is_beyond_a_registration_has_it() -> None:
    """Another life of the node has registered as well, and both came at once."""

    async def play(universe: Universe) -> float:
        process, node = await ready_follower(universe)
        node.registration.broker_epoch -= 1
        began_s = universe.loop.time()
        await process.host.start(node.registration._applied(), "registration")
        return universe.loop.time() - began_s

    assert run(play, seed=1, limit_s=LIMIT_S) == 0, "there was nothing to wait for"


def test_an_id_that_a_living_node_has_is_told_once_and_then_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def play(universe: Universe) -> ErrorCode:
        process, node = await ready_follower(universe)
        local = replace(node.local, incarnation=b"i" * 16, directory=b"d" * 16)
        imposter = Registration(local, node.quorum, node.controller, node.peers, node.world.clock)
        with pytest.raises(Refusal, match="give this node another --node-id") as refused:
            await process.host.start(imposter.register(), "imposter")
        return refused.value.code

    assert run(play, seed=1, limit_s=LIMIT_S) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    told = [entry for entry in caplog.messages if "not registered yet" in entry]
    assert len(told) == 1

"""A node that fails while it starts ends at once: what it waits for may never come to it."""

from __future__ import annotations

import asyncio

from headrace.broker.metadata.votes import FILE as VOTE_FILE
from headrace.model.errors import DiskFailure
from headrace.simulation.cluster import SimulatedCluster
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.files.damage import MissingFile
from tests.simulation.ready_clusters import ready_cluster

LIMIT_S = 60.0
ALONE_S = 5.0  # long enough that it waits for a majority by then


def test_a_node_that_fails_while_it_waits_for_others_ends() -> None:
    failure = DiskFailure("the disk is gone")

    async def play(universe: Universe) -> list[BaseException | None]:
        lonely = SimulatedCluster(universe, node_count=3).nodes[0]
        lonely.launch()
        await asyncio.sleep(ALONE_S)
        assert lonely.present is not None
        assert not lonely.is_serving
        lonely.present.health.failure.fail(failure)
        await lonely.host.is_down.wait()
        return [error for _, error in lonely.exits]

    assert run(play, seed=1, limit_s=LIMIT_S) == [failure]


def exit_without_its_vote(node_count: int) -> BaseException | None:
    """Of a node whose vote is removed while it is down; None if it serves again."""

    async def play(universe: Universe) -> BaseException | None:
        cluster = await ready_cluster(universe, node_count=node_count)
        forgetful = cluster.nodes[-1]
        forgetful.host.crash()
        SimulatedDisk(forgetful.host.device).remove(VOTE_FILE)
        forgetful.launch()
        while not forgetful.is_serving and not any(error for _, error in forgetful.exits):
            await asyncio.sleep(0.1)
        return next((error for _, error in forgetful.exits if error is not None), None)

    return run(play, seed=1, limit_s=LIMIT_S)


def test_a_voter_whose_vote_is_gone_does_not_start() -> None:
    """It might vote a second time in the same term, for another."""
    refusal = exit_without_its_vote(node_count=3)
    assert isinstance(refusal, MissingFile)
    assert "quorum-state is missing: it says whom this node voted for" in str(refusal)
    assert "empty data directory" in str(refusal)


def test_a_node_alone_needs_no_vote() -> None:
    assert exit_without_its_vote(node_count=1) is None

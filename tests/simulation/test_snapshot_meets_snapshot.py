"""A node that sums up its metadata log may be sent the leader's summary meanwhile, which goes further."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.metadata import quorum
from headrace.metadata.decisions.decision import Decision
from headrace.metadata.image.records import ProducerIdsReserved
from headrace.model.names import ProducerId
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    import pytest

    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.simulation.cluster import NodeProcess

LIMIT_S = 60.0
SNAPSHOT_EVERY = 50
DECISIONS = 30  # far more than a leader sends to a node that does not answer
RECORDS_EACH = 60  # each of them is worth a snapshot
SLOWNESS = 100.0  # of whoever sums up: long enough for a letter to come meanwhile


def test_a_snapshot_that_comes_while_another_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "SNAPSHOT_EVERY", SNAPSHOT_EVERY)

    async def play(universe: Universe) -> tuple[list[BaseException | None], bool]:
        cluster = await ready_cluster(universe)
        controller, (late, _) = controller_and_others(cluster)
        assert late.node is not None
        installed: list[object] = []
        jumped = late.node.reconciler.jumped

        def noting(before: ClusterImage, after: ClusterImage) -> None:
            installed.append(after)
            jumped(before, after)

        monkeypatch.setattr(late.node.reconciler, "jumped", noting)
        late.host.threads.slowness["general"] = SLOWNESS
        late.host.pause()
        await controller.host.start(decide_much(controller), "controller")
        late.host.resume()
        await until_it_knows_all(controller, late)
        return [error for _, error in late.exits], bool(installed)

    assert run(play, seed=1, limit_s=LIMIT_S) == ([], True)


async def decide_much(controller: NodeProcess) -> None:
    node = controller.node
    assert node is not None

    def decide(image: ClusterImage) -> Decision[None]:
        blocks = range(image.next_producer_id + 1, image.next_producer_id + 1 + RECORDS_EACH)
        return Decision(tuple(ProducerIdsReserved(node.node_id, ProducerId(it)) for it in blocks), None)

    for _ in range(DECISIONS):
        await node.quorum.submit(decide)


async def until_it_knows_all(controller: NodeProcess, late: NodeProcess) -> None:
    assert controller.node is not None
    assert late.node is not None
    end = controller.node.quorum.applied_end
    while late.node.quorum.applied_end < end and not late.exits:
        await asyncio.sleep(0.1)

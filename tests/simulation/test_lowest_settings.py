"""Every time that an operator can set, at its lowest: the node works as before, and does not spin."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.metadata.configs.node_configs import NODE_CONFIGS
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.simulation.cluster import SimulatedCluster
    from headrace.simulation.environment.life import Life

REFUSES_EVERYTHING = {"log.message.timestamp.before.max.ms"}  # at 0: no record is as new as that
UNITS = (".ms", ".seconds", ".minutes", ".hours")
OF_TIME = sorted(
    key.name
    for key in NODE_CONFIGS.values()
    if key.name.endswith(UNITS) and key.low is not None and key.has_effect and key.name not in REFUSES_EVERYTHING
)
TOGETHER = {"broker.session.timeout.ms": {"broker.heartbeat.interval.ms": "50"}}  # a session holds two heartbeats
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "segment.ms": "1",
    "delete.retention.ms": "0",
}
RECORDS = 20
IDLE_S = 20.0
LIMIT_S = 300.0
MORE_THAN_USUAL = 10_000
"""Turns of the loop in that time; with the usual settings it is a thousand. A chore every 0.1 s adds a few hundred, one
every millisecond twenty thousand, and one that does not sleep never ends."""


@pytest.mark.parametrize("name", OF_TIME)
def test_the_lowest_time_does_not_make_the_node_spin(name: str) -> None:
    key = NODE_CONFIGS[name]
    assert key.low is not None
    settings = {name: str(int(key.low)), **TOGETHER.get(name, {})}
    assert turns_when_idle(tuple(settings.items())) < turns_when_idle(()) + MORE_THAN_USUAL


@cache
def turns_when_idle(settings: tuple[tuple[str, str], ...]) -> int:
    return run(lambda universe: work_then_idle(universe, dict(settings)), seed=1, limit_s=LIMIT_S)


async def work_then_idle(universe: Universe, settings: Mapping[str, str]) -> int:
    cluster = await ready_cluster(universe, node_count=1, configs=settings)
    await cluster.run_on("client", write_what_compaction_takes_away(cluster))
    turns = 0

    def count(_: set[Life]) -> None:
        nonlocal turns
        turns += 1

    universe.loop.between_turns = count
    await asyncio.sleep(IDLE_S)
    universe.loop.between_turns = None
    return turns


async def write_what_compaction_takes_away(cluster: SimulatedCluster) -> None:
    async with cluster.client("client") as client:
        await Admin(client).create_topic("t", partitions=1, configs=COMPACTED)
        async with BatchingProducer(client, ProducerSettings()) as producer:
            for number in range(RECORDS):
                await producer.send("t", b"%d" % (number % 2), b"value" if number % 3 else None)
                await producer.flush()

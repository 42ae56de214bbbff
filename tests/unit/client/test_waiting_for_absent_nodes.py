"""Nodes that were there and do not answer may be waited for longer than other trouble is ridden out."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError, ClusterUnreachable, ConnectionLost, NeverReached
from headrace.client.groups.group_offsets import fetch_offsets
from headrace.client.reading.consumer import AssignedConsumer
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.batches.records import encode_batch
from tests.unit.client.scripted_node import HANG_UP, TOPIC, ScriptedNode, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from headrace.client.connections.cluster import Cluster

ZERO = TopicPartition(TOPIC, 0)
RETRY_FOR_S = 0.05
PATIENCE_S = 120.0  # against hangs only
FOLLOWING = ClusterSettings(
    retry_for_s=RETRY_FOR_S, away_for_s=math.inf, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0
)


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode().start()
    yield running
    await running.stop()


@pytest.fixture
async def cluster(node: ScriptedNode) -> AsyncIterator[Cluster]:
    async with node.cluster(FOLLOWING) as reached:
        await reached.topic(TOPIC)
        yield reached


async def absence(cluster: Cluster) -> Exception:
    """Once somebody has waited for longer than other trouble is ridden out."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := cluster.absence(2 * RETRY_FOR_S)) is None:
            await asyncio.sleep(0.001)
    return found


async def ask_anybody(cluster: Cluster) -> None:
    await cluster.full_view()


async def ask_coordinator(cluster: Cluster) -> None:
    await fetch_offsets(Coordinator(cluster, CoordinatorKind.GROUP, "g"), "g", [ZERO])


async def read(cluster: Cluster) -> None:
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        while not await consumer.poll():
            pass


@pytest.mark.parametrize("work", [ask_anybody, ask_coordinator, read])
async def test_whatever_needs_a_node_waits_until_it_is_back(
    node: ScriptedNode, cluster: Cluster, work: Callable[[Cluster], Awaitable[None]]
) -> None:
    address = node.address
    node.script[ApiKey.FETCH] = [HANG_UP, records(bytes(encode_batch([(0, None, b"v", ())])))]
    await node.stop()
    working = asyncio.ensure_future(work(cluster))
    assert isinstance(await absence(cluster), ClusterUnreachable)
    await node.start(address)
    await asyncio.wait_for(working, PATIENCE_S)
    assert cluster.absence(0.0) is None


async def test_those_who_are_back_have_time_to_find_their_places(node: ScriptedNode, cluster: Cluster) -> None:
    """What a node says that has just started counts from then on, not from when it went."""
    address = node.address
    refusal = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not yet")
    troubles = [refusal, refusal]

    async def attempt() -> None:
        await cluster.refresh()
        if troubles:
            raise troubles.pop()

    await node.stop()
    working = asyncio.ensure_future(cluster.retry(attempt))
    await absence(cluster)
    await node.start(address)
    await asyncio.wait_for(working, PATIENCE_S)
    assert not troubles


async def test_what_a_node_refuses_is_ridden_out_no_longer_than_ever(cluster: Cluster) -> None:
    async def attempt() -> None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone for good")

    with pytest.raises(Refusal, match="gone for good"):
        await asyncio.wait_for(cluster.retry(attempt), PATIENCE_S)
    assert cluster.absence(0.0) is None


async def test_whoever_is_told_to_hurry_waits_no_longer_than_for_other_trouble(
    node: ScriptedNode, cluster: Cluster
) -> None:
    await node.stop()
    working = asyncio.ensure_future(cluster.full_view())
    await absence(cluster)
    cluster.hurry()
    with pytest.raises(ClientError):
        await asyncio.wait_for(working, PATIENCE_S)
    assert cluster.absence(0.0) is None


async def test_a_node_that_never_was_where_the_cluster_says_is_not_waited_for(node: ScriptedNode) -> None:
    """It may advertise an address that leads nowhere from here, and no waiting mends that."""
    ghost = await ScriptedNode(node_id=2).start()
    await ghost.stop()
    node.nodes = [node, ghost]
    node.leaders = {0: 2}
    async with node.cluster(FOLLOWING) as cluster, AssignedConsumer(cluster) as consumer:
        await consumer.assign({ZERO: 0})
        with pytest.raises(NeverReached, match="--advertise"):
            await consumer.poll(wait_s=PATIENCE_S)


async def test_a_cluster_that_was_never_reached_is_not_waited_for(node: ScriptedNode) -> None:
    """The address may be somebody else's."""
    node.script[ApiKey.METADATA] = [HANG_UP] * 100_000
    async with node.cluster(FOLLOWING) as stranger:
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(stranger.topic(TOPIC), PATIENCE_S)
    await node.stop()
    async with node.cluster(FOLLOWING) as nobody:
        with pytest.raises(ClusterUnreachable):
            await asyncio.wait_for(nobody.topic(TOPIC), PATIENCE_S)

"""A node that is killed and started again while tasks stage and the driver publishes."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from headrace.client.connections.cluster import system_cluster
from headrace_spark.sink.publishing import Publication, Publisher
from headrace_spark.sink.tasks import leave_for_commit, write_directly
from headrace_spark.sink.writers import StreamWriter
from tests.clients.nodes import NodeProcess
from tests.unit.spark.sink_inputs import committed_values, options_for, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

QUERY = "spark-sink-restarts"
VALUES = [f"{number}".encode().ljust(1000) for number in range(12_000)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "node").start()
    node.create_topic("target", 2)
    yield node
    node.stop()


def rows_with_a_crash(node: NodeProcess) -> Iterator[pa.RecordBatch]:
    """The node dies in the midst of the rows, and comes back while they go on."""
    restart = threading.Thread(target=node.start)
    for position, batch in enumerate(rows_of(VALUES)):
        if position == 6:
            node.kill()
            restart.start()
        yield batch
    restart.join()


async def test_a_node_is_killed_while_a_task_stages(node: NodeProcess) -> None:
    options = options_for(node.bootstrap_servers, "target")
    output = await asyncio.to_thread(leave_for_commit, rows_with_a_crash(node), options, QUERY, 0)
    async with system_cluster(node.bootstrap_servers) as cluster:
        assert await Publisher(cluster, Publication(QUERY, 0, (output,))).publish()
    assert sorted(await asyncio.to_thread(committed_values, node.bootstrap_servers, "target")) == sorted(VALUES)


async def test_a_node_is_killed_while_a_task_writes_directly(node: NodeProcess) -> None:
    options = options_for(node.bootstrap_servers, "target")
    await asyncio.to_thread(write_directly, rows_with_a_crash(node), options)
    assert sorted(await asyncio.to_thread(committed_values, node.bootstrap_servers, "target")) == sorted(VALUES)


@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.1, 0.2])
async def test_a_node_is_killed_while_the_driver_publishes(node: NodeProcess, delay_s: float) -> None:
    """Wherever in the protocol the crash comes: the outcome is the same."""
    options = options_for(node.bootstrap_servers, "target")
    output = await asyncio.to_thread(leave_for_commit, rows_of(VALUES), options, QUERY, 0)
    async with system_cluster(node.bootstrap_servers) as cluster:
        await cluster.refresh()
        publishing = asyncio.create_task(Publisher(cluster, Publication(QUERY, 0, (output,))).publish())
        await asyncio.sleep(delay_s)
        await asyncio.to_thread(node.kill)
        await asyncio.to_thread(node.start)
        assert await publishing
        assert not await Publisher(cluster, Publication(QUERY, 0, (output,))).publish()
    assert sorted(await asyncio.to_thread(committed_values, node.bootstrap_servers, "target")) == sorted(VALUES)


async def test_a_node_that_is_down_when_the_commit_begins_is_waited_for(node: NodeProcess) -> None:
    options = options_for(node.bootstrap_servers, "target")
    output = await asyncio.to_thread(leave_for_commit, rows_of(VALUES[:500]), options, QUERY, 0)
    await asyncio.to_thread(node.kill)
    committing = asyncio.create_task(asyncio.to_thread(StreamWriter(options).commit, [output], 0))
    await asyncio.to_thread(node.start)
    await committing
    assert sorted(await asyncio.to_thread(committed_values, node.bootstrap_servers, "target")) == sorted(VALUES[:500])

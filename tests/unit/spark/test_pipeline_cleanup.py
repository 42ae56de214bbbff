"""What pipelines leave in the cluster, and who may clear it away. No Spark is needed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.admin import Admin
from headrace.client.admin.groups import GroupAdmin
from headrace.client.connections.cluster import system_cluster
from headrace.client.producing.producer import BatchingProducer
from headrace.testing import Broker
from headrace_spark.pipeline.status.cleanup import clear_staging, forget
from headrace_spark.pipeline.status.run_status import RunState, new_run, now_utc
from headrace_spark.pipeline.status.status_topic import ensure_topic, read_status, write_run
from headrace_spark.sink.staging_names import OFFSETS_PARTITION, application_id, former_offsets_partition, staging_topic
from tests.clients.commands import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicPartition
    from headrace_spark.pipeline.status.run_status import RunStatus


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic(OFFSETS_PARTITION.topic)
        yield broker


@pytest.fixture
async def cluster(broker: Broker) -> AsyncIterator[Cluster]:
    async with system_cluster(broker.bootstrap_servers) as cluster:
        yield cluster


async def staged(cluster: Cluster, name: str, memory: TopicPartition) -> str:
    """The id of a sink that has staged, and remembers there."""
    sink_id = application_id(name, "the checkpoint")
    await Admin(cluster).create_topic(staging_topic(sink_id), partitions=5)
    await GroupAdmin(cluster).commit(sink_id, {memory: 7})
    return sink_id


async def topics(cluster: Cluster) -> set[str]:
    return {topic.name for topic in await Admin(cluster).list_topics()}


async def told(cluster: Cluster, run: RunStatus) -> RunStatus:
    await ensure_topic(cluster)
    async with BatchingProducer(cluster) as producer:
        await write_run(producer, run)
    return run


async def test_a_staging_topic_goes_and_its_memory_stays(cluster: Cluster) -> None:
    sink_id, other = [await staged(cluster, name, OFFSETS_PARTITION) for name in ("goes", "others")]
    never_staged = application_id("small", "the checkpoint")
    for _ in range(2):
        await clear_staging(cluster, [sink_id, never_staged])
    assert staging_topic(sink_id) not in await topics(cluster)
    assert staging_topic(other) in await topics(cluster)
    assert (await GroupAdmin(cluster).offsets(sink_id))[OFFSETS_PARTITION].offset == 7


async def test_a_staging_topic_that_a_version_before_remembers_in_stays(cluster: Cluster) -> None:
    sink_id = application_id("old", "the checkpoint")
    await staged(cluster, "old", former_offsets_partition(sink_id))
    await clear_staging(cluster, [sink_id])
    assert staging_topic(sink_id) in await topics(cluster)
    await GroupAdmin(cluster).commit(sink_id, {OFFSETS_PARTITION: 8})
    await clear_staging(cluster, [sink_id])
    assert staging_topic(sink_id) not in await topics(cluster)


async def test_a_pipeline_is_forgotten_with_all_that_was_kept_of_it(cluster: Cluster) -> None:
    sink_id = await staged(cluster, "forgotten", OFFSETS_PARTITION)
    run = replace(new_run("forgotten", "r", "local", now_utc()), state=RunState.FAILED, group="pipeline.forgotten")
    run = await told(cluster, replace(run, sink_ids=(sink_id,)))
    gone = await forget(cluster, run)
    assert gone == [f"topic {staging_topic(sink_id)}", f"group {sink_id}"], "its own group never was"
    assert "forgotten" not in (await read_status(cluster)).runs
    assert await GroupAdmin(cluster).offsets(sink_id) == {}


async def test_a_pipeline_that_runs_is_not_deleted(broker: Broker, cluster: Cluster) -> None:
    sink_id = await staged(cluster, "lives", OFFSETS_PARTITION)
    await told(cluster, replace(new_run("lives", "r", "local", now_utc()), sink_ids=(sink_id,)))
    refused = await asyncio.to_thread(call, broker.bootstrap_servers, "pipeline", "delete", "lives")
    assert (refused.code, "headrace pipeline stop lives --wait" in refused.talk) == (1, True)
    assert staging_topic(sink_id) in await topics(cluster)

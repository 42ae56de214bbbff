"""A partition's directory is gone when its node starts: nobody counts on the empty copy that takes its place."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.admin import Admin, ConfigChange, Resource, ResourceType
from headrace.client.producing.producer import BatchingProducer
from headrace.simulation.environment.device import Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.files.layout import LOG, stem
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from headrace.broker.partitions.partition import Partition
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 300.0
LOOK_S = 0.05
RECORDS = 5
REVIEWED_S = 10.0  # by then every node has acted upon what it knows


class Scene:
    """A topic of one partition, and the nodes that keep it: the first of them leads."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.nodes = cluster.nodes
        state = self.state
        nodes = {it.node_id: it for it in cluster.nodes}
        self.replicas = [nodes[it] for it in state.replicas]
        self.leader, self.follower = self.replicas[0], self.replicas[-1]
        self.directory = self.partition(self.leader).log.directory

    @property
    def state(self) -> PartitionState:
        """As the first node knows it that serves."""
        node = next(it.node for it in self._cluster.nodes if it.is_serving and it.node is not None)
        topic = node.image.topic_named("t")
        assert topic is not None
        return topic.partitions[0]

    def partition(self, process: NodeProcess) -> Partition:
        assert process.node is not None
        return process.node.topics.partition("t", 0)

    async def until(self, holds: Callable[[PartitionState], bool]) -> None:
        while not holds(self.state):
            await asyncio.sleep(LOOK_S)

    async def checkpoint(self, process: NodeProcess) -> None:
        assert process.node is not None
        await process.host.start(process.node.store.checkpoints.write(), "checkpoint")

    def remove_log(self, process: NodeProcess) -> None:
        disk = SimulatedDisk(process.host.device)
        assert disk.exists(self.directory)
        disk.remove_directory(self.directory)

    async def configure(self, name: str, value: str) -> None:
        """For the topic."""
        admin = Admin(self._cluster.client("client"))
        change = admin.alter_configs(Resource(ResourceType.TOPIC, "t"), [(name, ConfigChange.SET, value)])
        await self._cluster.run_on("client", change)

    async def write(self, count: int) -> None:
        await self._cluster.run_on("client", write(self._cluster, count))

    async def start(self, process: NodeProcess) -> None:
        process.launch()
        while not process.is_serving:
            await asyncio.sleep(LOOK_S)

    async def start_all(self, processes: Sequence[NodeProcess]) -> None:
        for process in processes:
            process.launch()
        await self._cluster.wait_ready()
        await self.until(lambda state: set(state.isr) == set(state.replicas))

    def offsets(self) -> set[tuple[int, int]]:
        """Where the log begins and ends, on all replicas."""
        logs = [self.partition(process).log for process in self.replicas]
        return {(log.start_offset, log.next_offset) for log in logs}


def play(
    act: Callable[[Scene], Coroutine[object, object, set[tuple[int, int]]]],
    *,
    nodes: int = 3,
    replicas: int = 2,
    records: int = RECORDS,
    **configs: str,
) -> set[tuple[int, int]]:
    """What the replicas hold in the end."""

    async def main(universe: Universe) -> set[tuple[int, int]]:
        cluster = await ready_cluster(universe, node_count=nodes)
        await cluster.run_on("client", create(cluster, replicas, configs))
        await cluster.run_on("client", write(cluster, records))
        return await act(Scene(cluster))

    return run(main, seed=1, limit_s=LIMIT_S)


async def create(cluster: SimulatedCluster, replicas: int, configs: dict[str, str]) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin = Admin(cluster.client("client"))
    await admin.create_topic("t", partitions=1, replication_factor=replicas, configs=settings)


async def write(cluster: SimulatedCluster, count: int) -> None:
    async with BatchingProducer(cluster.client("client")) as producer:
        for number in range(count):
            await producer.send("t", None, b"value %d" % number)
        await producer.flush()


def test_one_that_may_be_elected_does_not_lead_with_nothing() -> None:
    """It comes back without its log while the other one is away: nobody leads until that is back."""

    async def act(scene: Scene) -> set[tuple[int, int]]:
        follower, leader = scene.follower, scene.leader
        follower.host.crash()
        await scene.until(lambda state: follower.node_id in state.eligible)
        leader.host.crash()
        scene.remove_log(follower)
        await scene.start(follower)
        await scene.until(lambda state: not state.has_leader and state.eligible == ())
        await scene.start_all([leader])
        await scene.write(1)
        return scene.offsets()

    assert play(act) == {(0, RECORDS + 1)}


def test_fewer_are_enough_while_the_whole_copy_is_away_and_it_is_still_the_one_that_counts() -> None:
    """Whoever leads with nothing would then be enough by itself, and have the whole copy begin anew."""

    async def act(scene: Scene) -> set[tuple[int, int]]:
        follower, leader = scene.follower, scene.leader
        follower.host.crash()
        await scene.until(lambda state: follower.node_id in state.eligible)
        leader.host.crash()
        scene.remove_log(follower)
        await scene.start(follower)
        await scene.configure("min.insync.replicas", "1")
        await asyncio.sleep(REVIEWED_S)
        await scene.start_all([leader])
        return scene.offsets()

    assert play(act) == {(0, RECORDS)}


def test_one_that_nobody_counts_on_is_fetched_again_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Two others are enough. The node remembers that it had the log: a topic made while it was away is no news."""

    async def act(scene: Scene) -> set[tuple[int, int]]:
        follower = scene.follower
        await scene.checkpoint(follower)
        follower.host.crash()
        await scene.until(lambda state: follower.node_id not in {*state.isr, *state.eligible})
        scene.remove_log(follower)
        await scene.start_all([follower])
        assert damage_of(follower) == (0, 1, 1)
        return scene.offsets()

    assert play(act, replicas=3) == {(0, RECORDS)}
    assert "is missing; it is fetched again" in caplog.text


def test_a_missing_log_counts_as_damage_until_it_is_fetched_again() -> None:
    async def act(scene: Scene) -> set[tuple[int, int]]:
        follower, leader = scene.follower, scene.leader
        follower.host.crash()
        await scene.until(lambda state: follower.node_id in state.eligible)
        leader.host.crash()
        await scene.until(lambda state: not state.has_leader)
        scene.remove_log(follower)
        await scene.start(follower)
        assert damage_of(follower) == (1, 1, 0)
        await scene.start_all([leader])
        assert damage_of(follower) == (0, 1, 1)
        return scene.offsets()

    assert play(act, nodes=5) == {(0, RECORDS)}


def damage_of(process: NodeProcess) -> tuple[int, int, int]:
    """Damaged now, found, and fetched again, as the metrics tell it."""
    node = process.node
    assert node is not None
    return node.damage.damaged_count, node.counters.damage_found, node.counters.replicas_given_up


def test_a_damaged_copy_is_not_given_up_for_a_missing_one() -> None:
    """Most of it is whole, and an operator may find the rest in a backup. In the other there is nothing at all."""

    async def act(scene: Scene) -> set[tuple[int, int]]:
        follower, leader = scene.follower, scene.leader
        await scene.checkpoint(leader)
        follower.host.crash()
        await scene.until(lambda state: follower.node_id in state.eligible)
        leader.host.crash()
        kept = leader.host.device.file(f"{stem(scene.directory, 0)}{LOG}")
        kept.truncate(len(kept.cached) - 1)  # below what was safe
        await scene.start(leader)
        scene.remove_log(follower)
        await scene.start(follower)
        await asyncio.sleep(REVIEWED_S)
        assert scene.state.leader == leader.node_id
        assert leader.host.device.file(f"{stem(scene.directory, 0)}{LOG}") is kept
        return set()  # nothing is served until the operator has decided

    play(act)


def test_one_that_has_no_room_for_a_new_copy_fetches_it_later(caplog: pytest.LogCaptureFixture) -> None:
    async def act(scene: Scene) -> set[tuple[int, int]]:
        follower = scene.follower
        follower.host.crash()
        await scene.until(lambda state: follower.node_id in state.eligible)
        scene.remove_log(follower)
        follower.host.device.fail(Operation.CREATE, scene.directory, code=errno.ENOSPC)
        await scene.start_all([follower])
        return scene.offsets()

    assert play(act) == {(0, RECORDS)}
    assert "t-0 is offline for now: the disk is too full" in caplog.text


def test_one_that_is_found_damaged_long_after_the_start_is_given_up_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """There was no room to open it at first. By then nobody looks for damage any more who was not told."""

    async def act(scene: Scene) -> set[tuple[int, int]]:
        follower, device = scene.follower, scene.follower.host.device
        await scene.checkpoint(follower)
        follower.host.crash()
        await scene.until(lambda state: follower.node_id in state.eligible)
        device.file(f"{stem(scene.directory, 0)}{LOG}").truncate(1)  # below what was safe
        device.fail(Operation.READ, scene.directory, code=errno.ENOSPC)
        await scene.start_all([follower])
        return scene.offsets()

    assert play(act) == {(0, RECORDS)}
    assert "t-0 is offline for now: the disk is too full" in caplog.text
    assert "t-0 is damaged; it is fetched again once nobody counts on this copy any more" in caplog.text


def test_one_that_starts_while_nobody_leads_has_all_of_it_again() -> None:
    """It remembers how far its log was safe. From there on the next leader would give it the rest only."""

    async def act(scene: Scene) -> set[tuple[int, int]]:
        follower, leader = scene.follower, scene.leader
        await scene.checkpoint(follower)
        follower.host.crash()
        await scene.until(lambda state: state.isr == (leader.node_id,))
        leader.host.crash()
        await scene.until(lambda state: not state.has_leader)
        scene.remove_log(follower)
        await scene.start(follower)
        await scene.start_all([leader])
        return scene.offsets()

    assert play(act, nodes=5, min_insync_replicas="1") == {(0, RECORDS)}


@pytest.mark.parametrize("replicas", [2, 3])
def test_a_partition_that_nobody_has_made_yet_is_served_by_all(replicas: int) -> None:
    """The whole cluster goes down when its topic is agreed on, before any node has made a directory."""

    async def act(scene: Scene) -> set[tuple[int, int]]:
        for process in scene.nodes:
            process.host.crash()
        for process in scene.replicas:
            scene.remove_log(process)
        await scene.start_all(scene.nodes)
        await scene.write(1)
        return scene.offsets()

    assert play(act, replicas=replicas, records=0) == {(0, 1)}


def test_the_only_copy_begins_where_it_once_was_safe_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def act(scene: Scene) -> set[tuple[int, int]]:
        await scene.checkpoint(scene.leader)
        scene.leader.host.crash()
        scene.remove_log(scene.leader)
        await scene.start_all([scene.leader])
        return scene.offsets()

    assert play(act, nodes=1, replicas=1) == {(RECORDS, RECORDS)}
    told = [it.getMessage() for it in caplog.records if it.levelno == logging.ERROR]
    assert any(f"It was safe below offset {RECORDS}, and is lost" in line for line in told)

"""A replica whose leader has nothing left of what it lacks begins anew: once there is room, never while it counts."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from headrace.broker.replicas.reconciler import _Anew
from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.model.names import Epoch, Offset
from headrace.simulation.cluster import SimulatedCluster
from headrace.simulation.environment.device import Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.files import checkpoints
from headrace.storage.files.layout import ANEW, DAMAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.broker.node import Node
    from headrace.broker.partitions.partition import Partition
    from headrace.simulation.cluster import NodeProcess

LIMIT_S = 300.0
LONG_S = 60.0  # whoever does not follow has left the in-sync set by then
LOOK_S = 0.1


class Scene:
    def __init__(self, follower: NodeProcess) -> None:
        assert follower.node is not None
        self.device = follower.host.device
        self.node: Node = follower.node

    @property
    def partition(self) -> Partition:
        return self.node.topics.partition("t", 0)

    @property
    def is_in_sync(self) -> bool:
        topic = self.node.image.topic_named("t")
        assert topic is not None
        return self.node.node_id in topic.partitions[0].isr

    def stop_following(self) -> None:
        """As a fetcher does that was told to begin anew."""
        self.node.fetchers._fetchers[self.partition.replica.leader].remove(self.partition)


def play(act: Callable[[Scene], Coroutine[object, object, None]], *, replicas: int = 3) -> None:
    async def main(universe: Universe) -> None:
        follower = await started_with_a_record(SimulatedCluster(universe, node_count=3), replicas)
        await follower.host.start(act(Scene(follower)), "act")

    run(main, seed=1, limit_s=LIMIT_S)


async def started_with_a_record(cluster: SimulatedCluster, replicas: int = 3) -> NodeProcess:
    """One of its followers."""
    for process in cluster.nodes:
        process.launch()
    await cluster.wait_ready()
    await cluster.run_on("client", write_a_record(cluster, replicas))
    return next(it for it in cluster.nodes if it.node and is_follower(it.node))


def is_follower(node: Node) -> bool:
    partition = node.topics.find("t", 0)
    return partition is not None and not partition.replica.is_leader


async def write_a_record(cluster: SimulatedCluster, replicas: int) -> None:
    client = cluster.client("client")
    await Admin(client).create_topic("t", partitions=1, replication_factor=replicas)
    async with BatchingProducer(client) as producer:
        await producer.send("t", None, b"value")
        await producer.flush()


@pytest.mark.parametrize(
    "place",
    [checkpoints.RECOVERY_POINTS, "{directory}" + ANEW, "{directory}/"],
    ids=["nothing has happened", "the old log is there", "it is gone already"],
)
def test_one_that_has_no_room_to_begin_anew_does_so_later(caplog: pytest.LogCaptureFixture, place: str) -> None:
    async def act(scene: Scene) -> None:
        partition = scene.partition
        scene.stop_following()
        while scene.is_in_sync:
            await asyncio.sleep(LOOK_S)
        path = place.format(directory=partition.log.directory)
        scene.device.fail(Operation.CREATE, path, code=errno.ENOSPC)
        scene.node.fetchers.begin_anew(partition, Offset(0))
        while not scene.is_in_sync:
            await asyncio.sleep(LOOK_S)

    play(act)
    assert "t-0 cannot begin anew yet" in caplog.text


def test_one_that_may_be_elected_keeps_the_old_copy_until_it_is_in_sync() -> None:
    """Whoever led it told it so with an empty log, it may be."""

    async def act(scene: Scene) -> None:
        partition = scene.partition
        kept = partition.log.directory + DAMAGED
        scene.stop_following()
        while scene.is_in_sync:
            await asyncio.sleep(LOOK_S)
        scene.node.fetchers.begin_anew(partition, Offset(0))
        await scene.node.reconciler.caught_up()
        assert scene.partition is not partition
        assert SimulatedDisk(scene.device).exists(kept)
        while not scene.is_in_sync or SimulatedDisk(scene.device).exists(kept):
            await asyncio.sleep(LOOK_S)

    play(act, replicas=2)


def test_what_was_wrong_with_the_old_copy_is_not_said_of_the_new_one() -> None:
    async def act(scene: Scene) -> None:
        partition = scene.partition
        scene.node.coordinators._unreadable(partition, "no record of a coordinator")
        assert scene.node.topics.is_offline(partition.log_id.topic_id, 0)
        scene.stop_following()
        while scene.is_in_sync:
            await asyncio.sleep(LOOK_S)
        scene.node.fetchers.begin_anew(partition, Offset(0))
        while not scene.is_in_sync:
            await asyncio.sleep(LOOK_S)
        assert scene.partition is not partition
        assert not scene.node.topics.is_offline(partition.log_id.topic_id, 0)

    play(act)


def test_one_that_is_counted_on_by_now_keeps_what_it_has() -> None:
    """It was told by a leader, and before it could begin anew it had another, or led itself."""

    async def act(scene: Scene) -> None:
        partition = scene.partition
        assert scene.is_in_sync
        scene.stop_following()
        overtaken = Epoch(partition.replica.leader_epoch - 1)
        scene.node.reconciler._queue.put_nowait(_Anew(partition, Offset(0), overtaken))
        await scene.node.reconciler.caught_up()
        assert scene.partition is partition
        assert (partition.log.next_offset, partition.log.is_closed) == (1, False)
        await asyncio.sleep(LONG_S)
        assert scene.is_in_sync, "it does not follow any more"

    play(act)


def test_one_whose_log_is_gone_has_all_of_it_again() -> None:
    """Somebody has removed it, or it had moved away and the node did not live to forget how much of it was safe."""

    async def main(universe: Universe) -> tuple[int, int]:
        cluster = SimulatedCluster(universe, node_count=3)
        follower = await started_with_a_record(cluster)
        scene = Scene(follower)
        await follower.host.start(scene.node.store.checkpoints.write(), "checkpoint")
        directory = scene.partition.log.directory
        follower.ask_to_stop()
        await follower.host.is_down.wait()
        SimulatedDisk(scene.device).remove_directory(directory)
        follower.launch()
        await cluster.wait_ready()
        while not (again := Scene(follower)).is_in_sync:
            await asyncio.sleep(LOOK_S)
        return again.partition.log.start_offset, again.partition.log.next_offset

    assert run(main, seed=1, limit_s=LIMIT_S) == (0, 1)

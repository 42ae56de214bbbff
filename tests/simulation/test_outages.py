"""All nodes crash, and one of them comes back with a disk that has not kept what it promised."""

from __future__ import annotations

import asyncio
import os
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.network import Address
from headrace.simulation.cluster import NodeProcess
from headrace.simulation.environment.universe import Universe, run
from headrace.simulation.faults.lost_disks import OLDER_DISK, TORN_DISK
from headrace.simulation.scenario import run_scenario
from headrace.storage.files import checkpoints, layout
from tests.simulation.ready_clusters import controller_and_others, create_assigned, ready_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker.partitions.partition import Partition
    from headrace.simulation.cluster import SimulatedCluster

TOPIC = "orders"
PARTITIONS = 6
TORN_BYTES = 2_000
LIMIT_S = 300.0
LOOK_S = 0.1
CHECKPOINT_S = 35.0  # by then what is written was checkpointed
OVERDUE_S = 20.0
ORDERS = list(permutations(range(3)))
SEEDS_LONG = int(os.environ.get("HEADRACE_OUTAGE_SEEDS", "150"))


async def write(cluster: SimulatedCluster, name: str) -> dict[tuple[int, int], bytes]:
    """What was acknowledged by all: by partition and offset."""

    async def work() -> dict[tuple[int, int], bytes]:
        acked = {}
        async with BatchingProducer(cluster.client(name)) as producer:
            for number in range(60):
                value = b"%s %d " % (name.encode(), number) + bytes(300)
                receipt = await producer.send(TOPIC, None, value, partition=number % PARTITIONS)
                acked[number % PARTITIONS, (await receipt).offset] = value
        return acked

    return await cluster.run_on(name, work())


async def create_topic(cluster: SimulatedCluster, **configs: str) -> None:
    async def work() -> None:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        admin = Admin(cluster.client("operator"))
        await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3, configs=settings)

    await cluster.run_on("operator", work())


async def create_on_two(cluster: SimulatedCluster) -> None:
    """On the first two nodes; the third is there to decide."""
    controller, _ = controller_and_others(cluster)
    replicas = tuple(process.node_id for process in cluster.nodes[:2])
    await controller.host.start(create_assigned(controller, TOPIC, [replicas] * PARTITIONS), "create")
    while not all(it.node is not None and it.node.image.topic_named(TOPIC) for it in cluster.nodes):
        await asyncio.sleep(LOOK_S)
    await settle(cluster)


def crash_all(cluster: SimulatedCluster) -> None:
    for process in cluster.nodes:
        process.host.crash()


def tear(process: NodeProcess) -> None:
    """The ends of its logs are gone, of the one topic only."""
    device = process.host.device
    named = f"topic: {TOPIC}\n".encode()
    for path, _ in list(device.files()):
        directory = path.rpartition("/")[0]
        name_file = f"{directory}/{layout.NAME}"
        is_log = path.endswith(layout.LOG) and device.find(name_file) is not None
        if is_log and bytes(device.file(name_file).cached).startswith(named):
            device.tear(path, TORN_BYTES)


async def start(processes: Sequence[NodeProcess], gap_s: float) -> None:
    for process in processes:
        process.launch()
        await asyncio.sleep(gap_s)


async def settle(cluster: SimulatedCluster) -> None:
    """Until everybody serves, and all copies are in sync again."""
    await cluster.wait_ready()
    while not all(
        len(state.isr) == len(state.replicas) and state.has_leader
        for process in cluster.nodes
        if process.node is not None
        for _, state in partitions_of(process.node.image)
    ):
        await asyncio.sleep(LOOK_S)


def led_by(cluster: SimulatedCluster, index: int) -> Partition:
    found = [
        partition
        for process in cluster.nodes
        if process.node is not None
        and (partition := process.node.topics.find(TOPIC, index)) is not None
        and partition.replica.is_leader
    ]
    assert len(found) == 1
    return found[0]


def expect_all(cluster: SimulatedCluster, acked: dict[tuple[int, int], bytes]) -> None:
    for (index, offset), value in acked.items():
        partition = led_by(cluster, index)
        assert partition.high_watermark > offset, f"{partition.name} ends at {partition.high_watermark}"
        piece = partition.log.read(offset, 1, partition.high_watermark, at_least_one=True)
        assert piece is not None
        assert value in bytes(piece.read())
        piece.release()


@pytest.mark.parametrize("needed", ["1", "2"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_nothing_is_lost_by_one_torn_disk_whoever_is_back_first(order: tuple[int, ...], needed: str) -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await create_topic(cluster, min_insync_replicas=needed)
        acked = await write(cluster, "before")
        crash_all(cluster)
        tear(cluster.nodes[0])
        await start([cluster.nodes[number] for number in order], gap_s=1.0)
        await settle(cluster)
        expect_all(cluster, acked)

    run(play, seed=sum(order), limit_s=LIMIT_S)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_nothing_is_lost_by_one_older_copy_whoever_is_back_first(order: tuple[int, ...]) -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await create_topic(cluster)
        acked = await write(cluster, "long ago")
        crash_all(cluster)
        copy = cluster.nodes[0].host.device.copy()
        await start(cluster.nodes, gap_s=0.0)
        await settle(cluster)
        acked |= await write(cluster, "since")
        crash_all(cluster)
        cluster.nodes[0].host.device.put_back(copy)
        await start([cluster.nodes[number] for number in order], gap_s=1.0)
        await settle(cluster)
        expect_all(cluster, acked)

    run(play, seed=sum(order), limit_s=LIMIT_S)


def test_a_log_that_lacks_what_was_safe_in_it_does_not_lead_however_long_it_takes() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        torn, whole, third = cluster.nodes
        await create_on_two(cluster)
        acked = await write(cluster, "before")
        await asyncio.sleep(CHECKPOINT_S)
        crash_all(cluster)
        tear(torn)
        await start([torn, third], gap_s=OVERDUE_S)
        assert third.node is not None
        assert len(third.node.image.leaderless) == PARTITIONS
        whole.launch()
        await settle(cluster)
        expect_all(cluster, acked)

    run(play, seed=1, limit_s=LIMIT_S)


def test_what_was_committed_is_kept_where_it_must_be_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    """A torn disk that knows of no checkpoint is all that is back in time. It leads, and the other has more."""

    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        torn, whole, third = cluster.nodes
        await create_on_two(cluster)
        acked = await write(cluster, "before")
        await asyncio.sleep(CHECKPOINT_S)
        crash_all(cluster)
        tear(torn)
        torn.host.device.lose(checkpoints.RECOVERY_POINTS)
        await start([torn, third], gap_s=OVERDUE_S)
        whole.launch()
        await settle(cluster)
        kept = b"".join(bytes(file.cached) for path, file in whole.host.device.files() if path.endswith(layout.CUT))
        lost = [value for (index, offset), value in acked.items() if offset >= led_by(cluster, index).high_watermark]
        assert lost
        assert all(value in kept for value in lost)

    run(play, seed=1, limit_s=LIMIT_S)
    loud = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert sum("lacks records that were committed" in text for text in loud) == PARTITIONS


def test_the_vote_of_an_older_copy_does_not_count() -> None:
    """One and Three decide something that Two does not hear of. With an older copy of One's disk, One and Two would
    know nothing of it, and be a majority."""

    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        one, two, three = cluster.nodes
        crash_all(cluster)
        copy = one.host.device.copy()
        await start(cluster.nodes, gap_s=0.0)
        await settle(cluster)
        two.host.crash()
        while not (three.node is not None and not three.node.image.is_here(two.node_id)):
            await asyncio.sleep(LOOK_S)
        await create_topic(cluster)
        one.host.crash()
        three.host.crash()
        one.host.device.put_back(copy)
        await start([one, two], gap_s=1.0)
        await asyncio.sleep(20.0)
        assert not two.is_serving, "what Three knows may be missing"
        three.launch()
        await settle(cluster)
        assert all(it.node is not None and it.node.image.topic_named(TOPIC) for it in cluster.nodes)

    run(play, seed=1, limit_s=LIMIT_S)


def test_a_copy_of_a_running_node_is_turned_away_and_the_node_goes_on() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        original = cluster.nodes[0]
        twin = NodeProcess(universe, original.node_id, {}, {}, [Address(it.host.name, 9093) for it in cluster.nodes])
        twin.host = universe.host("twin")
        twin.address = Address("twin", 9092)
        twin.host.device.put_back(original.host.device.copy())
        twin.launch()
        await twin.host.is_down.wait()
        (_, error), *_ = twin.exits
        assert isinstance(error, Refusal)
        assert error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert original.is_serving
        assert not any(process.exits for process in cluster.nodes)

    run(play, seed=1, limit_s=LIMIT_S)


@pytest.mark.parametrize("kind", [TORN_DISK, OLDER_DISK])
def test_outages_under_load_lose_nothing(kind: str) -> None:
    assert outages(kind, seed=3, trouble_s=40.0) > 0


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("kind", [TORN_DISK, OLDER_DISK])
def test_many_outages_under_load_lose_nothing(kind: str) -> None:
    assert sum(outages(kind, seed, trouble_s=60.0) for seed in range(SEEDS_LONG)) > SEEDS_LONG


def outages(kind: str, seed: int, trouble_s: float) -> int:
    """How many there were in a run in which nothing was lost."""
    report = run_scenario(seed, [kind, "crash"], node_count=3, trouble_s=trouble_s)
    assert report.is_good, "\n".join([f"seed {seed}", *map(str, report.violations), *report.last_events[-30:]])
    return report.faults.get(kind, 0)

"""A data directory becomes the first of a new cluster, or stays as it was, wherever the power is cut meanwhile."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.broker.membership.identity import (
    IDENTITY_FILE,
    RESCUE_FILE,
    Identity,
    Origin,
    WrongIdentity,
    load_or_create,
    store_identity,
)
from headrace.broker.metadata.entries import decided_batch
from headrace.broker.metadata.store import METADATA_LOG, METADATA_SETTINGS, METADATA_TOPIC, MetadataStore
from headrace.broker.rescue.rescue import BEFORE, REPLACED, install, promise, stage, unfinished
from headrace.broker.rescue.survivor import copies, look_at, survey
from headrace.metadata.image.records import ClusterNamed, MetadataRecord, NodeRegistered, PartitionCreated, TopicCreated
from headrace.metadata.rescue import EPOCH_LEAP, rescue
from headrace.model.names import Epoch, LogId, Millis, NodeId, Offset, TopicId, TopicPartition
from headrace.raft.log import Entry, Term
from headrace.raft.membership import Membership, Voter
from headrace.raft.ready import HardState, Saving
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.simulation.environment.device import Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files import layout
from headrace.storage.settings import LogSettings
from headrace.storage.store.log_store import LogStore
from tests.unit.storage.small_logs import append, batch_at

if TYPE_CHECKING:
    from collections.abc import Iterator


ME, OTHERS = NodeId(1), (NodeId(2), NodeId(3))
ORDERS = LogId(TopicId(b"orders".ljust(16, b"-")), 0)
OLD = Identity("old", ME, b"the old disk".ljust(16), Origin.TOGETHER)
NEW = Identity("new", ME, b"the new disk".ljust(16), Origin.ALONE)
VOTERS = Membership((Voter(ME, OLD.directory), *(Voter(other, b"gone") for other in OTHERS)))
RECORD_COUNT = 5
DECIDED: tuple[MetadataRecord, ...] = (
    ClusterNamed("old"),
    NodeRegistered(ME, b"first life", broker_epoch=1, directory=OLD.directory),
    TopicCreated(ORDERS.topic_id, "orders"),
    PartitionCreated(*ORDERS, (ME, *OTHERS), (ME, *OTHERS), OTHERS[0], Epoch(4), 0),
)


class Killed(BaseException):
    """No part of the process goes on after this."""


@pytest.fixture
def threads() -> Iterator[SystemThreads]:
    threads = SystemThreads()
    yield threads
    threads.close()


def world_on(device: Device, threads: SystemThreads) -> World:
    return World(SystemClock(), SimulatedDisk(device), SystemEntropy(), SystemNetwork(), threads)


async def old_directory(world: World) -> None:
    """One voter's of three, which a crash has left."""
    store_identity(world.disk, OLD)
    store = LogStore(world, on_flushed=lambda _: None)
    await store.start()
    metadata = MetadataStore(world, store, await store.open_or_create(METADATA_LOG, METADATA_TOPIC, METADATA_SETTINGS))
    metadata.load(VOTERS)
    batch = decided_batch(DECIDED, Offset(0), Term(3), Millis(1000))
    entries = (
        Entry(Term(3), Offset(0), Offset(len(DECIDED)), batch),
        Entry(Term(3), Offset(len(DECIDED)), Offset(len(DECIDED) + 1), VOTERS),
    )
    await metadata.save(Saving(HardState(Term(5)), None, None, entries))
    orders = await store.open_or_create(ORDERS, TopicPartition("orders", 0), LogSettings())
    for offset in range(RECORD_COUNT):
        append(orders, batch_at(offset, epoch=4))
    await store.checkpoints.write()
    world.disk.sync_everything()


def rescue_it(disk: SimulatedDisk, name: str) -> None:
    found = look_at(disk)
    assert found.agreed is not None
    done = rescue(found.image, ME, NEW.directory, "new", copies(survey(disk, found, is_thorough=False)))
    promise(disk, stage(disk, name, found.agreed, NEW, done.image, b"{}"))
    install(disk, "rescue-" + name)


def kill_at(device: Device, step: int) -> None:
    steps_left = step

    def watcher(_operation: Operation, _path: str) -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left <= 0:
            raise Killed

    device.watch(watcher)


async def test_what_is_left_of_a_node_is_found(threads: SystemThreads) -> None:
    world = world_on(Device(Random(1)), threads)
    await old_directory(world)
    found = look_at(world.disk)
    assert found.identity == OLD
    assert found.agreed is not None
    assert found.agreed.membership == VOTERS
    assert (found.agreed.end, found.agreed.term, found.agreed.decided_ms) == (len(DECIDED) + 1, 5, 1000)
    assert found.names == {ORDERS: TopicPartition("orders", 0)}
    looked = survey(world.disk, found, is_thorough=True)[ORDERS]
    assert (looked.end_offset, looked.last_epoch, looked.damaged) == (RECORD_COUNT, 4, [])


async def test_a_power_cut_at_any_step_leaves_the_old_directory_or_is_gone_on_with(threads: SystemThreads) -> None:
    was_promised: set[bool] = set()
    for step in count(1):
        device = Device(Random(step))
        world = world_on(device, threads)
        await old_directory(world)
        kill_at(device, step)
        try:
            rescue_it(world.disk, "first")
            is_done = True
        except Killed:
            is_done = False
        device.heal()
        device.power_cut()
        disk = SimulatedDisk(device)
        begun = unfinished(disk)
        if not is_done:
            was_promised.add(begun is not None)
        if begun is not None:
            with pytest.raises(WrongIdentity, match="was not finished"):
                load_or_create(disk, None, "another", b"", Origin.ALONE)
            install(disk, begun)
        elif look_at(disk).identity == OLD:
            expect_old(disk)
            rescue_it(disk, "second")
        await expect_new(world_on(device, threads))
        if is_done:
            break
    assert was_promised == {False, True}, "the power was never cut on either side of the promise"


def expect_old(disk: SimulatedDisk) -> None:
    found = look_at(disk)
    assert found.agreed is not None
    assert found.agreed.membership == VOTERS
    assert found.agreed.image.cluster_id == "old"


async def expect_new(world: World) -> None:
    """As a node that starts sees it."""
    disk = world.disk
    assert not disk.exists(RESCUE_FILE)
    assert load_or_create(disk, None, "another", b"", Origin.ALONE) == NEW
    store = LogStore(world, on_flushed=lambda _: None)
    await store.start()
    assert METADATA_LOG in store.log_ids()
    metadata = MetadataStore(world, store, await store.open_or_create(METADATA_LOG, METADATA_TOPIC, METADATA_SETTINGS))
    raft_log = metadata.load(Membership())
    assert raft_log.membership == Membership((Voter(ME, NEW.directory),))
    assert raft_log.end == len(DECIDED) + 1
    assert metadata.load_hard_state(raft_log, is_alone=True) == HardState(Term(5))
    await metadata.repair()
    orders = await store.open_or_create(ORDERS, TopicPartition("orders", 0), LogSettings())
    assert orders.next_offset == RECORD_COUNT
    found = look_at(disk)
    assert found.image.cluster_id == "new"


async def test_what_was_replaced_is_kept_and_can_be_put_back(threads: SystemThreads) -> None:
    world = world_on(Device(Random(1)), threads)
    await old_directory(world)
    disk = world.disk
    rescue_it(disk, "first")
    kept, metadata_log = f"rescue-first/{BEFORE}", layout.directory_of(METADATA_LOG)
    names = [*disk.list(kept), *(f"{metadata_log}/{name}" for name in disk.list(f"{kept}/{metadata_log}"))]
    disk.remove_directory(metadata_log)
    disk.make_directory(metadata_log)
    for name in REPLACED:
        disk.remove(name)
    for name in names:
        if name != layout.TOPICS:
            disk.write_file(name, disk.read_file(f"{kept}/{name}"))
    expect_old(disk)
    assert Identity.decode(disk.read_file(IDENTITY_FILE)) == OLD


async def test_metadata_that_the_disk_cannot_read_is_told_and_nothing_is_raised(threads: SystemThreads) -> None:
    """Topics can still be dumped."""
    device = Device(Random(1))
    world = world_on(device, threads)
    await old_directory(world)
    device.fail(Operation.READ, layout.stem(layout.directory_of(METADATA_LOG), 0) + layout.LOG)
    found = look_at(world.disk)
    assert found.agreed is None
    assert "cannot read" in found.metadata_trouble
    assert found.names == {ORDERS: TopicPartition("orders", 0)}


async def test_a_rescued_directory_can_be_rescued_again(threads: SystemThreads) -> None:
    """Then there is a snapshot, and the metadata log does not begin at 0."""
    world = world_on(Device(Random(1)), threads)
    await old_directory(world)
    rescue_it(world.disk, "first")
    await expect_new(world)
    rescue_it(world.disk, "second")
    await expect_new(world)
    partition = look_at(world.disk).image.partition(*ORDERS)
    assert partition is not None
    assert partition.leader_epoch == 4 + 2 * EPOCH_LEAP


async def test_a_damaged_copy_that_was_set_aside_is_never_removed(threads: SystemThreads) -> None:
    """A node removes it once it is in sync, and in the new cluster it is from the beginning, with what it has."""
    world = world_on(Device(Random(1)), threads)
    await old_directory(world)
    aside = layout.directory_of(ORDERS) + layout.DAMAGED
    world.disk.make_directory(aside)
    rescue_it(world.disk, "first")
    store = LogStore(world, on_flushed=lambda _: None)
    await store.start()
    assert not store.set_aside_damaged
    assert world.disk.exists(aside + layout.STRAY)

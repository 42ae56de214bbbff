"""What Raft must never forget, through crashes and on a full disk."""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.broker.metadata.entries import decided_batch
from headrace.broker.metadata.snapshots import encode_snapshot
from headrace.broker.metadata.store import METADATA_LOG, METADATA_TOPIC, SNAPSHOT_FILE, MetadataStore
from headrace.broker.metadata.votes import FILE as VOTE_FILE
from headrace.metadata.image.records import TopicDeleted
from headrace.model.errors import DiskFailure, DiskFull, Refusal
from headrace.model.names import Millis, NodeId, Offset, TopicId
from headrace.raft.log import Entry, Snapshot, Term
from headrace.raft.membership import Membership, Voter
from headrace.raft.ready import HardState, Saving
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.simulation.environment.device import Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files.damage import DamagedLog
from headrace.storage.settings import LogSettings
from headrace.storage.store.log_store import LogStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.model.names import LogId
    from headrace.raft.log import RaftLog

MEMBERSHIP = Membership((Voter(NodeId(1), b"disk of one"), Voter(NodeId(2))))
RECORDS_EACH = 10
SETTINGS = LogSettings(segment_bytes=1000, retention_ms=None)


def entry(base: int, term: int) -> Entry:
    records = [TopicDeleted(TopicId(bytes(16)))] * RECORDS_EACH
    payload = decided_batch(records, Offset(base), Term(term), Millis(1000))
    return Entry(Term(term), Offset(base), Offset(base + RECORDS_EACH), payload)


def snapshot_of(end: int, term: int) -> Snapshot:
    return Snapshot(Offset(end), Term(term), MEMBERSHIP, b"")


def saving(*entries: Entry, snapshot: Snapshot | None = None) -> Saving:
    return Saving(None, snapshot, None, entries)


class Lives:
    """One process after another on the same disk. None of them ends in order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.found: list[LogId] = []

    async def next(self) -> tuple[MetadataStore, RaftLog]:
        store = LogStore(self.world, on_flushed=lambda _: None)
        await store.start()
        self.found = store.log_ids()
        metadata = MetadataStore(self.world, store, await store.open_or_create(METADATA_LOG, METADATA_TOPIC, SETTINGS))
        raft_log = metadata.load(MEMBERSHIP)
        await metadata.repair()
        return metadata, raft_log


@pytest.fixture
def device() -> Device:
    return Device(Random(1))


@pytest.fixture
def lives(device: Device) -> Iterator[Lives]:
    threads = SystemThreads()
    yield Lives(World(SystemClock(), SimulatedDisk(device), SystemEntropy(), SystemNetwork(), threads))
    threads.close()


async def test_what_follows_an_installed_snapshot_is_kept(lives: Lives) -> None:
    """The log began anew with it. A checkpoint of where that was need not have come since."""
    metadata, _ = await lives.next()
    await metadata.save(saving(snapshot=snapshot_of(100, 1)))
    await metadata.save(saving(entry(100, 1), entry(110, 2)))
    _, raft_log = await lives.next()
    assert (raft_log.start, raft_log.end, raft_log.last_term) == (100, 120, 2)


class Killed(BaseException):
    """No part of the node goes on after this."""


def kill_at(device: Device, step: int) -> None:
    """Right before the `step`-th next step on the disk, and every one after it, until the disk is healed."""
    steps_left = step

    def watcher(_operation: Operation, _path: str) -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left <= 0:
            raise Killed

    device.watch(watcher)


async def test_a_crash_at_any_step_of_an_installed_snapshot_leaves_a_log_that_goes_on(
    lives: Lives, device: Device
) -> None:
    snapshot, is_done, step = snapshot_of(0, 1), False, 0
    while not is_done:
        step += 1
        metadata, before = await lives.next()
        end = before.end
        await metadata.save(saving(entry(end, step), entry(end + RECORDS_EACH, step)))
        snapshot = snapshot_of(end + 100, step)
        kill_at(device, step)
        try:
            await metadata.save(saving(snapshot=snapshot))
            is_done = True
        except Killed:
            pass
        device.heal()
        _, after = await lives.next()
        assert METADATA_LOG in lives.found, f"no metadata log after a crash before step {step}"
        assert after.end in {end + 2 * RECORDS_EACH, snapshot.end}
    assert after.end == snapshot.end


async def test_a_snapshot_that_finds_no_room_is_taken_another_time(lives: Lives, device: Device) -> None:
    metadata, _ = await lives.next()
    await metadata.save(saving(entry(0, 1), entry(10, 1)))
    used = device.used_bytes
    device.capacity_bytes = used + 40
    with pytest.raises(Refusal, match="no room for a snapshot"):
        await metadata.compact(snapshot_of(20, 1), Offset(10))
    assert device.used_bytes == used, "what is left of it takes up room"
    device.capacity_bytes = None
    await metadata.save(saving(entry(20, 1)))
    _, raft_log = await lives.next()
    assert (raft_log.start, raft_log.end) == (0, 30)
    await metadata.compact(snapshot_of(20, 1), Offset(10))
    _, raft_log = await lives.next()
    assert (raft_log.start, raft_log.end) == (20, 30)


async def test_a_disk_without_any_room_for_what_is_decided_ends_the_node_and_says_what_to_do(
    lives: Lives, device: Device
) -> None:
    metadata, _ = await lives.next()
    await metadata.save(saving(entry(0, 1)))
    device.capacity_bytes = device.used_bytes
    with pytest.raises(DiskFull, match="free some space, then start the node again"):
        await metadata.save(saving(entry(10, 1)))
    device.capacity_bytes = None
    _, raft_log = await lives.next()
    assert raft_log.end == 10


async def test_what_a_snapshot_stands_for_is_removed_while_the_node_runs(lives: Lives) -> None:
    metadata, _ = await lives.next()
    for number in range(30):
        await metadata.save(saving(entry(number * RECORDS_EACH, 1)))
    assert len(metadata.log.segments) > 4
    first, last = metadata.log.segments[0], metadata.log.segments[-1]
    await metadata.compact(snapshot_of(300, 1), Offset(last.base_offset))
    assert not lives.world.disk.exists(first.log_path)
    assert [segment.base_offset for segment in metadata.log.segments] == [last.base_offset]
    await metadata.save(saving(entry(300, 1)))
    _, raft_log = await lives.next()
    assert (raft_log.start, raft_log.end) == (300, 310)


@pytest.mark.parametrize("older", [None, snapshot_of(100, 1)], ids=["none", "an older one"])
async def test_a_log_whose_snapshot_was_taken_away_says_so(lives: Lives, older: Snapshot | None) -> None:
    metadata, _ = await lives.next()
    await metadata.save(saving(snapshot=snapshot_of(200, 1)))
    await metadata.save(saving(entry(200, 1)))
    lives.world.disk.remove(SNAPSHOT_FILE)
    if older is not None:
        lives.world.disk.replace_file(SNAPSHOT_FILE, encode_snapshot(older))
    with pytest.raises(DamagedLog, match="the metadata log begins at 200"):
        await lives.next()


@pytest.mark.parametrize("part", ["log", SNAPSHOT_FILE, VOTE_FILE])
async def test_what_cannot_be_read_is_damage_that_nobody_may_remove(lives: Lives, device: Device, part: str) -> None:
    metadata, _ = await lives.next()
    ballot = HardState(Term(1), None)
    await metadata.save(Saving(ballot, snapshot_of(100, 1), None, ()))
    await metadata.save(saving(entry(100, 1)))
    device.spoil(metadata.log.segments[0].log_path if part == "log" else part, 0)
    with pytest.raises(DamagedLog, match=r"the disk cannot read it.*(do not remove it|might vote twice)"):
        metadata.load_hard_state(metadata.load(MEMBERSHIP), is_alone=False)


async def test_a_metadata_log_that_cannot_be_cut_ends_the_node(lives: Lives, device: Device) -> None:
    metadata, _ = await lives.next()
    await metadata.save(saving(entry(0, 1), entry(10, 1)))
    device.spoil(metadata.log.segments[0].log_path, 0)
    with pytest.raises(DiskFailure, match="the disk cannot read it"):
        await metadata.save(Saving(None, None, Offset(10), ()))


async def test_other_trouble_with_a_snapshot_ends_the_node(lives: Lives, device: Device) -> None:
    metadata, _ = await lives.next()
    await metadata.save(saving(entry(0, 1)))
    device.fail(Operation.SYNC, SNAPSHOT_FILE, code=errno.EIO)
    with pytest.raises(DiskFailure):
        await metadata.compact(snapshot_of(10, 1), Offset(0))
    device.fail(Operation.CREATE, SNAPSHOT_FILE, code=errno.ENOSPC)
    with pytest.raises(DiskFailure):  # without an installed one it would have a hole in its log
        await metadata.save(saving(snapshot=snapshot_of(90, 1)))


@pytest.mark.parametrize(
    ("snapshot", "believed_end"),
    [
        (snapshot_of(20, 3), 20),
        (snapshot_of(25, 5), 25),
        (snapshot_of(40, 4), 40),
        (snapshot_of(70, 5), 70),
        (snapshot_of(20, 4), 40),
        (snapshot_of(10, 1), 40),
    ],
    ids=["another term", "inside an entry", "at the end", "after the end", "the same entry", "an older one"],
)
async def test_a_tail_is_believed_only_if_it_agrees_with_the_snapshot(
    lives: Lives, snapshot: Snapshot, believed_end: int
) -> None:
    """The snapshot was stored, and a crash came before the log that it replaces was gone."""
    metadata, _ = await lives.next()
    await metadata.save(saving(entry(0, 1), entry(10, 4), entry(20, 4), entry(30, 4)))
    lives.world.disk.replace_file(SNAPSHOT_FILE, encode_snapshot(snapshot))
    metadata, raft_log = await lives.next()
    assert (raft_log.snapshot, raft_log.end) == (snapshot, believed_end)
    await metadata.save(saving(entry(believed_end, 6)))
    _, raft_log = await lives.next()
    assert (raft_log.snapshot, raft_log.end) == (snapshot, believed_end + RECORDS_EACH)

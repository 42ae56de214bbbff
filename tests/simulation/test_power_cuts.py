"""What a power cut may take from a simulated disk, and what it must leave."""

from __future__ import annotations

import errno
import random
from collections import Counter

import pytest

from headrace.simulation.environment.device import SECTOR, Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk

SEEDS = range(200)


def disk_with(seed: int) -> SimulatedDisk:
    return SimulatedDisk(Device(random.Random(seed)))


def pattern(size: int, salt: int) -> bytes:
    """Bytes without a zero, so that a hole can be told from what was written."""
    return bytes(1 + (place // SECTOR + salt) % 255 for place in range(size))


def durable_file(disk: SimulatedDisk, content: bytes) -> None:
    disk.write_file("log", content)
    disk.open("log").sync()
    disk.sync_directory("")


@pytest.mark.parametrize("seed", SEEDS)
def test_synced_bytes_survive_and_the_rest_is_old_or_new_by_sector(seed: int) -> None:
    disk = disk_with(seed)
    chance = random.Random(seed)
    synced = pattern(chance.randint(0, 3000), 1)
    durable_file(disk, synced)
    log = disk.open("log")
    appended = pattern(chance.randint(1, 3000), 100)
    for start in range(0, len(appended), 700):
        log.append([appended[start : start + 700]])
    whole = synced + appended

    disk.device.power_cut()

    after = disk.read_file("log")
    assert len(synced) <= len(after) <= len(whole)
    assert after[: len(synced)] == synced
    for place in range(len(synced), len(after)):
        assert after[place] in {whole[place], 0}


def test_unsynced_bytes_meet_every_fate() -> None:
    fates = Counter()
    for seed in SEEDS:
        disk = disk_with(seed)
        durable_file(disk, pattern(1024, 1))
        disk.open("log").append([pattern(2048, 50)])
        disk.device.power_cut()
        tail = disk.read_file("log")[1024:]
        if tail == pattern(2048, 50):
            fates["all kept"] += 1
        elif not tail:
            fates["all lost"] += 1
        elif tail == pattern(2048, 50)[: len(tail)]:
            fates["cut short"] += 1
        elif 0 in tail.rstrip(b"\0"):
            fates["a hole with bytes behind it"] += 1
        else:
            fates["zeros at the end"] += 1
    assert len(fates) == 5, fates


def test_a_sector_is_never_torn() -> None:
    for seed in SEEDS:
        disk = disk_with(seed)
        durable_file(disk, b"a" * SECTOR * 8)
        log = disk.open("log")
        log.truncate(0)
        log.append([b"b" * SECTOR * 8])
        disk.device.power_cut()
        after = disk.read_file("log")
        for start in range(0, len(after) - SECTOR, SECTOR):
            assert len(set(after[start : start + SECTOR])) == 1


def test_a_truncation_that_was_not_synced_may_be_undone() -> None:
    sizes = set()
    for seed in SEEDS:
        disk = disk_with(seed)
        durable_file(disk, b"a" * 1000)
        disk.open("log").truncate(600)
        disk.device.power_cut()
        after = disk.read_file("log")
        assert after[:600] == b"a" * 600
        sizes.add(len(after))
    assert {600, 1000} <= sizes
    assert all(600 <= size <= 1000 for size in sizes)


@pytest.mark.parametrize("seed", range(30))
def test_a_synced_truncation_stays(seed: int) -> None:
    disk = disk_with(seed)
    durable_file(disk, b"a" * 1000)
    log = disk.open("log")
    log.truncate(600)
    log.append([b"b" * 200])
    log.sync()
    disk.device.power_cut()
    assert disk.read_file("log") == b"a" * 600 + b"b" * 200


def names_after_power_cuts(*, file_sync: bool, directory_sync: bool, everything: bool = False) -> set[tuple[str, ...]]:
    outcomes = set()
    for seed in SEEDS:
        disk = disk_with(seed)
        disk.make_directory("d")
        disk.sync_directory("")
        disk.write_file("d/one", b"1")
        disk.write_file("d/two", b"2")
        if file_sync:
            disk.open("d/one").sync()
            disk.open("d/two").sync()
        if directory_sync:
            disk.sync_directory("d")
        if everything:
            disk.sync_everything()
        disk.device.power_cut()
        outcomes.add(tuple(disk.list("d")))
    return outcomes


def test_a_name_needs_a_sync_of_its_directory() -> None:
    any_of_them = {(), ("one",), ("two",), ("one", "two")}
    assert names_after_power_cuts(file_sync=False, directory_sync=False) == any_of_them
    assert names_after_power_cuts(file_sync=True, directory_sync=False) == any_of_them
    assert names_after_power_cuts(file_sync=False, directory_sync=True) == {("one", "two")}
    assert names_after_power_cuts(file_sync=False, directory_sync=False, everything=True) == {("one", "two")}


def test_a_file_needs_every_directory_above_it() -> None:
    survived = set()
    for seed in SEEDS:
        disk = disk_with(seed)
        disk.make_directory("a/b")
        disk.write_file("a/b/file", b"x")
        disk.open("a/b/file").sync()
        disk.sync_directory("a/b")
        disk.device.power_cut()
        survived.add(disk.exists("a/b/file"))
    assert survived == {True, False}


def test_a_removal_that_was_not_synced_may_be_undone() -> None:
    survived = set()
    for seed in SEEDS:
        disk = disk_with(seed)
        durable_file(disk, b"kept")
        disk.remove("log")
        disk.device.power_cut()
        survived.add(disk.exists("log"))
        if disk.exists("log"):
            assert disk.read_file("log") == b"kept"
    assert survived == {True, False}


def test_a_rename_is_all_or_nothing() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = disk_with(seed)
        disk.make_directory("from")
        disk.make_directory("to")
        disk.write_file("from/file", b"x")
        disk.sync_everything()
        disk.rename("from/file", "to/file")
        disk.device.power_cut()
        outcomes.add((disk.exists("from/file"), disk.exists("to/file")))
    assert outcomes == {(True, False), (False, True)}


def test_a_sync_of_one_directory_does_not_bring_back_an_older_name() -> None:
    for seed in SEEDS:
        disk = disk_with(seed)
        disk.make_directory("a")
        disk.make_directory("b")
        disk.sync_directory("")
        disk.write_file("b/file", b"old")
        disk.write_file("a/file", b"new")
        disk.sync_everything()
        disk.remove("b/file")
        disk.rename("a/file", "b/file")
        disk.sync_directory("a")
        disk.sync_directory("b")
        disk.device.power_cut()
        assert disk.list("a") == []
        assert disk.read_file("b/file") == b"new"


@pytest.mark.parametrize("step", range(1, 6))
def test_replace_file_leaves_old_or_new_wherever_the_power_is_cut(step: int) -> None:
    class PowerCut(Exception):
        pass

    contents = set()
    for seed in SEEDS:
        disk = disk_with(seed)
        disk.replace_file("vote", b"old" * 400)
        seen: list[Operation] = []

        def cut(operation: Operation, _path: str, disk: SimulatedDisk = disk, seen: list[Operation] = seen) -> None:
            seen.append(operation)
            if len(seen) == step:
                disk.device.power_cut()
                raise PowerCut

        disk.device.watch(cut)
        with pytest.raises(PowerCut):
            disk.replace_file("vote", b"new" * 500)
        disk.device.unwatch(cut)
        contents.add(disk.read_file("vote"))
    old_only = {b"old" * 400}
    assert contents == (old_only if step < 5 else {*old_only, b"new" * 500})


def next_process(disk: SimulatedDisk) -> SimulatedDisk:
    """One that has not heard that a sync failed."""
    return SimulatedDisk(disk.device)


def test_what_memory_forgets_after_a_failed_sync_is_what_the_device_keeps() -> None:
    fates = Counter[bytes]()
    for seed in SEEDS:
        disk = disk_with(seed)
        durable_file(disk, b"a" * SECTOR)
        log = disk.open("log")
        log.append([b"b" * SECTOR])
        disk.device.fail(Operation.SYNC, "log")
        with pytest.raises(OSError, match="Input/output error"):
            log.sync()
        log = next_process(disk).open("log")
        log.sync()
        log.append([b"c" * SECTOR])
        log.forget_cached()
        shown = log.read(0, 3 * SECTOR)
        assert shown[:SECTOR] == b"a" * SECTOR
        assert shown[2 * SECTOR :] == b"c" * SECTOR
        fates[shown[SECTOR : 2 * SECTOR]] += 1
        log.sync()
        disk.device.power_cut()
        assert disk.read_file("log") == shown
    assert set(fates) == {b"b" * SECTOR, bytes(SECTOR)}


def test_after_a_failed_sync_the_next_one_of_another_process_lies() -> None:
    lost = 0
    for seed in SEEDS:
        disk = disk_with(seed)
        durable_file(disk, b"")
        log = disk.open("log")
        log.append([b"x" * SECTOR])
        disk.device.fail(Operation.SYNC, "log")
        with pytest.raises(OSError, match="Input/output error") as caught:
            log.sync()
        assert caught.value.errno == errno.EIO
        log = next_process(disk).open("log")
        log.append([b"y" * SECTOR])
        log.sync()
        assert log.read(0, 2 * SECTOR) == b"x" * SECTOR + b"y" * SECTOR
        disk.device.power_cut()
        after = disk.read_file("log")
        assert after[SECTOR:] == b"y" * SECTOR
        lost += after[:SECTOR] == bytes(SECTOR)
    assert lost > len(SEEDS) // 4


def test_armed_failures_hit_the_operation_they_name_once() -> None:
    disk = disk_with(1)
    disk.device.fail(Operation.WRITE, "b", skip=1)
    disk.write_file("a", b"fine")
    disk.write_file("b", b"skipped")
    with pytest.raises(OSError, match="Input/output error"):
        disk.write_file("b", b"hit")
    disk.write_file("b", b"over")
    disk.device.fail(Operation.SYNC_EVERYTHING)
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_everything()


def test_a_full_disk_takes_a_part() -> None:
    counts = set()
    for seed in range(50):
        disk = disk_with(seed)
        disk.write_file("other", bytes(60))
        disk.device.capacity_bytes = 100
        log = disk.open("log", create=True)
        assert log.append([bytes(30)]) == 30
        assert disk.free_bytes() == 10
        count = log.append([b"x" * 30])
        assert log.size() == 30 + count
        assert disk.read_file("log") == bytes(30) + b"x" * count
        counts.add(count)
        disk.remove("other")
        assert log.append([b"y" * 30]) == 30
    assert counts == set(range(11))


def test_damage() -> None:
    disk = disk_with(1)
    durable_file(disk, b"\x00\x00")
    disk.device.flip_bit("log", 1, bit=7)
    assert disk.read_file("log") == b"\x00\x80"
    disk.device.power_cut()
    assert disk.read_file("log") == b"\x00\x80"
    disk.device.lose("log")
    disk.device.power_cut()
    assert not disk.exists("log")


def test_a_cold_disk_says_so() -> None:
    disk = disk_with(1)
    durable_file(disk, b"bytes")
    log = disk.open("log")
    assert all(log.is_cached(0, 5) for _ in range(50))
    disk.device.cold_fraction = 0.5
    assert {log.is_cached(0, 5) for _ in range(50)} == {True, False}

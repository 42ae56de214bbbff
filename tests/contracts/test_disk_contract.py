"""What `Disk` and `File` promise, on the real file system and on the simulated one."""

from __future__ import annotations

import errno
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import Disk, FileSlice, SystemDisk
from headrace.simulation.environment.device import Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "simulated":
        yield SimulatedDisk(Device(random.Random(1)))
        return
    disk = SystemDisk(tmp_path / "node")
    yield disk
    disk.close()


def test_appends_and_reads_anywhere(disk: Disk) -> None:
    file = disk.open("log", create=True)
    assert file.append([b"head", bytearray(b"race"), memoryview(b"-log")]) == 12
    assert file.append([b"!"]) == 1
    assert file.size() == 13
    assert file.read(0, 100) == b"headrace-log!"
    assert file.read(4, 4) == b"race"
    assert file.read(12, 5) == b"!"
    assert file.read(13, 5) == b""
    assert file.read(99, 5) == b""
    file.close()


def test_an_append_of_nothing_writes_nothing(disk: Disk) -> None:
    file = disk.open("log", create=True)
    assert file.append([]) == 0
    assert file.append([b""]) == 0
    assert file.size() == 0
    file.close()


def test_more_buffers_than_one_system_call_takes(disk: Disk) -> None:
    file = disk.open("log", create=True)
    pieces = [b"%d," % number for number in range(3000)]
    assert file.append(pieces) == len(b"".join(pieces))
    assert file.read(0, 1 << 20) == b"".join(pieces)
    file.close()


def test_a_reopened_file_goes_on_at_its_end(disk: Disk) -> None:
    first = disk.open("log", create=True)
    first.append([b"one"])
    first.close()
    second = disk.open("log")
    assert second.size() == 3
    second.append([b"two"])
    assert disk.read_file("log") == b"onetwo"
    second.close()


def test_two_handles_read_the_same_bytes(disk: Disk) -> None:
    writer = disk.open("log", create=True)
    reader = disk.open("log")
    writer.append([b"shared"])
    assert reader.read(0, 6) == b"shared"
    assert reader.size() == 0, "a handle knows the size it saw when it was opened"
    writer.close()
    reader.close()


def test_truncation_cuts_and_starts_a_new_generation(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.append([b"0123456789"])
    before = file.generation
    file.truncate(4)
    assert file.generation > before
    assert file.size() == 4
    assert file.read(0, 100) == b"0123"
    file.append([b"x"])
    assert file.read(0, 100) == b"0123x"
    file.close()


def test_truncation_beyond_the_end_fills_with_zeros(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.append([b"ab"])
    file.truncate(5)
    assert file.read(0, 100) == b"ab\0\0\0"
    file.truncate(1)
    file.truncate(3)
    assert file.read(0, 100) == b"a\0\0", "what was cut off does not come back"
    file.close()


def test_a_slice_knows_that_its_file_was_cut(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.append([b"0123456789"])
    piece = FileSlice(file, 2, 5)
    file.append([b"more"])
    assert piece.is_current
    assert piece.read() == b"23456"
    file.truncate(3)
    assert not piece.is_current
    piece.release()
    file.close()


def test_a_leased_file_stays_readable_after_close(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.append([b"leased"])
    first, second = FileSlice(file, 0, 6), FileSlice(file, 0, 3)
    file.close()
    first.release()
    assert file.is_leased
    assert second.read() == b"lea"
    second.release()
    assert not file.is_leased
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 1)


def test_a_second_release_is_a_bug(disk: Disk) -> None:
    file = disk.open("log", create=True)
    piece = FileSlice(file, 0, 0)
    piece.release()
    with pytest.raises(AssertionError, match="released twice"):
        piece.release()


def test_a_closed_file_cannot_be_used(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.close()
    file.close()
    for use in (lambda: file.append([b"x"]), lambda: file.read(0, 1), file.sync):
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            use()
        assert caught.value.errno == errno.EBADF


def test_warm_bytes_are_cached(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.append([bytes(300_000)])
    file.sync()
    file.warm(0, 300_000)
    assert file.is_cached(0, 300_000)
    file.warm(299_000, 5000)  # past the end: as much as there is
    file.close()


def test_forgetting_what_memory_holds_loses_nothing(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.append([b"synced "])
    file.sync()
    file.append([b"and not"])
    file.forget_cached()
    assert file.read(0, 100) == b"synced and not"
    file.close()


def test_a_missing_file(disk: Disk) -> None:
    assert not disk.exists("nothing")
    with pytest.raises(FileNotFoundError):
        disk.open("nothing")
    with pytest.raises(FileNotFoundError):
        disk.read_file("nothing")
    with pytest.raises(FileNotFoundError):
        disk.rename("nothing", "something")
    with pytest.raises(FileNotFoundError):
        disk.open("no/such/directory", create=True)
    with pytest.raises(FileNotFoundError):
        disk.sync_directory("no-such-directory")
    disk.remove("nothing")
    disk.remove_directory("nothing")
    assert disk.list("nothing") == []


def test_directories(disk: Disk) -> None:
    disk.make_directory("topics/orders/0")
    disk.make_directory("topics/orders/0")
    disk.write_file("topics/orders/name", b"orders")
    disk.write_file("topics/orders/0/b.log", b"b")
    disk.write_file("topics/orders/0/a.log", b"a")
    assert disk.list("topics/orders") == ["0", "name"]
    assert disk.list("topics/orders/0") == ["a.log", "b.log"]
    assert disk.exists("topics/orders/0")
    assert disk.exists("topics/orders/0/a.log")
    with pytest.raises(IsADirectoryError):
        disk.open("topics/orders")
    with pytest.raises(NotADirectoryError):
        disk.list("topics/orders/name")
    disk.remove("topics/orders/0/a.log")
    assert disk.list("topics/orders/0") == ["b.log"]
    disk.remove_directory("topics/orders")
    assert disk.list("topics") == []
    assert not disk.exists("topics/orders/0/b.log")


def test_the_root_lists_what_the_node_has_put_there(disk: Disk) -> None:
    assert disk.list("") == []
    disk.write_file("node", b"1")
    disk.make_directory("topics")
    assert disk.list("") == ["node", "topics"]
    disk.sync_directory("")


def test_rename_replaces(disk: Disk) -> None:
    disk.write_file("old", b"new content")
    disk.write_file("new", b"old content")
    handle = disk.open("new")
    disk.rename("old", "new")
    assert not disk.exists("old")
    assert disk.read_file("new") == b"new content"
    assert handle.read(0, 100) == b"old content", "an open file outlives its name"
    handle.close()


def test_rename_moves_a_directory_with_its_content(disk: Disk) -> None:
    disk.make_directory("a/inner")
    disk.write_file("a/inner/file", b"x")
    disk.make_directory("b")
    disk.rename("a", "b/moved")
    assert disk.list("") == ["b"]
    assert disk.read_file("b/moved/inner/file") == b"x"


def test_rename_never_mixes_files_and_directories(disk: Disk) -> None:
    disk.write_file("file", b"x")
    disk.make_directory("full/inner")
    disk.make_directory("other")
    with pytest.raises(IsADirectoryError):
        disk.rename("file", "full")
    with pytest.raises(NotADirectoryError):
        disk.rename("other", "file")
    with pytest.raises(OSError, match="not empty"):
        disk.rename("other", "full")


def test_a_removed_file_stays_readable_while_open(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.append([b"still here"])
    disk.remove("log")
    assert not disk.exists("log")
    assert file.read(0, 100) == b"still here"
    file.close()


def test_a_replaced_file_has_its_bytes_before_its_name_and_its_name_before_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the real disk: no power is cut here, so the system calls have to show it."""
    disk = SystemDisk(tmp_path / "node")
    disk.make_directory("d")
    calls: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def record_sync(descriptor: int) -> None:
        calls.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def record_replace(old: str, new: str) -> None:
        calls.append(("rename", os.path.basename(new)))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_replace)
    disk.replace_file("d/safe", b"content")
    assert calls == [("sync", "safe.tmp"), ("rename", "safe"), ("sync", "d")]
    calls.clear()
    disk.sync_directory("d")
    assert calls == [("sync", "d")]
    disk.close()


def test_write_file_and_replace_file_hold_the_last_content(disk: Disk) -> None:
    disk.make_directory("d")
    disk.write_file("d/plain", b"a longer first content")
    disk.write_file("d/plain", b"short")
    assert disk.read_file("d/plain") == b"short"
    disk.replace_file("d/safe", b"one")
    disk.replace_file("d/safe", b"")
    assert disk.read_file("d/safe") == b""
    disk.replace_file("d/safe", b"two")
    assert disk.read_file("d/safe") == b"two"
    assert disk.list("d") == ["plain", "safe"]


def test_threads_may_replace_one_file_at_once(tmp_path: Path) -> None:
    """As a stop does while a checkpoint is being written, or a follower while its log is compacted. The simulator has
    no threads that could."""
    disk = SystemDisk(tmp_path)
    contents = [bytes([number]) * 100 for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda content: disk.replace_file("safe", content), contents))
    assert disk.read_file("safe") in contents
    disk.close()


def test_syncs_change_nothing_that_can_be_seen(disk: Disk) -> None:
    disk.make_directory("d")
    file = disk.open("d/log", create=True)
    file.append([b"bytes"])
    file.sync()
    disk.sync_directory("d")
    disk.sync_everything()
    assert file.read(0, 100) == b"bytes"
    assert disk.list("d") == ["log"]
    assert disk.free_bytes() > 0
    file.close()


@pytest.fixture(params=["real", "simulated"])
def failing_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk whose file `bad` cannot be synced."""
    if request.param == "simulated":
        device = Device(random.Random(1))
        device.fail(Operation.SYNC, "bad")
        yield SimulatedDisk(device)
        return
    disk = SystemDisk(tmp_path)
    (tmp_path / "bad").symlink_to("/dev/full")
    yield disk
    disk.close()


SYNCS: list[Callable[[Disk], object]] = [
    lambda disk: disk.open("good").sync(),
    lambda disk: disk.sync_directory(""),
    lambda disk: disk.sync_everything(),
    lambda disk: disk.replace_file("safe", b"content"),
]


def test_after_a_failed_sync_no_sync_is_believed(failing_disk: Disk) -> None:
    """Whoever asks next might be told that all is well by a kernel that has told of the failure once."""
    earlier = failing_disk.open("good", create=True)
    for sync in SYNCS:
        sync(failing_disk)
    with pytest.raises(OSError):
        failing_disk.open("bad", create=True).sync()
    with pytest.raises(OSError, match="an earlier sync has failed"):
        earlier.sync()
    for sync in SYNCS:
        with pytest.raises(OSError, match="an earlier sync has failed"):
            sync(failing_disk)


@contextmanager
def failing_syncs(disk: Disk, code: int) -> Iterator[None]:
    """Meanwhile no sync succeeds. No real file system can be made to run out of space just then."""

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    def fail_if_sync(operation: Operation, _path: str) -> None:
        if operation in {Operation.SYNC, Operation.SYNC_DIRECTORY, Operation.SYNC_EVERYTHING}:
            fail()

    if isinstance(disk, SimulatedDisk):
        disk.device.watch(fail_if_sync)
        yield
        disk.device.unwatch(fail_if_sync)
        return
    with pytest.MonkeyPatch.context() as patch:
        for sync in ("os.fsync", "os.fdatasync", "headrace.runtime._libc.syncfs"):
            patch.setattr(sync, fail)
        yield


@pytest.mark.parametrize("sync", SYNCS[:3], ids=["file", "directory", "everything"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_sync_that_fails_for_want_of_space_is_a_failed_sync(
    disk: Disk, sync: Callable[[Disk], object], code: int
) -> None:
    """A file system may find out only now that it has no room for what it took, and its pages count as clean then."""
    disk.write_file("good", b"content")
    with failing_syncs(disk, code), pytest.raises(OSError, match=os.strerror(code)):
        sync(disk)
    for later in SYNCS:
        with pytest.raises(OSError, match="an earlier sync has failed"):
            later(disk)


def test_a_draft_without_room_is_thrown_away_and_says_nothing_of_other_syncs(disk: Disk) -> None:
    disk.write_file("good", b"content")
    disk.replace_file("safe", b"old")
    with failing_syncs(disk, errno.ENOSPC), pytest.raises(OSError, match="No space left"):
        disk.replace_file("safe", b"new")
    assert disk.list("") == ["good", "safe"]
    assert disk.read_file("safe") == b"old"
    for sync in SYNCS:
        sync(disk)


def test_a_draft_that_the_disk_fails_to_sync_is_a_failed_sync(disk: Disk) -> None:
    with failing_syncs(disk, errno.EIO), pytest.raises(OSError, match="Input/output error"):
        disk.replace_file("safe", b"new")
    with pytest.raises(OSError, match="an earlier sync has failed"):
        disk.sync_everything()


def test_a_sync_of_what_is_closed_or_gone_says_nothing_of_the_disk(disk: Disk) -> None:
    file = disk.open("log", create=True)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.sync()
    with pytest.raises(FileNotFoundError):
        disk.sync_directory("gone")
    disk.sync_everything()


@pytest.fixture(params=["real", "simulated"])
def full_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk with a file `log` that takes no more bytes."""
    if request.param == "simulated":
        device = Device(random.Random(1))
        SimulatedDisk(device).write_file("log", b"")
        device.capacity_bytes = 0
        yield SimulatedDisk(device)
        return
    disk = SystemDisk(tmp_path)
    (tmp_path / "log").symlink_to("/dev/full")
    yield disk
    disk.close()


def test_a_full_disk_takes_nothing_and_says_so(full_disk: Disk) -> None:
    file = full_disk.open("log")
    assert file.append([b"too", b"much"]) == 0
    assert file.size() == 0
    file.close()
    with pytest.raises(OSError, match="No space left"):
        full_disk.write_file("log", b"too much")

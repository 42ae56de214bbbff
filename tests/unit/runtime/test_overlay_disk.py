"""A disk that is only looked at: whoever writes sees what he wrote, and nothing of it gets there."""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import ReadFault, SystemDisk
from headrace.runtime.overlay_disk import OverlayDisk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "log").write_bytes(b"as it was")
    (tmp_path / "meta").write_bytes(b"whose it is")
    return tmp_path


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_there_is_read(root: Path) -> None:
    disk = OverlayDisk(root)
    file = disk.open("topics/log")
    assert (file.size(), file.read(3, 2), file.read(3, 99), file.read(9, 1)) == (9, b"it", b"it was", b"")
    assert disk.read_file("meta") == b"whose it is"
    assert disk.list("topics") == ["log"]
    assert disk.list("nowhere") == []
    assert disk.exists("topics")
    assert not disk.exists("nowhere")
    with pytest.raises(FileNotFoundError):
        disk.open("nowhere")


def test_whatever_is_changed_is_seen_and_never_gets_to_the_disk(root: Path) -> None:
    before = contents(root)
    disk = OverlayDisk(root)
    file = disk.open("topics/log")
    file.truncate(5)
    file.append([b"was", b" not"])
    disk.rename("topics/log", "topics/renamed")
    disk.write_file("topics/new", b"1")
    disk.replace_file("meta", b"mine")
    disk.remove("topics/nothing")
    assert disk.read_file("topics/renamed") == b"as itwas not"
    assert disk.list("topics") == ["new", "renamed"]
    assert disk.read_file("meta") == b"mine"
    assert not disk.exists("topics/log")
    disk.remove("topics/new")
    assert disk.list("topics") == ["renamed"]
    for change in (lambda: disk.remove_directory("topics"), lambda: disk.rename("topics", "elsewhere")):
        with pytest.raises(OSError, match="keeps its directories"):
            change()
    assert contents(root) == before


def test_cuts_and_appends_in_any_order_are_as_on_a_real_disk(root: Path) -> None:
    chance = random.Random(1)
    real_root = root / "copy"
    real_root.mkdir()
    (real_root / "log").write_bytes(b"as it was")
    real = SystemDisk(real_root)
    ours, theirs = OverlayDisk(root).open("topics/log"), real.open("log")
    for _ in range(500):
        if chance.random() < 0.5:
            size = chance.randint(0, theirs.size())
            ours.truncate(size)
            theirs.truncate(size)
        else:
            piece = chance.randbytes(chance.randint(0, 5))
            ours.append([piece])
            theirs.append([piece])
        place, size = chance.randint(0, 20), chance.randint(0, 20)
        assert ours.size() == theirs.size()
        assert ours.read(place, size) == theirs.read(place, size)
    real.close()


def test_what_the_device_cannot_read_is_said_of_those_bytes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _size: int, _position: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.pread", refuse)
    with pytest.raises(ReadFault) as fault:
        OverlayDisk(root).open("topics/log").read(3, 2)
    assert (fault.value.path, fault.value.position) == ("topics/log", 3)


def test_nobody_looks_while_a_node_runs_and_none_starts_while_somebody_looks(root: Path) -> None:
    held = SystemDisk(root)
    with pytest.raises(BlockingIOError, match="in use by a node"):
        OverlayDisk(root)
    OverlayDisk(root, is_ours=True).close()
    held.close()
    looked_at, also = OverlayDisk(root), OverlayDisk(root)
    with pytest.raises(BlockingIOError):
        SystemDisk(root)
    looked_at.close()
    also.close()
    SystemDisk(root).close()

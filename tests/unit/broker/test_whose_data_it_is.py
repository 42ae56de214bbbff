"""A node removes logs of topics that its metadata does not know. So it must be sure that the metadata is its own."""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.broker.membership.identity import IDENTITY_FILE, Identity, Origin, WrongIdentity, load_or_create
from headrace.broker.metadata import quorum
from headrace.broker.metadata.store import METADATA_LOG, SNAPSHOT_FILE
from headrace.model.names import NodeId
from headrace.simulation.environment.device import Device
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files.checkpoints import RECOVERY_POINTS
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.layout import ANEW, directory_of
from headrace.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """What a node with one topic leaves behind."""
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders", partitions=2)
    return tmp_path / "data"


def logs_in(data_dir: Path) -> set[str]:
    return {path.name for path in (data_dir / "topics").iterdir() if path.name not in directory_of(METADATA_LOG)}


def refused(data_dir: Path) -> str:
    before = logs_in(data_dir)
    assert len(before) == 2
    with pytest.raises(WrongIdentity) as caught:
        Broker(data_dir=data_dir).start()
    assert logs_in(data_dir) == before, "a node that does not start must leave the data alone"
    return str(caught.value)


def test_a_metadata_log_that_was_taken_away_costs_no_data(data_dir: Path) -> None:
    shutil.rmtree(data_dir / directory_of(METADATA_LOG))
    assert "metadata log" in refused(data_dir)
    assert not (data_dir / directory_of(METADATA_LOG)).exists(), "a backup must find its place free"


@pytest.fixture
def data_dir_with_snapshot(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Path:
    monkeypatch.setattr(quorum, "SNAPSHOT_EVERY", 1)
    with Broker(data_dir=data_dir):
        pass
    assert (data_dir / SNAPSHOT_FILE).exists()
    return data_dir


def test_a_metadata_log_that_was_taken_away_is_missed_in_spite_of_its_snapshot(data_dir_with_snapshot: Path) -> None:
    shutil.rmtree(data_dir_with_snapshot / directory_of(METADATA_LOG))
    assert "metadata log" in refused(data_dir_with_snapshot)


def test_a_metadata_log_that_was_about_to_begin_after_its_snapshot_does_so(data_dir_with_snapshot: Path) -> None:
    """A crash came when the old one was gone. What was agreed on is in the snapshot."""
    directory = data_dir_with_snapshot / directory_of(METADATA_LOG)
    shutil.rmtree(directory)
    directory.with_name(directory.name + ANEW).mkdir()
    (data_dir_with_snapshot / RECOVERY_POINTS).unlink()
    before = logs_in(data_dir_with_snapshot) - {directory.name + ANEW}
    with Broker(data_dir=data_dir_with_snapshot) as broker:
        broker.create_topic("more", partitions=1)
    with Broker(data_dir=data_dir_with_snapshot):
        pass
    after = logs_in(data_dir_with_snapshot)
    assert before < after
    assert len(after) == 3


def test_a_metadata_log_that_was_emptied_costs_no_data(data_dir: Path) -> None:
    for path in (data_dir / directory_of(METADATA_LOG)).iterdir():
        path.unlink()
    (data_dir / "recovery-point-offset-checkpoint").unlink()  # which would have told
    assert "metadata log" in refused(data_dir)


@pytest.mark.parametrize("position", [3, 20, 80])  # an offset, the CRC, a record
def test_nobody_is_told_to_remove_a_damaged_metadata_log(data_dir: Path, position: int) -> None:
    (log,) = (data_dir / directory_of(METADATA_LOG)).glob("*.log")
    content = bytearray(log.read_bytes())
    content[position] ^= 0xFF
    log.write_bytes(content)
    with pytest.raises(DamagedLog, match="do not remove it"):
        Broker(data_dir=data_dir).start()
    assert len(logs_in(data_dir)) == 2


def test_another_clusters_metadata_is_refused(data_dir: Path, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "other"):
        pass
    ours, theirs = data_dir / directory_of(METADATA_LOG), tmp_path / "other" / directory_of(METADATA_LOG)
    shutil.rmtree(ours)
    shutil.copytree(theirs, ours)
    (data_dir / "recovery-point-offset-checkpoint").unlink()
    assert "another data directory" in refused(data_dir)


def test_a_node_does_not_start_on_the_data_of_another() -> None:
    disk = SimulatedDisk(Device(Random(1)))
    ours = load_or_create(disk, NodeId(3), "cluster", b"d" * 16, Origin.ALONE)
    for wanted in (NodeId(3), None):
        assert load_or_create(disk, wanted, "another", b"e" * 16, Origin.ALONE) == ours
    with pytest.raises(WrongIdentity, match="belongs to node 3, not to node 4; start it with --node-id 3"):
        load_or_create(disk, NodeId(4), "another", b"e" * 16, Origin.ALONE)


@pytest.mark.parametrize("content", [b"", b"x", b"\xff", b"version=1\ncluster.id=a\nnode.id=-5"])
def test_an_identity_that_makes_no_sense_is_refused(content: bytes) -> None:
    with pytest.raises(WrongIdentity, match=IDENTITY_FILE):
        Identity.decode(content)

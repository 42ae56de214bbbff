"""What a voter must never forget: also on a full disk, and through a crash in the middle of writing it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.broker.metadata.votes import FILE, REWRITE_BYTES, VoteFile
from headrace.model.names import NodeId
from headrace.raft.log import Term
from headrace.raft.membership import ReplicaKey
from headrace.raft.ready import HardState
from headrace.runtime.disk import SystemDisk
from headrace.simulation.environment.device import Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files.damage import DamagedLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VOTE = ReplicaKey(NodeId(2), b"d" * 16)
EARLIER, LATER = HardState(Term(4), VOTE), HardState(Term(5))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    disk = SystemDisk(tmp_path)
    yield disk
    disk.close()


def saved(disk: SystemDisk, *ballots: HardState) -> None:
    box = VoteFile(disk)
    box.load()
    for ballot in ballots:
        box.save(ballot)
    box.close()


def found(disk: SystemDisk) -> HardState | None:
    box = VoteFile(disk)
    ballot = box.load()
    box.close()
    return ballot


def test_the_last_one_counts(disk: SystemDisk) -> None:
    assert found(disk) is None
    saved(disk, EARLIER)
    assert found(disk) == EARLIER
    saved(disk, LATER)
    assert found(disk) == LATER


def test_a_disk_counts_its_starts_and_an_older_copy_counts_alike(disk: SystemDisk, tmp_path: Path) -> None:
    lives = []
    for _ in range(3):
        box = VoteFile(disk)
        box.load()
        box.save(LATER)
        lives.append(box.life)
        box.close()
        if len(lives) == 1:
            older = (tmp_path / FILE).read_bytes()
    assert lives == [1, 2, 3]
    (tmp_path / FILE).write_bytes(older)
    box = VoteFile(disk)
    box.load()
    assert box.life == 2
    box.close()


def test_a_torn_line_was_never_told_to_anybody(disk: SystemDisk, tmp_path: Path) -> None:
    saved(disk, EARLIER)
    whole = (tmp_path / FILE).read_bytes()
    saved(disk, LATER)
    both = (tmp_path / FILE).read_bytes()
    for size in range(len(whole), len(both)):
        (tmp_path / FILE).write_bytes(both[:size])
        assert found(disk) == EARLIER
        saved(disk, LATER)
        assert found(disk) == LATER


def test_damage_is_no_reason_to_vote_again(disk: SystemDisk, tmp_path: Path) -> None:
    saved(disk, EARLIER)
    (tmp_path / FILE).write_bytes(b"X" + (tmp_path / FILE).read_bytes()[1:])
    with pytest.raises(DamagedLog, match=r"at byte 0 .*voted for is damaged"):
        found(disk)


def test_more_than_a_few_torn_lines_are_damage(disk: SystemDisk, tmp_path: Path) -> None:
    saved(disk, EARLIER, *[LATER] * 50)
    content = (tmp_path / FILE).read_bytes()
    first = content.index(b"\n") + 1
    (tmp_path / FILE).write_bytes(content[:first] + bytes(len(content) - first))
    with pytest.raises(DamagedLog, match=rf"at byte {first} .*voted for is damaged"):
        found(disk)


@pytest.mark.parametrize("seed", range(40))
def test_what_a_failed_flush_left_in_memory_may_be_a_hole_later(seed: int) -> None:
    device = Device(Random(seed))
    box = VoteFile(SimulatedDisk(device))
    for term in range(seed % 10 + 1):  # so that lines lie differently over the sectors
        box.save(HardState(Term(term), VOTE))
    device.fail(Operation.SYNC, FILE)
    with pytest.raises(OSError, match="Input/output"):
        box.save(HardState(Term(100), VOTE))
    device.heal()
    assert VoteFile(SimulatedDisk(device)).load() == HardState(Term(100), VOTE), "as the next process finds it"
    device.power_cut()
    assert VoteFile(SimulatedDisk(device)).load() == HardState(Term(100), VOTE)


def test_it_does_not_grow_without_end(disk: SystemDisk, tmp_path: Path) -> None:
    saved(disk, *[HardState(Term(term), VOTE) for term in range(1, 1500)])
    assert (tmp_path / FILE).stat().st_size < 2 * REWRITE_BYTES
    assert found(disk) == HardState(Term(1499), VOTE)

"""The audit's file on a real disk: whole lines, a bounded number of files, for the owner alone."""

from __future__ import annotations

import errno
import json
import stat
from typing import TYPE_CHECKING

import pytest

from headrace.access.audit import AuditEvent, Outcome
from headrace.access.identity import USER, Identity, Principal
from headrace.broker.access.audit_file import AUDIT_FILE, AuditFile
from headrace.broker.access.audit_lines import Noted, line_of
from headrace.model.names import NodeId
from headrace.runtime.disk import SystemDisk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    opened = SystemDisk(tmp_path / "data")
    yield opened
    opened.close()


def lines(disk: SystemDisk, name: str = AUDIT_FILE) -> list[bytes]:
    return (disk.root / name).read_bytes().splitlines()


def test_lines_follow_each_other_also_after_a_restart(disk):
    for line in (b"one", b"two"):
        file = AuditFile(disk, 1000, 2)
        file.write([line])
        file.close()
    assert lines(disk) == [b"one", b"two"]
    assert stat.S_IMODE((disk.root / AUDIT_FILE).stat().st_mode) == 0o600


def test_a_large_file_makes_way_and_so_many_are_kept(disk):
    file = AuditFile(disk, 100, 3)
    for number in range(50):
        file.write([b"%09d" % number] * 5)  # 50 bytes
    names = sorted(path.name for path in disk.root.glob(f"{AUDIT_FILE}*"))
    assert names == [AUDIT_FILE, f"{AUDIT_FILE}.1", f"{AUDIT_FILE}.2"]
    assert lines(disk)[-1] == b"%09d" % 49
    kept = [line for name in reversed(names) for line in lines(disk, name)]
    assert kept == [b"%09d" % number for number in range(44, 50) for _ in range(5)]


def test_files_of_a_larger_setting_go(disk):
    for number in (1, 2, 7, 40):
        (disk.root / f"{AUDIT_FILE}.{number}").write_bytes(b"old\n")
    file = AuditFile(disk, 10, 2)
    file.write([b"0123456789"])
    file.write([b"9876543210"])
    assert sorted(path.name for path in disk.root.glob(f"{AUDIT_FILE}*")) == [AUDIT_FILE, f"{AUDIT_FILE}.1"]
    assert lines(disk, f"{AUDIT_FILE}.1") == [b"0123456789"]


def test_one_file_begins_anew(disk):
    file = AuditFile(disk, 10, 1)
    for line in (b"0123456789", b"9876543210"):
        file.write([line])
    assert lines(disk) == [b"9876543210"]


def test_half_a_line_of_a_crash_stays_alone(disk):
    (disk.root / AUDIT_FILE).write_bytes(b'{"half":')
    AuditFile(disk, 1000, 2).write([b"whole"])
    assert lines(disk) == [b'{"half":', b"whole"]


def test_a_full_disk_leaves_no_half_line_and_says_so(disk, monkeypatch):
    file = AuditFile(disk, 1000, 2)
    file.write([b"before"])
    opened = file._file
    write = opened._write
    monkeypatch.setattr(type(opened), "_write", lambda self, part, position: write([part[0][:3]], position))
    with pytest.raises(OSError) as full:
        file.write([b"does not fit"])
    assert full.value.errno == errno.ENOSPC
    assert file.try_to_write([b"neither"])
    monkeypatch.undo()
    assert file.try_to_write([b"after"]) == ""
    assert lines(disk) == [b"before", b"after"]


def test_a_line_says_who_from_where_what_and_how_it_ended():
    event = AuditEvent(
        "CreateTopics",
        Identity(Principal(USER, "alice"), "10.0.0.7"),
        Outcome.DONE,
        "topic 'orders'",
        "3 partitions",
        "tool",
        "CLIENTS",
    )
    assert json.loads(line_of(Noted(event, 1_700_000_000_123, NodeId(2), 5, 0))) == {
        "time": "2023-11-14T22:13:20.123Z",
        "node": 2,
        "sequence": 5,
        "action": "CreateTopics",
        "outcome": "done",
        "principal": "User:alice",
        "host": "10.0.0.7",
        "client_id": "tool",
        "listener": "CLIENTS",
        "resource": "topic 'orders'",
        "detail": "3 partitions",
    }


def test_nobody_writes_lines_of_their_own_or_to_a_terminal():
    forged = 'x"}\n{"action":"Login","outcome":"done"}\x1b[2J\u2028ü'
    event = AuditEvent("Fetch", Identity(Principal(USER, forged), forged), Outcome.REFUSED, forged, forged, forged)
    line = line_of(Noted(event, 0, NodeId(1), 1, 3))
    assert line.isascii()
    assert line.decode().isprintable()
    assert json.loads(line)["principal"] == f"User:{forged}"
    assert json.loads(line)["repeated"] == 3

"""Term and vote on disk: a line for each change, and the last one counts.

It is written with every election, also when the disk is full: a node must be able to start on one, or nobody could ever
delete anything there. So lines are appended to a file that has space kept aside, instead of the file being replaced.
A line that a crash has torn was never flushed, so nobody was told of it. Nor was one that the disk refused to flush: it
can be read as long as the machine is up, and may be a hole later, in front of lines that are whole.
"""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from headrace.model.names import NodeId
from headrace.raft.log import Term
from headrace.raft.membership import ReplicaKey
from headrace.raft.ready import HardState
from headrace.storage.files.damage import DamagedLog

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk, File

FILE: Final = "quorum-state"
RESERVE_BYTES: Final = 16 << 10  # a hundred elections without a byte of free space
UNFLUSHED_MAX: Final = 1 << 10  # bytes behind the last whole line: each start whose flush fails leaves one more
FORGOTTEN: Final = (
    "A voter that has forgotten its vote might vote twice. If other nodes of the cluster run, start this one with an "
    "empty data directory, and it fetches everything from them"
)
REWRITE_BYTES: Final = 64 << 10  # by then it is worth to begin anew, with the last line alone


class _Line(NamedTuple):
    hard_state: HardState
    life: int
    end: int
    """Where it ends in the file."""


class VoteFile:
    """Its calls block."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file: File | None = None
        self.life = 1
        """How often this disk was started. `load` counts on: it has to write anyway, also on a disk that is full."""

    def load(self) -> HardState | None:
        """None if nothing was ever saved. DamagedLog if it cannot be told whom this node voted for."""
        if not self._disk.exists(FILE):
            return None
        content = self._disk.read_file(FILE)
        last: _Line | None = None
        end = 0
        for line in content.splitlines(keepends=True):
            end += len(line)
            decoded = _decoded(line)
            if decoded is not None:
                last = _Line(*decoded, end)
        if last is None or len(content) - last.end > UNFLUSHED_MAX:
            position = 0 if last is None else last.end
            problem = "the file that says whom this node voted for is damaged"
            raise DamagedLog(FILE, position, 0, problem, advice=f"{FORGOTTEN}. If it is alone, remove the file")
        self._file = self._disk.open(FILE)
        if last.end < len(content):
            self._file.truncate(last.end)
        # Once more: after a flush that failed, what can be read need not be on the device. On a line of its own, for
        # what is not may have no end.
        self.life = last.life + 1
        self._append(b"\n" + encode_hard_state(last.hard_state, self.life))
        return last.hard_state

    def save(self, hard_state: HardState) -> None:
        """On the device when it returns. OSError if the disk fails, or is full for too long."""
        line = encode_hard_state(hard_state, self.life)
        if self._file is None or (self._file.size() >= REWRITE_BYTES and self._disk.free_bytes() > REWRITE_BYTES):
            self._begin_with(line)
        else:
            self._append(line)

    def _append(self, line: bytes) -> None:
        assert self._file is not None
        if self._file.append([line]) < len(line):
            raise OSError(errno.ENOSPC, "no space is left for a vote")
        self._file.sync()
        self._file.reserve(RESERVE_BYTES)

    def _begin_with(self, line: bytes) -> None:
        self.close()
        self._disk.replace_file(FILE, line)
        self._file = self._disk.open(FILE)
        self._file.reserve(RESERVE_BYTES)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def encode_hard_state(hard_state: HardState, life: int) -> bytes:
    """One line of the file."""
    vote = None
    if hard_state.vote is not None:
        vote = {"node": hard_state.vote.node_id, "directory": hard_state.vote.directory.hex()}
    text = json.dumps({"term": hard_state.term, "vote": vote, "life": life}).encode()
    return b"%s %08x\n" % (text, crc32c(text))


def _decoded(line: bytes) -> tuple[HardState, int] | None:
    """Term and vote, and the life in which it was written; None if the line is not whole."""
    text, _, checksum = line.rpartition(b" ")
    if checksum != b"%08x\n" % crc32c(text):
        return None
    fields = json.loads(text)
    vote = fields["vote"]
    voted_for = None if vote is None else ReplicaKey(NodeId(vote["node"]), bytes.fromhex(vote["directory"]))
    return HardState(Term(fields["term"]), voted_for), fields.get("life", 0)  # disks did not always count

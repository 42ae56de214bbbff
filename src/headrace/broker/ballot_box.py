"""The ballot on disk: a line for each change, and the last one counts.

It is written with every election, also when the disk is full: a node must be able to start on one, or nobody could ever
delete anything there. So lines are appended to a file that has space kept aside, instead of the file being replaced.
A line that a crash has torn was never flushed, so nobody was told of it.
"""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headrace.model.names import NodeId
from headrace.raft.log import Term
from headrace.raft.membership import Replica
from headrace.raft.ready import Ballot
from headrace.storage.damage import DamagedLog

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk, File

FILE: Final = "quorum-state"
RESERVE_BYTES: Final = 16 << 10  # a hundred elections without a byte of free space
REWRITE_BYTES: Final = 64 << 10  # by then it is worth to begin anew, with the last line alone


class BallotBox:
    """Its calls block."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file: File | None = None

    def load(self) -> Ballot | None:
        """None if nothing was ever saved. DamagedLog if it cannot be told whom this node voted for."""
        if not self._disk.exists(FILE):
            return None
        lines = self._disk.read_file(FILE).splitlines(keepends=True)
        ballots = [_decoded(line) for line in lines]
        whole = next((place for place, ballot in enumerate(ballots) if ballot is None), len(ballots))
        if whole == 0 or whole < len(ballots) - 1:  # only the last one can have been torn
            position = sum(map(len, lines[:whole]))
            raise DamagedLog(FILE, position, 0, "the file that says whom this node voted for is damaged")
        self._file = self._disk.open(FILE)
        if whole < len(lines):
            self._file.truncate(sum(map(len, lines[:whole])))
        # Once more: after a flush that failed, what can be read need not be on the device.
        self._append(lines[whole - 1])
        return ballots[whole - 1]

    def save(self, ballot: Ballot) -> None:
        """On the device when it returns. OSError if the disk fails, or is full for too long."""
        line = _encoded(ballot)
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


def _encoded(ballot: Ballot) -> bytes:
    vote = None
    if ballot.vote is not None:
        vote = {"node": ballot.vote.node_id, "directory": ballot.vote.directory.hex()}
    text = json.dumps({"term": ballot.term, "vote": vote}).encode()
    return b"%s %08x\n" % (text, crc32c(text))


def _decoded(line: bytes) -> Ballot | None:
    """None if it is not whole."""
    text, _, checksum = line.rpartition(b" ")
    if checksum != b"%08x\n" % crc32c(text):
        return None
    fields = json.loads(text)
    vote = fields["vote"]
    return Ballot(
        Term(fields["term"]), None if vote is None else Replica(NodeId(vote["node"]), bytes.fromhex(vote["directory"]))
    )

"""Ports for the nodes of tests: none is given to two at once, however many processes run tests at the same time.

To ask the system for any free port is not enough: a node binds it only after a while, or leaves it for as long as it
is down, and by then another process may have been given the same one.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from functools import cache
from pathlib import Path

FIRST_PORT = 15_000
LAST_PORT = 31_999
"""Below those that the system gives to clients: a client that tries again and again while the node is down could
otherwise be given the node's own port, connect to itself and keep the node from coming back."""
PORTS_PER_PROCESS = 1_000  # far more than nodes of one process are alive at a time, so that it may begin again


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    return [_own_ports().take(1) for _ in range(count)]


def free_row(length: int) -> int:
    """The first of so many ports in a row."""
    return _own_ports().take(length)


class _Ports:
    """A part of all ports that this process has for itself, as long as it lives."""

    def __init__(self, first: int) -> None:
        self._first = self._next = first
        self._end = first + PORTS_PER_PROCESS

    def take(self, length: int) -> int:
        for _ in range(2 * PORTS_PER_PROCESS):
            if self._next + length > self._end:
                self._next = self._first
            row = range(self._next, self._next + length)
            self._next += 1
            if all(map(_is_free, row)):
                self._next = row.stop
                return row.start
        raise RuntimeError(f"no {length} free ports in a row between {self._first} and {self._end}")


@cache
def _own_ports() -> _Ports:
    claims = Path(tempfile.gettempdir(), f"headrace-test-ports-{os.getuid()}")
    claims.mkdir(exist_ok=True)
    for first in range(FIRST_PORT, LAST_PORT + 1, PORTS_PER_PROCESS):
        claim = os.open(claims / str(first), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(claim)
        else:
            return _Ports(first)  # the lock goes when the process ends: the file is never closed before
    raise RuntimeError(f"all ports for tests are taken by other processes: see who holds the files in {claims}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a node does it
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True

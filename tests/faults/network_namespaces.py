"""A small network of a test's own: hosts in namespaces, joined by a router that can drop what one sends to another.

Nothing of the machine's own network is touched. A packet that is dropped leaves no trace, as on a line that was cut;
what is under way in the other direction still arrives.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CLIENTS: Final = "clients"
CLONE_NEWNET: Final = 0x40000000
NAMESPACES: Final = Path("/run/netns")  # where `ip netns` keeps them


def why_no_namespaces() -> str | None:
    """Why there can be no networks of our own here, None if there can."""
    if os.geteuid() != 0:
        return "a network of its own needs root"
    missing = [tool for tool in ("ip", "nsenter") if shutil.which(tool) is None]
    return f"a network of its own needs {' and '.join(missing)}" if missing else None


needs_namespaces = pytest.mark.skipif(why_no_namespaces() is not None, reason=str(why_no_namespaces()))


class Way(NamedTuple):
    senders: Sequence[str]
    receivers: Sequence[str]


class HostNetwork:
    """Use it with `with`: the code inside, and the threads that it starts, run on a host of their own, `CLIENTS`."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._prefix = f"headrace-{token_hex(3)}"
        self._addresses = {host: f"10.99.{number}.2" for number, host in enumerate((CLIENTS, *hosts), 1)}

    def __enter__(self) -> HostNetwork:
        try:
            self._build()
        except subprocess.CalledProcessError as refusal:
            self._remove()
            pytest.skip(f"this machine does not let us have a network of our own: {refusal.stderr.strip()}")
        self._here = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
        _enter(os.open(NAMESPACES / self._namespace(CLIENTS), os.O_RDONLY))
        return self

    def __exit__(self, *_: object) -> None:
        _enter(self._here)
        self._remove()

    def address(self, host: str) -> str:
        return self._addresses[host]

    def command_at(self, host: str) -> tuple[str, ...]:
        """What to put before a command, so that it runs on a host.

        Not `ip netns exec`: what runs under that has mounts of its own as well, copies of all that there were. A disk
        of another test could not be unmounted for as long as they are there.
        """
        return ("nsenter", f"--net={NAMESPACES / self._namespace(host)}")

    @contextmanager
    def cut(self, ways: Iterable[Way]) -> Iterator[None]:
        """Meanwhile nothing that a sender sends reaches any of its receivers."""
        cut = [(sender, receiver) for senders, receivers in ways for sender, receiver in product(senders, receivers)]
        for way in cut:
            self._rule("add", *way)
        try:
            yield
        finally:
            for way in cut:
                self._rule("delete", *way)

    def _rule(self, action: str, sender: str, receiver: str) -> None:
        way = ("from", self._addresses[sender], "to", self._addresses[receiver], "blackhole")
        _ip("-n", self._namespace("router"), "rule", action, *way)

    # ---- building

    def _namespace(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def _build(self) -> None:
        router = self._namespace("router")
        _ip("netns", "add", router)
        _run(*self.command_at("router"), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for number, host in enumerate(self._addresses, 1):
            self._connect(host, f"to-{number}", router)

    def _connect(self, host: str, line: str, router: str) -> None:
        namespace, address = self._namespace(host), self._addresses[host]
        gateway = f"{address.rpartition('.')[0]}.1"
        _ip("netns", "add", namespace)
        _ip("link", "add", line, "netns", router, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("-n", router, "addr", "add", f"{gateway}/24", "dev", line)
        _ip("-n", router, "link", "set", line, "up")
        _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", namespace, "link", "set", "lo", "up")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        _ip("-n", namespace, "route", "add", "default", "via", gateway)

    def _remove(self) -> None:
        for host in ("router", *self._addresses):
            if (NAMESPACES / self._namespace(host)).exists():
                _ip("netns", "delete", self._namespace(host))


def _enter(namespace: int) -> None:
    """This thread, and those that it starts from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.setns(namespace, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "a network namespace cannot be entered")
    finally:
        os.close(namespace)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)

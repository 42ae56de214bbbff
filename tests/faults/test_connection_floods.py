"""Connections that are only there, and others that come and go as fast as they can: a client that works is served.

The long one prints what the client and the node's memory felt of it (`pytest -m long -s`).
"""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import statistics
import struct
import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.api_versions import ApiVersionsRequest
from tests.certificates import Certificates
from tests.faults.attacks.apart import Apart
from tests.faults.hostile import HEALTHY_TOPIC, WatchedNode, one_batch, watched_node
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.attacks.apart import Line

HERE = "127.0.0.1"
ASK = encode_request(RequestHeader(ApiVersionsRequest.API_KEY, 0, 1, "flood"), ApiVersionsRequest())
IDLE = 300
IDLE_LONG = 10_000
PER_ADDRESS = 5000  # of a crowd: one address has 28,000 ports
IDLE_TLS_KIB_MAX = 64
IDLE_KIB_MAX = 24  # what a connection may cost that has said a few words and is silent now
ANSWERED_S_MAX = 5.0  # against hangs: nothing is measured by it


@pytest.fixture(scope="module", autouse=True)
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def trusting_anybody() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def flood(line: Line, *, port: int, address: str, with_tls: bool) -> int:
    """Connections that come and go, one after another: some ask, some begin to, some say nothing, some vanish."""
    context = trusting_anybody()
    line.wait_begin()
    came = 0
    while not line.is_over.is_set():
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            link: socket.socket = socket.create_connection((HERE, port), ANSWERED_S_MAX, source_address=(address, 0))
            opened.callback(link.close)
            came += 1
            line.struck()
            if with_tls and came % 4:
                link = context.wrap_socket(link)
                opened.callback(link.close)
            if came % 3:
                link.sendall(ASK[: len(ASK) if came % 2 else 7])
            if came % 6 == 1:  # it has asked
                link.recv(1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # vanish; the port is free
    return came


class Worker:
    """The client that works: it writes a record and reads it, again and again."""

    def __init__(self, node: WatchedNode) -> None:
        self._client = node.connect()
        self.took_s: list[float] = []

    def work(self, seconds: float) -> None:
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            began_s = time.monotonic()
            written = self._client.produce(HEALTHY_TOPIC, one_batch())
            assert written.error_code == 0
            read = self._client.fetch(HEALTHY_TOPIC, written.base_offset, max_wait_ms=1000, min_bytes=1)
            assert read.records
            self.took_s.append(time.monotonic() - began_s)

    def told(self) -> str:
        ms = [1000 * took_s for took_s in self.took_s]
        p99 = statistics.quantiles(ms, n=100)[98]
        return f"{len(ms)} rounds, median {statistics.median(ms):.1f} ms, p99 {p99:.1f} ms, longest {max(ms):.1f} ms"


def crowd_of(port: int, count: int, crowd: contextlib.ExitStack, context: ssl.SSLContext | None = None) -> None:
    """Connections that have asked once, and say nothing more."""
    for number in range(count):
        source = (f"127.0.1.{1 + number // PER_ADDRESS}", 0)
        link: socket.socket = socket.create_connection((HERE, port), ANSWERED_S_MAX, source_address=source)
        crowd.callback(link.close)
        if context is not None:
            link = context.wrap_socket(link)
            crowd.callback(link.close)
        link.sendall(ASK)
        assert link.recv(1), "it is served"


def as_many_as_the_system_bears() -> int:
    """A node keeps a quarter of its descriptors for logs, and two for each connection; some are for the flood."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (soft - soft // 4 - 2000) // 2


def served_while_flooded(node: WatchedNode, floods: list[dict[str, Any]], seconds: float) -> Worker:
    worker = Worker(node)
    with contextlib.ExitStack() as attackers:
        apart = [attackers.enter_context(Apart(flood, **options)) for options in floods]
        for one in apart:
            one.hear("ready")
            one.tell("begin")
            one.hear("struck")
        worker.work(seconds)
        for one, options in zip(apart, floods, strict=True):
            one.tell("end")
            came = one.hear("result")
            print(f"\n{came / seconds:.0f} connections/s from {options['address']}")
            assert came
    assert max(worker.took_s) < ANSWERED_S_MAX
    return worker


def test_a_client_is_served_while_connections_come_and_go(tmp_path: Path) -> None:
    with watched_node(tmp_path) as node:
        grows_mib = IDLE * IDLE_KIB_MAX / 1024 + 20
        with node.attacked(grows_mib=grows_mib), contextlib.ExitStack() as crowd:
            crowd_of(node.port, IDLE, crowd)
            options = {"port": node.port, "address": "127.0.0.2", "with_tls": False}
            print(f"\n{served_while_flooded(node, [options], seconds=2.0).told()}")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_thousand_idle_connections_and_a_flood_do_not_stop_a_client(tmp_path: Path) -> None:
    """Over a plain listener and one with TLS, on a system that gives a process 30,000 descriptors; else fewer."""
    (tls_port,) = free_ports(1)
    certificates = Certificates(tmp_path)
    held = certificates.issue("node")
    configs = {
        "max.connections": str(IDLE_LONG + 1000),
        "listeners": f"PLAINTEXT://{HERE}:0,SSL://{HERE}:{tls_port}",
        "ssl.keystore.location": str(held.certificate),
        "ssl.key.location": str(held.key),
    }
    with watched_node(tmp_path, **configs) as node, contextlib.ExitStack() as crowd:
        calm = Worker(node)
        calm.work(5.0)
        print(f"\nalone: {calm.told()}")
        before_mib, each = node.memory_mib(), min(IDLE_LONG, as_many_as_the_system_bears()) // 2
        for port, context in ((node.port, None), (tls_port, trusting_anybody())):
            with_mib = node.memory_mib()
            crowd_of(port, each, crowd, context)
            cost_kib = (node.memory_mib() - with_mib) * 1024 / (each)
            print(f"{cost_kib:.1f} KiB for each of {each} idle connections{' with TLS' if context else ''}")
        floods = [
            {"port": node.port, "address": "127.0.0.2", "with_tls": False},
            {"port": tls_port, "address": "127.0.0.3", "with_tls": True},
        ]
        worker = served_while_flooded(node, floods, seconds=20.0)
        print(f"beside all of them: {worker.told()}; the node has {node.memory_mib():.0f} MiB")
        assert node.peak_mib() < before_mib + each * (IDLE_KIB_MAX + IDLE_TLS_KIB_MAX) / 1024 + 64
        node.check_log()

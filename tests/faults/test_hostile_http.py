"""The HTTP port under bad input: each request gets an answer or a closed connection, and probes always get through."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from tests.faults.hostile import MIB, PATIENCE_S, WatchedNode, watched_node

if TYPE_CHECKING:
    from collections.abc import Iterator

LIVE = b"GET /livez HTTP/1.1\r\nHost: node\r\n\r\n"
LAST = b"GET /livez HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    with watched_node(tmp_path_factory.mktemp("http")) as watched:
        yield watched


def connect(node: WatchedNode) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.http_port), timeout=PATIENCE_S)


def exchange(node: WatchedNode, request: bytes) -> bytes:
    """Everything that comes back until the connection is closed."""
    with connect(node) as http:
        with suppress(BrokenPipeError, ConnectionResetError):
            http.sendall(request)
        return everything(http)


def everything(http: socket.socket) -> bytes:
    gathered = b""
    with suppress(ConnectionResetError):
        while piece := http.recv(MIB):
            gathered += piece
    return gathered


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /livez\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",  # no Host
        b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\n\x00: b\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 5 * MIB,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
        b"\r\n" * 1000 + b"\0",
        b"HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(node: WatchedNode, request_: bytes) -> None:
    with node.attacked():
        answer = exchange(node, request_)
        last = answer[answer.rfind(b"HTTP/1.1 ") :]
        assert not last or 400 <= status(last) < 600


@pytest.mark.parametrize("before", [b"", LIVE, LIVE.replace(b"GET", b"HEAD")])
def test_a_head_whose_body_is_nonsense_is_refused_without_a_body(node: WatchedNode, before: bytes) -> None:
    with node.attacked():
        chunked = b"HEAD /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabc\r\n5\r\n"
        answer = exchange(node, before + chunked)
        last = answer[answer.rfind(b"HTTP/1.1 ") :]
        assert status(last) == 400
        assert last.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (LAST, 200),
        (LAST.replace(b"GET", b"HEAD"), 200),
        (LAST.replace(b"/livez", b"/livez?x=1"), 200),
        (LAST.replace(b"/livez", b"/../../etc/passwd"), 404),
        (LAST.replace(b"/livez", b"/%2e%2e"), 404),
        (LAST.replace(b"/livez", b"http://other/livez"), 404),
        (LAST.replace(b"/livez", b"/" + b"x" * 10_000), 404),
        (LAST.replace(b"GET", b"POST"), 405),
        (LAST.replace(b"GET", b"DELETE"), 405),
        (LAST.replace(b"GET", b"X" * 1000), 405),
        (LAST[:-2] + b"Content-Length: 5\r\n\r\nhello", 200),
        (LAST[:-2].replace(b"GET", b"PUT") + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", 417),
        (b"GET /livez HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_what_is_http_is_answered(node: WatchedNode, request_: bytes, expected: int) -> None:
    with node.attacked():
        assert status(exchange(node, request_)) == expected


def test_pipelined_requests_are_answered_one_by_one(node: WatchedNode) -> None:
    with node.attacked():
        answer = exchange(node, LIVE * 2000 + LAST)
        assert answer.count(b"HTTP/1.1 200") == 2001


def test_a_client_that_never_reads_its_metrics_has_to_wait(node: WatchedNode) -> None:
    request = LIVE.replace(b"/livez", b"/metrics") * 1000
    with node.attacked(), connect(node) as http:
        http.settimeout(1.0)
        with suppress(TimeoutError):
            while True:
                http.send(request)


def test_an_endless_body_is_cut_off(node: WatchedNode) -> None:
    with node.attacked(), connect(node) as http:
        http.sendall(b"POST /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            http.sendall(chunk * 2000)


def test_silent_connections_do_not_keep_a_probe_out(node: WatchedNode) -> None:
    with node.attacked(), ExitStack() as crowd:
        silent = [crowd.enter_context(connect(node)) for _ in range(600)]
        silent[-1].sendall(LIVE[:10])
        for _ in range(20):
            assert status(exchange(node, LAST)) == 200
        assert node.process.readiness()[0] == 200


def test_requests_that_come_byte_by_byte_and_leave_early(node: WatchedNode) -> None:
    with node.attacked():
        with connect(node) as http:
            for place in range(len(LAST)):
                http.sendall(LAST[place : place + 1])
            assert status(everything(http)) == 200
        for size in range(0, len(LIVE), 3):
            with connect(node) as http:
                http.sendall(LIVE[:size])
        time.sleep(0.05)

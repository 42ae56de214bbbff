"""The listener of health and metrics: any bytes, in any pieces, on one connection.

An input begins with a byte that says in what pieces the rest arrives.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from headrace.servers.console.server import BODY_MAX, RECEIVE_BYTES, ConsoleServer, HttpConnection
from tests.fuzz.harness import Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PIECES: Final = (RECEIVE_BYTES, 1, 5, 100)
STATUSES: Final = {b"200", b"400", b"404", b"405", b"413", b"414", b"417", b"431", b"501", b"503", b"505"}

_loop = asyncio.new_event_loop()


class Wire:
    """A link whose other end reads everything at once."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.queued_bytes = 0
        self.is_closed = False

    def send(self, chunks: Sequence[bytes]) -> None:
        assert not self.is_closed, "it answers after it has hung up"
        self.sent.append(b"".join(chunks))

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def play(data: bytes) -> None:
    if data:
        _loop.run_until_complete(_play(data[1:], PIECES[data[0] % len(PIECES)]))


async def _play(stream: bytes, piece: int) -> None:
    connection, wire = _connection()
    position = 0
    while position < len(stream) and not wire.is_closed:
        room = connection.buffer()
        count = min(piece, len(room), len(stream) - position)
        room[:count] = stream[position : position + count]
        position += count
        connection.received(count)
        await asyncio.sleep(0)  # one request is answered in a turn
    for answer in wire.sent:
        assert answer.startswith(b"HTTP/1.1 ")
        assert answer[9:12] in STATUSES, answer[:60]
    assert connection._body_bytes <= BODY_MAX + RECEIVE_BYTES
    connection.disconnected(None)
    await asyncio.sleep(0)


def _connection() -> tuple[HttpConnection, Wire]:
    world: Any = SimpleNamespace()
    health: Any = SimpleNamespace(is_ready=False, why_not_serving="it starts")
    connection, wire = HttpConnection(ConsoleServer(world, health)), Wire()
    connection.connected(wire)  # type: ignore[arg-type]
    return connection, wire


def seeds() -> Iterator[bytes]:
    host = b"Host: a\r\n\r\n"
    for request in (
        b"GET /livez HTTP/1.1\r\n" + host,
        b"HEAD /readyz?x=1 HTTP/1.1\r\n" + host,
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n" + host + b"GET /nothing HTTP/1.1\r\n" + host,
        b"POST /livez HTTP/1.1\r\nContent-Length: 3\r\n" + host + b"abc",
        b"POST /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + host + b"3\r\nabc\r\n0\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n" + host,
        b"GET /livez HTTP/1.1\r\nConnection: close\r\n" + host + b"more",
        b"GET http://a/livez HTTP/1.1\r\nUpgrade: x\r\nConnection: upgrade\r\n" + host,
        b"CONNECT a:1 HTTP/1.1\r\n" + host,
        b"OPTIONS * HTTP/1.1\r\n" + host,
    ):
        for piece in (0, 1):
            yield bytes([piece]) + request


TARGET: Final = Target("http", play, seeds, bytes_max=2_048, share=0.5)

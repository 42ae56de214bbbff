"""Byte streams between processes.

A `Receiver` is what a server or client does with the bytes that come in; a `Link` is where it puts the bytes that go
out. The outbound side is one queue of byte strings and leased file slices: a slice leaves by `sendfile`, so a fetched
record never enters Python. The simulator has the same two shapes over a network that delays, cuts and loses.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.runtime.disk import FileSlice, ReadFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Chunk = bytes | bytearray | memoryview | FileSlice

GATHER_MAX = 512  # byte strings per system call; IOV_MAX is 1024
SENDFILE_SLICE = 1 << 20  # one slow reader may hold the loop for one of these, not for a whole answer
BACKLOG = 128  # also how many are taken in one turn, before anybody can refuse them


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PeerCertificate(NamedTuple):
    """What the other side has shown, and proved to have the key of."""

    subject: str
    """As RFC 2253 and Java write it, the last part first: `CN=node-1,OU=streams`."""
    names: tuple[str, ...] = ()
    """Other names that it was issued for, each with its kind: `DNS:host`, `IP Address:10.0.0.1`, `URI:urn:x`."""
    serial: str = ""


class Link(Protocol):
    """The outbound side of one connection."""

    peer: Address
    local: Address
    since_s: float
    """When the connection was made, before any handshake over it; by the loop's time."""

    @property
    def certificate(self) -> PeerCertificate | None:
        """None where the other side has shown none, as everybody without TLS."""
        ...

    @property
    def queued_bytes(self) -> int: ...

    def send(self, chunks: Iterable[Chunk]) -> None:
        """Queue chunks in order. File slices become the link's to release. Ignored once the link is closed or gone."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Close when everything queued has left."""
        ...

    def abort(self) -> None:
        """Close now and drop what is queued."""
        ...


class Receiver(Protocol):
    """The inbound side of one connection. Called on the loop, in the order below."""

    def connected(self, link: Link) -> None: ...

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        ...

    def received(self, count: int) -> None:
        """The first `count` bytes of the last `buffer()` are filled."""
        ...

    def drained(self) -> None:
        """The outbound queue is empty again after it had to wait for the peer."""
        ...

    def disconnected(self, error: Exception | None) -> None:
        """Always the last call; no more bytes in or out."""
        ...


class Listener(Protocol):
    address: Address

    async def close(self) -> None:
        """Take no more connections; those that exist stay."""
        ...


class Network(Protocol):
    async def listen(self, address: Address, receiver: Callable[[], Receiver]) -> Listener: ...

    async def connect(self, address: Address, receiver: Receiver) -> Link:
        """OSError if nobody answers there."""
        ...


class SocketLink:
    """A link over a TCP socket that asyncio reads and this class writes."""

    __slots__ = (
        "_descriptor",
        "_is_closing",
        "_loop",
        "_queue",
        "_receiver",
        "_transport",
        "_writable",
        "local",
        "peer",
        "queued_bytes",
        "since_s",
    )

    def __init__(self, transport: asyncio.Transport, receiver: Receiver) -> None:
        self._transport = transport
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Chunk] = deque()
        self._writable = -1  # a dup of the socket that the loop watches while the peer is slow
        self._is_closing = False
        self._descriptor: int = transport.get_extra_info("socket").fileno()
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        self.since_s = self._loop.time()
        self.queued_bytes = 0

    @property
    def certificate(self) -> None:
        return None

    def send(self, chunks: Iterable[Chunk]) -> None:
        if self._descriptor < 0 or self._is_closing:
            release_slices(chunks)
            return
        queue = self._queue
        for chunk in chunks:
            size = chunk.size if type(chunk) is FileSlice else len(chunk)  # type: ignore[arg-type]  # mypy does not narrow by `type`
            if size:
                queue.append(chunk)
                self.queued_bytes += size
            else:
                release_slices((chunk,))
        if self._writable < 0:
            self._pump()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def stay_paused(self) -> None:
        """In Python 3.11.2 a transport that is paused while it is made begins to read all the same."""
        if self._descriptor >= 0 and not self._is_closing and not self._transport.is_reading():
            self._transport.resume_reading()
            self._transport.pause_reading()

    def close(self) -> None:
        self._is_closing = True
        if not self._queue:
            self._transport.close()

    def abort(self) -> None:
        self.lost()  # now: the transport tells us only in a later turn, and until then the queue would go on leaving
        self._transport.abort()

    def lost(self) -> None:
        """The transport is gone: its descriptor number may soon be somebody else's."""
        self._stop_watching()
        self._descriptor = -1
        release_slices(self._queue)
        self._queue.clear()
        self.queued_bytes = 0

    def _pump(self) -> None:
        """Send until the queue is empty or the socket is full."""
        try:
            while self._queue:
                if type(self._queue[0]) is FileSlice:
                    self._send_slice(self._queue[0])
                else:
                    self._send_bytes()
        except BlockingIOError:
            if not self._watch():
                self.abort()
            return
        except ReadFault as fault:
            chunk = self._queue[0]
            assert isinstance(chunk, FileSlice)
            self.abort()  # a part of it has left, and the rest of the answer would be taken for more of it
            chunk.failed(fault)
            return
        except OSError:
            self.abort()
            return
        was_waiting = self._writable >= 0
        self._stop_watching()
        if self._is_closing:
            self._transport.close()
        elif was_waiting:
            self._receiver.drained()

    def _send_slice(self, chunk: FileSlice) -> None:
        if not chunk.is_current:
            raise ConnectionAbortedError("the log was cut while its bytes were on their way out")
        count = chunk.file.send(self._descriptor, chunk.position, min(chunk.size, SENDFILE_SLICE))
        if count == 0:
            raise ConnectionAbortedError("the log is shorter than the slice that was promised")
        self.queued_bytes -= count
        chunk.position += count
        chunk.size -= count
        if chunk.size == 0:
            self._queue.popleft()
            chunk.release()

    def _send_bytes(self) -> None:
        queue = self._queue
        gathered: list[bytes | bytearray | memoryview] = []
        for chunk in queue:
            if isinstance(chunk, FileSlice) or len(gathered) == GATHER_MAX:
                break
            gathered.append(chunk)
        count = os.writev(self._descriptor, gathered)
        self.queued_bytes -= count
        for chunk in gathered:
            size = len(chunk)
            if count < size:
                queue[0] = memoryview(chunk)[count:]
                return
            count -= size
            queue.popleft()

    def _watch(self) -> bool:
        """False if no descriptor is left to wait with."""
        if self._writable < 0:
            try:
                self._writable = os.dup(self._descriptor)
            except OSError:
                return False
            self._loop.add_writer(self._writable, self._pump)
        return True

    def _stop_watching(self) -> None:
        if self._writable >= 0:
            self._loop.remove_writer(self._writable)
            os.close(self._writable)
            self._writable = -1


class _SocketProtocol(asyncio.BufferedProtocol):
    """asyncio's side of a connection: hands everything to the receiver."""

    __slots__ = ("_receiver", "link")

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.link: SocketLink | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link = SocketLink(transport, self._receiver)
        self._receiver.connected(self.link)
        if not transport.is_reading():
            asyncio.get_running_loop().call_soon(self.link.stay_paused)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._receiver.received(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.link is not None:
            self.link.lost()
        self._receiver.disconnected(exc)


class _SocketListener:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.address = _address(server.sockets[0].getsockname())

    async def close(self) -> None:
        self._server.close()


class SystemNetwork:
    async def listen(self, address: Address, receiver: Callable[[], Receiver]) -> Listener:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _SocketProtocol(receiver()),
            address.host,
            address.port,
            backlog=BACKLOG,
            reuse_address=True,
        )
        return _SocketListener(server)

    async def connect(self, address: Address, receiver: Receiver) -> Link:
        loop = asyncio.get_running_loop()
        protocol = _SocketProtocol(receiver)
        try:
            await loop.create_connection(lambda: protocol, address.host, address.port)
        except (ValueError, OverflowError) as nonsense:  # addresses come from others; some are none, as `a..b`
            raise OSError(f"not an address: {nonsense}") from nonsense
        assert protocol.link is not None
        return protocol.link


def _address(name: object) -> Address:
    """From what `getsockname` gives: a tuple whose first two places are host and port."""
    if isinstance(name, tuple):
        return Address(str(name[0]), int(name[1]))
    return Address("unknown", 0)


def release_slices(chunks: Iterable[Chunk]) -> None:
    """Give back the file slices among chunks that will not be sent."""
    for chunk in chunks:
        if isinstance(chunk, FileSlice):
            chunk.release()

"""A host's own network over the shared fabric: links, listeners and the way they meet."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from typing import TYPE_CHECKING, assert_never
from zlib import crc32

from headrace.runtime.disk import FileSlice, ReadFault
from headrace.runtime.network import Address, release_slices
from headrace.simulation.environment.fabric import Acknowledged, Ended, Handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.runtime.network import Chunk, Receiver
    from headrace.simulation.environment.fabric import Connection, Fabric, Item, Wire
    from headrace.simulation.environment.life import Life

CONNECT_TIMEOUT_S = 127.0  # Linux gives up on an unanswered SYN after this long
SEGMENT_MAX = 64 * 1024  # bytes that leave in one piece
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
ANYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not bound


class SimulatedLink:
    """One end of a connection.

    What `send` is given waits in a queue until the window has room for it. Only then are the bytes of a file slice
    read, as `sendfile` would. The window has room again when the peer's receiver has taken bytes, so a slow receiver
    slows its sender.
    """

    def __init__(
        self, fabric: Fabric, life: Life, connection: Connection, out: Wire, *, local: Address, peer: Address
    ) -> None:
        self._fabric = fabric
        self._connection = connection
        self._receiver: Receiver | None = None
        self._queue: deque[Chunk] = deque()
        self._window = fabric.window_bytes()
        self._unacknowledged = 0
        self._inbox = bytearray()
        self._ended: Ended | None = None  # what the peer has said last
        self._is_paused = False
        self._is_waiting = False
        self._is_closing = False
        self._is_gone = False
        self._is_delivery_due = False
        self.life = life
        self.out = out
        self.local = local
        self.peer = peer
        self.since_s = fabric.loop.time()
        self._names = (str(local), str(peer))
        self.queued_bytes = 0
        connection.links.append(self)

    @property
    def certificate(self) -> None:
        return None

    def open(self, receiver: Receiver) -> None:
        self._receiver = receiver
        receiver.connected(self)

    # What the node calls.

    def send(self, chunks: Iterable[Chunk]) -> None:
        self.life.check()
        if self._is_gone or self._is_closing:
            release_slices(chunks)
            return
        for chunk in chunks:
            size = _size(chunk)
            if size:
                self._queue.append(chunk)
                self.queued_bytes += size
            else:
                release_slices((chunk,))
        if self._ended is not None and self._ended.error is not None:
            self._lose(None)  # a paused reader learns by writing that its peer is gone
        elif not self._is_waiting:
            self._pump()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._deliver_soon()

    def close(self) -> None:
        self.life.check()
        self._is_closing = True
        if not self._queue:
            self._lose(None)

    def abort(self) -> None:
        self.life.check()
        self._lose(None, tell=Ended(ConnectionResetError("the peer has aborted")))

    # What the wire calls, outside every life.

    def take(self, item: Item) -> None:
        if self.life.is_over or self._is_gone:
            if isinstance(item, bytes):  # a kernel answers so for a socket that nobody holds
                self.out.put(Ended(ConnectionResetError("the peer is gone")))
            return
        if isinstance(item, bytes):  # most of them are
            self._inbox += item
            self._deliver_now()
            return
        match item:
            case Acknowledged(count):
                self._unacknowledged -= count
                # Not for every free byte: pieces would shrink to nothing. TCP also waits for half a window.
                if self._is_waiting and self._unacknowledged <= self._window // 2:
                    self._fabric.loop.call_soon(self._pump, context=self.life.context)
            case Ended(error):
                self._ended = item
                if error is not None and self._fabric.random.random() < 0.5:
                    self._inbox.clear()  # a reset may overtake what has arrived but was not read
                self._deliver_soon()
            case Handshake():
                raise AssertionError("a connection is made once")
            case _:
                assert_never(item)

    # Inwards.

    def _deliver_soon(self) -> None:
        if (self._inbox or self._ended) and not self._is_delivery_due and not self._is_paused:
            self._is_delivery_due = True
            self._fabric.loop.call_soon(self._deliver, context=self.life.context)

    def _deliver_now(self) -> None:
        """A turn of the loop for each piece would be half of all turns."""
        if not self._is_delivery_due and not self._is_paused:
            self._is_delivery_due = True
            self._fabric.loop.call_now(self.life, self._deliver)

    def _deliver(self) -> None:
        self._is_delivery_due = False
        if self._is_gone or self._is_paused:
            return
        if self._inbox:
            self._deliver_piece()
        elif self._ended is not None:
            self._lose(self._ended.error)
        self._deliver_soon()

    def _deliver_piece(self) -> None:
        assert self._receiver is not None
        room = self._receiver.buffer()
        assert len(room) > 0, "a receiver's buffer is never empty"
        waiting = len(self._inbox)
        count = min(len(room), self._fabric.piece(waiting))
        if count == waiting:
            piece, self._inbox = self._inbox, bytearray()
        else:
            piece = self._inbox[:count]
            del self._inbox[:count]
        room[:count] = piece
        self._fabric.trace.note("received", *self._names, count, crc32(piece))
        self._acknowledge(count)
        self._receiver.received(count)

    def _acknowledge(self, count: int) -> None:
        sender = self._other_end()
        if sender is None or sender._is_waiting or self._fabric.weather.is_acknowledging_all:
            self.out.put(Acknowledged(count))
        else:
            sender._unacknowledged -= count

    def _other_end(self) -> SimulatedLink | None:
        for link in self._connection.links:
            if link is not self:
                return link
        return None

    # Outwards.

    def _pump(self) -> None:
        """Send until the queue is empty or the window is full."""
        if self._is_gone:
            return
        while self._queue and self._unacknowledged < self._window:
            piece = self._next_piece(min(self._window - self._unacknowledged, SEGMENT_MAX))
            if not piece:
                self.abort()
                return
            self._unacknowledged += len(piece)
            self.queued_bytes -= len(piece)
            self.out.put(piece)
        if self._queue:
            self._is_waiting = True
            return
        was_waiting, self._is_waiting = self._is_waiting, False
        if self._is_closing:
            self._lose(None)
        elif was_waiting:
            assert self._receiver is not None
            self._receiver.drained()

    def _next_piece(self, size_max: int) -> bytes:
        """Empty if a log was cut, is shorter than its slice, or cannot be read: the promised bytes cannot be sent."""
        chunk = self._queue[0]
        if isinstance(chunk, FileSlice):
            return self._next_of_slice(chunk, size_max)
        size = len(chunk)
        count = self._fabric.piece(min(size, size_max))
        if count == size:
            self._queue.popleft()
            return bytes(chunk)
        self._queue[0] = memoryview(chunk)[count:]
        return bytes(chunk[:count])

    def _next_of_slice(self, chunk: FileSlice, size_max: int) -> bytes:
        count = self._fabric.piece(min(chunk.size, size_max))
        try:
            piece = chunk.file.read(chunk.position, count) if chunk.is_current else b""
        except ReadFault as fault:
            chunk.failed(fault)
            return b""
        chunk.position += len(piece)
        chunk.size -= len(piece)
        if chunk.size == 0:
            release_slices((self._queue.popleft(),))
        return piece

    def _lose(self, error: Exception | None, *, tell: Ended | None = None) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        release_slices(self._queue)
        self._queue.clear()
        self.queued_bytes = 0
        if self._ended is None:
            self.out.put(tell or Ended(None))
        self._fabric.trace.note("disconnected", *self._names, type(error).__name__)
        assert self._receiver is not None
        self._fabric.loop.call_soon(self._receiver.disconnected, error, context=self.life.context)
        self._fabric.leave(self._connection, self)


class Doorway:
    """A listener."""

    def __init__(
        self, fabric: Fabric, host: str, address: Address, life: Life, welcome: Callable[[], Receiver]
    ) -> None:
        self._fabric = fabric
        self._place = (host, address.port)
        self.address = address
        self.life = life
        self.welcome = welcome

    def answers(self, dialled: str) -> bool:
        return self.address.host in ANYWHERE or self.address.host == dialled

    async def close(self) -> None:
        self.life.check()
        if self._fabric.doorways.get(self._place) is self:
            del self._fabric.doorways[self._place]


class SimulatedNetwork:
    def __init__(self, fabric: Fabric, host: str, life: Life) -> None:
        self._fabric = fabric
        self._host = host
        self._life = life
        fabric.hosts[host] = None

    async def listen(self, address: Address, receiver: Callable[[], Receiver]) -> Doorway:
        self._life.check()
        if address.host not in {self._host, *LOOPBACK, *ANYWHERE}:
            raise _error(errno.EADDRNOTAVAIL, address)
        address = Address(address.host, address.port or self._fabric.free_port())
        place = (self._host, address.port)
        if place in self._fabric.doorways:
            raise _error(errno.EADDRINUSE, address)
        doorway = self._fabric.doorways[place] = Doorway(self._fabric, self._host, address, self._life, receiver)
        return doorway

    async def connect(self, address: Address, receiver: Receiver) -> SimulatedLink:
        self._life.check()
        target = self._host if address.host in LOOPBACK else address.host
        if target not in self._fabric.hosts:
            raise _error(errno.EHOSTUNREACH, address)
        local = Address(address.host if address.host in LOOPBACK else self._host, self._fabric.free_port())
        connection = self._fabric.connection(self._host, target)
        call = _Call(self._fabric, self._life, receiver, connection, local=local, peer=address)
        return await call.answer()


class _Call:
    """The caller's side of a connection that is being made."""

    def __init__(
        self, fabric: Fabric, life: Life, receiver: Receiver, connection: Connection, *, local: Address, peer: Address
    ) -> None:
        self._fabric = fabric
        self._life = life
        self._connection = connection
        self._local = local
        self._peer = peer
        self._receiver = receiver
        self._link: asyncio.Future[SimulatedLink] = fabric.loop.create_future()
        connection.there.end = _Door(fabric, connection, caller=local, dialled=peer)
        connection.back.end = self

    async def answer(self) -> SimulatedLink:
        self._connection.there.put(Handshake())
        timer = self._fabric.loop.call_later(CONNECT_TIMEOUT_S, self._fail, _error(errno.ETIMEDOUT, self._peer))
        try:
            return await self._link
        except asyncio.CancelledError:
            if not self._link.cancelled():
                self._link.result().abort()
            raise
        finally:
            timer.cancel()

    def take(self, item: Item) -> None:
        if isinstance(item, Ended):
            # A callee that does not know yet that the connection was cut may still close it in good order.
            error = item.error or ConnectionResetError("the connection was closed before it was made")
            self._fabric.loop.call_soon(self._fail, error, context=self._life.context)
        elif self._life.is_over or self._link.done():
            self._connection.there.put(Ended(ConnectionResetError("the caller is gone")))
        else:
            connection = self._connection
            link = SimulatedLink(
                self._fabric, self._life, connection, connection.there, local=self._local, peer=self._peer
            )
            self._connection.back.end = link
            self._fabric.loop.call_soon(self._succeed, link, context=self._life.context)

    def _succeed(self, link: SimulatedLink) -> None:
        link.open(self._receiver)
        if self._link.done():
            link.abort()
        else:
            self._link.set_result(link)

    def _fail(self, error: Exception) -> None:
        self._fabric.forget(self._connection)
        if not self._link.done():
            self._link.set_exception(error)


class _Door:
    """The called host, before it has a link for the caller."""

    def __init__(self, fabric: Fabric, connection: Connection, *, caller: Address, dialled: Address) -> None:
        self._fabric = fabric
        self._connection = connection
        self._caller = caller
        self._dialled = dialled

    def take(self, item: Item) -> None:
        if not isinstance(item, Handshake):
            return  # the caller has given up
        connection = self._connection
        doorway = self._fabric.doorways.get((connection.hosts[1], self._dialled.port))
        is_open = doorway is not None and doorway.answers(self._dialled.host)
        if doorway is None or not is_open or self._fabric.is_rejecting(*connection.hosts):
            connection.back.put(Ended(_error(errno.ECONNREFUSED, self._dialled)))
            return
        link = SimulatedLink(
            self._fabric, doorway.life, connection, connection.back, local=self._dialled, peer=self._caller
        )
        connection.there.end = link
        connection.back.put(Handshake())
        self._fabric.trace.note("connected", str(self._caller), str(self._dialled))
        self._fabric.loop.call_soon(lambda: link.open(doorway.welcome()), context=doorway.life.context)


def _error(code: int, address: Address) -> OSError:
    return OSError(code, f"{os.strerror(code)}: {address}")


def _size(chunk: Chunk) -> int:
    return chunk.size if isinstance(chunk, FileSlice) else len(chunk)

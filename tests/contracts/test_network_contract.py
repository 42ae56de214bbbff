"""What `Network`, `Link` and `Receiver` promise, over sockets and over the simulated fabric."""

from __future__ import annotations

import asyncio
import errno
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import FileSlice, ReadFault
from headrace.runtime.network import Address
from tests.contracts.runtimes import on_every_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.disk import File
    from headrace.runtime.network import Link
    from headrace.runtime.world import World

HERE = Address("127.0.0.1", 0)
MIB = 1 << 20


class Notebook:
    """A receiver that writes down its calls and checks their order."""

    def __init__(self, *, buffer_size: int = 64 * 1024, echoes: bool = False, pauses: bool = False) -> None:
        self.calls: list[str] = []
        self.bytes = bytearray()
        self.error: Exception | None = None
        self.is_over = False
        self.link: Link | None = None
        self._buffer = bytearray(buffer_size)
        self._echoes = echoes
        self._pauses = pauses
        self._changed = asyncio.Event()

    def connected(self, link: Link) -> None:
        assert self.calls == []
        self.link = link
        self._note("connected")
        if self._pauses:
            link.pause_reading()

    def buffer(self) -> memoryview:
        assert not self.is_over
        return memoryview(self._buffer)

    def received(self, count: int) -> None:
        assert 0 < count <= len(self._buffer)
        piece = bytes(self._buffer[:count])
        self.bytes += piece
        self._note("received")
        if self._echoes:
            assert self.link is not None
            self.link.send([piece])

    def drained(self) -> None:
        assert self.link is not None
        assert self.link.queued_bytes == 0
        self._note("drained")

    def disconnected(self, error: Exception | None) -> None:
        self.error = error
        self._note("disconnected")
        self.is_over = True

    def _note(self, call: str) -> None:
        assert not self.is_over
        assert call == "connected" or self.calls[0] == "connected"
        self.calls.append(call)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def until_disconnected(self) -> None:
        await self.until(lambda: self.is_over)


async def pair(world: World, here: Notebook, there: Notebook) -> tuple[Link, Link]:
    """Connect `here` to `there`; the listener is closed again."""
    listener = await world.network.listen(HERE, lambda: there)
    link = await world.network.connect(listener.address, here)
    await there.until(lambda: there.link is not None)
    await listener.close()
    assert there.link is not None
    return link, there.link


def log_file(world: World, size: int) -> tuple[File, bytes]:
    content = Random(size).randbytes(size)
    file = world.disk.open("log", create=True)
    assert file.append([content]) == size
    return file, content


def fill(link: Link) -> bytes:
    """Send to a peer that does not read, until bytes have to wait."""
    sent = bytearray()
    while link.queued_bytes == 0:
        block = Random(len(sent)).randbytes(MIB)
        link.send([block])
        sent += block
    return bytes(sent)


async def turns(count: int = 50) -> None:
    """Let whatever would happen wrongly happen."""
    for _ in range(count):
        await asyncio.sleep(0.0005)


@on_every_runtime
async def test_echo(world: World) -> None:
    here, there = Notebook(), Notebook(echoes=True)
    link, other = await pair(world, here, there)
    assert link is here.link
    assert (link.peer.port, link.local.port) == (other.local.port, other.peer.port)
    for _ in range(20):
        link.send([b"hello ", bytearray(b"wide "), memoryview(b"world")])
    await here.until(lambda: len(here.bytes) == 20 * 16)
    assert here.bytes == b"hello wide world" * 20
    link.close()
    await here.until_disconnected()
    await there.until_disconnected()
    assert here.error is None
    assert there.error is None
    assert here.calls[-1] == there.calls[-1] == "disconnected"


@on_every_runtime
async def test_bytes_and_file_slices_keep_their_order_both_ways(world: World) -> None:
    here, there = Notebook(), Notebook(buffer_size=1000)
    link, other = await pair(world, here, there)
    file, content = log_file(world, 3 * MIB)
    expected = b"head" + content + b"" + content[100:200] + b"tail"
    for sender in (link, other):
        sender.send([b"head", FileSlice(file, 0, len(content)), b"", FileSlice(file, 5, 0)])
        sender.send([FileSlice(file, 100, 100), b"tail"])
    await here.until(lambda: len(here.bytes) == len(expected))
    await there.until(lambda: len(there.bytes) == len(expected))
    assert here.bytes == expected
    assert there.bytes == expected
    assert link.queued_bytes == other.queued_bytes == 0
    assert not file.is_leased
    link.close()


@on_every_runtime
async def test_a_tiny_buffer_takes_everything(world: World) -> None:
    here, there = Notebook(), Notebook(buffer_size=7)
    link, _ = await pair(world, here, there)
    content = Random(7).randbytes(5000)
    link.send([content])
    await there.until(lambda: len(there.bytes) == len(content))
    assert there.bytes == content
    link.close()


@on_every_runtime
async def test_a_slow_reader_makes_the_sender_wait(world: World) -> None:
    here, there = Notebook(), Notebook(pauses=True)
    link, other = await pair(world, here, there)
    sent = fill(link)
    await turns()
    assert there.bytes == b""
    assert link.queued_bytes > 0
    assert "drained" not in here.calls
    other.resume_reading()
    await here.until(lambda: "drained" in here.calls)
    await there.until(lambda: len(there.bytes) == len(sent))
    assert there.bytes == sent
    assert here.calls.count("drained") == 1
    link.close()


@on_every_runtime
async def test_drained_is_not_called_when_nothing_had_to_wait(world: World) -> None:
    here, there = Notebook(), Notebook()
    link, _ = await pair(world, here, there)
    link.send([b"small"])
    assert link.queued_bytes == 0
    await there.until(lambda: there.bytes == b"small")
    await turns()
    assert "drained" not in here.calls
    link.close()


@on_every_runtime
async def test_pausing_stops_deliveries_until_resumed(world: World) -> None:
    here, there = Notebook(), Notebook(pauses=True)
    link, other = await pair(world, here, there)
    link.send([b"early"])
    await turns()
    assert there.calls == ["connected"]
    other.resume_reading()
    await there.until(lambda: there.bytes == b"early")
    other.pause_reading()
    other.pause_reading()
    link.send([b" late"])
    await turns()
    assert there.bytes == b"early"
    other.resume_reading()
    await there.until(lambda: there.bytes == b"early late")
    link.close()


@on_every_runtime
async def test_close_lets_what_is_queued_leave_first(world: World) -> None:
    here, there = Notebook(), Notebook(pauses=True)
    link, other = await pair(world, here, there)
    sent = fill(link)
    file, content = log_file(world, 100_000)
    link.send([FileSlice(file, 0, len(content))])
    link.close()
    await turns()
    assert not here.is_over
    other.resume_reading()
    await there.until_disconnected()
    await here.until_disconnected()
    assert there.bytes == sent + content
    assert "drained" not in here.calls
    assert not file.is_leased


@on_every_runtime
async def test_a_slice_that_cannot_be_read_ends_the_link_and_is_told_to_its_owner(world: World) -> None:
    here, there = Notebook(), Notebook()
    link, _ = await pair(world, here, there)
    file, _ = log_file(world, 1000)
    told: list[ReadFault] = []
    with pytest.MonkeyPatch.context() as patch:
        for way in ("send", "read"):
            patch.setattr(type(file), way, cannot_read)
        link.send([b"head", FileSlice(file, 100, 500, told.append), b"tail"])
        await there.until_disconnected()
    assert [(fault.path, fault.position) for fault in told] == [("a.log", 100)]
    assert bytes(there.bytes) in {b"", b"head"}
    assert not file.is_leased


def cannot_read(_: File, *place: int) -> bytes:
    raise ReadFault(OSError(errno.EIO, "Input/output error"), "a.log", place[-2])


@on_every_runtime
async def test_nothing_is_sent_after_close(world: World) -> None:
    here, there = Notebook(), Notebook(pauses=True)
    link, other = await pair(world, here, there)
    sent = fill(link)
    file, _ = log_file(world, 1000)
    link.close()
    link.send([b"too late", FileSlice(file, 0, 1000)])
    assert not file.is_leased
    other.resume_reading()
    await there.until_disconnected()
    assert there.bytes == sent

    here, there = Notebook(), Notebook()
    link, _ = await pair(world, here, there)
    link.send([b"in time"])
    link.close()
    link.send([b"too late"])
    await there.until_disconnected()
    assert there.bytes == b"in time"


@on_every_runtime
async def test_abort_drops_what_is_queued(world: World) -> None:
    here, there = Notebook(), Notebook(pauses=True)
    link, other = await pair(world, here, there)
    sent = fill(link)
    file, _ = log_file(world, 1000)
    link.send([FileSlice(file, 0, 500), FileSlice(file, 500, 500)])
    link.abort()
    link.send([b"too late", FileSlice(file, 0, 1000)])
    assert link.queued_bytes == 0
    assert not file.is_leased
    await here.until_disconnected()
    assert "drained" not in here.calls
    other.resume_reading()
    await there.until_disconnected()
    assert sent.startswith(there.bytes)
    assert len(there.bytes) < len(sent)


@on_every_runtime
async def test_nothing_is_sent_after_abort(world: World) -> None:
    here, there = Notebook(), Notebook()
    link, _ = await pair(world, here, there)
    link.abort()
    link.send([b"too late"])
    await here.until_disconnected()
    await there.until_disconnected()
    assert there.bytes == b""


@on_every_runtime
async def test_a_lost_link_ignores_sends_and_releases_slices(world: World) -> None:
    here, there = Notebook(), Notebook()
    link, other = await pair(world, here, there)
    link.abort()
    link.abort()
    link.close()
    await here.until_disconnected()
    await there.until_disconnected()
    file, _ = log_file(world, 1000)
    for gone in (link, other):
        gone.send([b"hello", FileSlice(file, 0, 1000)])
        assert gone.queued_bytes == 0
        assert not file.is_leased
        gone.close()
        gone.abort()
    await turns()
    assert here.calls == there.calls == ["connected", "disconnected"]


@on_every_runtime
async def test_a_log_that_is_cut_on_its_way_out_breaks_the_connection(world: World) -> None:
    here, there = Notebook(), Notebook(pauses=True)
    link, other = await pair(world, here, there)
    sent = fill(link)
    file, content = log_file(world, 100_000)
    link.send([FileSlice(file, 0, len(content)), b"never"])
    file.truncate(50_000)
    file.append([bytes(50_000)])
    other.resume_reading()
    await here.until_disconnected()
    await there.until_disconnected()
    assert sent.startswith(there.bytes)
    assert not file.is_leased


@on_every_runtime
async def test_a_slice_longer_than_its_log_breaks_the_connection(world: World) -> None:
    here, there = Notebook(), Notebook()
    link, _ = await pair(world, here, there)
    file, content = log_file(world, 1000)
    link.send([FileSlice(file, 0, 5000)])
    await here.until_disconnected()
    await there.until_disconnected()
    assert content.startswith(there.bytes)
    assert not file.is_leased


@on_every_runtime
async def test_the_peer_sees_bytes_then_the_end(world: World) -> None:
    here, there = Notebook(), Notebook(pauses=True)
    link, other = await pair(world, here, there)
    link.send([b"last words"])
    link.close()
    await here.until_disconnected()
    await turns()
    assert there.calls == ["connected"], "a paused reader does not see the end"
    other.resume_reading()
    await there.until_disconnected()
    assert there.bytes == b"last words"
    assert there.error is None


@on_every_runtime
async def test_nobody_listens(world: World) -> None:
    listener = await world.network.listen(HERE, Notebook)
    assert listener.address.port > 0
    await listener.close()
    nobody = Notebook()
    with pytest.raises(ConnectionRefusedError):
        await world.network.connect(listener.address, nobody)
    assert nobody.calls == []


@on_every_runtime
async def test_a_port_is_taken_once(world: World) -> None:
    listener = await world.network.listen(HERE, Notebook)
    with pytest.raises(OSError, match="in use"):
        await world.network.listen(listener.address, Notebook)
    await listener.close()
    again = await world.network.listen(listener.address, Notebook)
    assert again.address == listener.address
    await again.close()


@on_every_runtime
async def test_a_closed_listener_leaves_its_connections(world: World) -> None:
    here, there = Notebook(), Notebook(echoes=True)
    link, _ = await pair(world, here, there)  # has closed its listener
    link.send([b"still here"])
    await here.until(lambda: here.bytes == b"still here")
    link.close()


@on_every_runtime
async def test_many_connections_stay_apart(world: World) -> None:
    servers: list[Notebook] = []

    def server() -> Notebook:
        servers.append(Notebook(echoes=True))
        return servers[-1]

    listener = await world.network.listen(HERE, server)
    clients = [Notebook() for _ in range(10)]
    links = [await world.network.connect(listener.address, client) for client in clients]
    for number, link in enumerate(links):
        link.send([b"%d" % number * 1000])
    for number, client in enumerate(clients):
        await client.until(lambda client=client: len(client.bytes) == 1000)
        assert client.bytes == b"%d" % number * 1000
    for link in links:
        link.close()
    for receiver in (*clients, *servers):
        await receiver.until_disconnected()
    await listener.close()


@on_every_runtime
async def test_a_cancelled_connect_leaves_nothing_behind(world: World) -> None:
    there = Notebook()
    here = Notebook()
    listener = await world.network.listen(HERE, lambda: there)
    attempt = asyncio.ensure_future(world.network.connect(listener.address, here))
    await asyncio.sleep(0)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await turns()
    if there.calls:  # the caller had knocked before it changed its mind
        await there.until_disconnected()
    assert here.calls in ([], ["connected", "disconnected"])
    await listener.close()

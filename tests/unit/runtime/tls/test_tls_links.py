"""TLS over real sockets: what goes in at one end comes out at the other, and everybody else is refused in words."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.disk import FileSlice, SystemDisk, SystemFile
from headrace.runtime.network import Address, SystemNetwork
from headrace.runtime.tls import network as tls_network
from headrace.runtime.tls.contexts import ClientTls, ServerTls
from headrace.runtime.tls.network import TlsNetwork
from headrace.runtime.tls.troubles import TlsFailure, UntrustedPeer
from tests.certificates import EXPIRED, NOT_YET, Certificates, Held

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.runtime.network import Link

HERE = Address("127.0.0.1", 0)


class End:
    """One end of a connection: it keeps what comes, and says so."""

    def __init__(self, *, echoes: bool = False, room: int = 10_000) -> None:
        self.link: Link
        self.echoes = echoes
        self.content = bytearray()
        self.drains = 0
        self.is_over = False
        self.error: Exception | None = None
        self.opened = asyncio.Event()
        self._room = memoryview(bytearray(room))
        self._changed = asyncio.Event()

    def connected(self, link: Link) -> None:
        self.link = link
        self.opened.set()

    def buffer(self) -> memoryview:
        return self._room

    def received(self, count: int) -> None:
        assert not self.is_over
        self.content += self._room[:count]
        if self.echoes:
            self.link.send((bytes(self._room[:count]),))
        self._changed.set()

    def drained(self) -> None:
        self.drains += 1
        self._changed.set()

    def disconnected(self, error: Exception | None) -> None:
        assert not self.is_over, "the end is told once"
        self.is_over, self.error = True, error
        self._changed.set()

    async def until(self, condition: object) -> None:
        async with asyncio.timeout(20):
            while not condition():  # type: ignore[operator]
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.05)


class Place:
    """A listener, and everybody who came in."""

    def __init__(self, *, echoes: bool) -> None:
        self.echoes = echoes
        self.ends: list[End] = []
        self.address = HERE

    def welcome(self) -> End:
        self.ends.append(End(echoes=self.echoes))
        return self.ends[-1]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def node(authority: Certificates) -> Held:
    return authority.issue("node")


@asynccontextmanager
async def listening(server: ServerTls, *, echoes: bool = True) -> AsyncIterator[Place]:
    place = Place(echoes=echoes)
    listener = await TlsNetwork(SystemNetwork(), server=server).listen(HERE, place.welcome)
    place.address = listener.address
    try:
        yield place
    finally:
        await listener.close()
        for end in place.ends:
            end.link.abort()


async def call(address: Address, client: ClientTls) -> End:
    end = End()
    await TlsNetwork(SystemNetwork(), client=client).connect(address, end)
    return end


async def test_bytes_arrive_whole_and_in_order(node: Held) -> None:
    content = os.urandom(3_000_000)
    async with listening(ServerTls(node.settings())) as place:
        end = await call(place.address, ClientTls(node.trusting))
        end.link.send([content[:10], content[10:11], memoryview(content)[11:200_000], bytearray(content[200_000:])])
        await end.until(lambda: len(end.content) == len(content))
        assert bytes(end.content) == content
        assert end.link.queued_bytes == 0
        end.link.close()
        await place.ends[0].until(lambda: place.ends[0].is_over)
        assert place.ends[0].error is None
        await end.until(lambda: end.is_over)


async def test_slices_of_files_are_sent_between_bytes_and_released(node: Held, tmp_path: Path) -> None:
    content = os.urandom(700_000)
    (tmp_path / "log").write_bytes(content)
    file = SystemDisk(tmp_path).open("log")
    released = []
    async with listening(ServerTls(node.settings()), echoes=False) as place:
        end = await call(place.address, ClientTls(node.trusting))
        slices = [FileSlice(file, 0, 300_000), FileSlice(file, 300_000, 0), FileSlice(file, 400_000, 300_000)]
        for piece in slices:
            piece.file = _Counting(file, released)  # type: ignore[assignment]
        end.link.send([b"before", slices[0], slices[1], b"between", slices[2], b"after"])
        expected = b"before" + content[:300_000] + b"between" + content[400_000:] + b"after"
        await end.until(lambda: place.ends)
        there = place.ends[0]
        await there.until(lambda: len(there.content) == len(expected))
        assert bytes(there.content) == expected
        assert len(released) == 3
        end.link.close()
        await end.until(lambda: end.is_over)


class _Counting:
    """A file that says how often it was given back."""

    def __init__(self, file: SystemFile, released: list[int]) -> None:
        self._file = file
        self._released = released

    def release(self) -> None:
        self._released.append(1)
        self._file.release()

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


async def test_a_reader_that_stands_still_holds_its_sender_up_and_drained_says_when_it_goes_on(node: Held) -> None:
    async with listening(ServerTls(node.settings()), echoes=False) as place:
        end = await call(place.address, ClientTls(node.trusting))
        await end.until(lambda: place.ends)
        there = place.ends[0]
        there.link.pause_reading()
        content = os.urandom(1 << 20) * 24
        end.link.send((content,))
        queued = -1
        while queued != end.link.queued_bytes:
            queued = end.link.queued_bytes
            await asyncio.sleep(0.1)
        assert queued > 1 << 20
        assert end.drains == 0
        held = len(there.content)
        there.link.resume_reading()
        await there.until(lambda: len(there.content) == len(content))
        assert held < len(content)
        assert there.content == content
        await end.until(lambda: end.drains == 1)
        assert end.link.queued_bytes == 0


async def test_what_is_queued_leaves_before_a_connection_that_is_closed(node: Held) -> None:
    content = os.urandom(1 << 20) * 12
    async with listening(ServerTls(node.settings()), echoes=False) as place:
        end = await call(place.address, ClientTls(node.trusting))
        end.link.send((content,))
        end.link.close()
        end.link.send((b"too late",))
        await end.until(lambda: place.ends)
        await place.ends[0].until(lambda: place.ends[0].is_over)
        assert place.ends[0].content == content


async def test_who_pauses_in_the_middle_of_a_read_gets_the_rest_when_it_resumes(node: Held) -> None:
    class Sipping(End):
        def received(self, count: int) -> None:
            super().received(count)
            self.link.pause_reading()
            asyncio.get_running_loop().call_later(0.001, self.link.resume_reading)

    place = Place(echoes=False)
    listener = await TlsNetwork(SystemNetwork(), server=ServerTls(node.settings())).listen(
        HERE, lambda: place.ends.append(Sipping(room=5000)) or place.ends[-1]
    )
    content = os.urandom(300_000)
    end = await call(listener.address, ClientTls(node.trusting))
    end.link.send((content,))
    await end.until(lambda: place.ends)
    await place.ends[0].until(lambda: len(place.ends[0].content) == len(content))
    assert place.ends[0].content == content
    end.link.abort()
    await listener.close()


# ---- who is let in


async def test_a_client_shows_its_certificate_and_is_known_by_its_subject(authority: Certificates, node: Held) -> None:
    client = authority.issue("alice", unit="billing, Ltd.", uris=("urn:x:y",))
    async with listening(ServerTls(node.settings(), client_auth=ssl.CERT_REQUIRED)) as place:
        end = await call(place.address, ClientTls(client.settings()))
        await end.until(lambda: place.ends)
        shown = place.ends[0].link.certificate
        assert shown is not None
        assert shown.subject == "CN=alice,OU=billing\\, Ltd."
        assert "URI:urn:x:y" in shown.names
        assert "DNS:localhost" in shown.names
        assert end.link.certificate is not None
        assert end.link.certificate.subject == "CN=node"
        end.link.abort()


async def test_a_client_without_a_certificate_is_refused_where_one_is_required(node: Held, caplog) -> None:
    server = ServerTls(node.settings(), client_auth=ssl.CERT_REQUIRED)
    async with listening(server) as place:
        end = End()
        with contextlib.suppress(TlsFailure):  # with TLS 1.3 a client hears of it only after the handshake
            await TlsNetwork(SystemNetwork(), client=ClientTls(node.trusting)).connect(place.address, end)
            await end.until(lambda: end.is_over)
            assert "asks for a certificate" in str(end.error)
        assert not place.ends
        assert server.failed_handshakes == 1
    assert "has shown no certificate" in caplog.text


async def test_a_client_of_another_ca_is_refused(node: Held, tmp_path: Path, caplog) -> None:
    stranger = Certificates(tmp_path, "other").issue("mallory")
    mine = stranger.settings()
    trusting = type(mine)(mine.own, mine.key, trusted=node.trusting.trusted)
    async with listening(ServerTls(node.settings(), client_auth=ssl.CERT_REQUIRED)) as place:
        end = End()
        with contextlib.suppress(TlsFailure):
            await TlsNetwork(SystemNetwork(), client=ClientTls(trusting)).connect(place.address, end)
            await end.until(lambda: end.is_over)
            assert "does not know the CA" in str(end.error)
        assert not place.ends
    assert "ssl.truststore.location has to name" in caplog.text


async def test_who_is_asked_for_a_certificate_may_have_none(node: Held) -> None:
    async with listening(ServerTls(node.settings(), client_auth=ssl.CERT_OPTIONAL)) as place:
        end = await call(place.address, ClientTls(node.trusting))
        await end.until(lambda: place.ends)
        assert place.ends[0].link.certificate is None
        end.link.abort()


async def test_a_valid_certificate_can_be_refused_for_what_it_says(authority: Certificates, node: Held) -> None:
    server = ServerTls(
        node.settings(), client_auth=ssl.CERT_REQUIRED, problem_with=lambda shown: f"no {shown.subject} here"
    )
    async with listening(server) as place:
        end = End()
        with contextlib.suppress(TlsFailure):
            await TlsNetwork(SystemNetwork(), client=ClientTls(node.settings())).connect(place.address, end)
            await end.until(lambda: end.is_over)
        assert not place.ends
        assert server.failed_handshakes == 1


@pytest.mark.parametrize(
    ("period", "hosts", "said"),
    [
        (EXPIRED, ("127.0.0.1",), "has expired"),
        (NOT_YET, ("127.0.0.1",), "is not valid yet"),
        (None, ("10.1.2.3", "elsewhere"), "is not for this address"),
    ],
)
async def test_a_server_that_is_not_who_it_should_be(
    authority: Certificates, period: object, hosts: tuple[str, ...], said: str
) -> None:
    times = {} if period is None else {"period": period}
    bad = authority.issue("bad", hosts=hosts, **times)
    async with listening(ServerTls(bad.settings())) as place:
        with pytest.raises(UntrustedPeer, match=said):
            await call(place.address, ClientTls(bad.trusting))
        assert not place.ends


async def test_a_host_name_is_compared_too_unless_that_is_switched_off(authority: Certificates) -> None:
    other = authority.issue("other", hosts=("node.example",))
    async with listening(ServerTls(other.settings())) as place:
        there = Address("localhost", place.address.port)
        with pytest.raises(UntrustedPeer, match="is not for this host"):
            await call(there, ClientTls(other.trusting))
        end = await call(there, ClientTls(other.trusting, expects_host=False))
        end.link.abort()


async def test_a_server_of_an_unknown_ca(node: Held, tmp_path: Path) -> None:
    other = Certificates(tmp_path, "other").issue("x")
    async with listening(ServerTls(node.settings())) as place:
        with pytest.raises(UntrustedPeer, match=r"comes from a CA that is not trusted here: ssl.ca.location"):
            await call(place.address, ClientTls(other.trusting))
        end = await call(place.address, ClientTls(other.trusting, verifies=False))
        assert end.link.certificate is None, "what was not verified is not told"
        end.link.abort()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_old_versions_of_tls_are_refused(node: Held, caplog) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(node.authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    async with listening(ServerTls(node.settings())) as place:
        with pytest.raises(OSError):
            await asyncio.open_connection(*place.address, ssl=context)
        assert not place.ends
    assert "no version of TLS in common" in caplog.text


async def test_a_version_can_be_chosen(node: Held) -> None:
    async with listening(ServerTls(node.settings(versions=("TLSv1.2",)))) as place:
        old = ClientTls(node.trusting)
        end = await call(place.address, old)
        end.link.send((b"x",))
        await end.until(lambda: end.content == b"x")
        end.link.abort()
        new = ClientTls(type(node.trusting)(trusted=node.trusting.trusted, versions=("TLSv1.3",)))
        with pytest.raises(TlsFailure, match="no version of TLS in common"):
            await call(place.address, new)


# ---- those who speak no TLS


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "speaks HTTP without TLS"),
        (bytes.fromhex("00000021001200030000000100"), "speaks Kafka's protocol without TLS"),
        (b"\xff" * 100, "its first bytes are no TLS"),
        (b"\x16\x03\x01\x00\x05hello" + bytes(2000), "TLS failed|speaks no TLS|not as it should"),
    ],
)
async def test_who_speaks_no_tls_is_told_apart_in_the_log(node: Held, caplog, first: bytes, said: str) -> None:
    async with listening(ServerTls(node.settings())) as place:
        reader, writer = await asyncio.open_connection(*place.address)
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert not place.ends
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert re.search(said, line), line


async def test_a_server_without_tls_is_named(node: Held) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"what do you mean?")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        address = Address(*server.sockets[0].getsockname()[:2])
        with pytest.raises(TlsFailure, match="speaks no TLS"):
            await call(address, ClientTls(node.trusting))


async def test_a_server_that_hangs_up_or_says_nothing_is_named(node: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_network, "HANDSHAKE_S", 0.3)
    hold = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(10)
        if not hold.is_set():
            hold.set()
            writer.close()
        elif first:
            await reader.read()
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        address = Address(*server.sockets[0].getsockname()[:2])
        with pytest.raises(OSError):
            await call(address, ClientTls(node.trusting))
        with pytest.raises(TlsFailure, match="took longer than"):
            await call(address, ClientTls(node.trusting))


async def test_who_never_finishes_its_handshake_is_closed(node: Held, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr(tls_network, "HANDSHAKE_S", 0.2)
    async with listening(ServerTls(node.settings())) as place:
        reader, writer = await asyncio.open_connection(*place.address)
        writer.write(b"\x16\x03\x01")
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
    assert "was not done after" in caplog.text


async def test_handshakes_under_way_are_limited_and_the_newest_gets_its_turn(
    node: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_network, "HANDSHAKES_MAX", 20)
    server = ServerTls(node.settings())
    async with listening(server) as place:
        silent = [await asyncio.open_connection(*place.address) for _ in range(100)]
        end = await call(place.address, ClientTls(node.trusting))
        end.link.send((b"here",))
        await end.until(lambda: end.content == b"here")
        assert server.failed_handshakes >= 80
        end.link.abort()
        for _, writer in silent:
            writer.close()


async def test_a_handshake_that_goes_on_for_ever_is_cut(node: Held, caplog) -> None:
    async with listening(ServerTls(node.settings())) as place:
        reader, writer = await asyncio.open_connection(*place.address)
        # A ClientHello that promises 16 MB, in records that are fine each.
        body = b"\x01\xff\xff\xff" + bytes(16_000)
        with contextlib.suppress(ConnectionError):
            for _ in range(40):
                writer.write(b"\x16\x03\x01" + len(body).to_bytes(2, "big") + body)
                await writer.drain()
            await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert not place.ends
    assert "no TLS with" in caplog.text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=6), st.integers(0, 600), st.booleans())
def test_garbage_before_in_and_after_the_handshake_ends_that_connection_alone(
    garbage: list[bytes], cut: int, is_after: bool
) -> None:
    asyncio.run(_throw_garbage(garbage, cut, is_after=is_after))


async def _throw_garbage(garbage: list[bytes], cut: int, *, is_after: bool) -> None:
    held = _shared()
    async with listening(ServerTls(held.settings())) as place:
        reader, writer = await asyncio.open_connection(*place.address)
        engine, incoming, outgoing = _client_engine(held)
        with contextlib.suppress(ConnectionError):
            if is_after:
                await _shake_hands(engine, incoming, outgoing, reader, writer)
            else:
                with contextlib.suppress(ssl.SSLWantReadError):
                    engine.do_handshake()
                writer.write(outgoing.read()[:cut])
            for piece in garbage:
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            await asyncio.wait_for(reader.read(), 15)
        writer.close()
        end = await call(place.address, ClientTls(held.trusting))
        end.link.send((b"still here",))
        await end.until(lambda: end.content == b"still here")
        end.link.abort()
        for other in place.ends[:-1]:
            assert not other.content
            await other.until(lambda other=other: other.is_over)


async def _shake_hands(
    engine: ssl.SSLObject,
    incoming: ssl.MemoryBIO,
    outgoing: ssl.MemoryBIO,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    while True:
        try:
            engine.do_handshake()
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await reader.read(10_000))
        else:
            writer.write(outgoing.read())
            return


def _client_engine(held: Held) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    context = ssl.create_default_context(cafile=str(held.authority))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return context.wrap_bio(incoming, outgoing, server_hostname="localhost"), incoming, outgoing


_held: list[Held] = []


@pytest.fixture(scope="module", autouse=True)
def _shared_certificate(node: Held) -> None:
    _held.append(node)


def _shared() -> Held:
    return _held[-1]

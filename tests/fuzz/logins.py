"""Bytes of somebody who has not logged in, as a connection takes them; and messages of exchanges, one after the other.

An input begins with a byte that says which: a stream of frames and in what pieces it arrives, or a mechanism.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.access.authentication.bearer_exchange import BearerExchange
from headrace.access.authentication.credentials import SCRAM_MECHANISMS, ScramUser, verifier_for
from headrace.access.authentication.exchange import Accepted, Denied, Work
from headrace.access.authentication.known_users import KnownUsers
from headrace.access.authentication.plain_exchange import PlainExchange
from headrace.access.authentication.scram_exchange import ScramExchange
from headrace.access.listeners import ListenerSecurity, SecurityProtocol
from headrace.broker.access.listener_access import ListenerAccess
from headrace.broker.build import NodePlan, build
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address, SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.servers.kafka.build import kafka_server
from headrace.servers.kafka.connections.connection import Connection
from headrace.servers.kafka.connections.connection_login import FRAME_BYTES_MAX
from headrace.wire.api import APIS, ApiKey
from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.fuzz.harness import Target
from tests.secured import Issuer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.access.authentication.exchange import Exchange
    from headrace.servers.kafka.server import KafkaServer

PIECES: Final = (1 << 20, 1, 5, 100)
MECHANISMS: Final = (*SCRAM_MECHANISMS, "PLAIN", "OAUTHBEARER")
MESSAGE_END: Final = b"\xff\xff"
TURNS_MAX: Final = 1000
USERS: Final = KnownUsers(
    {
        ScramUser("alice", it): verifier_for("a word that no input says", it, b"salt", 1)
        for it in SCRAM_MECHANISMS.values()
    },
    b"secret",
)
ISSUER: Final = Issuer()
NONCE: Final = "theirs"

_loop = asyncio.new_event_loop()
_directory = tempfile.TemporaryDirectory(prefix="headrace-fuzz-")
_servers: list[KafkaServer] = []


class AtOnce:
    """Threads without any: what is to be done in one is done."""

    async def run(self, call: Callable[[], Any], *, lane: str = "") -> Any:
        return call()

    def breathe(self) -> None: ...

    def close(self) -> None: ...


class Wire:
    """A link whose other end reads everything at once."""

    peer, local = Address("127.0.0.1", 1), Address("127.0.0.1", 2)
    certificate = None
    queued_bytes = 0

    def __init__(self) -> None:
        self.since_s = _loop.time()
        self.sent = b""
        self.is_closed = False
        self.is_paused = False

    def send(self, chunks: Sequence[bytes]) -> None:
        assert not self.is_closed, "it answers after it has hung up"
        self.sent += b"".join(chunks)

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


def play(data: bytes) -> None:
    if not data:
        return
    choice, rest = divmod(data[0], 2)
    if rest:
        play_exchange(MECHANISMS[choice % len(MECHANISMS)], data[1:].split(MESSAGE_END))
    else:
        _loop.run_until_complete(_play_stream(data[1:], PIECES[choice % len(PIECES)]))


# ---- exchanges


def play_exchange(mechanism: str, messages: Sequence[bytes]) -> None:
    exchange = exchange_by(mechanism)
    for message in messages:
        outcome = exchange.step(message)
        if isinstance(outcome, Work):
            outcome = outcome.call()
        assert not isinstance(outcome, Accepted), f"somebody has logged in by {mechanism}: {messages!r}"
        if isinstance(outcome, Denied):
            assert outcome.reason
            return


def exchange_by(mechanism: str) -> Exchange:
    if mechanism in SCRAM_MECHANISMS:
        return ScramExchange(SCRAM_MECHANISMS[mechanism], USERS, NONCE)
    if mechanism == "PLAIN":
        return PlainExchange(USERS)
    return BearerExchange(ISSUER.check)


# ---- a connection


async def _play_stream(stream: bytes, piece: int) -> None:
    server = await _server()
    connection, wire = Connection(server), Wire()
    connection.connected(wire)  # type: ignore[arg-type]
    position = 0
    while position < len(stream) and not wire.is_closed and not connection.is_gone:
        room = connection.buffer()
        count = min(piece, len(room), len(stream) - position)
        room[:count] = stream[position : position + count]
        position += count
        connection.received(count)
        await _settled(connection, wire)
        assert connection._buffer.capacity <= FRAME_BYTES_MAX + 4, "more memory than a login may take"
    assert connection.kept_out_by is not None, "somebody has logged in"
    assert wire.sent == b"" or len(_answers(wire.sent)) <= len(stream) // 14
    connection.disconnected(None)
    assert len(server.connections) == 0


async def _settled(connection: Connection, wire: Wire) -> None:
    for _ in range(TURNS_MAX):
        await asyncio.sleep(0)
        if wire.is_closed or connection._is_leaving or not (wire.is_paused or connection._slow.is_one_under_way):
            return
    raise AssertionError("it never goes on")


def _answers(sent: bytes) -> list[bytes]:
    found = []
    while sent:
        size = int.from_bytes(sent[:4], "big")
        assert 4 <= size <= len(sent) - 4, "half an answer"
        found.append(sent[4 : 4 + size])
        sent = sent[4 + size :]
    return found


async def _server() -> KafkaServer:
    """One for all inputs: no connection leaves anything behind."""
    if not _servers:
        world = World(
            SystemClock(), SystemDisk(Path(_directory.name)), SystemEntropy(), SystemNetwork(), SystemThreads()
        )
        node = await build(world, NodePlan(configs={"headrace.durability": "written"}))
        node.world = replace(world, threads=AtOnce())
        mechanisms = tuple(it for it in MECHANISMS if it != "PLAIN")
        security = ListenerSecurity("SASL_PLAINTEXT", SecurityProtocol.SASL_PLAINTEXT, mechanisms)
        server = kafka_server(node, access=ListenerAccess(security, tokens=ISSUER.check, failure_delay_s=0.0))
        server.log_bug = _bug  # type: ignore[method-assign]
        server.log_refusal = lambda *_: None  # type: ignore[method-assign]
        _servers.append(server)
    return _servers[0]


def _bug(_: object, what: str) -> None:
    raise AssertionError(what)


# ---- seeds


def seeds() -> Iterator[bytes]:
    versions = _request(ApiVersionsRequest(client_software_name="a", client_software_version="b"), 3)
    first = {
        "SCRAM-SHA-256": b"n,,n=alice,r=fresh",
        "SCRAM-SHA-512": b"y,a=alice,n=al=2Cice,r=fresh,x=y",
        "OAUTHBEARER": f"n,,\1auth=Bearer {Issuer().token('alice')}\1\1".encode(),
    }
    for piece in (0, 2, 4):
        yield bytes([piece]) + _request(MetadataRequest([]), 9)
        for mechanism, message in first.items():
            chosen = _request(SaslHandshakeRequest(mechanism), 1)
            said = [_request(SaslAuthenticateRequest(message), version) for version in (0, 1, 2)]
            yield bytes([piece]) + versions + chosen + said[2] + said[0]
            yield bytes([piece]) + chosen + said[1] + versions
    yield b"\0" + _request(SaslHandshakeRequest("GSSAPI"), 1) + versions
    yield b"\0" + _request(SaslHandshakeRequest("PLAIN"), 0)
    yield b"\0" + (65_537).to_bytes(4, "big") + bytes(20)
    final = b"c=biws,r=freshtheirs,p=" + b"A" * 42 + b"E="
    for choice, mechanism in enumerate(MECHANISMS):
        start = bytes([2 * choice + 1])
        yield start + first.get(mechanism, b"\0alice\0wonder")
        yield start + b"n,,n=alice,r=fresh" + MESSAGE_END + final
        yield start + b"alice\0bob\0x"


def _request(message: Any, version: int) -> bytes:
    assert APIS[message.API_KEY].serves(version)
    return encode_request(RequestHeader(ApiKey(message.API_KEY), version, 1, "c"), message)


TARGET: Final = Target("logins", play, seeds, bytes_max=2_048, share=0.5)

"""Who somebody is on a listener with TLS: by password, token or certificate; and what is no TLS at all."""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from headrace.access.audit import AuditEvent, Outcome
from headrace.access.authentication.certificate_names import NameRules
from headrace.access.identity import ANONYMOUS, Identity, Principal
from headrace.access.listeners import ClientAuth
from headrace.model.errors import ErrorCode
from headrace.runtime.tls.settings import client_context
from headrace.servers.kafka.connections.listener_logins import HASHED_AT_ONCE, HASHING
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.certificates import Certificates
from tests.secured import ALL, Issuer, add_user, with_certificates, with_passwords
from tests.unit.servers.living_server import LivingServer, living_server, until
from tests.unit.servers.logging_in import by, by_token, log_in
from tests.unit.servers.noted import Noted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.certificates import Held

METADATA = MetadataRequest([])
NEVER_S = 1e6
"""What is cut is cut for what it did, and not because its time was over."""

pytestmark = pytest.mark.timeout(60)
COMMON_NAME = NameRules("RULE:^CN=([a-z]+).*$/$1/")


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def held(certificates: Certificates) -> Held:
    return certificates.issue("node")


@asynccontextmanager
async def guarded(path: Path, held: Held, issuer: Issuer | None = None, **changes: Any) -> AsyncIterator[LivingServer]:
    mechanisms = ALL if issuer else ALL[:-1]
    access_of = with_passwords(
        mechanisms, held=held, issuer=issuer, **{"failure_delay_s": 0.0, "login_within_s": NEVER_S, **changes}
    )
    async with living_server(path / "data", access_of) as living:
        await add_user(living.node, "alice", "wonder")
        yield living


def principals(living: LivingServer) -> list[str]:
    return [str(connection.identity.principal) for connection in living.server.connections.seats()]


# ---- SASL over TLS


@pytest.mark.parametrize("mechanism", ALL)
async def test_every_mechanism_lets_in_who_is_known_and_nobody_else(
    tmp_path: Path, held: Held, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    issuer, stranger = Issuer(), Issuer()
    right, wrong = by(mechanism), by(mechanism, password="not this word")
    if mechanism == "OAUTHBEARER":
        right, wrong = by_token(issuer.token("alice")), by_token(stranger.token("alice"))  # type: ignore[assignment]
    trusting = client_context(held.trusting)
    async with guarded(tmp_path, held, issuer) as living:
        client, stopped = await living.connect(tls=trusting), await living.connect(tls=trusting)
        assert (await log_in(client, right)).error_code == 0
        assert principals(living)[0] == "User:alice"
        assert (await client.ask(METADATA, 9)).topics == []
        answer = await log_in(stopped, wrong)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message.endswith(f"with SASL mechanism {mechanism}")
        assert await stopped.frame() is None
    assert "not this word" not in caplog.text
    assert "eyJ" not in caplog.text, "a token"


async def test_a_certificate_is_no_login(tmp_path: Path, certificates: Certificates, held: Held) -> None:
    async with guarded(tmp_path, held) as living:
        client = await living.connect(tls=client_context(certificates.issue("alice").settings()))
        client.begin(METADATA, 9)
        assert await client.frame() is None


async def test_many_passwords_are_checked_at_once(tmp_path: Path, held: Held) -> None:
    async with guarded(tmp_path, held) as living:
        trusting = client_context(held.trusting)
        clients = [await living.connect(tls=trusting) for _ in range(40)]
        answers = await asyncio.gather(*(log_in(client, by("PLAIN")) for client in clients))
        assert {answer.error_code for answer in answers} == {0}


async def test_who_leaves_before_its_password_was_checked_is_not_let_in(tmp_path: Path, held: Held) -> None:
    """Some wait for the thread, the others in the line before it: none of these is worth a hash any more."""
    async with guarded(tmp_path, held) as living:
        door = threading.Event()
        is_open = asyncio.create_task(living.node.world.threads.run(door.wait, lane=HASHING))
        clients = [await living.connect(tls=client_context(held.trusting)) for _ in range(HASHED_AT_ONCE + 3)]
        for client in clients:
            client.begin(SaslHandshakeRequest("PLAIN"), 1)
            client.begin(SaslAuthenticateRequest(b"\0alice\0wonder"), 2)
        await until(lambda: len(living.server._logins._hashing) == 3)
        for connection in living.server.connections.seats():
            connection.link.abort()  # as at the end of its time, say: nothing is read, so nobody sees a client leave
        await until(lambda: principals(living) == [])
        door.set()
        await is_open
        await until(lambda: living.node.counters.logins.failed == len(clients))
        assert living.node.counters.logins.succeeded == 0


async def test_the_time_for_a_login_begins_before_tls(tmp_path: Path, held: Held) -> None:
    async with guarded(tmp_path, held, login_within_s=0.2) as living:
        client = await living.connect()
        await asyncio.sleep(0.3)
        await client.writer.start_tls(client_context(held.trusting), server_hostname="localhost")
        with pytest.raises((AssertionError, ConnectionError)):
            await log_in(client)
        assert living.node.counters.logins.succeeded == 0


async def test_who_shakes_hands_while_the_listener_stops_is_not_served(
    tmp_path: Path, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded(tmp_path, held) as living:
        client = await living.connect()
        await living.server.stop()
        with suppress(ConnectionError):  # or it is cut already while it shakes hands
            await client.writer.start_tls(client_context(held.trusting), server_hostname="localhost")
            client.begin(SaslHandshakeRequest("PLAIN"), 1)
            client.begin(SaslAuthenticateRequest(b"\0alice\0wonder"), 2)
        assert await client.frame() is None
        assert living.node.counters.logins.succeeded == 0
    assert "our fault" not in caplog.text


# ---- what is no TLS


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 100,
        bytes(100),
        b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + b"x" * 20_000,
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
    ],
    ids=["http", "ones", "zeros", "a record that is too long", "no client's hello"],
)
async def test_what_is_no_tls_is_cut(tmp_path: Path, held: Held, nonsense: bytes) -> None:
    async with guarded(tmp_path, held) as living:
        client = await living.connect()
        client.writer.write(nonsense)
        assert await _is_cut(client.reader)
        assert principals(living) == []
        assert not living.node.failed.done()


async def test_a_record_that_is_cut_in_half_reaches_nobody(tmp_path: Path, held: Held) -> None:
    """All but the last byte of what TLS has made of a request."""
    async with guarded(tmp_path, held) as living:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = client_context(held.trusting).wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection(*living.address)
        while True:
            try:
                engine.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
        engine.write(b"\0\0\0\x0a\0\x03\0\x09\0\0\0\x01\xff\xff")
        record = outgoing.read()
        writer.write(record[:-1])
        await until(lambda: principals(living) == ["User:ANONYMOUS"])
        writer.close()
        await until(lambda: principals(living) == [])
        assert living.node.counters.refused_connections == 0


async def _is_cut(reader: asyncio.StreamReader) -> bool:
    try:
        while await reader.read(4096):
            pass
    except ConnectionError:
        pass
    return True


# ---- certificates


async def test_a_certificate_says_who_somebody_is(tmp_path: Path, certificates: Certificates, held: Held) -> None:
    async with living_server(tmp_path / "data", with_certificates(held, name_rules=COMMON_NAME)) as living:
        client = await living.connect(tls=client_context(certificates.issue("alice").settings()))
        assert (await client.ask(METADATA, 9)).topics == []
        assert principals(living) == ["User:alice"]


async def test_without_rules_it_is_the_whole_name(tmp_path: Path, certificates: Certificates, held: Held) -> None:
    async with living_server(tmp_path / "data", with_certificates(held)) as living:
        client = await living.connect(tls=client_context(certificates.issue("alice", unit="streams").settings()))
        assert (await client.ask(METADATA, 9)).topics == []
        (principal,) = principals(living)
        assert principal.startswith("User:")
        assert {"CN=alice", "OU=streams"} <= set(principal.removeprefix("User:").split(","))


async def test_a_certificate_that_fits_no_rule_is_refused(
    tmp_path: Path, certificates: Certificates, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    access_of = with_certificates(held, name_rules=NameRules("RULE:^CN=node-([0-9]+)$/$1/"))
    async with living_server(tmp_path / "data", access_of) as living:
        noted = Noted.of(living)
        client = await living.connect(tls=client_context(certificates.issue("mallory").settings()))
        client.begin(METADATA, 9)
        assert await client.frame() is None
        assert "no rule of ssl.principal.mapping.rules fits the name in its certificate, 'CN=mallory" in caplog.text
        (event,) = noted.events
        assert (event.action, event.outcome, event.identity) == (
            "Login",
            Outcome.REFUSED,
            Identity(ANONYMOUS, "127.0.0.1"),
        )
        assert principals(living) == []


async def test_who_has_to_show_a_certificate_and_has_none_is_refused(tmp_path: Path, held: Held) -> None:
    async with living_server(tmp_path / "data", with_certificates(held)) as living:
        reader, writer = await asyncio.open_connection(*living.address, ssl=client_context(held.trusting))
        with pytest.raises(ssl.SSLError, match="certificate required"):
            await reader.read()
        writer.transport.abort()
        assert principals(living) == []


async def test_who_may_show_a_certificate_and_has_none_is_nobody(
    tmp_path: Path, certificates: Certificates, held: Held
) -> None:
    access_of = with_certificates(held, ClientAuth.REQUESTED, name_rules=COMMON_NAME)
    async with living_server(tmp_path / "data", access_of) as living:
        noted = Noted.of(living)
        nobody = await living.connect(tls=client_context(held.trusting))
        alice = await living.connect(tls=client_context(certificates.issue("alice").settings()))
        for client in (nobody, alice):
            assert (await client.ask(METADATA, 9)).topics == []
        assert principals(living) == ["User:ANONYMOUS", "User:alice"]
        who = Identity(Principal("User", "alice"), "127.0.0.1")
        (event,) = noted.events
        assert event == AuditEvent("Login", who, Outcome.DONE, "", event.detail, "", "SSL")
        assert event.detail.startswith("by the certificate of 'CN=alice")

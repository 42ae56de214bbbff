"""Whoever connects logs in before anything else is served: raw requests over real sockets, in every order."""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from headrace.access.audit import AuditEvent, Outcome
from headrace.access.authentication import login
from headrace.access.authentication.credentials import ScramMechanism
from headrace.access.identity import ANONYMOUS, Identity, Principal
from headrace.model.errors import ErrorCode
from headrace.servers.kafka.connections import listener_logins
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.secured import SCRAM, Issuer, add_user, remove_user, with_passwords
from tests.unit.servers.living_server import LivingServer, living_server, produce, until
from tests.unit.servers.logging_in import ALICE, by, by_token, choose, log_in, say
from tests.unit.servers.noted import Noted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.servers.kafka.connections.connection import Connection

METADATA = MetadataRequest([])
NEVER_S = 1e6
"""What is cut is cut for what it did, and not because its time was over."""

pytestmark = pytest.mark.timeout(60)
FAILED = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
NOBODY_HERE = Identity(ANONYMOUS, "127.0.0.1")
ALICE_HERE = Identity(Principal("User", "alice"), "127.0.0.1")


@asynccontextmanager
async def guarded(
    path: Path, mechanisms: tuple[str, ...] = SCRAM, issuer: Issuer | None = None, **changes: Any
) -> AsyncIterator[LivingServer]:
    access_of = with_passwords(
        mechanisms, issuer=issuer, **{"failure_delay_s": 0.0, "login_within_s": NEVER_S, **changes}
    )
    async with living_server(path, access_of) as living:
        await add_user(living.node, "alice", "wonder")
        await add_user(living.node, "bob", "build it")
        yield living
        assert not living.node.failed.done()


@pytest.fixture
async def living(tmp_path: Path) -> AsyncIterator[LivingServer]:
    async with guarded(tmp_path) as running:
        yield running


@pytest.fixture
def noted(living: LivingServer) -> Noted:
    return Noted.of(living)


def connections(living: LivingServer) -> list[Connection]:
    return living.server.connections.seats()


# ---- before a login


async def test_who_has_logged_in_is_served_and_known(living: LivingServer) -> None:
    client = await living.connect()
    answer = await log_in(client)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    assert connections(living)[0].identity == ALICE_HERE
    assert (await client.ask(METADATA, 9)).topics == []
    assert living.node.counters.logins.succeeded == 1


@pytest.mark.parametrize("request_", [METADATA, produce("t"), FetchRequest(), produce("t", acks=0)])
async def test_nothing_else_is_looked_at_before_a_login(
    living: LivingServer, request_: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = await living.connect()
    client.begin(request_, 9)
    assert await client.frame() is None
    assert "without having logged in: clients of this port set security.protocol to SASL_PLAINTEXT" in caplog.text
    assert living.node.counters.refused_connections == 1


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_nothing_else_is_looked_at_in_the_middle_of_a_login(living: LivingServer, steps: int) -> None:
    client = await living.connect()
    await client.ask(ApiVersionsRequest(), 0)
    if steps:
        await choose(client, "SCRAM-SHA-256")
    if steps > 1:
        await say(client, b"n,,n=alice,r=fresh")
    client.begin(produce("t"), 9)
    assert await client.frame() is None


async def test_a_request_behind_a_login_that_goes_on_is_not_served(living: LivingServer) -> None:
    client = await living.connect()
    answer = await choose(client, "SCRAM-SHA-256")
    assert answer.mechanisms == list(SCRAM)
    client.begin(SaslAuthenticateRequest(b"n,,n=alice,r=fresh"), 2)
    client.begin(METADATA, 9)
    assert await client.frame() is not None
    assert await client.frame() is None, "it was not logged in by then"


async def test_a_request_behind_a_login_that_succeeds_is_served(tmp_path: Path) -> None:
    issuer = Issuer()
    async with guarded(tmp_path, ("OAUTHBEARER",), issuer) as living:
        client = await living.connect()
        client.begin(SaslHandshakeRequest("OAUTHBEARER"), 1)
        client.begin(SaslAuthenticateRequest(f"n,,\1auth=Bearer {issuer.token('alice')}\1\1".encode()), 2)
        client.begin(METADATA, 9)
        assert [await client.frame() is not None for _ in range(3)] == [True] * 3
        assert connections(living)[0].identity == ALICE_HERE


async def test_api_versions_says_that_one_can_log_in(living: LivingServer) -> None:
    client = await living.connect()
    answer = await client.ask(ApiVersionsRequest(), 0)
    ranges = {it.api_key: (it.min_version, it.max_version) for it in answer.api_keys}
    assert (ranges[17], ranges[36]) == ((0, 1), (0, 2))


@pytest.mark.parametrize("size", [65_537, 50 << 20])
@pytest.mark.parametrize("is_known", [False, True], ids=["size alone", "size and request"])
async def test_a_large_frame_is_refused_at_its_first_bytes(
    living: LivingServer, size: int, is_known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    client = await living.connect()
    client.writer.write(struct.pack(">ihhih", size, 36, 2, 1, -1)[: 14 if is_known else 4])
    assert await client.frame() is None
    assert f"a frame of {size} bytes; allowed are 10 to 65536" in caplog.text


async def test_a_frame_as_large_as_may_be_is_looked_at(living: LivingServer) -> None:
    client = await living.connect()
    await choose(client, "SCRAM-SHA-256")
    answer = await say(client, b"x" * 65_500)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("first", [b"", b"\0\0\0", struct.pack(">ihhih", 20, 18, 0, 1, -1)])
async def test_who_does_not_log_in_in_time_is_cut(
    tmp_path: Path, first: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded(tmp_path, login_within_s=0.05) as living:
        client = await living.connect()
        client.writer.write(first)
        assert await client.frame() is None
        assert "nobody has logged in within 0.05 s" in caplog.text


async def test_asking_again_and_again_does_not_make_the_time_longer(tmp_path: Path) -> None:
    async with guarded(tmp_path, login_within_s=0.2) as living:
        client = await living.connect()
        while True:
            client.begin(ApiVersionsRequest(), 0)
            if await client.frame() is None:
                break


async def test_who_has_logged_in_has_time(living: LivingServer) -> None:
    client = await living.connect()
    await log_in(client)
    (connection,) = connections(living)
    assert connection.login is not None
    assert connection.login._timer.cancelled()


@pytest.mark.parametrize(
    ("nonsense", "said"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "it speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "it speaks TLS, and this port does not"),
        (b"\xff" * 100, "a frame of -1 bytes"),
        (bytes(100), "a frame of 0 bytes"),
    ],
    ids=["http", "tls", "ones", "zeros"],
)
async def test_nonsense_is_cut(
    living: LivingServer, nonsense: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await living.connect()
    client.writer.write(nonsense)
    assert await client.frame() is None
    assert said in caplog.text


async def test_refusals_do_not_fill_the_log(living: LivingServer, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(30):
        client = await living.connect()
        client.begin(METADATA, 9)
        assert await client.frame() is None
    assert len([record for record in caplog.records if "without having logged in" in record.message]) == 20


# ---- the order of requests


async def test_a_message_needs_a_mechanism_first(living: LivingServer) -> None:
    client = await living.connect()
    assert (await say(client, b"n,,n=alice,r=fresh")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await client.frame() is None


async def test_a_mechanism_is_chosen_once(living: LivingServer) -> None:
    client = await living.connect()
    await choose(client, "SCRAM-SHA-256")
    assert (await choose(client, "SCRAM-SHA-256")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await client.frame() is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "GSSAPI", "scram-sha-256", "", "SCRAM-SHA-256-PLUS"])
async def test_an_unknown_mechanism_is_refused_with_those_that_are_known(
    living: LivingServer, noted: Noted, mechanism: str
) -> None:
    client = await living.connect()
    answer = await choose(client, mechanism)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(SCRAM))
    assert await client.frame() is None
    (event,) = noted.events
    assert (event.action, event.identity, event.outcome) == ("Login", NOBODY_HERE, Outcome.REFUSED)
    assert "SCRAM-SHA-256, SCRAM-SHA-512" in event.detail


async def test_messages_without_headers_are_refused_before_they_come(living: LivingServer) -> None:
    client = await living.connect()
    assert (await choose(client, "SCRAM-SHA-256", version=0)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert await client.frame() is None


async def test_what_is_pipelined_behind_a_refusal_is_not_served(living: LivingServer) -> None:
    client = await living.connect()
    client.begin(SaslHandshakeRequest("GSSAPI"), 1)
    client.begin(ApiVersionsRequest(), 0)
    assert await client.frame() is not None
    assert await client.frame() is None


async def test_an_open_listener_says_that_nobody_logs_in(tmp_path: Path) -> None:
    async with living_server(tmp_path) as living:
        client = await living.connect()
        assert (await choose(client, "SCRAM-SHA-256")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await say(client, b"")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.ask(METADATA, 9)).topics == []


# ---- failures


@pytest.mark.parametrize("name", ["alice", "mallory"])
@pytest.mark.parametrize("mechanism", SCRAM)
async def test_a_failure_says_the_same_to_everybody(
    living: LivingServer, noted: Noted, name: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await living.connect()
    answer = await log_in(client, by(mechanism, name, "hunter2-wrong"))
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        f"{FAILED} {mechanism}",
    )
    assert bytes(answer.auth_bytes) == b""
    assert await client.frame() is None
    (event,) = noted.events
    assert (event.identity, event.outcome, event.resource) == (NOBODY_HERE, Outcome.REFUSED, f"user '{name}'")
    assert event.listener == "SASL_PLAINTEXT"
    assert event.detail.startswith(f"{mechanism}: ")
    assert f"the login of '{name}' failed: {mechanism}" in caplog.text
    assert "hunter2" not in caplog.text + str(noted.events)
    assert living.node.counters.logins.failed == 1


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"p=tls-unique,,n=alice,r=fresh",
        b"n=alice,r=fresh",
        b"n,a=bob,n=alice,r=fresh",
        b"n,,n=,r=fresh",
        b"n,,n=alice,r=",
        b"n,,m=x,n=alice,r=fresh",
        b"\xff\xfe",
    ],
)
async def test_a_message_that_is_none_ends_the_login(living: LivingServer, message: bytes) -> None:
    client = await living.connect()
    await choose(client, "SCRAM-SHA-256")
    answer = await say(client, message)
    assert (answer.error_code, answer.error_message) == (58, f"{FAILED} SCRAM-SHA-256")
    assert await client.frame() is None


async def test_a_failure_is_answered_late_and_nothing_is_read_meanwhile(tmp_path: Path) -> None:
    """KIP-306. Its other side: a client that guesses cannot do so faster over the same connection."""
    async with guarded(tmp_path, failure_delay_s=0.3) as living:
        client = await living.connect()
        await choose(client, "SCRAM-SHA-256")
        client.begin(SaslAuthenticateRequest(b"nonsense"), 2)
        client.begin(SaslHandshakeRequest("SCRAM-SHA-256"), 1)
        began_s = asyncio.get_running_loop().time()
        assert await client.frame() is not None
        assert asyncio.get_running_loop().time() - began_s > 0.25
        assert await client.frame() is None


async def test_who_leaves_before_the_answer_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with guarded(tmp_path, failure_delay_s=0.05) as living:
        client = await living.connect()
        await choose(client, "SCRAM-SHA-256")
        client.begin(SaslAuthenticateRequest(b"nonsense"), 2)
        await until(lambda: living.node.counters.logins.failed == 1)
        client.vanish()
        await until(lambda: not connections(living) and len(living.server.tasks) == 1)
    assert "our fault" not in caplog.text


async def test_a_replayed_login_is_refused(living: LivingServer) -> None:
    """Byte for byte what another client has sent: the nonce of this side is another one."""
    heard: list[bytes] = []
    first = await living.connect()
    begin = first.begin
    first.begin = lambda message, version: (heard.append(message), begin(message, version))[1]  # type: ignore[method-assign, func-returns-value]
    assert (await log_in(first)).error_code == 0
    again = await living.connect()
    answers = [await again.ask(message, 1) for message in heard]
    assert [answer.error_code for answer in answers] == [0, 0, ErrorCode.SASL_AUTHENTICATION_FAILED]


async def test_a_deleted_user_does_not_log_in_any_more(living: LivingServer) -> None:
    assert (await log_in(await living.connect())).error_code == 0
    await remove_user(living.node, "alice", ScramMechanism.SCRAM_SHA_256)
    assert (await log_in(await living.connect())).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (await log_in(await living.connect(), by("SCRAM-SHA-512"))).error_code == 0


async def test_a_refused_token_is_told_of_before_the_login_ends(tmp_path: Path) -> None:
    issuer, stranger = Issuer(), Issuer()
    async with guarded(tmp_path, ("OAUTHBEARER",), issuer) as living:
        client = await living.connect()
        await choose(client, "OAUTHBEARER")
        told = await say(client, f"n,,\1auth=Bearer {stranger.token('alice')}\1\1".encode())
        assert (told.error_code, bytes(told.auth_bytes)) == (0, b'{"status": "invalid_token"}')
        assert connections(living)[0].identity == NOBODY_HERE
        answer = await say(client, b"\1")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.frame() is None
        assert living.node.counters.logins.failed == 1


async def test_a_refused_token_is_noted_though_its_client_leaves_without_a_word(tmp_path: Path) -> None:
    issuer, stranger = Issuer(), Issuer()
    async with guarded(tmp_path, ("OAUTHBEARER",), issuer) as living:
        noted = Noted.of(living)
        for last in (None, METADATA):
            client = await living.connect()
            await choose(client, "OAUTHBEARER")
            await say(client, f"n,,\1auth=Bearer {stranger.token('alice')}\1\1".encode())
            if last is None:
                client.vanish()
            else:
                client.begin(last, 9)
        await until(lambda: len(noted.events) == 2)
        for event in noted.events:
            assert (event.identity, event.outcome) == (NOBODY_HERE, Outcome.REFUSED)
            assert event.detail == "OAUTHBEARER: its token is not valid: InvalidSignatureError"


# ---- sessions (KIP-368)


@pytest.fixture
def at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logins may follow each other within a second."""
    monkeypatch.setattr(login, "AGAIN_AFTER_S", 0.0)


async def test_nobody_logs_in_again_at_once(living: LivingServer) -> None:
    client = await living.connect()
    await log_in(client)
    assert (await choose(client, "SCRAM-SHA-256")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await client.frame() is None


async def test_a_session_lasts_as_long_as_the_listener_says(tmp_path: Path) -> None:
    async with guarded(tmp_path, session_max_s=90.0) as living:
        client = await living.connect()
        assert (await log_in(client)).session_lifetime_ms == 90_000


async def test_a_session_lasts_no_longer_than_its_token(tmp_path: Path) -> None:
    issuer = Issuer()
    async with guarded(tmp_path, ("OAUTHBEARER",), issuer, session_max_s=90.0) as living:
        client = await living.connect()
        answer = await log_in(client, by_token(issuer.token("alice", 60.0)))
        assert 50_000 < answer.session_lifetime_ms <= 60_000


async def test_an_expired_session_is_closed_when_it_asks_for_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded(tmp_path, session_max_s=0.3) as living:
        asking, silent, large = [await living.connect() for _ in range(3)]
        for client in (asking, silent, large):
            await log_in(client)
        await until(lambda: all(it.kept_out_by is not None for it in connections(living)), 20)
        asking.begin(ApiVersionsRequest(), 0)
        large.begin(produce("t", b"x" * 200_000), 9)
        assert [await client.frame() for client in (asking, large)] == [None, None]
        assert living.node.counters.logins.expired == 2
        assert "the session of User:alice has ended, and is not renewed: it asks for ApiVersions" in caplog.text
        assert len(connections(living)) == 1, "who asks for nothing stays"


async def test_a_session_is_renewed_before_and_after_its_end(tmp_path: Path, at_any_time: None) -> None:
    async with guarded(tmp_path, session_max_s=2.0) as living:
        client = await living.connect()
        await log_in(client)
        (connection,) = connections(living)
        assert (await log_in(client)).error_code == 0
        await until(lambda: connection.kept_out_by is not None, 20)
        assert (await log_in(client)).error_code == 0
        assert (await client.ask(METADATA, 9)).topics == []
        assert living.node.counters.logins.succeeded == 3


async def test_requests_are_served_in_the_middle_of_a_renewal(tmp_path: Path, at_any_time: None) -> None:
    async with guarded(tmp_path) as living:
        client = await living.connect()
        await log_in(client)
        await choose(client, "SCRAM-SHA-256")
        assert (await client.ask(METADATA, 9)).topics == []
        assert connections(living)[0].identity == ALICE_HERE


@pytest.mark.parametrize(
    "credentials", [by("SCRAM-SHA-256", "bob", "build it"), by("SCRAM-SHA-512"), by("SCRAM-SHA-256", password="no")]
)
async def test_a_renewal_that_changes_who_or_how_ends_the_connection(
    tmp_path: Path, at_any_time: None, credentials: Any
) -> None:
    async with guarded(tmp_path) as living:
        client = await living.connect()
        await log_in(client)
        assert (await log_in(client, credentials)).error_code != 0
        assert await client.frame() is None


# ---- many


async def test_many_log_in_at_once(tmp_path: Path) -> None:
    async with guarded(tmp_path) as living:
        clients = [await living.connect() for _ in range(300)]
        answers = await asyncio.gather(*(log_in(client) for client in clients))
        assert {answer.error_code for answer in answers} == {0}
        assert living.node.counters.logins.succeeded == 300


async def test_who_tries_longest_makes_way(living: LivingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_logins, "UNDER_WAY_MAX", 3)
    inside = await living.connect()
    await log_in(inside)
    waiting = [await living.connect() for _ in range(4)]
    await until(lambda: len(connections(living)) == 4)
    assert await waiting[0].frame() is None
    for client in waiting[1:]:
        assert (await log_in(client)).error_code == 0
    assert (await inside.ask(METADATA, 9)).topics == []


async def test_a_listener_stops_in_the_middle_of_logins(tmp_path: Path) -> None:
    async with guarded(tmp_path, failure_delay_s=0.05) as living:
        silent, waiting = await living.connect(), await living.connect()
        await choose(waiting, "SCRAM-SHA-256")
        waiting.begin(SaslAuthenticateRequest(b"nonsense"), 2)
        await until(lambda: living.node.counters.logins.failed == 1)
        await living.server.stop()
        assert await silent.frame() is None
        assert await waiting.frame() is not None, "what is under way is answered"
        assert await waiting.frame() is None


async def test_a_login_is_noted_with_its_listener(living: LivingServer, noted: Noted) -> None:
    await log_in(await living.connect(), ALICE)
    assert noted.events == [
        AuditEvent("Login", ALICE_HERE, Outcome.DONE, "", "by SCRAM-SHA-256", "test", "SASL_PLAINTEXT")
    ]

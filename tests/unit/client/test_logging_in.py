"""Connections that log in: each mechanism against a node that checks it by the book, and nodes that do not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.connection import Connection
from headrace.client.connections.login import Login
from headrace.client.errors import AuthenticationFailed, ConnectionLost
from headrace.client.security.credentials import PasswordCredentials, TokenCredentials
from headrace.client.security.exchanges import ITERATIONS_MAX, ITERATIONS_MIN
from headrace.client.security.settings import ClientSecurity
from headrace.model.errors import ErrorCode
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.wire.api import ApiKey
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.metadata import MetadataRequest, MetadataResponse
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeResponse
from headrace.wire.sasl import scram_keys
from headrace.wire.sasl.oauthbearer import REFUSAL_SEEN, BearerLogin, BearerRefusal
from headrace.wire.sasl.plain import PlainLogin
from headrace.wire.sasl.scram import HASH_NAMES, ClientFinal, ClientFirst, ServerFinal, ServerFirst, signed_text
from tests.unit.client.scripted_node import HANG_UP, SILENCE, ScriptedNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ALICE = PasswordCredentials("SCRAM-SHA-256", "alice", "hunter2")


@dataclass
class Guard:
    """What a node asks of those who come: RFC 5802, and Kafka's requests around it."""

    password: str = "hunter2"
    mechanisms: tuple[str, ...] = tuple(HASH_NAMES)
    iterations: int = ITERATIONS_MIN
    lasts_ms: int = 0
    nonce_of: Any = field(default=lambda client: client + "theirs")
    signature_of: Any = field(default=lambda signature: signature)
    chosen: str = ""
    logins: int = 0
    first: ClientFirst | None = None
    answer: ServerFirst | None = None

    def handshake(self, request: Any) -> SaslHandshakeResponse:
        self.chosen, self.first = request.mechanism, None
        known = request.mechanism in self.mechanisms
        return SaslHandshakeResponse(0 if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(self.mechanisms))

    def authenticate(self, request: Any) -> SaslAuthenticateResponse:
        hash_name = HASH_NAMES[self.chosen]
        if self.first is None:
            self.first = ClientFirst.decode(request.auth_bytes)
            self.answer = ServerFirst(self.nonce_of(self.first.nonce), b"salt of alice", self.iterations)
            return SaslAuthenticateResponse(auth_bytes=self.answer.encode())
        assert self.answer is not None
        final = ClientFinal.decode(request.auth_bytes)
        assert final.binding == b"n,,"
        salted = scram_keys.salted_password(hash_name, self.password, self.answer.salt, self.iterations)
        key = scram_keys.client_key(hash_name, salted)
        signed = signed_text(self.first, self.answer, final)
        stored = scram_keys.stored_key(hash_name, key)
        if scram_keys.proven_client_key(hash_name, stored, signed, final.proof) != key:
            return refused("Authentication failed during authentication due to invalid credentials")
        signature = scram_keys.server_signature(hash_name, scram_keys.server_key(hash_name, salted), signed)
        self.logins += 1
        verdict = ServerFinal(self.signature_of(signature)).encode()
        return SaslAuthenticateResponse(auth_bytes=verdict, session_lifetime_ms=self.lasts_ms)


def refused(said: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, said)


def guard(node: ScriptedNode, guard: Guard, logins: int = 100) -> Guard:
    node.script[ApiKey.SASL_HANDSHAKE] = [guard.handshake] * logins
    node.script[ApiKey.SASL_AUTHENTICATE] = [guard.authenticate] * logins * 2
    return guard


@pytest.fixture
async def node() -> AsyncIterator[ScriptedNode]:
    running = await ScriptedNode().start()
    yield running
    await running.stop()


async def connect(node: ScriptedNode, credentials: Any = ALICE) -> Connection:
    login = Login(credentials, SystemEntropy(), SystemThreads())
    return await Connection.open(SystemNetwork(), node.address, login=login)


@pytest.mark.parametrize("mechanism", HASH_NAMES)
async def test_a_client_logs_in_before_it_asks_anything(node: ScriptedNode, mechanism: str) -> None:
    stands = guard(node, Guard())
    connection = await connect(node, PasswordCredentials(mechanism, "alice", "hunter2"))
    await connection.request(MetadataRequest([]), MetadataResponse)
    assert stands.logins == 1
    assert [key for key, _ in node.requests] == [
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.METADATA,
    ]
    connection.close()


async def test_the_password_is_never_sent(node: ScriptedNode) -> None:
    guard(node, Guard())
    (await connect(node)).close()
    assert b"hunter2" not in b"".join(request.auth_bytes for request in node.asked(ApiKey.SASL_AUTHENTICATE))


async def test_a_wrong_password_is_told_at_once_and_with_what_the_node_says(node: ScriptedNode) -> None:
    guard(node, Guard(password="another"))
    cluster = node.cluster(ClusterSettings(retry_for_s=60.0, reach_for_s=60.0, security=ClientSecurity(None, ALICE)))
    with pytest.raises(
        AuthenticationFailed, match=r"login of 'alice' by SCRAM-SHA-256 failed: .*invalid cred"
    ) as caught:
        await cluster.retry(cluster.refresh)
    assert "hunter2" not in str(caught.value)
    assert len(node.asked(ApiKey.SASL_HANDSHAKE)) == 1, "it was tried again"
    await cluster.close()


async def test_a_mechanism_that_the_node_does_not_take_names_those_that_it_does(node: ScriptedNode) -> None:
    guard(node, Guard(mechanisms=("SCRAM-SHA-512", "PLAIN")))
    with pytest.raises(AuthenticationFailed, match="takes the mechanisms SCRAM-SHA-512, PLAIN"):
        await connect(node)


async def test_a_node_where_nobody_logs_in_says_so(node: ScriptedNode) -> None:
    node.script[ApiKey.SASL_HANDSHAKE] = [SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)]
    with pytest.raises(AuthenticationFailed, match="nobody logs in at this address"):
        await connect(node)
    del node.versions[ApiKey.SASL_HANDSHAKE]
    with pytest.raises(AuthenticationFailed, match="offers nothing of SaslHandshake"):
        await connect(node)


@pytest.mark.parametrize(
    ("stands", "words"),
    [
        (Guard(nonce_of=lambda client: client), "did not continue the nonce"),
        (Guard(nonce_of=lambda client: "replayed" + client), "did not continue the nonce"),
        (Guard(nonce_of=lambda client: client[:-1] + "*theirs"), "did not continue the nonce"),
        (Guard(iterations=ITERATIONS_MIN - 1), f"asks for {ITERATIONS_MIN - 1} iterations"),
        (Guard(iterations=ITERATIONS_MAX + 1), f"asks for {ITERATIONS_MAX + 1} iterations"),
        (Guard(signature_of=lambda signature: bytes(len(signature))), "could not prove that it knows this user"),
        (Guard(signature_of=lambda signature: signature[:-1]), "could not prove that it knows this user"),
    ],
)
async def test_a_node_that_does_not_keep_to_the_rules_is_left(node: ScriptedNode, stands: Guard, words: str) -> None:
    guard(node, stands)
    with pytest.raises(AuthenticationFailed, match=words):
        await connect(node)
    assert MetadataRequest.API_KEY not in [key for key, _ in node.requests]


async def test_a_node_cannot_leave_out_its_signature(node: ScriptedNode) -> None:
    stands = guard(node, Guard())
    node.script[ApiKey.SASL_AUTHENTICATE] = [stands.authenticate, SaslAuthenticateResponse(auth_bytes=b"")]
    with pytest.raises(AuthenticationFailed, match="nonsense"):
        await connect(node)
    node.script[ApiKey.SASL_AUTHENTICATE] = [stands.authenticate, SaslAuthenticateResponse(auth_bytes=b"e=no-way")]
    with pytest.raises(AuthenticationFailed, match="failed: no-way"):
        await connect(node)


async def test_a_node_that_hangs_up_in_the_middle_is_a_connection_lost(node: ScriptedNode) -> None:
    guard(node, Guard())
    node.script[ApiKey.SASL_AUTHENTICATE] = [HANG_UP]
    with pytest.raises(ConnectionLost):
        await connect(node)


async def test_plain(node: ScriptedNode) -> None:
    guard(node, Guard(mechanisms=("PLAIN",)))
    node.script[ApiKey.SASL_AUTHENTICATE] = [SaslAuthenticateResponse(), refused("no")]
    alice = PasswordCredentials("PLAIN", "alice", "hunter2")
    (await connect(node, alice)).close()
    [request] = node.asked(ApiKey.SASL_AUTHENTICATE)
    assert PlainLogin.decode(request.auth_bytes) == PlainLogin("alice", "hunter2")
    with pytest.raises(AuthenticationFailed, match="login of 'alice' by PLAIN failed: no"):
        await connect(node, alice)


async def test_a_bearer_token_is_read_anew_for_each_login(node: ScriptedNode, tmp_path: Path) -> None:
    guard(node, Guard(mechanisms=("OAUTHBEARER",)))
    node.script[ApiKey.SASL_AUTHENTICATE] = [SaslAuthenticateResponse()] * 2
    path = tmp_path / "token"
    for token in ("first.token", "second.token"):
        path.write_text(token + "\n")
        (await connect(node, TokenCredentials(path=str(path)))).close()
    sent = [BearerLogin.decode(request.auth_bytes).token for request in node.asked(ApiKey.SASL_AUTHENTICATE)]
    assert sent == ["first.token", "second.token"]
    path.write_text("to\x01ken")
    with pytest.raises(AuthenticationFailed, match="not made of the characters that tokens have"):
        await connect(node, TokenCredentials(path=str(path)))


async def test_a_token_that_is_not_taken_is_given_up_as_the_rfc_says(node: ScriptedNode) -> None:
    guard(node, Guard(mechanisms=("OAUTHBEARER",)))
    refusal = BearerRefusal("invalid_token", "kafka").encode()
    node.script[ApiKey.SASL_AUTHENTICATE] = [SaslAuthenticateResponse(auth_bytes=refusal), refused("invalid token")]
    with pytest.raises(AuthenticationFailed, match="by OAUTHBEARER failed: invalid token"):
        await connect(node, TokenCredentials("expired"))
    assert node.asked(ApiKey.SASL_AUTHENTICATE)[-1].auth_bytes == REFUSAL_SEEN


async def test_a_session_is_renewed_while_requests_are_under_way(node: ScriptedNode) -> None:
    stands = guard(node, Guard(lasts_ms=200))
    connection = await connect(node)
    answered = 0

    async def ask() -> None:
        nonlocal answered
        while stands.logins < 4:
            await connection.request(MetadataRequest([]), MetadataResponse)
            answered += 1

    await asyncio.wait_for(asyncio.gather(*(ask() for _ in range(5))), 30)
    assert answered >= 10
    assert not connection.is_lost
    in_the_middle = False
    for key, request in node.requests:
        if key == ApiKey.SASL_HANDSHAKE:
            in_the_middle = True
        elif key == ApiKey.SASL_AUTHENTICATE:
            in_the_middle = not request.auth_bytes.startswith(b"c=")
        else:
            assert not in_the_middle, "a request was sent in the middle of a login"
    connection.close()


async def test_a_request_that_nobody_answers_holds_up_no_renewal(node: ScriptedNode) -> None:
    stands = guard(node, Guard(lasts_ms=50))
    node.script[ApiKey.FETCH] = [SILENCE]
    connection = await connect(node)
    waiting = asyncio.ensure_future(connection.request(FetchRequest(), FetchResponse, timeout_s=30))
    while stands.logins < 2:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    await connection.request(MetadataRequest([]), MetadataResponse)
    connection.close()
    with pytest.raises(ConnectionLost):
        await waiting


async def test_a_renewal_that_is_refused_ends_the_connection_and_says_why(node: ScriptedNode) -> None:
    stands = guard(node, Guard(lasts_ms=50), logins=1)
    broken: list[bool] = []
    login = Login(ALICE, SystemEntropy(), SystemThreads())
    connection = await Connection.open(
        SystemNetwork(), node.address, login=login, on_broken=lambda: broken.append(True)
    )
    stands.password = "changed"
    node.script[ApiKey.SASL_HANDSHAKE] = [stands.handshake]
    node.script[ApiKey.SASL_AUTHENTICATE] = [stands.authenticate] * 2
    node.script[ApiKey.METADATA] = [SILENCE]
    with pytest.raises(ConnectionLost, match="login of 'alice' by SCRAM-SHA-256 failed"):
        await connection.request(MetadataRequest([]), MetadataResponse)
    assert connection.is_lost
    assert broken == [True]


async def test_a_closed_connection_renews_nothing(node: ScriptedNode) -> None:
    stands = guard(node, Guard(lasts_ms=50))
    connection = await connect(node)
    connection.close()
    later = await connect(node, ALICE)
    while stands.logins < 5:  # the second one's renewals: time passes
        await asyncio.sleep(0.01)
    asked = {id(link) for link in node.links}
    assert len(asked) == 2
    assert connection._session is not None
    assert connection._session._renewal is None
    later.close()

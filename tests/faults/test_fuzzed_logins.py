"""Requests that are almost right, over TLS: from somebody who has not logged in, and from somebody who has.

As `test_fuzzed_frames` on a plain listener, whose mutations these are; `HEADRACE_SEED` and `HEADRACE_FUZZED_FRAMES`
mean the same here. Whoever has not logged in is answered to what a login consists of, and to nothing else.
"""

from __future__ import annotations

import os
import random
import ssl
import time
from typing import TYPE_CHECKING, Final

import pytest

from headrace.access.authentication.credentials import ScramMechanism
from headrace.wire.api import ApiKey
from headrace.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from headrace.wire.sasl import scram_keys
from headrace.wire.sasl.plain import PlainLogin
from tests.certificates import Certificates
from tests.faults.hostile import Hostile, WatchedNode, watched_node
from tests.faults.test_fuzzed_frames import (
    CONFIGS,
    FRAMES_LONG,
    GROWS_MIB,
    SEED,
    all_valid_frames,
    fuzz,
    prepare,
)
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAMES: Final = int(os.environ.get("HEADRACE_FUZZED_FRAMES", "400"))
USER, PASSWORD = "fuzz", "wonderful"
ITERATIONS: Final = 4096
LOGIN_APIS: Final = {ApiKey.API_VERSIONS.name, ApiKey.SASL_HANDSHAKE.name, ApiKey.SASL_AUTHENTICATE.name}


class Stranger(Hostile):
    """Over TLS; it has not said who it is."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def send(self, raw: bytes) -> None:
        try:
            super().send(raw)
        except ssl.SSLError:
            return  # the node has closed the connection in the middle of it

    def frame(self) -> bytes | None:
        try:
            return super().frame()
        except ssl.SSLError:
            return None


class User(Stranger):
    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port, context)
        assert self.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        answer = self.ask(SaslAuthenticateRequest(PlainLogin(USER, PASSWORD).encode()), 2)
        assert answer.error_code == 0, answer.error_message


class SecuredNode(WatchedNode):
    """What is fuzzed is its second listener; the first is for whoever watches."""

    kind: type[Stranger]
    secured_port: int
    context: ssl.SSLContext

    def connect_to_fuzz(self) -> Hostile:
        return self.kind(self.secured_port, self.context)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    directory = tmp_path_factory.mktemp("fuzz")
    held = Certificates(directory).issue("node")
    port = free_port()
    configs = {
        **CONFIGS,
        "listeners": f"PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL",
        "listener.name.secured.ssl.keystore.location": str(held.certificate),
        "listener.name.secured.ssl.key.location": str(held.key),
        "listener.name.secured.connection.failed.authentication.delay.ms": "0",  # it would be all that is waited for
        "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    }
    with watched_node(directory, kind=SecuredNode, **configs) as watched:
        prepare(watched)
        with watched.connect() as client:
            add_user(client)
        watched.secured_port = port
        watched.context = ssl.create_default_context(cafile=str(held.authority))
        yield watched


def add_user(client: Hostile) -> None:
    salt = b"salt of the fuzzing user"
    salted = scram_keys.salted_password("sha256", PASSWORD, salt, ITERATIONS)
    wanted = ScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_256.value, ITERATIONS, salt, salted)
    (result,) = client.ask(AlterUserScramCredentialsRequest(upsertions=[wanted]), 0).results
    assert result.error_code == 0, result.error_message


def run(node: SecuredNode, kind: type[Stranger], count: int) -> None:
    node.kind = kind
    valid = all_valid_frames(node)
    if kind is Stranger:
        allowed = [frame for frame in valid if frame[0].split()[0] in LOGIN_APIS]
        others = random.Random(SEED).sample(valid, len(allowed))
        valid = allowed * 4 + others
    began_s = time.monotonic()
    with node.attacked(grows_mib=GROWS_MIB):
        outcomes = fuzz(node, SEED, count, valid, node.connect_to_fuzz)
    rate = count / (time.monotonic() - began_s)
    print(f"\n{kind.__name__}, seed {SEED}: {dict(outcomes)}, {rate:.0f} frames/s")
    assert outcomes["answered"] > count // 20, "hardly anything got past the first check: the mutations are too coarse"
    assert outcomes["closed"] > count // 20


@pytest.mark.parametrize("kind", [Stranger, User])
def test_fuzzed_frames_before_and_after_a_login(node: SecuredNode, kind: type[Stranger]) -> None:
    run(node, kind, FRAMES)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", [Stranger, User])
def test_very_many_fuzzed_frames_before_and_after_a_login(node: SecuredNode, kind: type[Stranger]) -> None:
    run(node, kind, FRAMES_LONG)

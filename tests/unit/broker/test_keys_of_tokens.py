"""Where the keys of tokens come from, and that they follow their source."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from headrace.access.authentication.exchange import Accepted
from headrace.access.authentication.token_rules import TokenRules
from headrace.broker.listeners import token_keys
from headrace.broker.listeners.token_keys import TokenKeyring
from headrace.broker.listeners.token_settings import TokenSettings, UnusableKeys
from headrace.runtime.clock import SystemClock
from headrace.runtime.threads import SystemThreads
from headrace.runtime.tls.fetching import fetch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

OLD, NEW = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
NEVER_S = 1e6


def key_set(**keys: ec.EllipticCurvePrivateKey) -> bytes:
    entries = [{**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid} for kid, key in keys.items()]
    return json.dumps({"keys": entries}).encode()


def token(kid: str, key: ec.EllipticCurvePrivateKey) -> str:
    return jwt.encode({"sub": "alice", "exp": SystemClock().wall_ms() / 1000 + 60}, key, "ES256", {"kid": kid})


@pytest.fixture
def threads() -> Iterator[SystemThreads]:
    made = SystemThreads()
    yield made
    made.close()


@pytest.fixture
async def _hurried(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(token_keys, "LOOK_S", 0.01)
    monkeypatch.setattr(token_keys, "AGAIN_S", 0.0)
    yield
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def until_known(keyring: TokenKeyring, shown: str) -> None:
    async with asyncio.timeout(20):
        while not isinstance(keyring.check(shown), Accepted):
            await asyncio.sleep(0.01)


class Site(BaseHTTPRequestHandler):
    pages: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = self.pages.get(self.path, (404, b""))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/keys")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def site(**pages: tuple[int, bytes]) -> Iterator[tuple[str, dict[str, tuple[int, bytes]]]]:
    served = {f"/{name}": page for name, page in pages.items()}
    server = HTTPServer(("127.0.0.1", 0), type("OwnSite", (Site,), {"pages": served}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.usefixtures("_hurried")
async def test_keys_of_a_file_follow_it_and_damage_changes_nothing(
    tmp_path: Path, threads: SystemThreads, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "the keys"
    path.write_bytes(key_set(old=OLD))
    url = path.as_uri()
    keyring = TokenKeyring(TokenSettings(url, NEVER_S, TokenRules()), SystemClock(), threads)
    await keyring.load()
    assert keyring.check(token("old", OLD)) != keyring.check(token("new", NEW))
    following = asyncio.create_task(keyring.keep_fresh())
    path.write_bytes(key_set(new=NEW))
    await until_known(keyring, token("new", NEW))
    assert not isinstance(keyring.check(token("old", OLD)), Accepted), "a key that was taken out is trusted no more"
    path.write_bytes(b"{")
    async with asyncio.timeout(20):
        while "those that were known stay in force" not in caplog.text:
            await asyncio.sleep(0.01)
    assert isinstance(keyring.check(token("new", NEW)), Accepted)
    following.cancel()
    again = TokenKeyring(TokenSettings(url, NEVER_S, TokenRules()), SystemClock(), threads)
    with pytest.raises(UnusableKeys, match=r"the keys of tokens at file://.* cannot be used: neither JSON nor PEM"):
        await again.load()


@pytest.mark.usefixtures("_hurried")
async def test_a_key_that_is_not_known_is_asked_for(threads: SystemThreads) -> None:
    with site() as (address, pages):
        keyring = TokenKeyring(TokenSettings(f"{address}/keys", NEVER_S, TokenRules()), SystemClock(), threads)
        await keyring.load()  # the server has nothing yet: a node starts all the same, and lets nobody in
        assert not isinstance(keyring.check(token("old", OLD)), Accepted)
        following = asyncio.create_task(keyring.keep_fresh())
        pages["/keys"] = (200, key_set(old=OLD))
        await until_known(keyring, token("old", OLD))
        pages["/keys"] = (200, key_set(old=OLD, new=NEW))
        await until_known(keyring, token("new", NEW))
        following.cancel()


def test_only_the_address_that_was_named_is_asked_and_only_for_so_much() -> None:
    with site(keys=(200, b"x" * 100), elsewhere=(302, b"")) as (address, _):
        assert fetch(f"{address}/keys", 100) == b"x" * 100
        for url, said in (
            (f"{address}/keys", "more than 99 bytes"),
            (f"{address}/elsewhere", "answers 302"),
            (f"{address}/missing", "answers 404"),
            ("file:///etc/passwd", "no address of a web server"),
            ("http://127.0.0.1:1/", "cannot be reached"),
        ):
            with pytest.raises(OSError, match=said):
                fetch(url, 99)

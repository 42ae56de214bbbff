"""`pytest --secured`: nodes of tests are secured, and their clients log in. No test is changed by it or knows of it.

Nodes start with the configuration that `headrace security init` writes. Whatever constructs a client gets what a user
would put into the client's configuration: for addresses of secured nodes alone, as a test's other brokers are open.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka

from headrace.client.connections.cluster import Cluster, ClusterSettings
from headrace.client.connections.view import parse_address
from headrace.client.security.exchanges import Exchanges
from headrace.client.security.settings import parse_security
from headrace.wire.frames import RequestHeader, decode_response_header, encode_request
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from headrace.wire.primitives import Reader

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pytest

    from headrace.runtime.clock import Clock
    from headrace.runtime.entropy import Entropy
    from headrace.runtime.network import Address, Network
    from headrace.runtime.threads import Threads
    from headrace.wire.api import Message

PATIENCE_S: Final = 60.0


class Configured(NamedTuple):
    """What `security init` has written."""

    node: Path
    client: Path
    settings: Mapping[str, str]
    """Of the client, under librdkafka's names."""


class _Run:
    """What holds for this process's tests."""

    def __init__(self) -> None:
        self.configured: Configured | None = None
        """None: nodes are open, as tests start them."""
        self.addresses: set[tuple[str, int]] = set()
        """Where secured nodes listen for clients."""


_run: Final = _Run()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--secured", action="store_true", help="nodes of tests are secured, and their clients log in")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is imported: tests take the clients' classes by their names."""
    if config.getoption("--secured"):
        _begin(Path(tempfile.mkdtemp(prefix="headrace-secured-")))


def pytest_unconfigure() -> None:
    if _run.configured is not None:
        shutil.rmtree(_run.configured.node.parent.parent)


def serve_options(address: str) -> list[str]:
    """What `headrace serve` is told besides, when it listens there for clients."""
    if _run.configured is None:
        return []
    _run.addresses.add(tuple(parse_address(address)))
    return ["--config", str(_run.configured.node)]


def kcat_options(arguments: Sequence[str]) -> list[str]:
    return [part for name, value in _for(arguments).items() for part in ("-X", f"{name}={value}")]


def logged_in(connected: socket.socket, address: str) -> socket.socket:
    """The connection, once it may be used."""
    settings = _for([address])
    if not settings:
        return connected
    context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
    secured = context.wrap_socket(connected, server_hostname=address.rpartition(":")[0])
    credentials = parse_security(settings).credentials
    assert credentials is not None
    _ask(secured, 1, 1, SaslHandshakeRequest(credentials.mechanism))
    exchange = Exchanges(credentials, os.urandom).new()
    message: bytes | None = exchange.begin()
    while message is not None:
        answer = SaslAuthenticateResponse.decode(_ask(secured, 2, 2, SaslAuthenticateRequest(message)), 2)
        assert not answer.error_code, answer.error_message
        message = exchange.answer(bytes(answer.auth_bytes))
    return secured


def _ask(secured: socket.socket, correlation_id: int, version: int, message: Message) -> Reader:
    secured.sendall(encode_request(RequestHeader(message.API_KEY, version, correlation_id, "raw"), message))
    with secured.makefile("rb", buffering=0) as answers:
        size = int.from_bytes(_exactly(answers.read, 4), "big")
        reader = Reader(_exactly(answers.read, size))
    decode_response_header(reader, message.API_KEY, version)
    return reader


def _exactly(read: Callable[[int], bytes | None], size: int) -> bytes:
    taken = b""
    while len(taken) < size:
        piece = read(size - len(taken))
        assert piece, "the node has closed the connection"
        taken += piece
    return taken


def _for(places: Iterable[str]) -> Mapping[str, str]:
    """The client's settings if one of these is where secured nodes listen; else none."""
    if _run.configured is None:
        return {}
    for place in ",".join(places).split(","):
        host, _, port = place.rpartition(":")
        if port.isdigit() and (host, int(port)) in _run.addresses:
            return _run.configured.settings
    return {}


# ---- clients


def _begin(home: Path) -> None:
    made = home / "security"
    subprocess.run([sys.executable, "-m", "headrace", "security", "init", "--dir", str(made)], check=True)
    client = made / "admin.properties"
    lines = (line.partition("=") for line in client.read_text().splitlines() if line and line[0] not in "#!")
    settings = {name.strip(): value.strip() for name, _, value in lines}
    _run.configured = Configured(made / "node.toml", client, settings)
    os.environ["HEADRACE_COMMAND_CONFIG"] = str(client)
    _teach_confluent()
    _teach_python_clients()
    _teach_ours()


def _teach_confluent() -> None:
    """Two are written in C: replaced by classes that are told more."""
    for name in ("Producer", "Consumer"):
        setattr(confluent_kafka, name, _secured_confluent(getattr(confluent_kafka, name)))
    admin = confluent_kafka.admin.AdminClient
    construct = admin.__init__

    @wraps(construct)
    def constructed(self: object, settings: Mapping[str, Any], **others: Any) -> None:
        construct(self, _with_confluent_settings(settings), **others)

    admin.__init__ = constructed


def _secured_confluent(client: type[Any]) -> type[Any]:
    class Secured(client):  # type: ignore[misc]  # a class that is known only now
        def __init__(self, settings: Mapping[str, Any], **others: Any) -> None:
            super().__init__(_with_confluent_settings(settings), **others)

    Secured.__name__ = client.__name__
    return Secured


def _with_confluent_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**_for([settings.get("bootstrap.servers", "")]), **settings}


def _teach_python_clients() -> None:
    for client in (
        aiokafka.AIOKafkaProducer,
        aiokafka.AIOKafkaConsumer,
        aiokafka.admin.AIOKafkaAdminClient,
        aiokafka.client.AIOKafkaClient,
        kafka.KafkaProducer,
        kafka.KafkaConsumer,
        kafka.KafkaAdminClient,
    ):
        is_ours = client.__module__.startswith("aiokafka")
        client.__init__ = _with_python_settings(client.__init__, takes_context=is_ours)


def _with_python_settings(construct: Callable[..., None], *, takes_context: bool) -> Callable[..., None]:
    @wraps(construct)
    def constructed(self: object, *arguments: Any, **settings: Any) -> None:
        servers = settings.get("bootstrap_servers", "")
        wanted = _for([servers] if isinstance(servers, str) else servers)
        if wanted and "security_protocol" not in settings:
            settings |= _as_python(wanted, takes_context=takes_context)
        construct(self, *arguments, **settings)

    return constructed


def _as_python(settings: Mapping[str, str], *, takes_context: bool) -> dict[str, Any]:
    authority = settings["ssl.ca.location"]
    trusted = (
        {"ssl_context": ssl.create_default_context(cafile=authority)} if takes_context else {"ssl_cafile": authority}
    )
    return {
        "security_protocol": settings["security.protocol"],
        "sasl_mechanism": settings["sasl.mechanism"],
        "sasl_plain_username": settings["sasl.username"],
        "sasl_plain_password": settings["sasl.password"],
        **trusted,
    }


def _teach_ours() -> None:
    construct = Cluster.__init__

    @wraps(construct)
    def constructed(
        self: Cluster,
        bootstrap: Sequence[Address],
        network: Network,
        clock: Clock,
        entropy: Entropy,
        settings: ClusterSettings | None = None,
        threads: Threads | None = None,
    ) -> None:
        wanted, chosen = _for([str(address) for address in bootstrap]), settings or ClusterSettings()
        if wanted and chosen.security.credentials is None:
            chosen = replace(chosen, security=parse_security(wanted))
        construct(self, bootstrap, network, clock, entropy, chosen, threads)

    Cluster.__init__ = constructed  # type: ignore[method-assign]

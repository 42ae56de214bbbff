"""A node in this process whose listeners ask who their clients are, one for each way to say it.

    with SecuredNode(tmp_path) as node:
        node.address_of("SASL_SSL")

`alice` has the password `wonder`, as SCRAM and PLAIN check it; `node.issuer` signs tokens; certificates of
`node.certificates` are those that listeners and clients show.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Self

from headrace.access.authentication.certificate_names import NameRules
from headrace.broker.build import NodePlan, build
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address, SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.servers.kafka.build import kafka_server
from headrace.testing.broker import AT_ONCE, QUICK
from tests.certificates import Certificates
from tests.secured import ALL, SCRAM, Issuer, add_user, with_certificates, with_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from headrace.broker.access.listener_access import ListenerAccess
    from headrace.broker.node import Node

PATIENCE_S: Final = 60
USERS: Final = {"alice": "wonder", "bob": "build it"}
COMMON_NAME: Final = "RULE:^CN=([a-z]+).*$/$1/"


class SecuredNode:
    def __init__(self, directory: Path, session_max_s: float = float("inf")) -> None:
        self.certificates = Certificates(directory)
        self.issuer = Issuer()
        held = self.certificates.issue("node")
        lasting = {"session_max_s": session_max_s}
        self._listeners: dict[str, Callable[[Node], ListenerAccess]] = {
            "SASL_PLAINTEXT": with_passwords(SCRAM, **lasting),
            "SASL_SSL": with_passwords(ALL, held=held, issuer=self.issuer, **lasting),
            "SSL": with_certificates(held, name_rules=NameRules(COMMON_NAME)),
        }
        self._directory = directory / "data"
        self._addresses: dict[str, Address] = {}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.node: Node

    def address_of(self, listener: str) -> str:
        return str(self._addresses[listener])

    def create_topic(self, name: str) -> None:
        node, wanted = self.node, [NewTopic(name, 1, 1, (), ())]
        self.ask(
            node.commands.submit(
                lambda image: create_topics(image, wanted, node.view.configs, node.commands.new_topic_id)
            )
        )

    def ask(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Have it done on the node's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def __enter__(self) -> Self:
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="secured-node", daemon=True)
        self._thread.start()
        ready.result(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "it did not stop"
        assert not self.node.failed.done(), "it failed during the test"

    # ---- in the node's thread

    def _run(self, ready: Future[None]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _serve(self, ready: Future[None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        disk, threads = SystemDisk(self._directory), SystemThreads()
        try:
            world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), threads)
            self.node = await build(world, NodePlan(configs={**AT_ONCE, **QUICK}))
            await self.node.start()
            for name, password in USERS.items():
                await add_user(self.node, name, password)
            servers = {name: kafka_server(self.node, access=of(self.node)) for name, of in self._listeners.items()}
            for name, server in servers.items():
                self._addresses[name] = await server.start(Address("127.0.0.1", 0))
            ready.set_result(None)
            await self._stop.wait()
            for server in servers.values():
                await server.stop()
            await self.node.stop()
        finally:
            threads.close()
            disk.close()

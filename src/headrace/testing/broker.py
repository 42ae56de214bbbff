"""A real node inside the test's own process: real sockets, real files, ready in a fraction of a second.

It runs on an event loop in a thread of its own, so blocking clients and asyncio clients can both talk to it.

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    async with Broker() as broker:
        ...
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from headrace.access.authentication.credentials import (
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    USUAL_SALT_BYTES,
    ScramMechanism,
    ScramUser,
    verifier_for,
)
from headrace.broker.access.first_users import read_first_users
from headrace.broker.build import NodePlan, build
from headrace.broker.listeners.exposure import complaint, exposed
from headrace.broker.listeners.opening import Doors
from headrace.broker.listeners.plans import ToldPlaces, planned
from headrace.broker.membership.membership import MembershipPlan
from headrace.metadata.commands.topic_commands import NewTopic, TopicReference, create_topics, delete_topics
from headrace.model.errors import Refusal
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address, SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.servers.kafka.build import client_listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Any, Self

    from headrace.access.authentication.credentials import ScramVerifier
    from headrace.broker.node import Node
    from headrace.runtime.entropy import Entropy

START_S: Final = 30.0  # against hangs; a start takes a tenth of a second
QUICK: Final = {"headrace.durability": "written"}
"""A test's data need not survive a power cut, and not waiting for the disk makes tests faster."""
AT_ONCE: Final = {"group.initial.rebalance.delay.ms": "0"}
"""A test's first consumer need not wait for others that will never come."""


FOR_USERS: Final = "SASL_PLAINTEXT"
MECHANISM: Final = ScramMechanism.SCRAM_SHA_256


class Broker:
    """One node on a free port of 127.0.0.1, for as long as a `with` or `async with` block lasts.

        with Broker(configs={"num.partitions": "4"}) as broker:
            broker.create_topic("orders", partitions=8)
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    `data_dir`: where it keeps its data; without it, in a temporary directory that goes when the broker stops.
    `port`: where it listens; 0 takes any that is free.
    `configs`: settings of the node by Kafka's names, as in docs/settings.md.
    `is_durable`: wait for the disk before a record is acknowledged, as in production. A test's data need not survive a
    power cut, so by default nothing waits.
    `users`: names and passwords of those who may log in, by SCRAM; `client_settings` is what their clients need. If
    `configs` say nothing of `listeners`, nobody else gets in.

    Raises ValueError for listeners that cannot be.
    """

    def __init__(
        self,
        *,
        data_dir: Path | str | None = None,
        port: int = 0,
        configs: Mapping[str, str] | None = None,
        is_durable: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="headrace-") if data_dir is None else None
        self._data_dir = data_dir if self._temporary is None else self._temporary.name
        self._users = dict(users or {})
        asks_who = {"listeners": f"{FOR_USERS}://127.0.0.1:0"} if self._users else {}
        self._configs = {**AT_ONCE, **({} if is_durable else QUICK), **asks_who, **(configs or {})}
        self._plans = planned(self._configs, ToldPlaces(listen=f"127.0.0.1:{port}"))
        if not self._plans.is_insecure and (found := exposed(self._plans, None, None)):
            raise ValueError(complaint(found))
        self._addresses = {listener.name: listener.at for listener in self._plans.clients}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.node: Node

    @property
    def bootstrap_servers(self) -> str:
        """Its address, such as `127.0.0.1:41231`: what every Kafka client calls `bootstrap.servers`."""
        return self.bootstrap_servers_of(self._plans.clients[0].name)

    def bootstrap_servers_of(self, listener: str) -> str:
        """The same of one of several listeners, by its name in `listeners` of `configs`."""
        return str(self._addresses[listener])

    def client_settings(self, user: str) -> dict[str, str]:
        """What a Kafka client needs to log in as this user: librdkafka's names, which every command takes, too.

            with Broker(users={"alice": "secret"}) as broker:
                producer = Producer(broker.client_settings("alice"))

        Where the broker's listener has TLS, add the `ssl.ca.location` of its certificate. Raises KeyError if there is
        no such user.
        """
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self._plans.clients[0].protection.security.protocol.value,
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.username": user,
            "sasl.password": self._users[user],
        }

    # ---- life

    def start(self) -> Self:
        """Start it, and return when it serves clients. A `with` block does so by itself.

        Raises Refusal for settings that no node takes, and OSError for a port that is taken.
        """
        ready: Future[dict[str, Address]] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="headrace-broker", daemon=True)
        self._thread.start()
        self._addresses = ready.result(START_S)
        return self

    def stop(self) -> None:
        """Stop it, and delete its data unless it has a `data_dir`. One that does not run is left alone.

        Raises RuntimeError if it failed while it ran: a test whose broker broke shall not pass.
        """
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_S)
        assert not self._thread.is_alive(), "the broker did not stop"
        self._thread = None
        if self._temporary is not None:
            self._temporary.cleanup()
        if self.node.failed.done():
            raise RuntimeError("the broker failed during the test") from self.node.failed.result()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # ---- conveniences

    def create_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic, which can be written to at once. `partitions=-1` takes the broker's num.partitions.

            broker.create_topic("orders", partitions=8, configs={"retention.ms": "60000"})

        Raises Refusal if there is such a topic, or the name, a number or a setting is wrong.
        """
        wanted = [NewTopic(name, partitions, 1, (), tuple((configs or {}).items()))]
        node = self.node
        (outcome,) = self._ask(
            lambda: node.commands.submit(
                lambda image: create_topics(image, wanted, node.view.configs, node.commands.new_topic_id)
            )
        )
        if isinstance(outcome.result, Refusal):
            raise outcome.result

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records. Raises Refusal if there is none of this name."""
        node = self.node
        (outcome,) = self._ask(
            lambda: node.commands.submit(lambda image: delete_topics(image, [TopicReference(name)], node.view.configs))
        )
        if isinstance(outcome.result, Refusal):
            raise outcome.result

    def _ask(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(START_S)

    # ---- in the broker's thread

    def _run(self, ready: Future[dict[str, Address]]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _serve(self, ready: Future[dict[str, Address]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        assert self._data_dir is not None
        disk = SystemDisk(self._data_dir)
        threads = SystemThreads()
        try:
            world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), threads)
            doors = Doors(self._plans, world.entropy)
            self.node = await build(world, self._node_plan(world.entropy))
            await self.node.start()
            servers = await client_listeners(self.node, self._plans, doors)
            places = zip(self._plans.clients, servers, strict=True)
            started = {plan.name: await server.start(self._addresses[plan.name]) for plan, server in places}
            ready.set_result(started)
            await self._stop.wait()
            for server in servers:
                await server.stop()
            await self.node.stop()
        finally:
            threads.close()
            disk.close()

    def _node_plan(self, entropy: Entropy) -> NodePlan:
        first_users = {**read_first_users(self._configs, is_new=True), **_verifiers(self._users, entropy)}
        return NodePlan(
            MembershipPlan(first_users=first_users),
            configs=self._configs,
            listeners=self._plans.described(),
            knows_its_clients=self._plans.knows_its_clients,
        )


def _verifiers(users: Mapping[str, str], entropy: Entropy) -> dict[ScramUser, ScramVerifier]:
    return {
        ScramUser(name, it): verifier_for(password, it, entropy.token(USUAL_SALT_BYTES), ITERATIONS_MIN)
        for name, password in users.items()
        for it in SCRAM_MECHANISMS.values()
    }

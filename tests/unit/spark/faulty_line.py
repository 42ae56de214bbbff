"""Real connections on which chosen requests, or their answers, get lost or stuck."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING

from headrace.client.connections.cluster import Cluster, ClusterSettings
from headrace.client.connections.view import parse_addresses
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.runtime.network import Address, Link, Listener, Receiver


class Fate(Enum):
    """What becomes of a request."""

    PASS = "served and answered"
    LOSE_REQUEST = "the connection breaks before it is served"
    LOSE_ANSWER = "served, but the connection breaks before the answer comes"
    HOLD = "stuck on its way until `release`"


class FaultyNetwork:
    """Decides the fate of each request by its API key, in the order in which they are sent."""

    def __init__(self) -> None:
        self.fates: dict[int, list[Fate]] = {}
        """By API key: the fates of the next requests. Those that are not named pass."""
        self.sent: list[int] = []
        self.is_held = asyncio.Event()
        self._network = SystemNetwork()
        self._held: list[Callable[[], None]] = []

    def next_fate(self, api_key: int) -> Fate:
        self.sent.append(api_key)
        fates = self.fates.get(api_key, [])
        return fates.pop(0) if fates else Fate.PASS

    def hold(self, send: Callable[[], None]) -> None:
        self._held.append(send)
        self.is_held.set()

    def release(self) -> None:
        """What was stuck arrives after all."""
        held, self._held = self._held, []
        for send in held:
            send()

    async def listen(self, address: Address, receiver: Callable[[], Receiver]) -> Listener:
        return await self._network.listen(address, receiver)

    async def connect(self, address: Address, receiver: Receiver) -> Link:
        return await self._network.connect(address, _FaultyReceiver(receiver, self))

    def cluster(self, bootstrap_servers: str, **settings: float) -> Cluster:
        return Cluster(
            parse_addresses(bootstrap_servers),
            self,
            SystemClock(),
            SystemEntropy(),
            ClusterSettings(**settings),  # type: ignore[arg-type]
        )


class _FaultyReceiver:
    def __init__(self, receiver: Receiver, network: FaultyNetwork) -> None:
        self._receiver = receiver
        self._network = network
        self._is_losing = False
        self._link: Link | None = None

    def connected(self, link: Link) -> None:
        self._link = link
        self._receiver.connected(_FaultyLink(link, self))  # type: ignore[arg-type]

    def buffer(self) -> memoryview:
        return self._receiver.buffer()

    def received(self, count: int) -> None:
        if self._is_losing:
            self.break_off()
        else:
            self._receiver.received(count)

    def drained(self) -> None:
        self._receiver.drained()

    def disconnected(self, error: Exception | None) -> None:
        self._receiver.disconnected(error)

    def send(self, chunks: list[bytes]) -> None:
        assert self._link is not None
        link = self._link
        match self._network.next_fate(int.from_bytes(bytes(chunks[0][4:6]), "big")):
            case Fate.PASS:
                link.send(chunks)
            case Fate.LOSE_REQUEST:
                self.break_off()
            case Fate.LOSE_ANSWER:
                self._is_losing = True
                link.send(chunks)
            case Fate.HOLD:
                self._network.hold(lambda: link.send(chunks))

    def break_off(self) -> None:
        assert self._link is not None
        self._link.abort()
        asyncio.get_running_loop().call_soon(self._receiver.disconnected, None)


class _FaultyLink:
    def __init__(self, link: Link, line: _FaultyReceiver) -> None:
        self._link = link
        self._line = line

    def send(self, chunks: Iterable[bytes]) -> None:
        self._line.send(list(chunks))

    def __getattr__(self, name: str) -> object:
        return getattr(self._link, name)

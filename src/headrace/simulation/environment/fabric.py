"""What lies between simulated hosts: weather, broken routes, and wires that keep their order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.simulation.environment.life import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from headrace.simulation.environment.life import Life
    from headrace.simulation.environment.loop import Errand, VirtualLoop
    from headrace.simulation.environment.network import Doorway, SimulatedLink
    from headrace.simulation.environment.trace import Trace

FIRST_PORT = 49_152  # the first of those that nobody is given for good
SILENCE_MAX_S = 20.0  # how long a peer may believe in a host that has lost its power; kernels may believe far longer


@dataclass(frozen=True, slots=True)
class Weather:
    """How the network behaves on a normal day."""

    latency_s: tuple[float, float] = (0.0001, 0.002)
    spike_fraction: float = 0.01
    spike_s: float = 0.05
    window_bytes: tuple[int, int] = (4 * 1024, 256 * 1024)
    """How much one direction of a connection holds between sender and receiver; drawn for each."""
    whole_fraction: float = 0.7
    """How often bytes that were sent together travel together; otherwise they are split anywhere."""
    is_acknowledging_all: bool = True
    """Acknowledgements travel also if no sender waits for one. They are half of all events, so clusters do without."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    count: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The sender is gone: in good order, or with an error."""

    error: Exception | None


class Handshake:
    """A knock on the way there, a welcome on the way back."""


Item = bytes | Acknowledged | Ended | Handshake


class WireEnd(Protocol):
    def take(self, item: Item) -> None:
        """Called outside every life: the end decides whether anybody is at home."""
        ...


class Wire:
    """One direction of a connection. Items arrive in order, each after a delay of its own."""

    def __init__(self, fabric: Fabric, source: str, target: str) -> None:
        self._fabric = fabric
        self._items: deque[tuple[float, Item]] = deque()
        self._last_due_s = 0.0
        self._timer: Errand | None = None
        self._route = (source, target)
        self.end: WireEnd | None = None

    def put(self, item: Item) -> None:
        fabric = self._fabric
        self._last_due_s = max(self._last_due_s, fabric.loop.time() + fabric.latency_s())
        self._items.append((self._last_due_s, item))
        if self._timer is None:
            self._wait_for_next()

    @property
    def is_stalled(self) -> bool:
        return bool(self._items) and self._timer is None

    def drop_some(self) -> None:
        """Lose what was put in last: the sender has no power to send it again."""
        for _ in range(self._fabric.random.randint(0, len(self._items))):
            self._items.pop()

    def drop_all(self) -> None:
        self._items.clear()

    def resume(self) -> None:
        """The route is open again: what was held up starts anew."""
        if self.is_stalled:
            restart_s = self._fabric.loop.time() + self._fabric.latency_s()
            self._last_due_s = max(self._last_due_s, restart_s)
            self._items = deque((max(due_s, restart_s), item) for due_s, item in self._items)
            self._wait_for_next()

    def _wait_for_next(self) -> None:
        fabric = self._fabric
        if fabric.is_open(self._route):
            self._timer = fabric.loop.call_at(self._items[0][0], self._arrive, context=OUTSIDE)

    def _arrive(self) -> None:
        self._timer = None
        if not self._items or not self._fabric.is_open(self._route):
            return
        _, item = self._items.popleft()
        if self._items:
            self._wait_for_next()  # first: whoever takes the item may lose its power over it
        assert self.end is not None
        self.end.take(item)


class Connection:
    """Two wires between two hosts, and the links at their ends."""

    def __init__(self, fabric: Fabric, caller: str, callee: str) -> None:
        self.hosts = (caller, callee)
        self.there = Wire(fabric, caller, callee)
        self.back = Wire(fabric, callee, caller)
        self.links: list[SimulatedLink] = []

    @property
    def is_stalled(self) -> bool:
        return self.there.is_stalled or self.back.is_stalled

    def resume(self) -> None:
        self.there.resume()
        self.back.resume()

    def reset(self) -> None:
        for wire in (self.there, self.back):
            wire.drop_all()
            wire.put(Ended(ConnectionResetError("the connection was cut")))


class Fabric:
    """The one network that all hosts share. Its faults are the test's to call."""

    def __init__(self, loop: VirtualLoop, random: Random, trace: Trace, weather: Weather | None = None) -> None:
        self.loop = loop
        self.random = random
        self.trace = trace
        self.weather = weather or Weather()
        self.hosts: dict[str, None] = {}
        self.doorways: dict[tuple[str, int], Doorway] = {}
        self._connections: dict[Connection, None] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._dark: set[str] = set()
        self._rejecting: set[tuple[str, str]] = set()
        self._next_port = FIRST_PORT

    # What the hosts' networks ask.

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port - 1

    def connection(self, caller: str, callee: str) -> Connection:
        connection = Connection(self, caller, callee)
        self._connections[connection] = None
        return connection

    def leave(self, connection: Connection, link: SimulatedLink) -> None:
        connection.links.remove(link)
        if not connection.links:
            self.forget(connection)

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def is_open(self, route: tuple[str, str]) -> bool:
        return route not in self._blocked and route[1] not in self._dark

    def latency_s(self) -> float:
        weather, random = self.weather, self.random.random
        least_s, most_s = weather.latency_s
        delay_s = least_s + (most_s - least_s) * random()
        if random() < weather.spike_fraction:
            delay_s += self.random.uniform(0, weather.spike_s)
        return delay_s

    def piece(self, size: int) -> int:
        """How many of `size` bytes travel together."""
        return size if self.random.random() < self.weather.whole_fraction else self.random.randint(1, size)

    def window_bytes(self) -> int:
        return self.random.randint(*self.weather.window_bytes)

    # Faults.

    def block(self, source: str, target: str) -> None:
        """Nothing gets from `source` to `target`; the other way stays open. Connections stall, none breaks."""
        self.trace.note("blocked", source, target)
        self._blocked.add((source, target))

    def partition(self, some: Iterable[str], others: Iterable[str]) -> None:
        others = list(others)
        for one in some:
            for other in others:
                self.block(one, other)
                self.block(other, one)

    def heal(self, *, break_fraction: float = 0.0) -> None:
        """Open every route. Stalled connections carry on, but for a part that breaks."""
        self.trace.note("healed")
        self._blocked.clear()
        self._rejecting.clear()
        for connection in list(self._connections):
            if connection.is_stalled and self.random.random() < break_fraction:
                connection.reset()
            connection.resume()

    def reject(self, caller: str, called: str) -> None:
        """Who calls is told that nobody listens there, as a firewall does it: the one who is called may live, and hears
        nothing of it. Connections stay."""
        self.trace.note("rejecting", caller, called)
        self._rejecting.add((caller, called))

    def is_rejecting(self, caller: str, called: str) -> bool:
        return (caller, called) in self._rejecting

    def cut(self, one: str, other: str) -> None:
        """Every connection between two hosts breaks; new ones succeed."""
        self.trace.note("cut", one, other)
        for connection in list(self._connections):
            if set(connection.hosts) == {one, other}:
                connection.reset()

    def process_died(self, life: Life) -> None:
        """Its kernel tells the peers, after what was already under way."""
        for link in self._end_links(life):
            link.out.put(Ended(ConnectionResetError(f"{life.name} has crashed")))

    def power_lost(self, life: Life, host: str) -> None:
        """Nobody tells the peers: they hear nothing, for a while or until the host is back."""
        self._dark.add(host)
        for link in self._end_links(life):
            link.out.drop_some()
            silence_s = self.random.uniform(0, SILENCE_MAX_S)
            end = Ended(ConnectionResetError(f"{life.name} has not been heard of"))
            self.loop.call_later(silence_s, link.out.put, end, context=OUTSIDE)

    def power_back(self, host: str) -> None:
        self._dark.discard(host)
        for connection in list(self._connections):
            connection.resume()

    def _end_links(self, life: Life) -> list[SimulatedLink]:
        self.doorways = {place: doorway for place, doorway in self.doorways.items() if doorway.life is not life}
        ended: list[SimulatedLink] = []
        for connection in list(self._connections):
            dead = [link for link in connection.links if link.life is life]
            for link in dead:
                self.leave(connection, link)
            ended += dead
        return ended

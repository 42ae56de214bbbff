"""The HTTP listener: `/livez`, `/readyz`, `/metrics`.

h11 speaks the protocol and this file moves the bytes. A web framework would take more memory than the rest of the node
and half of its start-up time; it comes with the console, if the console needs it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import h11

from headrace.runtime.tasks import TaskScope
from headrace.runtime.tls.network import TlsNetwork

if TYPE_CHECKING:
    from headrace.broker.health import Health
    from headrace.runtime.network import Address, Link, Listener
    from headrace.runtime.tls.contexts import ServerTls
    from headrace.runtime.world import World
    from headrace.servers.console.measured import MeasuredNode

log = logging.getLogger(__name__)

RECEIVE_BYTES = 16 * 1024
CONNECTIONS_MAX = 256  # scrapers and probes; more is a mistake or an attack, and costs the most silent its place
BODY_MAX = 64 * 1024  # nothing here takes a body; a small one is politely read to its end
UNREAD_MAX = 1 << 20  # bytes of answers that a client may leave unread before it has to wait
LOAD_METRICS_S = 1.0  # after the start
LAG_PROBE_S = 0.02  # a stall that is shorter may slip between two looks
METRICS = "headrace.servers.console.metrics"
REST_FACTOR = 10  # metrics are made anew after ten times as long as it took: scraping takes a tenth of a core at most

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


class ConsoleServer:
    def __init__(self, world: World, health: Health, tls: ServerTls | None = None) -> None:
        """With `tls` it speaks HTTPS."""
        self._world = world
        self._tls = tls
        self._health = health
        self._node: MeasuredNode | None = None
        """Once there is one: before, and while it is built, only its health is known."""
        self._listener: Listener | None = None
        self._connections: dict[HttpConnection, None] = {}
        self._metrics = b""
        self._metrics_fresh_until_s = 0.0
        self._tasks = TaskScope(
            lambda name, error: health.failure.fail(RuntimeError(f"the task {name!r} ended: {error!r}"))
        )

    def show(self, node: MeasuredNode) -> None:
        """From now on its numbers are told, and what is offline."""
        self._node = node

    async def start(self, address: Address) -> Address:
        network = self._world.network if self._tls is None else TlsNetwork(self._world.network, server=self._tls)
        self._listener = await network.listen(address, lambda: HttpConnection(self))
        if self._tls is not None:
            self._tasks.start(self._tls.keep_fresh(self._world.threads), "certificates of HTTP")
        self._tasks.start(self._load_metrics(), "load the metrics library")
        self._tasks.start(self._probe_lag(), "loop lag")
        return self._listener.address

    async def _load_metrics(self) -> None:
        """In a thread, and not while the node starts: on the loop its import would hold up everybody for 100 ms."""
        await asyncio.sleep(LOAD_METRICS_S)
        await self._world.threads.run(partial(import_module, METRICS))

    async def _probe_lag(self) -> None:
        """A sleep that ends late was held up by a long turn of the loop. Only who can be asked for it measures it."""
        clock = self._world.clock
        while True:
            due_s = clock.monotonic_s() + LAG_PROBE_S
            await asyncio.sleep(LAG_PROBE_S)
            if self._node is not None and self._health.is_ready:
                self._node.counters.loop_lag.note(max(0.0, clock.monotonic_s() - due_s))

    async def stop(self) -> None:
        await self._tasks.close()
        if self._listener is not None:
            await self._listener.close()
        for connection in list(self._connections):
            connection.link.close()

    def opened(self, connection: HttpConnection) -> None:
        self._connections[connection] = None
        if len(self._connections) > CONNECTIONS_MAX:
            next(iter(self._connections)).link.abort()

    def heard(self, connection: HttpConnection) -> None:
        """Whoever spoke last is the last to be closed for want of room."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)

    def answer(self, method: str, path: str) -> Answer:
        if path not in {"/livez", "/readyz", "/metrics"}:
            return _words(404, f"there is nothing at {path[:200]}; try /livez, /readyz or /metrics")
        if method not in {"GET", "HEAD"}:
            return _words(405, f"{path} can be read, with GET")
        if path == "/metrics":
            if self._node is None or not self._health.is_ready:
                return _words(503, "the node is starting or stopping")
            return self._rendered_metrics(self._node)
        if path == "/readyz":
            return self._readiness()
        return _words(200, "alive")

    def _rendered_metrics(self, node: MeasuredNode) -> Answer:
        metrics = import_module(METRICS)
        clock = self._world.clock
        began_s = clock.monotonic_s()
        if began_s >= self._metrics_fresh_until_s:
            self._metrics = metrics.render(node)
            ended_s = clock.monotonic_s()
            self._metrics_fresh_until_s = ended_s + REST_FACTOR * (ended_s - began_s)
        return 200, metrics.CONTENT_TYPE, self._metrics

    def _readiness(self) -> Answer:
        reason = self._health.why_not_serving
        topics = () if self._node is None else self._node.topics
        offline = {f"{topic.name}-{index}": trouble for topic in topics for index, trouble in topic.troubles.items()}
        told = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
        body = json.dumps({**told, "offline_partitions": offline}).encode()
        return (200 if reason is None else 503), "application/json", body + b"\n"


class HttpConnection:
    """Implements `runtime.network.Receiver`. One request is answered per turn of the loop, however many are waiting."""

    def __init__(self, server: ConsoleServer) -> None:
        self._server = server
        self._protocol = h11.Connection(h11.SERVER)
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._request: h11.Request | None = None
        self._body_bytes = 0
        self._is_closed = False
        self.link: Link

    def connected(self, link: Link) -> None:
        self.link = link
        self._server.opened(self)

    def buffer(self) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        self._server.heard(self)
        try:
            self._protocol.receive_data(bytes(self._buffer[:count]))
        except h11.RemoteProtocolError:  # more came after it had said that it was done
            self._close()
        else:
            self._serve()

    def drained(self) -> None:
        self._go_on()

    def disconnected(self, error: Exception | None) -> None:  # noqa: ARG002 - why the peer left does not matter
        self._is_closed = True
        self._server.closed(self)

    def _serve(self) -> None:
        """Answer the next request, if it is whole."""
        if self._is_closed:
            return
        try:
            while not self._is_closed:
                event = self._protocol.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    break
                if self._take(event):
                    self._rest()
                    break
        except h11.RemoteProtocolError as error:
            if self._protocol.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                self._send(_words(error.error_status_hint, str(error)))
            self._close()

    def _take(self, event: object) -> bool:
        """True if the event has completed a request, which then is answered."""
        if isinstance(event, h11.Request):
            self._request = event
            self._body_bytes = 0
            if self._protocol.they_are_waiting_for_100_continue:
                self._send(_words(417, "nothing here takes a body"))
                self._close()
        elif isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            if self._body_bytes > BODY_MAX:
                self._close()
        elif isinstance(event, h11.EndOfMessage) and self._request is not None:
            path = self._request.target.decode("ascii", "replace").split("?", 1)[0]
            self._send(self._server.answer(self._request.method.decode("ascii"), path))
            if self._protocol.our_state is h11.MUST_CLOSE:
                self._close()
            elif self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
                self._protocol.start_next_cycle()
            self._request = None
            return True
        return False

    def _rest(self) -> None:
        """Let others have their turn; and if the client does not read its answers, wait until it does."""
        self.link.pause_reading()
        if self.link.queued_bytes <= UNREAD_MAX:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self._is_closed:
            self.link.resume_reading()
            self._serve()

    def _close(self) -> None:
        self._is_closed = True
        self.link.close()

    def _send(self, answer: Answer) -> None:
        status, content_type, body = answer
        headers = [("content-type", content_type), ("content-length", str(len(body)))]
        is_head = self._request is not None and self._request.method == b"HEAD"
        chunks = [self._protocol.send(h11.Response(status_code=status, headers=headers))]
        if not is_head:
            chunks.append(self._protocol.send(h11.Data(data=body)))
        chunks.append(self._protocol.send(h11.EndOfMessage()))
        self.link.send([chunk for chunk in chunks if chunk])


def _words(status: int, text: str) -> Answer:
    return status, "text/plain; charset=utf-8", text.encode() + b"\n"

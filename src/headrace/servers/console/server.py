"""The HTTP listener: `/livez`, `/readyz`, `/metrics`.

h11 speaks the protocol and this file moves the bytes. A web framework would take more memory than the rest of the node
and half of its start-up time; it comes with the console, if the console needs it.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import h11

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.runtime.network import Address, Link, Listener

log = logging.getLogger(__name__)

RECEIVE_BYTES = 16 * 1024
CONNECTIONS_MAX = 256  # scrapers and probes; more is a mistake or an attack

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


class ConsoleServer:
    def __init__(self, node: Node) -> None:
        self.node = node
        self._listener: Listener | None = None
        self._connections: dict[HttpConnection, None] = {}

    async def start(self, address: Address) -> Address:
        self._listener = await self.node.world.network.listen(address, lambda: HttpConnection(self))
        return self._listener.address

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        for connection in list(self._connections):
            connection.link.close()

    def opened(self, connection: HttpConnection) -> None:
        self._connections[connection] = None
        if len(self._connections) > CONNECTIONS_MAX:
            connection.link.abort()

    def closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)

    def answer(self, method: str, path: str) -> Answer:
        if path not in {"/livez", "/readyz", "/metrics"}:
            return _words(404, f"there is nothing at {path[:200]}; try /livez, /readyz or /metrics")
        if method not in {"GET", "HEAD"}:
            return _words(405, f"{path} can be read, with GET")
        if path == "/metrics":
            from headrace.servers.console import metrics  # noqa: PLC0415 - costs 12 MB, and not every node is scraped

            return 200, metrics.CONTENT_TYPE, metrics.render(self.node)
        if path == "/readyz":
            return self._readiness()
        return _words(200, "alive")

    def _readiness(self) -> Answer:
        status = "ready" if self.node.is_ready and not self.node.failed.done() else "not ready"
        offline = {
            f"{topic.name}-{index}": trouble for topic in self.node.topics for index, trouble in topic.troubles.items()
        }
        body = json.dumps({"status": status, "offline_partitions": offline}).encode()
        return (200 if status == "ready" else 503), "application/json", body + b"\n"


class HttpConnection:
    """Implements `runtime.network.Receiver`."""

    def __init__(self, server: ConsoleServer) -> None:
        self._server = server
        self._protocol = h11.Connection(h11.SERVER)
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._request: h11.Request | None = None
        self.link: Link

    def connected(self, link: Link) -> None:
        self.link = link
        self._server.opened(self)

    def buffer(self) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        try:
            self._protocol.receive_data(bytes(self._buffer[:count]))
            self._serve()
        except h11.RemoteProtocolError as error:
            if self._protocol.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                self._send(_words(error.error_status_hint, str(error)))
            self.link.close()

    def drained(self) -> None:
        """Answers are small; nothing waits for this."""

    def disconnected(self, error: Exception | None) -> None:  # noqa: ARG002 - why the peer left does not matter
        self._server.closed(self)

    def _serve(self) -> None:
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                break
            if isinstance(event, h11.Request):
                self._request = event
            elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                path = self._request.target.decode("ascii", "replace").split("?", 1)[0]
                self._send(self._server.answer(self._request.method.decode("ascii"), path))
                self._next()

    def _next(self) -> None:
        if self._protocol.our_state is h11.MUST_CLOSE:
            self.link.close()
        elif self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()

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

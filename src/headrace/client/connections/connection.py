"""One connection to one node: requests go out in a row, answers are matched to them by correlation id."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from headrace import __version__
from headrace.client.connections.frame_buffer import FrameBuffer
from headrace.client.connections.login import LOGIN_KEYS, LoginSession
from headrace.client.errors import (
    AuthenticationFailed,
    ConnectionLost,
    NobodyListens,
    RequestTimedOut,
    refuse_unless_ok,
)
from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.tls.troubles import UntrustedPeer
from headrace.wire.api import APIS, Message
from headrace.wire.frames import RequestHeader, decode_response_header, encode_request
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.primitives import Malformed, Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.connections.login import Login
    from headrace.runtime.network import Address, Link, Network

Answer = TypeVar("Answer", bound=Message)

CONNECT_TIMEOUT_S = 5.0  # a live node accepts in milliseconds, also on another continent
REQUEST_TIMEOUT_S = 30.0  # Kafka's default: longer than a leader election, shorter than a user's patience
CORRELATION_IDS = 2**31  # the field has 31 bits without its sign
SOFTWARE_NAME = "headrace"
STRANGERS_REQUESTS = 2  # what it offers, and one more: so far comes who speaks no TLS, or does not log in
STRANGERS_ADVICE = ", as one does that asks for TLS or a login (security.protocol says so)"


class Connection:
    """Implements `runtime.network.Receiver`. Make one with `Connection.open`."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        request_timeout_s: float,
        on_broken: Callable[[], None] | None = None,
    ) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        """What the node offers: API key to lowest and highest version."""
        self.features: dict[str, int] = {}
        """What the cluster has agreed on: name to level. `transaction.version` is one."""
        self.is_lost = False
        self._client_id = client_id
        self._request_timeout_s = request_timeout_s
        self._on_broken = on_broken
        self._link: Link | None = None
        self._buffer = FrameBuffer()
        self._awaited: dict[int, asyncio.Future[memoryview]] = {}
        self._noted: dict[int, Callable[[memoryview], None]] = {}
        self._unsent: list[asyncio.Future[None]] = []
        self._last_correlation_id = 0
        self._session: LoginSession | None = None
        self._held: list[bytes] | None = None
        """Requests that wait until a login is renewed; None while none is."""

    @classmethod
    async def open(
        cls,
        network: Network,
        address: Address,
        *,
        client_id: str = SOFTWARE_NAME,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        on_broken: Callable[[], None] | None = None,
        login: Login | None = None,
    ) -> Connection:
        """Connect, learn which versions the node speaks, log in. `on_broken` is called if the other side ends it."""
        connection = cls(address, client_id=client_id, request_timeout_s=request_timeout_s, on_broken=on_broken)
        try:
            async with asyncio.timeout(connect_timeout_s):
                await network.connect(address, connection)
                await connection._learn_versions()
                if login is not None:
                    connection._session = LoginSession(login, connection)
                    await connection._session.begin()
        except Malformed as nonsense:
            connection._lose(f"{address} answered nonsense")
            raise ConnectionLost(f"{address} does not speak the Kafka protocol: {nonsense}") from nonsense
        except TimeoutError as silence:
            connection._lose(f"{address} did not answer within {connect_timeout_s:g} s")
            raise ConnectionLost(f"{address} did not answer within {connect_timeout_s:g} s") from silence
        except ConnectionRefusedError as error:
            raise NobodyListens(f"{address}: {_reason(error)}") from error
        except UntrustedPeer as error:
            raise AuthenticationFailed(f"{address}: {error}") from error
        except OSError as error:
            raise ConnectionLost(f"{address}: {_reason(error)}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def request(
        self, message: Message, answer: type[Answer], *, version: int | None = None, timeout_s: float | None = None
    ) -> Answer:
        """Send a request and wait for its answer. The version is the highest that both sides know.

        An answer that does not come in time closes the connection, as answers come in order: RequestTimedOut here, and
        ConnectionLost for those that were asked for later. Refusal UNSUPPORTED_VERSION if no version suits both. What
        the node says no to is in the answer.
        """
        if version is None:
            version = self.version_for(type(message))
        limit_s = self._request_timeout_s if timeout_s is None else timeout_s
        arriving = self._expect(self._send(message, version))
        name = APIS[message.API_KEY].name
        try:
            async with asyncio.timeout(limit_s):
                frame = await arriving
        except TimeoutError as silence:
            self._lose(f"{self.address} left a {name} request unanswered for {limit_s:g} s")
            raise RequestTimedOut(f"{self.address} did not answer a {name} request within {limit_s:g} s") from silence
        return self._decode(frame, answer, version)

    def notify(self, message: Message, answer: type[Answer], on_answer: Callable[[Answer], None]) -> None:
        """Send a request and go on: `on_answer` is called if its answer comes. It takes no task and no timer.

        Nobody notices here that an answer does not come. Who sends so counts what is unanswered.
        """
        version = self.version_for(type(message))
        self._noted[self._send(message, version)] = lambda frame: on_answer(self._decode(frame, answer, version))

    def send_only(self, message: Message, *, version: int | None = None) -> None:
        """Send a request that no answer follows: Produce with acks=0 is the only one."""
        self._send(message, self.version_for(type(message)) if version is None else version)

    async def wait_sent(self) -> None:
        """Until the node has taken what was sent. Requests without an answer would otherwise pile up here."""
        if self.is_lost or self._link is None or (self._link.queued_bytes == 0 and not self._held):
            return
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsent.append(sent)
        await sent

    def version_for(self, message: type[Message], within: tuple[int, int] | None = None) -> int:
        """The highest version that both sides know, and that lies `within` these two (inclusive) if they are given."""
        ours_min, ours_max = message.VERSIONS if within is None else within
        theirs_min, theirs_max = self.versions.get(message.API_KEY, (0, -1))
        version = min(ours_max, theirs_max)
        if version < max(ours_min, theirs_min):
            offered = f"versions {theirs_min} to {theirs_max}" if theirs_max >= 0 else "nothing"
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.address} offers {offered} of {APIS[message.API_KEY].name}; "
                f"this client speaks {ours_min} to {ours_max}",
            )
        return version

    def close(self) -> None:
        """Close at once. Requests under way fail with ConnectionLost."""
        self._lose(f"the connection to {self.address} was closed")

    # What the renewal of a login calls.

    def hold(self) -> None:
        """Requests wait from now on, but those that log in. Those under way are answered."""
        self._held = []

    def release(self) -> None:
        """They leave, and no more wait."""
        held, self._held = self._held, None
        if self.is_lost or self._link is None or not held:
            return
        self._link.send(held)
        if self._link.queued_bytes == 0:
            self.drained()

    def give_up(self, reason: str) -> None:
        """The node does not let us in any more."""
        was_in_use = not self.is_lost
        self._lose(reason)
        if was_in_use and self._on_broken is not None:
            self._on_broken()

    # What the network calls.

    def connected(self, link: Link) -> None:
        """The network: the connection stands."""
        self._link = link

    def buffer(self) -> memoryview:
        """The network: where to put what arrives."""
        return self._buffer.room()

    def received(self, count: int) -> None:
        """The network: so many bytes have arrived in `buffer`."""
        try:
            for frame in self._buffer.received(count):
                self._answered(Reader(frame).int32(), frame)
        except Malformed as nonsense:
            self._lose(f"{self.address} does not speak the Kafka protocol: {nonsense}")
        except ConnectionLost:
            pass  # an answer that nobody waits for was nonsense, and the connection is closed

    def drained(self) -> None:
        """The network: what was sent has left."""
        for sent in self._unsent:
            if not sent.done():
                sent.set_result(None)
        self._unsent.clear()

    def disconnected(self, error: Exception | None) -> None:
        """The network: the connection is over."""
        reason = f": {_reason(error)}" if isinstance(error, OSError) else ""
        was_in_use = not self.is_lost
        is_stranger = self._session is None and self._last_correlation_id <= STRANGERS_REQUESTS
        advice = STRANGERS_ADVICE if is_stranger and not reason else ""
        self._lose(f"{self.address} closed the connection{reason}{advice}")
        if was_in_use and self._on_broken is not None:
            self._on_broken()

    # Inside.

    def _answered(self, correlation_id: int, frame: memoryview) -> None:
        arriving = self._awaited.pop(correlation_id, None)
        if arriving is not None:
            if not arriving.done():  # whoever asked may have given up
                arriving.set_result(frame)
            return
        on_frame = self._noted.pop(correlation_id, None)
        if on_frame is None:
            raise Malformed(f"an answer to request {correlation_id}, which was never sent")
        on_frame(frame)

    def _send(self, message: Message, version: int) -> int:
        if self.is_lost or self._link is None:
            raise ConnectionLost(f"the connection to {self.address} is gone")
        correlation_id = self._last_correlation_id = (self._last_correlation_id + 1) % CORRELATION_IDS
        header = RequestHeader(message.API_KEY, version, correlation_id, self._client_id)
        frame = encode_request(header, message)
        if self._held is not None and message.API_KEY not in LOGIN_KEYS:
            self._held.append(frame)
        else:
            self._link.send((frame,))
        return correlation_id

    def _expect(self, correlation_id: int) -> asyncio.Future[memoryview]:
        arriving: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._awaited[correlation_id] = arriving
        return arriving

    def _decode(self, frame: memoryview, answer: type[Answer], version: int) -> Answer:
        try:
            reader = Reader(frame)
            decode_response_header(reader, answer.API_KEY, version)
            return answer.decode(reader, version)
        except Malformed as nonsense:
            self._lose(f"{self.address} answered nonsense")
            raise ConnectionLost(f"{self.address} answered nonsense: {nonsense}") from nonsense

    def _lose(self, reason: str) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        if self._link is not None:
            self._link.abort()
        if self._session is not None:
            self._session.end()
        for arriving in self._awaited.values():
            if not arriving.done():
                arriving.set_exception(ConnectionLost(reason))
        self._awaited.clear()
        self._noted.clear()
        self.drained()

    async def _learn_versions(self) -> None:
        version = ApiVersionsRequest.VERSIONS[1]
        frame = await self._ask_versions(version)
        reader = Reader(frame)
        reader.int32()  # the correlation id
        if reader.int16() == ErrorCode.UNSUPPORTED_VERSION:
            version = 0  # an older node; every node knows this one, and it says all that we need
            frame = await self._ask_versions(version)
        answer = self._decode(frame, ApiVersionsResponse, version)
        refuse_unless_ok(answer.error_code, f"ApiVersions of {self.address}")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}

    async def _ask_versions(self, version: int) -> memoryview:
        return await self._expect(self._send(ApiVersionsRequest(SOFTWARE_NAME, __version__), version))


def _reason(error: OSError) -> str:
    """The system's words without its number."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or str(error) or type(error).__name__).lower()

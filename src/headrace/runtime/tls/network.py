"""A network with TLS on top of another one: whoever listens or connects through it sees decrypted bytes alone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from headrace.runtime.tls.link import TlsLink
from headrace.runtime.tls.troubles import TlsFailure
from headrace.runtime.writable_bytes import writable_bytes

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from headrace.runtime.network import Address, Link, Listener, Network, PeerCertificate, Receiver
    from headrace.runtime.tls.contexts import ClientTls, ServerTls

log = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10.0  # over the slowest lines it takes two
HANDSHAKES_MAX: Final = (
    1024  # under way at once, per listener: some 50 KB each. The next one costs the oldest its place
)
ROOM_BYTES: Final = 64 << 10  # of encrypted bytes that are taken in one turn
TOLD_MAX: Final = 20  # of failed handshakes, in each `TOLD_S`: whoever fails again and again must not fill a disk
TOLD_S: Final = 10.0


class TlsNetwork:
    """`server` is what listeners show and ask for, `client` what callers do. None for what it is not used as."""

    def __init__(self, network: Network, *, server: ServerTls | None = None, client: ClientTls | None = None) -> None:
        self._network = network
        self._server = server
        self._client = client
        _, self._room = writable_bytes(ROOM_BYTES)

    async def listen(self, address: Address, receiver: Callable[[], Receiver]) -> Listener:
        assert self._server is not None, "nobody listens with TLS without a certificate"
        door = _Door(self._server, receiver)
        return await self._network.listen(address, lambda: TlsLink(door, self._room))

    async def connect(self, address: Address, receiver: Receiver) -> Link:
        """OSError if nobody answers there; TlsFailure if it is not who it should be."""
        assert self._client is not None, "nobody connects with TLS without trusting somebody"
        call = _Call(self._client, address, receiver)
        link = TlsLink(call, self._room)
        await self._network.connect(address, link)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await call.answer
        except TimeoutError:
            link.abort()
            raise TlsFailure(
                f"the TLS handshake took longer than {HANDSHAKE_S:g} s: {address} may speak no TLS"
            ) from None
        except BaseException:
            link.abort()
            raise
        return link


class _Door:
    """A listener's side of handshakes."""

    is_server = True

    def __init__(self, tls: ServerTls, receiver: Callable[[], Receiver]) -> None:
        self._tls = tls
        self._receiver = receiver
        self._greeting: dict[TlsLink, asyncio.TimerHandle] = {}
        self._told = 0

    def engine(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self._tls.context.wrap_bio(incoming, outgoing, server_side=True)

    def begun(self, link: TlsLink) -> None:
        if len(self._greeting) >= HANDSHAKES_MAX:
            oldest = next(iter(self._greeting))
            self._forget(oldest)
            oldest.give_up(TlsFailure(f"{HANDSHAKES_MAX} newer TLS handshakes are under way"))
            oldest.abort()
        slow = TlsFailure(f"its TLS handshake was not done after {HANDSHAKE_S:g} s")
        self._greeting[link] = asyncio.get_running_loop().call_later(HANDSHAKE_S, link.give_up, slow)

    def problem_with(self, certificate: PeerCertificate | None) -> str | None:
        return self._tls.problem_with(certificate)

    def done(self, link: TlsLink) -> Receiver:
        self._forget(link)
        self._tls.handshakes += 1
        return self._receiver()

    def failed(self, link: TlsLink, failure: TlsFailure) -> None:
        self._tls.failed_handshakes += 1
        self._told += 1
        if self._told == 1:
            asyncio.get_running_loop().call_later(TOLD_S, self._tell_how_many)
        if self._told <= TOLD_MAX:
            log.warning("no TLS with %s: %s", link.peer, failure)

    def left(self, link: TlsLink) -> None:
        self._forget(link)

    def _forget(self, link: TlsLink) -> None:
        deadline = self._greeting.pop(link, None)
        if deadline is not None:
            deadline.cancel()

    def _tell_how_many(self) -> None:
        told, self._told = self._told, 0
        if told > TOLD_MAX:
            log.warning("%d more TLS handshakes have failed in %g s", told - TOLD_MAX, TOLD_S)


class _Call:
    """A caller's side of one handshake."""

    is_server = False

    def __init__(self, tls: ClientTls, address: Address, receiver: Receiver) -> None:
        self._tls = tls
        self._address = address
        self._receiver = receiver
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def engine(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        try:
            return self._tls.context.wrap_bio(incoming, outgoing, server_hostname=self._address.host)
        except ValueError as nonsense:  # addresses come from others; some are none
            raise TlsFailure(f"{self._address.host!r} is no name of a host") from nonsense

    def begun(self, link: TlsLink) -> None:
        pass

    def problem_with(self, certificate: PeerCertificate | None) -> str | None:
        return self._tls.problem_with(certificate)

    def done(self, link: TlsLink) -> Receiver:  # noqa: ARG002 - there is but one
        if not self.answer.done():
            self.answer.set_result(None)
        return self._receiver

    def failed(self, link: TlsLink, failure: TlsFailure) -> None:  # noqa: ARG002
        if not self.answer.done():
            self.answer.set_exception(failure)

    def left(self, link: TlsLink) -> None:
        pass

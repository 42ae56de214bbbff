"""One TLS connection: a receiver to the network below it, and a link to the receiver above it.

OpenSSL works in memory here: what comes in is handed to it, what goes out is taken from it, and nothing in it waits. So
a slow peer slows us as it does without TLS, file slices are read only when the line has room for them, and all of it
runs over a simulated network as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from headrace.runtime.disk import ReadFault
from headrace.runtime.network import release_slices
from headrace.runtime.tls.certificates import certificate_of
from headrace.runtime.tls.troubles import TlsFailure, UntrustedPeer, in_words, reason_against
from headrace.runtime.tls.unsent import Unsent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.runtime.network import Address, Chunk, Link, PeerCertificate, Receiver

TURN_BYTES: Final = 1 << 20  # that one connection encrypts before others have their turn: about a millisecond
HANDSHAKE_BYTES_MAX: Final = 128 << 10  # OpenSSL takes chains of up to 100 KB
UNASKED_MAX: Final = 256 << 10  # of answers to what is no data: a peer that has us make them has to read them
FIRST_LOOKED_AT: Final = 6
LINGER_S: Final = 0.2  # for an alert to arrive


class Side(Protocol):
    """Whoever wanted the connection: a listener, or a caller."""

    is_server: bool

    def engine(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject: ...

    def begun(self, link: TlsLink) -> None:
        """The peer is there, and the handshake is under way."""
        ...

    def problem_with(self, certificate: PeerCertificate | None) -> str | None:
        """Why the peer is not accepted, although its certificate is valid."""
        ...

    def done(self, link: TlsLink) -> Receiver:
        """The handshake is done. Who takes the bytes from now on?"""
        ...

    def failed(self, link: TlsLink, failure: TlsFailure) -> None:
        """The handshake will not come to its end."""
        ...

    def left(self, link: TlsLink) -> None:
        """The connection is over, whatever became of it."""
        ...


class _State(Enum):
    GREETING = 0
    OPEN = 1
    CLOSING = 2
    """As soon as all that is queued has left."""
    GONE = 3


class TlsLink:
    """Implements `Receiver` below and `Link` above."""

    __slots__ = (
        "_engine",
        "_first",
        "_incoming",
        "_inner",
        "_is_due",
        "_is_paused",
        "_is_reading",
        "_is_waiting",
        "_outgoing",
        "_receiver",
        "_room",
        "_side",
        "_state",
        "_taken",
        "_unsent",
        "certificate",
        "local",
        "peer",
        "since_s",
    )

    _inner: Link
    peer: Address
    local: Address
    since_s: float

    def __init__(self, side: Side, room: memoryview) -> None:
        """`room` is where encrypted bytes arrive. All connections of a loop may share it: they leave it in the turn in
        which they come."""
        self._side = side
        self._room = room
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._engine = side.engine(self._incoming, self._outgoing)
        self._state = _State.GREETING
        self._first = b""
        self._taken = 0
        """Encrypted bytes that came before the handshake was done."""
        self._unsent = Unsent()
        self._is_waiting = False
        """Something is queued that could not leave in the turn in which it came."""
        self._is_due = False
        """It goes on in a later turn, though the line has room: others come first."""
        self._is_paused = False
        self._is_reading = False
        self._receiver: Receiver | None = None
        """None before the handshake is done, and when it has been told of the end."""
        self.certificate: PeerCertificate | None = None

    # ---- what those above call

    @property
    def queued_bytes(self) -> int:
        return self._unsent.size + self._inner.queued_bytes

    def send(self, chunks: Iterable[Chunk]) -> None:
        if self._state is not _State.OPEN:
            release_slices(chunks)
            return
        self._unsent.add(chunks)
        if not self._is_waiting:
            self._pump()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._incoming.pending or self._engine.pending():
            asyncio.get_running_loop().call_soon(self._go_on_reading)
        elif self._state is not _State.GONE:
            self._inner.resume_reading()

    def close(self) -> None:
        if self._state is _State.OPEN:
            self._state = _State.CLOSING
            if not self._unsent.size:
                self._say_goodbye()

    def abort(self) -> None:
        self._forget()
        self._inner.abort()

    # ---- what the network below calls

    def connected(self, link: Link) -> None:
        self._inner = link
        self.peer, self.local, self.since_s = link.peer, link.local, link.since_s
        self._side.begun(self)
        if self._state is _State.GREETING and not self._side.is_server:
            self._shake_hands()

    def buffer(self) -> memoryview:
        return self._room

    def received(self, count: int) -> None:
        if self._state is _State.GONE:
            return
        self._incoming.write(self._room[:count])
        if self._state is _State.GREETING:
            self._taken += count
            if len(self._first) < FIRST_LOOKED_AT:
                self._first += bytes(self._room[: min(count, FIRST_LOOKED_AT - len(self._first))])
            self._shake_hands()
        else:
            self._read()

    def drained(self) -> None:
        if self._is_waiting and not self._is_due:
            self._pump()

    def disconnected(self, error: Exception | None) -> None:
        was_greeting = self._state is _State.GREETING
        self._forget()
        if was_greeting:
            self._side.failed(self, TlsFailure("the other side closed the connection during the TLS handshake"))
        self._side.left(self)
        if self._receiver is not None:
            self._receiver.disconnected(error)

    # ---- the handshake

    def give_up(self, failure: TlsFailure) -> None:
        """Before the handshake is done: its time is over, say."""
        if self._state is _State.GREETING:
            self._flush()  # the alert that tells the peer why; closed at once, it could be overtaken by a reset
            self._forget()
            asyncio.get_running_loop().call_later(LINGER_S, self._inner.close)
            self._side.failed(self, failure)

    def _shake_hands(self) -> None:
        reason = reason_against(self._first) if self._side.is_server else None
        if reason is not None:
            self.give_up(TlsFailure(reason))
            return
        try:
            self._engine.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            if self._taken > HANDSHAKE_BYTES_MAX:
                self.give_up(TlsFailure(f"{self._taken} bytes have come, and the TLS handshake is not done"))
            return
        except ssl.SSLError as error:
            self.give_up(in_words(error, is_server=self._side.is_server))
            return
        self.certificate = certificate_of(self._engine)
        problem = self._side.problem_with(self.certificate)
        if problem is not None:
            self.give_up(UntrustedPeer(problem))
            return
        self._flush()
        self._state = _State.OPEN
        self._receiver = self._side.done(self)
        self._receiver.connected(self)
        self._read()

    # ---- inwards

    def _go_on_reading(self) -> None:
        self._read()
        if not self._is_paused and self._state is not _State.GONE:
            self._inner.resume_reading()

    def _read(self) -> None:
        """Hand over what can be decrypted, as much at once as the receiver has room for."""
        if self._is_reading:  # the receiver, in its turn, has paused and resumed
            return
        self._is_reading = True
        try:
            while not self._is_paused and self._state is not _State.GONE and self._read_some():
                pass
        finally:
            self._is_reading = False
        if self._outgoing.pending and self._state is not _State.GONE:
            self._flush()  # what TLS itself answers to
            if self._inner.queued_bytes > UNASKED_MAX:
                self.abort()

    def _read_some(self) -> bool:
        """False if nothing is left to be read now."""
        assert self._receiver is not None
        room = self._receiver.buffer()
        filled, size = 0, len(room)
        is_over = is_empty = False
        try:
            while filled < size and not is_over:
                count: int = self._engine.read(size - filled, room[filled:])  # type: ignore[assignment]  # with a buffer
                filled += count
                is_over = count == 0  # the peer says goodbye
        except ssl.SSLWantReadError:
            is_empty = True
        except ssl.SSLZeroReturnError:
            is_over = True
        except ssl.SSLError as error:
            self._break(in_words(error, is_server=self._side.is_server))
            return False
        if filled:
            self._receiver.received(filled)
        if is_over and self._state is not _State.GONE:
            self._end()
        return not (is_over or is_empty)

    def _end(self) -> None:
        """The peer sends no more. As where a socket ends, what is queued for it is dropped."""
        self._say_goodbye()

    def _break(self, failure: TlsFailure) -> None:
        """Nothing that comes can be believed any more."""
        self._flush()
        self.abort()
        receiver, self._receiver = self._receiver, None  # the network's own word on it comes later
        assert receiver is not None
        asyncio.get_running_loop().call_soon(receiver.disconnected, failure)

    # ---- outwards

    def _pump(self) -> None:
        """Encrypt and send until nothing is queued or the line is full."""
        self._is_due = False
        left = TURN_BYTES
        try:
            while self._unsent.size and self._state is not _State.GONE:
                if self._inner.queued_bytes:
                    self._is_waiting = True
                    return
                if left <= 0:
                    self._is_waiting = self._is_due = True
                    asyncio.get_running_loop().call_soon(self._pump)
                    return
                left -= self._send_piece()
        except ReadFault as fault:
            chunk = self._unsent.first_slice
            self.abort()  # a part of it has left, and the rest of the answer would be taken for more of it
            chunk.failed(fault)
            return
        except (OSError, ssl.SSLError):
            self.abort()
            return
        if self._state is _State.CLOSING:
            self._say_goodbye()
        elif self._state is _State.OPEN:
            had_to_wait, self._is_waiting = self._is_waiting, self._inner.queued_bytes > 0
            if had_to_wait and not self._is_waiting and self._receiver is not None:
                self._receiver.drained()

    def _send_piece(self) -> int:
        piece = self._unsent.next_piece()
        size = left = len(piece)
        view = memoryview(piece)
        while left:
            left -= self._engine.write(view[size - left :])
        self._flush()
        return size

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._inner.send((self._outgoing.read(),))

    def _say_goodbye(self) -> None:
        with contextlib.suppress(
            ssl.SSLError
        ):  # it waits for the peer's goodbye, which we do not; or the line is broken already
            self._engine.unwrap()
        self._flush()
        self._forget()
        self._inner.close()

    def _forget(self) -> None:
        self._state = _State.GONE
        self._unsent.drop()

"""By what a listener knows its clients, and how many may be logging in to it at once."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from headrace.access.audit import AuditEvent, Outcome
from headrace.access.authentication.bearer_exchange import BearerExchange
from headrace.access.authentication.credentials import SCRAM_MECHANISMS
from headrace.access.authentication.exchange import Denied
from headrace.access.authentication.plain_exchange import PlainExchange
from headrace.access.authentication.scram_exchange import ScramExchange
from headrace.access.folding import LOGIN
from headrace.access.identity import ANONYMOUS, USER, Identity, Principal
from headrace.access.operations import Resource, ResourceType
from headrace.runtime.fair_queue import FairQueue
from headrace.servers.kafka.connections.connection_login import ConnectionLogin
from headrace.wire.sasl import plain

if TYPE_CHECKING:
    from headrace.access.audit import AuditSink
    from headrace.access.authentication.exchange import Accepted, Challenge, Exchange, Work
    from headrace.broker.access.listener_access import ListenerAccess
    from headrace.broker.partitions.counters import LoginCounters
    from headrace.runtime.world import World
    from headrace.servers.kafka.connections.connection import Connection

UNDER_WAY_MAX: Final = 4096  # some 20 KB each, with what has been received. The next one costs the oldest its place
HASHING: Final = "logins"  # a thread of its own: who tries many passwords holds up nobody's disk
HASHED_AT_ONCE: Final = 2  # one in the thread and one behind it; who waits longer stands in the line of its address
NONCE_BYTES: Final = 24


class ListenerLogins:
    """Those of one listener."""

    def __init__(self, access: ListenerAccess, world: World, audit: AuditSink, counters: LoginCounters) -> None:
        self.access = access
        self.world = world
        self.counters = counters
        self._audit = audit
        self._under_way: dict[ConnectionLogin, None] = {}
        """Connections on which nobody has logged in yet, oldest first."""
        self._hashing = FairQueue(HASHED_AT_ONCE)

    def meet(self, connection: Connection) -> str | None:
        """A connection has come: who is it? Returns why it cannot stay."""
        if not self.access.security.protocol.has_sasl:
            return self._read_certificate(connection)
        if len(self._under_way) >= UNDER_WAY_MAX:
            next(iter(self._under_way)).make_way(f"{UNDER_WAY_MAX} newer connections are logging in")
        login = ConnectionLogin(connection, self)
        connection.login = connection.kept_out_by = login
        self._under_way[login] = None
        return None

    def _read_certificate(self, connection: Connection) -> str | None:
        certificate = connection.link.certificate
        if certificate is None:
            return None
        name = self.access.name_rules.name_of(certificate.subject)
        if name is None:
            problem = (
                f"no rule of ssl.principal.mapping.rules fits the name in its certificate, {certificate.subject!r}"
            )
            self.note_failure(connection, problem)
            return problem
        connection.identity = Identity(Principal(USER, name), connection.link.peer.host)
        self.note_success(connection, f"by the certificate of {certificate.subject!r}")
        return None

    def is_done_with(self, login: ConnectionLogin) -> None:
        """Somebody has logged in, or will not any more."""
        self._under_way.pop(login, None)

    def exchange_by(self, mechanism: str) -> Exchange:
        access = self.access
        scram = SCRAM_MECHANISMS.get(mechanism)
        if scram is not None:
            nonce = b64encode(self.world.entropy.token(NONCE_BYTES)).decode()
            return ScramExchange(scram, access.users.known, nonce)
        if mechanism == plain.MECHANISM:
            return PlainExchange(access.users.known)
        assert access.tokens is not None, f"{access.security.name} cannot check {mechanism}"
        return BearerExchange(access.tokens)

    async def done_in_a_thread(self, work: Work, connection: Connection) -> Challenge | Accepted | Denied:
        """Hashing a password takes some 5 ms, and anybody can ask for it."""
        async with self._hashing.turn(connection.address):
            if connection.is_gone:
                return Denied("it left before its turn came")
            return await self.world.threads.run(work.call, lane=HASHING)

    # ---- what is written down of it

    def note_success(self, connection: Connection, detail: str, client_id: str = "") -> None:
        self.counters.succeeded += 1
        listener = self.access.security.name
        self._audit.note(AuditEvent(LOGIN, connection.identity, Outcome.DONE, "", detail, client_id, listener))

    def note_failure(self, connection: Connection, detail: str, claimed: str = "", client_id: str = "") -> None:
        """Whoever it was is nobody yet: whom they said they were is what it is about."""
        self.counters.failed += 1
        resource = str(Resource(ResourceType.USER, claimed)) if claimed else ""
        nobody = Identity(ANONYMOUS, connection.link.peer.host)
        listener = self.access.security.name
        self._audit.note(AuditEvent(LOGIN, nobody, Outcome.REFUSED, resource, detail, client_id, listener))

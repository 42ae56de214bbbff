"""What a connection uses of the listener that accepted it: what all connections of that share, and who hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.servers.kafka.interfaces import KafkaListener

if TYPE_CHECKING:
    from headrace.access.audit import AuditSink
    from headrace.access.identity import Identity
    from headrace.broker.access.authorizer import Authorizer
    from headrace.broker.access.client_quotas import ClientQuotas
    from headrace.broker.access.connection_rates import ConnectionRates
    from headrace.broker.health import Health
    from headrace.broker.membership.registration import Registration
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.counters import Counters
    from headrace.broker.partitions.writing import AppendStage
    from headrace.runtime.fair_queue import FairQueue
    from headrace.runtime.world import World
    from headrace.servers.kafka.connections.connection import Connection
    from headrace.servers.kafka.connections.connection_table import ConnectionTable
    from headrace.servers.kafka.handlers.records.fetch import FetchParts
    from headrace.servers.kafka.handlers.records.produced_batches import ProduceParts
    from headrace.servers.kafka.limits.answer_memory import AnswerMemory
    from headrace.servers.kafka.limits.request_memory import RequestMemory
    from headrace.servers.kafka.record_rights import RecordRights


class ListenerParts(NamedTuple):
    """The parts of a node that a listener and its connections use themselves. Handlers name theirs: see `apis`."""

    world: World
    health: Health
    counters: Counters
    registration: Registration
    view: MetadataView
    stage: AppendStage
    audit: AuditSink
    authorizer: Authorizer
    client_quotas: ClientQuotas
    connection_rates: ConnectionRates
    produce: ProduceParts
    fetch: FetchParts


class ConnectionListener(KafkaListener, Protocol):
    """`server.KafkaServer`, as its connections see it."""

    parts: ListenerParts
    frame_max_bytes: int
    connections: ConnectionTable[Connection]
    requests: RequestMemory
    answers: AnswerMemory
    crowds: FairQueue
    large_answers: FairQueue

    def rights_of(self, identity: Identity) -> RecordRights | None:
        """What somebody may do with records; None where nobody is asked."""
        ...

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def may_be_left_behind(self, connection: Connection) -> bool: ...

    def has_served(self, connection: Connection) -> None: ...

    def log_refusal(self, connection: Connection, reason: str) -> None: ...

    def log_bug(self, connection: Connection, what: str) -> None: ...

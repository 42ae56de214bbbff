"""What a connection uses of the listener that accepted it: what all connections of that share, and who hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.servers.kafka.interfaces import KafkaListener

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.runtime.fair_queue import FairQueue
    from headrace.servers.kafka.connections.connection import Connection
    from headrace.servers.kafka.connections.connection_table import ConnectionTable
    from headrace.servers.kafka.limits.answer_memory import AnswerMemory
    from headrace.servers.kafka.limits.request_memory import RequestMemory


class ConnectionListener(KafkaListener, Protocol):
    """`server.KafkaServer`, as its connections see it."""

    node: Node
    frame_max_bytes: int
    connections: ConnectionTable[Connection]
    requests: RequestMemory
    answers: AnswerMemory
    crowds: FairQueue
    large_answers: FairQueue

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def may_be_left_behind(self, connection: Connection) -> bool: ...

    def has_served(self, connection: Connection) -> None: ...

    def log_refusal(self, connection: Connection, reason: str) -> None: ...

    def log_bug(self, connection: Connection, what: str) -> None: ...

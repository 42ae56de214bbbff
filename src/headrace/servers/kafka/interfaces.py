"""What handlers may use of the connection that a request came over, and of the listener that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.access.identity import Identity
    from headrace.broker.node import Node
    from headrace.metadata.image.cluster_image import Topic
    from headrace.model.names import TopicId
    from headrace.runtime.fair_queue import FairQueue
    from headrace.runtime.network import Address, Chunk, Link
    from headrace.runtime.tasks import TaskScope
    from headrace.servers.kafka.limits.parked_fetches import ParkedFetches
    from headrace.servers.kafka.limits.woken_fetches import WokenFetches
    from headrace.servers.kafka.slot import Slot
    from headrace.wire.messages.metadata import MetadataResponseTopic


class KafkaListener(Protocol):
    """`server.KafkaServer`, as handlers see it."""

    tasks: TaskScope
    is_for_nodes: bool
    parked: ParkedFetches
    woken: WokenFetches
    crowds_beginning: FairQueue
    described_topics: dict[TopicId, tuple[Topic, object, MetadataResponseTopic]]

    def advertised_to(self, connection: ClientConnection) -> Address: ...


class ParkedFetch(Protocol):
    """A long poll that waits on a connection."""

    def cancel(self) -> None: ...

    def hurry(self) -> None: ...


class ClientConnection(Protocol):
    """`connections.connection.Connection`, as handlers see it."""

    node: Node
    link: Link
    identity: Identity
    address: str
    is_gone: bool

    @property
    def server(self) -> KafkaListener: ...

    def stand_in_line(self, slot: Slot) -> None: ...

    def fill(self, slot: Slot, answer: bytes) -> None: ...

    def fill_with_slices(self, slot: Slot, chunks: Sequence[Chunk]) -> None: ...

    def answer_later(self, slot: Slot, chunks: Sequence[Chunk]) -> None: ...

    def answer_together(self, slot: Slot, answer: bytes) -> None: ...

    def unpark(self, pending: ParkedFetch) -> None: ...

    def refuse(self, reason: str) -> None: ...

    def met_a_bug(self, what: str) -> None: ...

"""What handlers may know of a request, of the connection that it came over, and of the listener that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.access.identity import Identity
    from headrace.access.listeners import ListenerSecurity
    from headrace.broker.access.client_quotas import ClientUsage
    from headrace.metadata.image.cluster_image import Topic
    from headrace.model.names import TopicId
    from headrace.runtime.clock import Clock
    from headrace.runtime.fair_queue import FairQueue
    from headrace.runtime.network import Address, Chunk, Link
    from headrace.runtime.tasks import TaskScope
    from headrace.servers.kafka.limits.parked_fetches import ParkedFetches
    from headrace.servers.kafka.limits.woken_fetches import WokenFetches
    from headrace.servers.kafka.record_rights import RecordRights
    from headrace.servers.kafka.slot import Slot
    from headrace.wire.messages.metadata import MetadataResponseTopic


class Request(NamedTuple):
    """What a handler may know about the request besides its message."""

    connection: ClientConnection
    client_id: str
    version: int
    correlation_id: int

    @property
    def server(self) -> KafkaListener:
        return self.connection.server


class Api(NamedTuple):
    name: str
    request: Any
    handle: Callable[[Any, Request], Any]


class ServedApis(Protocol):
    """`apis.Apis`, as handlers see it."""

    def find(self, api_key: int, version: int) -> Api | None: ...


class KafkaListener(Protocol):
    """`server.KafkaServer`, as handlers see it."""

    tasks: TaskScope
    is_for_nodes: bool
    parked: ParkedFetches
    woken: WokenFetches
    crowds_beginning: FairQueue
    described_topics: dict[TopicId, tuple[Topic, object, MetadataResponseTopic]]

    @property
    def apis(self) -> ServedApis: ...

    @property
    def security(self) -> ListenerSecurity:
        """Its name, and how its clients are known."""
        ...

    def advertised_to(self, connection: ClientConnection) -> Address: ...


class LoginAnswer(NamedTuple):
    """What somebody who logs in hears next."""

    message: bytes
    lasts_s: float = 0.0
    """For how long it counts, if it was the last; 0 is without end."""


class ClientLogin(Protocol):
    """`connections.connection_login.ConnectionLogin`, as handlers see it."""

    @property
    def mechanisms(self) -> Sequence[str]:
        """From which somebody can choose."""
        ...

    def choose(self, mechanism: str, request: Request) -> None:
        """Raises Refusal; its answer is the last of the connection."""
        ...

    async def step(self, message: bytes, request: Request) -> LoginAnswer:
        """Raises Refusal, after a while; its answer is the last of the connection."""
        ...


class ParkedFetch(Protocol):
    """A long poll that waits on a connection."""

    def cancel(self) -> None: ...

    def hurry(self) -> None: ...


class ClientMeter(Protocol):
    """`connections.meter.Meter`, as handlers see it."""

    def usage_of(self, request: Request) -> ClientUsage | None:
        """What a handler counts itself; it then mutes the connection."""
        ...

    def mute(self, wait_s: float) -> int: ...


class ClientConnection(Protocol):
    """`connections.connection.Connection`, as handlers see it."""

    clock: Clock
    link: Link
    identity: Identity
    rights: RecordRights | None
    """What it may do with records; None where nobody is asked."""
    address: str
    is_gone: bool
    is_metered: bool
    """Whether what this turn's requests use is counted."""

    @property
    def login(self) -> ClientLogin | None:
        """None on listeners where nobody logs in."""
        ...

    @property
    def server(self) -> KafkaListener: ...

    @property
    def meter(self) -> ClientMeter: ...

    def stand_in_line(self, slot: Slot) -> None: ...

    def fill(self, slot: Slot, answer: bytes) -> None: ...

    def fill_with_slices(self, slot: Slot, chunks: Sequence[Chunk]) -> None: ...

    def answer_later(self, slot: Slot, chunks: Sequence[Chunk]) -> None: ...

    def answer_together(self, slot: Slot, answer: bytes) -> None: ...

    def unpark(self, pending: ParkedFetch) -> None: ...

    def refuse(self, reason: str) -> None: ...

    def met_a_bug(self, what: str) -> None: ...

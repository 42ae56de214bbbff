"""What a client knows of the cluster: nodes, topics, leaders. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ErrorCode
from headrace.model.names import NO_NODE, PORT_MAX, Epoch, NodeId, TopicId
from headrace.runtime.network import Address

if TYPE_CHECKING:
    from headrace.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

DEFAULT_PORT = 9092


class Node(NamedTuple):
    """A node that is alive, and where to reach it."""

    node_id: NodeId
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: who leads it, who has a replica, and whose replica is in sync (`isr`)."""

    index: int
    leader: NodeId
    leader_epoch: Epoch
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """In the order of `replicas`, whatever order they came back in: so what should lead stands first."""
    offline_replicas: tuple[int, ...]

    @property
    def is_offline(self) -> bool:
        """True if nobody leads it, so that it can be neither written nor read."""
        return self.leader == NO_NODE

    @property
    def is_under_replicated(self) -> bool:
        """True if a replica is not in sync."""
        return len(self.isr) < len(self.replicas)


class Topic(NamedTuple):
    """A topic and its partitions, in the order of their numbers."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[Partition, ...]
    """Ordered by index, without gaps."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One Metadata answer, in a shape that is easy to ask."""

    cluster_id: str | None = None
    controller_id: NodeId = NO_NODE
    nodes: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    refusals: dict[str, ErrorCode] = field(default_factory=dict)
    """Topics that were asked for and cannot be shown, with the reason."""


def view_of(answer: MetadataResponse) -> ClusterView:
    """What a Metadata response says."""
    topics: dict[str, Topic] = {}
    refusals: dict[str, ErrorCode] = {}
    for topic in answer.topics:
        name = topic.name or ""
        if topic.error_code:
            refusals[name] = ErrorCode(topic.error_code)
        else:
            topics[name] = _topic(name, topic)
    return ClusterView(
        answer.cluster_id,
        NodeId(answer.controller_id),
        {
            broker.node_id: Node(NodeId(broker.node_id), Address(broker.host, broker.port), broker.rack)
            for broker in answer.brokers
        },
        topics,
        refusals,
    )


def parse_addresses(text: str) -> tuple[Address, ...]:
    """`host:port,host:port`; the port may be left out, an IPv6 address stands in brackets. Raises ValueError."""
    addresses = tuple(parse_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise ValueError("no address given; expected host:port, or several with commas between")
    return addresses


def parse_address(text: str, *, port_min: int = 1) -> Address:
    """`host:port`. A listener may ask for port 0, which takes any that is free."""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ValueError(f"{text!r} is not an address; an IPv6 address looks like [::1]:{DEFAULT_PORT}")
        port = port[1:]
    else:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and port_min <= int(port) <= PORT_MAX)):
        raise ValueError(f"{text!r} is not an address; expected host:port with a port from {port_min} to {PORT_MAX}")
    if not _is_host(host):
        raise ValueError(f"{text!r} is not an address; {host!r} can be no name of a host")
    return Address(host, int(port or DEFAULT_PORT))


def _is_host(text: str) -> bool:
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return not any(letter.isspace() for letter in text)


def _topic(name: str, topic: MetadataResponseTopic) -> Topic:
    partitions = sorted((_partition(part) for part in topic.partitions), key=lambda part: part.index)
    return Topic(name, topic.topic_id, topic.is_internal, tuple(partitions))


def _partition(part: MetadataResponsePartition) -> Partition:
    return Partition(
        part.partition_index,
        NodeId(NO_NODE if part.error_code else part.leader_id),  # beside an error it is no more than a guess
        Epoch(part.leader_epoch),
        tuple(part.replica_nodes),
        tuple(node_id for node_id in part.replica_nodes if node_id in part.isr_nodes),
        tuple(part.offline_replicas),
    )

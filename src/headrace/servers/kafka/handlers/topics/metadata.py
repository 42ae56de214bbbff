"""Metadata (key 3): nodes, topics, leaders; creates a topic on first mention where that is allowed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from headrace.broker.coordination.internal_topics import create_missing
from headrace.broker.membership.local_node import CLIENTS
from headrace.broker.partitions.topic_table import missing_topic_code
from headrace.metadata.configs.internal_topics import is_internal
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, NO_TOPIC_ID, TOPIC_NAME_MAX
from headrace.runtime.network import Address
from headrace.runtime.tasks import Breather
from headrace.servers.kafka.authorized_operations import ON_CLUSTER, ON_TOPIC, operations
from headrace.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from headrace.broker.node import Node
    from headrace.metadata.image.cluster_image import ClusterImage, Partition, Topic
    from headrace.metadata.image.cluster_image import Node as ImageNode
    from headrace.model.names import NodeId
    from headrace.servers.kafka.interfaces import Request

T = TypeVar("T")

NULL_NAME_FROM = 12  # before, an answer must have a name, though a request could already do without
WIDE = 1000  # topics or partitions in an answer; more of them take milliseconds
CREATED_AT_ONCE = 1000  # topics that one request may make
ALL_WHEN_EMPTY_UNTIL = 0  # in version 0 an empty list asks for all topics; later, null does


def handle(message: MetadataRequest, request: Request) -> MetadataResponse | Awaitable[MetadataResponse]:
    image = request.node.image
    if message.topics is None or (not message.topics and request.version <= ALL_WHEN_EMPTY_UNTIL):
        if _is_wide(image.topics.values()):
            return _in_slices(image.sorted_topics(), partial(described, request), message, request)
        topics = [_as_asked(message, described(request, topic)) for topic in image.sorted_topics()]
        return _response(message, request, topics)
    missing = _to_create(message, request)
    if missing:
        return _create_and_answer(message.topics, message, request, missing)
    answer = partial(_named, request, {})
    if len(message.topics) > WIDE or _is_wide(_find(image, item) for item in message.topics):
        return _in_slices(_distinct(message.topics), answer, message, request)
    return _response(message, request, [_as_asked(message, answer(item)) for item in _distinct(message.topics)])


def _find(image: ClusterImage, wanted: MetadataRequestTopic) -> Topic | None:
    return image.topic(wanted.topic_id) if wanted.topic_id != NO_TOPIC_ID else image.topic_named(wanted.name or "")


def _is_wide(topics: Iterable[Topic | None]) -> bool:
    return sum(topic.partition_count for topic in topics if topic is not None) > WIDE


async def _in_slices(
    wanted: Iterable[T], answer: Callable[[T], MetadataResponseTopic], message: MetadataRequest, request: Request
) -> MetadataResponse:
    """What would hold everybody up for long: to put it together takes several turns."""
    breather = Breather(request.node.world.clock)
    topics = []
    for item in wanted:
        topics.append(_as_asked(message, answer(item)))
        await breather.breathe()
    return _response(message, request, topics)


def _to_create(message: MetadataRequest, request: Request) -> list[str]:
    """Not too many at once: whoever asks again is given the next ones."""
    if not (message.allow_auto_topic_creation and request.node.view.settings.auto_create_topics_enable):
        return []
    image = request.node.image
    names = [topic.name for topic in message.topics or () if topic.name and topic.topic_id == NO_TOPIC_ID]
    missing = (name for name in dict.fromkeys(names) if image.topic_named(name) is None)
    return list(islice(missing, CREATED_AT_ONCE))


async def _create_and_answer(
    wanted: list[MetadataRequestTopic], message: MetadataRequest, request: Request, missing: list[str]
) -> MetadataResponse:
    """The answer holds the new topic: a client never has to ask twice."""
    refusals = await create_missing(request.node.commands, request.node.view, missing)
    return await _in_slices(_distinct(wanted), partial(_named, request, refusals), message, request)


def _named(request: Request, refusals: dict[str, Refusal], item: MetadataRequestTopic) -> MetadataResponseTopic:
    topic = _find(request.node.image, item)
    if topic is not None:
        return described(request, topic)
    if item.topic_id != NO_TOPIC_ID:
        name = item.name if request.version >= NULL_NAME_FROM else item.name or ""
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, name, item.topic_id)
    name = item.name or ""
    refusal = refusals.get(name)
    code = refusal.code if refusal is not None else missing_topic_code(name)
    return MetadataResponseTopic(code, name[:TOPIC_NAME_MAX])  # what is longer is no name, and need not come back


def _distinct(wanted: list[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    """Each topic once: a large one, named a thousand times, would make an answer that no memory holds."""
    named = (item.name if item.topic_id == NO_TOPIC_ID else item.topic_id for item in wanted)
    return dict(zip(named, wanted, strict=True)).values()


def _response(message: MetadataRequest, request: Request, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    node = request.node
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id, address.host, address.port, rack)
            for node_id, address, rack in brokers(request)
        ],
        cluster_id=node.image.cluster_id,
        controller_id=controller_id(node),
        topics=topics,
        cluster_authorized_operations=operations(ON_CLUSTER, asked_for=message.include_cluster_authorized_operations),
    )


def _as_asked(message: MetadataRequest, topic: MetadataResponseTopic) -> MetadataResponseTopic:
    """With what may be done with it: in a copy, for what is remembered of a topic goes to everybody."""
    if not message.include_topic_authorized_operations or topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
        return topic
    return replace(topic, topic_authorized_operations=ON_TOPIC)


def controller_id(node: Node) -> NodeId:
    """As Kafka since KRaft, any node will do: whoever gets a request for the controller passes it on."""
    return node.node_id


def brokers(request: Request) -> Iterator[tuple[NodeId, Address, str | None]]:
    """Every node with the address that this client should use."""
    for node in request.node.image.sorted_nodes():
        address = address_of(request, node)
        if address is not None:
            yield node.node_id, address, node.rack


def address_of(request: Request, node: ImageNode) -> Address | None:
    """Others say themselves where clients find them; None if one does not."""
    if node.node_id == request.node.node_id:
        return request.server.advertised_to(request.connection)
    endpoint = node.endpoint(CLIENTS)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)


def described(request: Request, topic: Topic) -> MetadataResponseTopic:
    """Described once for each state of the topic: an answer for 10,000 partitions must not be built each time."""
    remembered = request.server.described_topics
    known = remembered.get(topic.topic_id)
    node = request.node
    state = (
        node.topics.troubles(topic.topic_id),
        nodes_away(node.image),
        node.reachability.doubted(),
        node.reachability.unreachable(),
    )
    if known is not None and known[0] is topic and known[1] == state:
        return known[2]
    answer = MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        is_internal(topic.name),
        [_partition(request, topic, partition) for partition in topic.in_order()],
    )
    _forget_deleted(request)
    remembered[topic.topic_id] = (topic, state, answer)
    return answer


def _forget_deleted(request: Request) -> None:
    """Answers about topics that are gone. Looked for once there may be as many of them as of the others."""
    remembered, topics = request.server.described_topics, request.node.image.topics
    if len(remembered) > 2 * len(topics):
        for topic_id in [topic_id for topic_id in remembered if topic_id not in topics]:
            del remembered[topic_id]


def _partition(request: Request, topic: Topic, partition: Partition) -> MetadataResponsePartition:
    node = request.node
    leader = serving_leader(node, topic, partition)
    return MetadataResponsePartition(
        error_code=leader_error(leader),
        partition_index=partition.partition,
        leader_id=likely_successor(node, partition) if leader == NO_NODE else leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas(node, topic, partition),
    )


def serving_leader(node: Node, topic: Topic, partition: Partition) -> NodeId:
    """NO_NODE where nobody leads, and where this node should and cannot. Whether others can, they say themselves.

    Nor is one named who seems to be gone, or is fenced and about to be followed: clients would dial it for a second or
    two; told of none, they ask again.
    """
    is_damaged = partition.leader == node.node_id and node.topics.is_offline(topic.topic_id, partition.partition)
    is_gone = partition.leader in node.reachability.doubted() or not node.image.is_here(partition.leader)
    return NO_NODE if is_damaged or is_gone else partition.leader


def likely_successor(node: Node, partition: Partition) -> NodeId:
    """Whom the controller elects once it misses this node, which leads the partition and has no lease; else NO_NODE.

    Cut off from the others it never hears whom. Clients that have a connection to it alone would ask it again for as
    long as it lasts: so they are told where to look, beside the error that says that it is not known.
    """
    if partition.leader != node.node_id or node.reachability.may_lead:
        return NO_NODE
    away = {node.node_id, *node.reachability.unreachable()}
    return next((it for it in partition.replicas if it in partition.isr and it not in away), NO_NODE)


def leader_error(leader: NodeId) -> int:
    return ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_NODE else ErrorCode.NONE


def offline_replicas(node: Node, topic: Topic, partition: Partition) -> list[int]:
    """Those on nodes that are away, and this node's own if it cannot be used."""
    away = set(nodes_away(node.image))
    if node.topics.is_offline(topic.topic_id, partition.partition):
        away.add(node.node_id)
    return [node_id for node_id in partition.replicas if node_id in away]


def nodes_away(image: ClusterImage) -> tuple[NodeId, ...]:
    return tuple(sorted(node_id for node_id, node in image.nodes.items() if node.is_fenced))

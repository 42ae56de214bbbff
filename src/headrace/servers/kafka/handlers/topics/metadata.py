"""Metadata (key 3): nodes, topics, leaders; creates a topic on first mention where that is allowed."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.access.operations import Operation, ResourceType
from headrace.broker.coordination.internal_topics import create_missing
from headrace.broker.partitions.topic_table import missing_topic_code
from headrace.metadata.configs.internal_topics import is_internal
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_NODE, NO_TOPIC_ID, TOPIC_NAME_MAX
from headrace.runtime.tasks import Breather
from headrace.servers.kafka.authorized_operations import ON_CLUSTER, ON_TOPIC, operations
from headrace.servers.kafka.handlers.topics.addresses import address_of
from headrace.servers.kafka.handlers.topics.leaders import ToldLeaders, leader_error
from headrace.servers.kafka.mutations import created_within_quota
from headrace.servers.kafka.rights import Choice, Each, Listed, Right, Rights, Scene, Told
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

    from headrace.broker.membership.commands import Commands
    from headrace.broker.membership.reachability import Reachability
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.metadata.image.cluster_image import ClusterImage, Partition, Topic
    from headrace.model.errors import Refusal
    from headrace.model.names import TopicId
    from headrace.runtime.clock import Clock
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request

T = TypeVar("T")

NULL_NAME_FROM = 12  # before, an answer must have a name, though a request could already do without
WIDE = 1000  # topics or partitions in an answer; more of them take milliseconds
CREATED_AT_ONCE = 1000  # topics that one request may make
ALL_WHEN_EMPTY_UNTIL = 0  # in version 0 an empty list asks for all topics; later, null does


def _refused(topic: MetadataRequestTopic, refusal: Refusal) -> MetadataResponseTopic:
    """Whoever names an id does not hear the name."""
    return MetadataResponseTopic(refusal.code, topic.name, topic.topic_id)


def _refused_with_name(topic: MetadataRequestTopic, refusal: Refusal) -> MetadataResponseTopic:
    return MetadataResponseTopic(refusal.code, topic.name or "", topic.topic_id)


SEE: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC, "name")
CREATE: Final = Right(Operation.CREATE, ResourceType.TOPIC, "name", or_on_cluster=Operation.CREATE)


def _taken(message: MetadataRequest, topic: MetadataRequestTopic, scene: Scene) -> tuple[Right, ...]:
    """To ask for what is not there creates it."""
    may_create = message.allow_auto_topic_creation and scene.settings.auto_create_topics_enable
    is_named = topic.topic_id == NO_TOPIC_ID and topic.name is not None
    is_created = may_create and is_named and scene.image.topic_named(topic.name or "") is None
    return (SEE, CREATE) if is_created else (SEE,)


TAKEN: Final = Choice((SEE, CREATE), _taken)
RIGHTS = Rights(
    each=(
        Each("topics", "topics", _refused_with_name, TAKEN, tells_more=True, until=NULL_NAME_FROM - 1),
        Each("topics", "topics", _refused, TAKEN, tells_more=True, since=NULL_NAME_FROM),
    ),
    listed=(Listed(("topics",), SEE),),
    told=(
        Told(("topics",), "topic_authorized_operations", ResourceType.TOPIC, "name"),
        Told((), "cluster_authorized_operations"),
    ),
)


def handle(
    message: MetadataRequest,
    request: Request,
    view: MetadataView,
    commands: Commands,
    topics: TopicTable,
    reachability: Reachability,
    world: World,
) -> MetadataResponse | Awaitable[MetadataResponse]:
    answer = _Answer(message, request, view, ToldLeaders(view, topics, reachability), world.clock)
    if message.topics is None or (not message.topics and request.version <= ALL_WHEN_EMPTY_UNTIL):
        return answer.about_all()
    missing = _to_create(message, view) if message.allow_auto_topic_creation else []
    missing = created_within_quota(missing, request, view)
    if missing:
        return _create_and_answer(message.topics, answer, commands, view, missing)
    return answer.about(message.topics)


def _to_create(message: MetadataRequest, view: MetadataView) -> list[str]:
    """Not too many at once: whoever asks again is given the next ones."""
    if not view.settings.auto_create_topics_enable:
        return []
    names = [topic.name for topic in message.topics or () if topic.name and topic.topic_id == NO_TOPIC_ID]
    missing = (name for name in dict.fromkeys(names) if view.image.topic_named(name) is None)
    return list(islice(missing, CREATED_AT_ONCE))


async def _create_and_answer(
    wanted: list[MetadataRequestTopic], answer: _Answer, commands: Commands, view: MetadataView, missing: list[str]
) -> MetadataResponse:
    """The answer holds the new topic: a client never has to ask twice."""
    answer.refusals = await create_missing(commands, view, missing)
    return await answer.in_slices(_distinct(wanted), answer.named)


class _Answer:
    """To one request."""

    def __init__(
        self, message: MetadataRequest, request: Request, view: MetadataView, leaders: ToldLeaders, clock: Clock
    ) -> None:
        self._message = message
        self._request = request
        self._view = view
        self._leaders = leaders
        self._clock = clock
        self.refusals: dict[str, Refusal] = {}
        """Why topics were not created that were asked for."""

    def about_all(self) -> MetadataResponse | Awaitable[MetadataResponse]:
        topics = self._view.image.sorted_topics()
        if _is_wide(topics):
            return self.in_slices(topics, self._described)
        return self._response([self._as_asked(self._described(topic)) for topic in topics])

    def about(self, wanted: list[MetadataRequestTopic]) -> MetadataResponse | Awaitable[MetadataResponse]:
        if len(wanted) > WIDE or _is_wide(self._find(item) for item in wanted):
            return self.in_slices(_distinct(wanted), self.named)
        return self._response([self._as_asked(self.named(item)) for item in _distinct(wanted)])

    async def in_slices(self, wanted: Iterable[T], describe: Callable[[T], MetadataResponseTopic]) -> MetadataResponse:
        """What would hold everybody up for long: to put it together takes several turns."""
        breather = Breather(self._clock)
        topics = []
        for item in wanted:
            topics.append(self._as_asked(describe(item)))
            await breather.breathe()
        return self._response(topics)

    def named(self, item: MetadataRequestTopic) -> MetadataResponseTopic:
        topic = self._find(item)
        if topic is not None:
            return self._described(topic)
        if item.topic_id != NO_TOPIC_ID:
            name = item.name if self._request.version >= NULL_NAME_FROM else item.name or ""
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, name, item.topic_id)
        name = item.name or ""
        refusal = self.refusals.get(name)
        code = refusal.code if refusal is not None else missing_topic_code(name)
        return MetadataResponseTopic(code, name[:TOPIC_NAME_MAX])  # what is longer is no name, and need not come back

    def _find(self, wanted: MetadataRequestTopic) -> Topic | None:
        image = self._view.image
        return image.topic(wanted.topic_id) if wanted.topic_id != NO_TOPIC_ID else image.topic_named(wanted.name or "")

    def _response(self, topics: list[MetadataResponseTopic]) -> MetadataResponse:
        asked_for = self._message.include_cluster_authorized_operations
        return MetadataResponse(
            brokers=list(self._brokers()),
            cluster_id=self._view.image.cluster_id,
            # As Kafka since KRaft, any node will do: whoever gets a request for the controller passes it on.
            controller_id=self._view.node_id,
            topics=topics,
            cluster_authorized_operations=operations(ON_CLUSTER, asked_for=asked_for),
        )

    def _brokers(self) -> Iterator[MetadataResponseBroker]:
        """Every node with the address that this client should use."""
        for node in self._leaders.listed_nodes():
            address = address_of(self._request, self._view, node)
            if address is not None:
                yield MetadataResponseBroker(node.node_id, address.host, address.port, node.rack)

    def _as_asked(self, topic: MetadataResponseTopic) -> MetadataResponseTopic:
        """With what may be done with it: in a copy, for what is remembered of a topic goes to everybody."""
        if not self._message.include_topic_authorized_operations or topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
            return topic
        return replace(topic, topic_authorized_operations=ON_TOPIC)

    def _described(self, topic: Topic) -> MetadataResponseTopic:
        """Once for each state of the topic: an answer for 10,000 partitions must not be built each time."""
        remembered = self._request.server.described_topics
        known = remembered.get(topic.topic_id)
        state = self._leaders.state(topic)
        if known is not None and known[0] is topic and known[1] == state:
            return known[2]
        answer = MetadataResponseTopic(
            ErrorCode.NONE,
            topic.name,
            topic.topic_id,
            is_internal(topic.name),
            [_partition(self._leaders, topic, partition) for partition in topic.in_order()],
        )
        _forget_deleted(remembered, self._view.image)
        remembered[topic.topic_id] = (topic, state, answer)
        return answer


def _is_wide(topics: Iterable[Topic | None]) -> bool:
    return sum(topic.partition_count for topic in topics if topic is not None) > WIDE


def _distinct(wanted: list[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    """Each topic once: a large one, named a thousand times, would make an answer that no memory holds."""
    named = (item.name if item.topic_id == NO_TOPIC_ID else item.topic_id for item in wanted)
    return dict(zip(named, wanted, strict=True)).values()


def _forget_deleted(remembered: dict[TopicId, Any], image: ClusterImage) -> None:
    """Answers about topics that are gone. Looked for once there may be as many of them as of the others."""
    if len(remembered) > 2 * len(image.topics):
        for topic_id in [topic_id for topic_id in remembered if topic_id not in image.topics]:
            del remembered[topic_id]


def _partition(leaders: ToldLeaders, topic: Topic, partition: Partition) -> MetadataResponsePartition:
    leader = leaders.serving(topic, partition)
    return MetadataResponsePartition(
        error_code=leader_error(leader),
        partition_index=partition.partition,
        leader_id=leaders.likely_successor(partition) if leader == NO_NODE else leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=leaders.offline_replicas(topic, partition),
    )

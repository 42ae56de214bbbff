"""Create topics, delete topics, add partitions: decided against the image, item by item.

Each item is judged as if those before it in the request were already done, so a request cannot get around a rule by
asking twice at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.metadata.commands.assignments import CreatedPartition, ManualAssignment, checked_assignments, spread
from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.configs.internal_topics import (
    CLUSTER_METADATA,
    COORDINATED,
    is_internal,
    usual_configs,
    usual_partition_count,
)
from headrace.metadata.configs.topic_configs import topic_config_key
from headrace.metadata.decisions.decision import Decision, Outcome
from headrace.metadata.image.effective_configs import (
    ConfigEntry,
    NodeConfigs,
    check_topic_settings,
    node_layers,
    node_settings,
    topic_config_entries,
)
from headrace.metadata.image.maps import Map
from headrace.metadata.image.records import ConfigChanged, MetadataRecord, PartitionCreated, TopicCreated, TopicDeleted
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID, Epoch, NodeId, TopicId, topic_id_text, topic_name_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.metadata.image.cluster_image import ClusterImage, Topic

USE_DEFAULT = -1
"""A partition count or replication factor that is left to the cluster."""

PARTITIONS_PER_REQUEST_MAX = 10_000  # one request makes one batch of records, which must not hold up the controller
PARTITIONS_PER_CLUSTER_MAX = 200_000  # each node holds the whole image in memory, a few hundred bytes per partition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that a client asks for. Either the two counts or `assignments` say where it goes."""

    name: str
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: tuple[ManualAssignment, ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What CreateTopics answers. The id is NO_TOPIC_ID if the request only asked whether it would be possible."""

    topic_id: TopicId
    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[ConfigEntry, ...]


def create_topics(
    image: ClusterImage,
    topics: Sequence[NewTopic],
    node: NodeConfigs,
    new_topic_id: Callable[[], TopicId],
    validate_only: bool = False,
) -> Decision[list[Outcome[CreatedTopic]]]:
    repeated = _repeated(topic.name for topic in topics)
    records: list[MetadataRecord] = []
    outcomes: list[Outcome[CreatedTopic]] = []
    pending = image
    for topic in topics:
        try:
            _refuse_repeated(topic.name, repeated)
            topic_id = _unused_topic_id(pending, new_topic_id)
            created, answer = _create_topic(
                pending, topic, topic_id, node, pending.partition_count - image.partition_count
            )
        except Refusal as refusal:
            outcomes.append(Outcome(topic.name, refusal))
            continue
        pending = pending.apply_all(created)
        records += created
        outcomes.append(Outcome(topic.name, _unborn(answer) if validate_only else answer))
    return Decision(() if validate_only else tuple(records), outcomes)


def _create_topic(
    image: ClusterImage, topic: NewTopic, topic_id: TopicId, node: NodeConfigs, requested_before: int
) -> tuple[list[MetadataRecord], CreatedTopic]:
    _check_new_name(image, topic.name)
    partitions = _partitions_for(image, topic, topic_id, node, requested_before)
    overrides = _checked_overrides(topic.configs)
    if is_internal(topic.name):
        overrides = Map({**dict(usual_configs(topic.name)), **overrides})
    layers = node_layers(image, node)._replace(topic=overrides)
    check_topic_settings(layers, topic.name)
    resource = ConfigResource(ResourceKind.TOPIC, topic.name)
    records: list[MetadataRecord] = [TopicCreated(topic_id, topic.name)]
    records += [ConfigChanged(resource, name, overrides[name]) for name in sorted(overrides)]
    records += _partition_records(image, topic_id, partitions)
    answer = CreatedTopic(
        topic_id=topic_id,
        name=topic.name,
        partition_count=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=topic_config_entries(layers),
    )
    return records, answer


def _unborn(answer: CreatedTopic) -> CreatedTopic:
    return CreatedTopic(NO_TOPIC_ID, answer.name, answer.partition_count, answer.replication_factor, answer.configs)


def _unused_topic_id(image: ClusterImage, new_topic_id: Callable[[], TopicId]) -> TopicId:
    while True:
        topic_id = new_topic_id()
        if topic_id != NO_TOPIC_ID and topic_id not in image.topics:
            return topic_id


def _check_new_name(image: ClusterImage, name: str) -> None:
    if name == CLUSTER_METADATA:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} is the cluster's own log and cannot be created")
    if problem := topic_name_problem(name):
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    other = image.topic_like(name)
    if other is None:
        return
    if other.name == name:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is already a topic {name!r}")
    raise Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"{name!r} collides with the topic {other.name!r}: names must not differ only by '.' and '_'",
    )


def _partitions_for(
    image: ClusterImage, topic: NewTopic, topic_id: TopicId, node: NodeConfigs, requested_before: int
) -> list[CreatedPartition]:
    if topic.assignments:
        if topic.partition_count != USE_DEFAULT or topic.replication_factor != USE_DEFAULT:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                "with replicas assigned by hand, the number of partitions and the replication factor must both be -1",
            )
        _check_partition_room(image, len(topic.assignments), requested_before)
        return checked_assignments(image, topic.assignments, first_partition=0)
    settings = node_settings(image, node)
    count = (
        usual_partition_count(topic.name, settings) if topic.partition_count == USE_DEFAULT else topic.partition_count
    )
    if count < 1:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS, f"a topic has at least 1 partition, or -1 for the default; not {count}"
        )
    _check_partition_room(image, count, requested_before)
    is_default = topic.replication_factor == USE_DEFAULT
    replication_factor = settings.default_replication_factor if is_default else topic.replication_factor
    return spread(image, topic_id, 0, count, replication_factor)


def _check_partition_room(image: ClusterImage, count: int, requested_before: int) -> None:
    """Before anything is allocated: a request for a million partitions costs no more than one for none."""
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"{count} new partitions are too many for one request; it may ask for at most {PARTITIONS_PER_REQUEST_MAX}",
        )
    if requested_before + count > PARTITIONS_PER_REQUEST_MAX:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"with this one the request would make {requested_before + count} partitions; at most "
            f"{PARTITIONS_PER_REQUEST_MAX} are made at once, send the rest in another request",
        )
    if image.partition_count + count > PARTITIONS_PER_CLUSTER_MAX:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"the cluster has {image.partition_count} partitions and holds at most {PARTITIONS_PER_CLUSTER_MAX}; "
            f"{count} more do not fit",
        )


def _checked_overrides(configs: Sequence[tuple[str, str | None]]) -> Map[str, str]:
    overrides: dict[str, str] = {}
    for name, value in configs:
        key = topic_config_key(name)
        if value is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} has no value; leave it out for the default")
        if name in overrides:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} is given twice")
        key.parse(value)
        overrides[name] = value
    return Map(overrides)


def _partition_records(
    image: ClusterImage, topic_id: TopicId, partitions: Sequence[CreatedPartition]
) -> list[PartitionCreated]:
    return [_partition_record(image, topic_id, *created) for created in partitions]


def _partition_record(
    image: ClusterImage, topic_id: TopicId, partition: int, replicas: tuple[NodeId, ...]
) -> PartitionCreated:
    """Who was assigned by hand may be away, and is not in sync then."""
    isr = tuple(node_id for node_id in replicas if image.is_here(node_id))
    leader = next((node_id for node_id in isr if image.node_may_lead(node_id)), isr[0])
    return PartitionCreated(topic_id, partition, replicas, isr, leader, Epoch(0), 0)


@dataclass(frozen=True, slots=True)
class TopicReference:
    """A topic by name or by id: exactly one of the two."""

    name: str | None = None
    topic_id: TopicId = NO_TOPIC_ID

    def __str__(self) -> str:
        return self.name if self.name is not None else topic_id_text(self.topic_id)


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    topic_id: TopicId
    name: str


def delete_topics(
    image: ClusterImage, references: Sequence[TopicReference], node: NodeConfigs
) -> Decision[list[Outcome[DeletedTopic]]]:
    """As in Kafka, `__consumer_offsets` and `__transaction_state` can be deleted by whoever may delete topics."""
    is_allowed = node_settings(image, node).delete_topic_enable
    found = Counter(topic.topic_id for reference in references if (topic := _referred(image, reference)) is not None)
    records: list[MetadataRecord] = []
    outcomes: list[Outcome[DeletedTopic]] = []
    for reference in references:
        try:
            if not is_allowed:
                raise Refusal(
                    ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false: topics cannot be deleted"
                )
            topic = _topic_to_delete(image, reference)
            if found[topic.topic_id] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"the request names the topic {topic.name!r} more than once")
        except Refusal as refusal:
            outcomes.append(Outcome(str(reference), refusal))
            continue
        records.append(TopicDeleted(topic.topic_id))
        outcomes.append(Outcome(str(reference), DeletedTopic(topic.topic_id, topic.name)))
    return Decision(tuple(records), outcomes)


def _referred(image: ClusterImage, reference: TopicReference) -> Topic | None:
    return image.topic(reference.topic_id) if reference.name is None else image.topic_named(reference.name)


def _topic_to_delete(image: ClusterImage, reference: TopicReference) -> Topic:
    name, topic_id = reference.name, reference.topic_id
    if (name is None) == (topic_id == NO_TOPIC_ID):
        raise Refusal(
            ErrorCode.INVALID_REQUEST, "a topic to delete is given by its name or by its id, not both or none"
        )
    if name == CLUSTER_METADATA:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} is the cluster's own log and cannot be deleted")
    topic = _referred(image, reference)
    if topic is not None:
        return topic
    if name is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id_text(topic_id)}")
    raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """`partition_count` is what the topic shall have in the end. `assignments` are for the new ones, if given."""

    topic: str
    partition_count: int
    assignments: tuple[ManualAssignment, ...] | None = None


def create_partitions(
    image: ClusterImage, topics: Sequence[MorePartitions], validate_only: bool = False
) -> Decision[list[Outcome[Topic]]]:
    """An outcome holds the topic as it was before."""
    repeated = _repeated(more.topic for more in topics)
    records: list[MetadataRecord] = []
    outcomes: list[Outcome[Topic]] = []
    pending = image
    for more in topics:
        try:
            _refuse_repeated(more.topic, repeated)
            topic = pending.topic_named(more.topic)
            if topic is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {more.topic!r}")
            partitions = _partitions_to_add(pending, topic, more, pending.partition_count - image.partition_count)
        except Refusal as refusal:
            outcomes.append(Outcome(more.topic, refusal))
            continue
        created = _partition_records(image, topic.topic_id, partitions)
        pending = pending.apply_all(created)
        records += created
        outcomes.append(Outcome(more.topic, topic))
    return Decision(() if validate_only else tuple(records), outcomes)


def _partitions_to_add(
    image: ClusterImage, topic: Topic, more: MorePartitions, requested_before: int
) -> list[CreatedPartition]:
    if topic.name in COORDINATED:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} keeps its {topic.partition_count} partitions: with more, coordinators would look for groups "
            "and transactions where they are not",
        )
    have = topic.partition_count
    added = more.partition_count - have
    if added < 1:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name!r} has {have} partitions; it can only get more, not {more.partition_count}",
        )
    _check_partition_room(image, added, requested_before)
    if more.assignments is None:
        return spread(image, topic.topic_id, have, added, topic.replication_factor)
    if len(more.assignments) != added:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions are to be added, but replicas are assigned for {len(more.assignments)}",
        )
    return checked_assignments(image, more.assignments, have, topic.replication_factor)


def _repeated(names: Iterable[str]) -> Mapping[str, int]:
    return {name: count for name, count in Counter(names).items() if count > 1}


def _refuse_repeated(name: str, repeated: Mapping[str, int]) -> None:
    if name in repeated:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"the request names the topic {name!r} {repeated[name]} times")

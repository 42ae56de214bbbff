from __future__ import annotations

import pytest

from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.partition_commands import Reassignment, reassign
from headrace.metadata.commands.topic_commands import (
    PARTITIONS_PER_REQUEST_MAX,
    MorePartitions,
    NewTopic,
    create_partitions,
)
from headrace.metadata.image.records import PartitionCreated
from headrace.model.errors import ErrorCode
from headrace.model.names import LogId, NodeId
from tests.unit.metadata.small_cluster import cluster_of, numbered_topic_id, refused, with_topics


@pytest.fixture
def image():
    return with_topics(cluster_of(1, 2, 3), NewTopic("orders", 2, 2), NewTopic("other", 1, 1))


def by_hand(*replicas: tuple[int, ...]) -> tuple[ManualAssignment, ...]:
    return tuple(ManualAssignment(None, tuple(NodeId(node_id) for node_id in nodes)) for nodes in replicas)


def test_new_partitions_follow_the_old_ones_with_the_same_replication(image):
    decision = create_partitions(image, [MorePartitions("orders", 5)])
    topic = image.apply_all(decision.records).topic_named("orders")
    assert topic.partition_count == 5
    assert [len(partition.replicas) for partition in topic.in_order()] == [2] * 5
    assert [record.partition for record in decision.records] == [2, 3, 4]


def test_a_partition_that_moves_has_more_replicas_for_a_while_and_new_ones_do_not():
    image = with_topics(cluster_of(1, 2, 3, 4), NewTopic("orders", assignments=(ManualAssignment(0, (1, 2)),)))
    first = LogId(numbered_topic_id(1), 0)
    image = image.apply_all(reassign(image, [Reassignment(first, (NodeId(3), NodeId(4)))]).records)
    assert len(image.partition(*first).replicas) == 4, "else this tells nothing"
    (record,) = create_partitions(image, [MorePartitions("orders", 2)]).records
    assert len(record.replicas) == 2
    (record,) = create_partitions(image, [MorePartitions("orders", 2, by_hand((1, 3)))]).records
    assert record.replicas == (1, 3)


def test_replicas_can_be_assigned_by_hand(image):
    decision = create_partitions(image, [MorePartitions("orders", 4, by_hand((3, 1), (2, 3)))])
    topic_id = numbered_topic_id(1)
    assert decision.records == (
        PartitionCreated(topic_id, 2, (3, 1), (3, 1), 3, 0, 0),
        PartitionCreated(topic_id, 3, (2, 3), (2, 3), 2, 0, 0),
    )


def test_validate_only_changes_nothing(image):
    decision = create_partitions(image, [MorePartitions("orders", 5)], validate_only=True)
    assert decision.records == ()
    assert decision.response[0].result == image.topic_named("orders")


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (MorePartitions("nothing", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'nothing'"),
        (MorePartitions("orders", 2), ErrorCode.INVALID_PARTITIONS, "has 2 partitions"),
        (MorePartitions("orders", 1), ErrorCode.INVALID_PARTITIONS, "only get more"),
        (MorePartitions("orders", -1), ErrorCode.INVALID_PARTITIONS, "only get more"),
        (MorePartitions("orders", 10**6), ErrorCode.INVALID_PARTITIONS, str(PARTITIONS_PER_REQUEST_MAX)),
        (MorePartitions("orders", 4, by_hand((1, 2))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 partitions are to be"),
        (MorePartitions("orders", 3, by_hand((1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the others have 2"),
        (MorePartitions("orders", 3, by_hand((1, 1))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "two replicas"),
        (MorePartitions("orders", 3, by_hand((1, 7))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "[7]"),
        (MorePartitions("orders", 3, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "assigned for 0"),
    ],
)
def test_refusals(image, more, code, words):
    decision = create_partitions(image, [more, MorePartitions("other", 2)])
    assert refused(decision.response[0])[0] is code
    assert words in refused(decision.response[0])[1]
    assert [record.topic_id for record in decision.records] == [numbered_topic_id(2)], "the other topic still grows"


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_coordinators_topics_stay_as_they_are_since_their_partitions_say_where_a_group_lives(name):
    image = with_topics(cluster_of(1), NewTopic(name, 16))
    decision = create_partitions(image, [MorePartitions(name, 20)])
    assert refused(decision.response[0])[0] is ErrorCode.INVALID_PARTITIONS
    assert decision.records == ()


def test_every_topic_has_an_outcome_and_a_repeated_one_is_refused(image):
    wanted = [MorePartitions("orders", 3), MorePartitions("other", 2), MorePartitions("orders", 4)]
    outcomes = create_partitions(image, wanted).response
    assert [outcome.name for outcome in outcomes] == ["orders", "other", "orders"]
    assert refused(outcomes[0])[0] is refused(outcomes[2])[0] is ErrorCode.INVALID_REQUEST

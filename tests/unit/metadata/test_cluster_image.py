from __future__ import annotations

import pytest

from headrace.metadata.commands.node_commands import register_node
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.configs.internal_topics import is_internal
from headrace.metadata.image.cluster_image import Changes, changes
from headrace.metadata.image.records import (
    ClusterNamed,
    ConfigChanged,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
)
from headrace.model.names import Epoch, LogId, NodeId, ProducerId, TopicId
from tests.unit.metadata.small_cluster import cluster_of, numbered_topic_id, with_topics

ONE, TWO = numbered_topic_id(1), numbered_topic_id(2)
NODE_1 = NodeId(1)


def new_epoch(topic_id: TopicId, partition: int, epoch: int) -> PartitionChanged:
    return PartitionChanged(topic_id, partition, (NODE_1,), NODE_1, Epoch(epoch), epoch)


def test_lookups_by_name_and_id():
    image = with_topics(cluster_of(1), NewTopic("b.x", 2), NewTopic("a"))
    assert image.topic_named("b.x") is image.topic(ONE)
    assert image.topic_named("b_x") is None
    assert image.topic_like("b_x") is image.topic(ONE)
    assert image.topic_named("c") is None
    assert image.topic(numbered_topic_id(9)) is None
    assert [topic.name for topic in image.sorted_topics()] == ["a", "b.x"]
    assert image.partition(ONE, 1).partition == 1
    assert image.partition(ONE, 2) is None
    assert image.partition(numbered_topic_id(9), 0) is None
    assert image.partition_count == 3


def test_nodes_are_listed_by_number():
    image = cluster_of(10, 2, 33)
    assert image.live_nodes() == [2, 10, 33]
    assert [node.node_id for node in image.sorted_nodes()] == [2, 10, 33]


def test_what_a_change_does_not_touch_is_shared_not_copied():
    image = with_topics(cluster_of(1), NewTopic("large", 4_000), NewTopic("other", 50))
    after = image.apply(new_epoch(ONE, 1234, 1))
    before_partitions, after_partitions = image.topic(ONE).partitions, after.topic(ONE).partitions
    assert after.topic(TWO) is image.topic(TWO)
    assert after_partitions[1234].leader_epoch == 1
    assert before_partitions[1234].leader_epoch == 0, "the old image stays as it was"
    shared = sum(before_partitions[number] is after_partitions[number] for number in range(4_000))
    assert shared == 3_999


def test_33_000_leader_changes_one_by_one_or_at_once_leave_the_rest_where_it_was():
    image = with_topics(cluster_of(1), *(NewTopic(f"t{number}", 1_000) for number in range(8)))
    changing = [numbered_topic_id(number) for number in range(1, 8)]
    records = [new_epoch(changing[number % 7], number // 7 % 1_000, 1 + number // 7_000) for number in range(33_000)]
    one_by_one = image
    for record in records:
        one_by_one = one_by_one.apply(record)
    assert one_by_one == image.apply_all(records)
    assert one_by_one.topic(numbered_topic_id(8)) is image.topic(numbered_topic_id(8))
    assert image.partition(changing[0], 0).leader_epoch == 0


@pytest.mark.parametrize(
    "record",
    [
        TopicCreated(ONE, "another"),
        TopicCreated(TWO, "my.orders"),
        TopicCreated(TWO, "my_orders"),
        PartitionCreated(ONE, 5, (NODE_1,), (NODE_1,), NODE_1, Epoch(0), 0),
        PartitionCreated(ONE, 0, (NODE_1,), (NODE_1,), NODE_1, Epoch(0), 0),
        new_epoch(ONE, 0, 2),
        PartitionChanged(ONE, 0, (NODE_1,), NODE_1, Epoch(-1), 1),
        ProducerIdsReserved(NODE_1, ProducerId(-5)),
    ],
)
def test_a_record_that_does_not_fit_the_image_stops_the_node(record):
    image = with_topics(cluster_of(1), NewTopic("my.orders", 2))
    with pytest.raises(AssertionError):
        image.apply(record)


@pytest.mark.parametrize("record", [TopicDeleted(TWO), new_epoch(TWO, 0, 1), new_epoch(ONE, 7, 1)])
def test_a_record_about_nothing_stops_the_node(record):
    with pytest.raises(KeyError):
        with_topics(cluster_of(1), NewTopic("orders", 2)).apply(record)


def test_a_topic_may_come_and_go_within_one_batch():
    image = cluster_of(1)
    records: list[MetadataRecord] = [
        TopicCreated(ONE, "brief"),
        PartitionCreated(ONE, 0, (NODE_1,), (NODE_1,), NODE_1, Epoch(0), 0),
        ConfigChanged(ConfigResource(ResourceKind.TOPIC, "brief"), "retention.ms", "1"),
        TopicDeleted(ONE),
        TopicCreated(TWO, "brief"),
        PartitionCreated(TWO, 0, (NODE_1,), (NODE_1,), NODE_1, Epoch(0), 0),
    ]
    after = image.apply_all(records)
    assert after.topic_named("brief").topic_id == TWO
    assert (after.partition_count, len(after.topics), len(after.configs)) == (1, 1, 0)


def test_changes_name_what_to_look_at_again_in_order_and_once():
    resource = ConfigResource(ResourceKind.TOPIC, "b")
    records = [
        ClusterNamed("c"),
        TopicCreated(TWO, "b"),
        PartitionCreated(TWO, 0, (NODE_1,), (NODE_1,), NODE_1, Epoch(0), 0),
        ConfigChanged(resource, "retention.ms", "1"),
        ConfigChanged(resource, "segment.ms", "1"),
        new_epoch(TWO, 0, 1),
        new_epoch(ONE, 3, 1),
        ProducerIdsReserved(NODE_1, ProducerId(1000)),
        *register_node(cluster_of(), NODE_1, b"life").records,
    ]
    found = changes(records)
    assert found == Changes((LogId(TWO, 0), LogId(ONE, 3)), (), (resource,), (NODE_1,))
    assert found.topics == (TWO, ONE)


def test_a_deleted_topic_is_only_deleted_whatever_came_before():
    found = changes([new_epoch(ONE, 0, 1), new_epoch(TWO, 0, 1), TopicDeleted(ONE)])
    assert found.deleted_topics == (ONE,)
    assert found.partitions == (LogId(TWO, 0),)


def test_internal_topics_are_known_by_name():
    names = ["__consumer_offsets", "__transaction_state", "__cluster_metadata", "orders", "__orders"]
    assert [is_internal(name) for name in names] == [True, True, True, False, False]

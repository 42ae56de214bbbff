"""What the controller sees to by itself."""

from __future__ import annotations

from headrace.metadata.commands.node_commands import drain_node, undrain_node
from headrace.metadata.commands.partition_commands import (
    InSyncMember,
    IsrChange,
    Reassignment,
    change_in_sync,
    reassign,
)
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.commands.upkeep import WIDENED_AT_ONCE, end_of_move, widen_internal_topics
from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS
from headrace.model.names import LogId, NodeId
from tests.unit.metadata.small_cluster import cluster_of, swept, with_topics

ONE, TWO, THREE, FOUR = map(NodeId, (1, 2, 3, 4))


def decided(image, decision):
    return image.apply_all(decision.records)


def caught_up(image, topic):
    """Every replica of the topic is in sync."""
    for partition in topic.in_order():
        now = image.partition(topic.topic_id, partition.partition)
        members = tuple(InSyncMember(it, image.nodes[it].broker_epoch) for it in now.replicas)
        change = IsrChange(LogId(topic.topic_id, partition.partition), now.leader_epoch, now.partition_epoch, members)
        image = decided(image, change_in_sync(image, now.leader, image.nodes[now.leader].broker_epoch, [change]))
    return image


def test_a_move_to_nodes_that_may_not_lead_ends_once_one_may():
    image = with_topics(cluster_of(1), NewTopic("a", 1, 1))
    topic = image.topic_named("a")
    image = joined(image, 2)
    log_id = LogId(topic.topic_id, 0)
    image = decided(image, reassign(image, [Reassignment(log_id, (TWO,))]))
    image = decided(image, drain_node(image, TWO))
    image = caught_up(image, topic)
    assert image.partition(*log_id).is_moving
    assert swept(image, end_of_move).response == 0
    image = decided(image, undrain_node(image, TWO))
    ended = swept(image, end_of_move)
    assert ended.response == 1
    partition = decided(image, ended).partition(*log_id)
    assert (partition.replicas, partition.isr, partition.leader, partition.is_moving) == ((TWO,), (TWO,), TWO, False)


def joined(image, *node_ids):
    return image.apply_all(cluster_records(*node_ids))


def cluster_records(*node_ids):
    from headrace.metadata.image.records import NodeRegistered

    return [NodeRegistered(NodeId(it), b"life", broker_epoch=100 + it) for it in node_ids]


def replica_counts(image):
    return [len(it.target) for it in image.topic_named(CONSUMER_OFFSETS).in_order()]


def test_internal_topics_get_as_many_replicas_as_the_nodes_allow_a_few_partitions_at_a_time():
    image = with_topics(cluster_of(1), NewTopic(CONSUMER_OFFSETS, 6, 1), NewTopic("ours", 1, 1))
    assert widen_internal_topics(image).response == 0
    image = joined(image, 2)
    image = decided(image, widen_internal_topics(image))
    assert sorted(replica_counts(image)) == [1, 1, *[2] * WIDENED_AT_ONCE]
    assert widen_internal_topics(image).response == 0  # those that move come first
    image = caught_up(image, image.topic_named(CONSUMER_OFFSETS))
    image = decided(image, widen_internal_topics(image))
    assert replica_counts(image) == [2] * 6
    image = caught_up(joined(image, 3, 4), image.topic_named(CONSUMER_OFFSETS))
    for _ in range(2):
        image = decided(image, widen_internal_topics(image))
        image = caught_up(image, image.topic_named(CONSUMER_OFFSETS))
    assert replica_counts(image) == [3] * 6
    assert all(it.replicas[0] == it.leader == ONE for it in image.topic_named(CONSUMER_OFFSETS).in_order())
    assert widen_internal_topics(image).response == 0
    assert image.topic_named("ours").replication_factor == 1

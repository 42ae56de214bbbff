from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.metadata.image import EMPTY_IMAGE
from headrace.metadata.node_commands import (
    PRODUCER_ID_MAX,
    PRODUCER_IDS_PER_BLOCK,
    ProducerIdBlock,
    name_cluster,
    register_node,
    reserve_producer_ids,
)
from headrace.metadata.records import (
    ClusterNamed,
    Endpoint,
    NodeRegistered,
    PartitionChanged,
    ProducerIdsReserved,
)
from headrace.metadata.topic_commands import NewTopic
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Epoch, NodeId, ProducerId
from tests.unit.metadata.small_cluster import cluster_of, numbered_topic_id, with_topics

ONE, TWO = NodeId(1), NodeId(2)
KAFKA = Endpoint("kafka", "127.0.0.1", 9092)


def test_the_first_start_makes_the_node_known():
    decision = register_node(EMPTY_IMAGE, ONE, b"life", (KAFKA,), "rack-a")
    assert decision.records == (NodeRegistered(ONE, b"life", (KAFKA,), "rack-a"),)
    node = EMPTY_IMAGE.apply_all(decision.records).nodes[ONE]
    assert node == decision.response
    assert (node.endpoint("kafka"), node.endpoint("cluster"), node.rack) == (KAFKA, None, "rack-a")


def test_every_start_takes_a_new_epoch_for_what_the_node_leads():
    image = with_topics(cluster_of(1, 2), NewTopic("a", 4, 1))
    led = [partition.partition for partition in image.topic_named("a").in_order() if partition.leader == ONE]
    assert len(led) == 2
    decision = register_node(image, ONE, b"second life")
    assert decision.records == (
        NodeRegistered(ONE, b"second life"),
        *(PartitionChanged(numbered_topic_id(1), number, (1,), 1, 1, 1) for number in led),
    )
    third = register_node(image.apply_all(decision.records), ONE, b"third life")
    assert {record.leader_epoch for record in third.records[1:]} == {2}


def test_partitions_are_taken_over_in_order_of_topic_name_and_number():
    image = with_topics(cluster_of(1), NewTopic("b", 2), NewTopic("a", 3))
    records = register_node(image, ONE, b"second life").records[1:]
    names = [(image.topic(record.topic_id).name, record.partition) for record in records]
    assert names == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_a_partition_without_a_leader_is_led_by_the_first_of_its_in_sync_replicas_to_start():
    image = with_topics(cluster_of(1, 2), NewTopic("a", 1, 2))
    topic_id = numbered_topic_id(1)
    isr_is_two = PartitionChanged(topic_id, 0, (TWO,), NO_NODE, Epoch(1), 1)
    image = image.apply(isr_is_two)
    assert not image.partition(topic_id, 0).has_leader
    assert len(register_node(image, ONE, b"second life").records) == 1, "out of sync, it must not lead"
    assert register_node(image, TWO, b"second life").records[1] == PartitionChanged(topic_id, 0, (2,), 2, 2, 2)


def test_asking_twice_in_one_life_changes_nothing():
    image = with_topics(cluster_of(1), NewTopic("a"))
    assert register_node(image, ONE, b"first life").records == ()


def test_a_new_address_in_the_same_life_takes_no_new_epoch():
    image = with_topics(cluster_of(1), NewTopic("a"))
    assert register_node(image, ONE, b"first life", (KAFKA,)).records == (NodeRegistered(ONE, b"first life", (KAFKA,)),)


def test_producer_ids_come_in_blocks_that_never_overlap():
    image = cluster_of(1, 2)
    first = reserve_producer_ids(image, ONE)
    assert first.response == ProducerIdBlock(0, PRODUCER_IDS_PER_BLOCK)
    assert first.records == (ProducerIdsReserved(ONE, PRODUCER_IDS_PER_BLOCK),)
    second = reserve_producer_ids(image.apply_all(first.records), TWO)
    assert second.response == ProducerIdBlock(PRODUCER_IDS_PER_BLOCK, 2 * PRODUCER_IDS_PER_BLOCK)


def test_a_node_must_be_known_to_get_producer_ids():
    with pytest.raises(Refusal) as refusal:
        reserve_producer_ids(EMPTY_IMAGE, ONE)
    assert refusal.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_the_last_producer_id_is_the_last():
    image = replace(cluster_of(1), next_producer_id=ProducerId(PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK))
    decision = reserve_producer_ids(image, ONE)
    assert decision.response.next == PRODUCER_ID_MAX
    with pytest.raises(Refusal):
        reserve_producer_ids(image.apply_all(decision.records), ONE)


def test_a_cluster_is_named_once():
    decision = name_cluster(EMPTY_IMAGE, "abc")
    assert decision.records == (ClusterNamed("abc"),)
    named = EMPTY_IMAGE.apply_all(decision.records)
    assert named.cluster_id == "abc"
    later = name_cluster(named, "xyz")
    assert (later.records, later.response) == ((), "abc")

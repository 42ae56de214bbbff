from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.metadata.commands.node_commands import (
    PRODUCER_ID_MAX,
    PRODUCER_IDS_PER_BLOCK,
    ProducerIdBlock,
    drain_node,
    fence_node,
    name_cluster,
    register_node,
    remove_node,
    reserve_producer_ids,
    undrain_node,
    unfence_node,
)
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.records import (
    ClusterNamed,
    Endpoint,
    NodeRegistered,
    PartitionCreated,
    ProducerIdsReserved,
    TopicCreated,
)
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Epoch, NodeId, ProducerId
from tests.unit.metadata.small_cluster import cluster_of, numbered_topic_id, with_topics

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
KAFKA = Endpoint("kafka", "127.0.0.1", 9092)


def started(image, node_id, life, **more):
    """A node registers and, having caught up, is let in."""
    registered = register_node(image, node_id, life, **more)
    image = image.apply_all(registered.records)
    return image.apply_all(unfence_node(image, node_id, registered.response).records)


@pytest.mark.parametrize(
    ("node_id", "more"),
    [
        (-5, {}),
        (2**31, {}),
        (4, {"session_ms": 0}),
        (4, {"endpoints": (Endpoint("kafka", "", 9092),)}),
        (4, {"endpoints": (Endpoint("kafka", "h" * 256, 9092),)}),
        (4, {"endpoints": (KAFKA, Endpoint("kafka", "127.0.0.1", 70_000))}),
        (4, {"endpoints": (Endpoint("kafka", "127.0.0.1", -5),)}),
    ],
)
def test_what_could_not_be_told_to_others_is_not_written_down(node_id, more):
    with pytest.raises(Refusal) as refused:
        register_node(cluster_of(1, 2, 3), NodeId(node_id), b"life", **more)
    assert refused.value.code is ErrorCode.INVALID_REGISTRATION


def states(image, name="a"):
    """Leader, leader epoch and in-sync set of each partition."""
    return [(it.leader, it.leader_epoch, it.isr) for it in image.topic_named(name).in_order()]


def replicated_on(*placements, nodes=(1, 2, 3)):
    """A topic whose partitions have their replicas there; the first leads."""
    return with_partitions(cluster_of(*nodes), *placements)


def with_partitions(image, *placements):
    topic_id = numbered_topic_id(1)
    return image.apply_all(
        [
            TopicCreated(topic_id, "a"),
            *(
                PartitionCreated(topic_id, number, replicas, replicas, replicas[0], Epoch(0), 0)
                for number, replicas in enumerate(placements)
            ),
        ]
    )


def test_the_first_start_makes_the_node_known_and_fenced():
    decision = register_node(EMPTY_IMAGE, ONE, b"life", (KAFKA,), "rack-a", directory=b"disk")
    assert decision.records == (NodeRegistered(ONE, b"life", (KAFKA,), "rack-a", 1, b"disk", is_fenced=True),)
    assert decision.response == 1
    image = EMPTY_IMAGE.apply_all(decision.records)
    node = image.nodes[ONE]
    assert (node.endpoint("kafka"), node.endpoint("cluster"), node.rack) == (KAFKA, None, "rack-a")
    assert image.live_nodes() == []
    assert image.apply_all(unfence_node(image, ONE, 1).records).live_nodes() == [ONE]


def test_every_registration_has_a_broker_epoch_of_its_own():
    image = cluster_of(1, 2)
    assert [image.nodes[node_id].broker_epoch for node_id in (ONE, TWO)] == [1, 2]
    assert register_node(image, ONE, b"second life").response == 3


def test_every_start_takes_a_new_epoch_for_what_the_node_leads():
    image = started(replicated_on((ONE,), (TWO,)), ONE, b"second life")
    assert states(image) == [(ONE, 2, (ONE,)), (TWO, 0, (TWO,))]


def test_asking_twice_in_one_life_changes_nothing():
    image = with_topics(cluster_of(1), NewTopic("a"))
    assert register_node(image, ONE, b"first life").records == ()
    assert unfence_node(image, ONE, 1).records == ()


def test_a_life_that_is_over_cannot_ask_for_anything():
    image = cluster_of(1)
    image = image.apply_all(register_node(image, ONE, b"second life").records)
    with pytest.raises(Refusal) as refusal:
        unfence_node(image, ONE, 1)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_when_a_node_is_gone_others_in_sync_lead_and_it_is_in_sync_no_more():
    image = replicated_on((ONE, TWO, THREE), (TWO, ONE), (ONE,))
    image = image.apply_all(fence_node(image, ONE).records)
    assert states(image) == [(TWO, 1, (TWO, THREE)), (TWO, 0, (TWO,)), (NO_NODE, 1, (ONE,))]
    assert image.live_nodes() == [TWO, THREE]
    assert fence_node(image, ONE).records == ()


def test_the_last_in_sync_replica_is_waited_for():
    image = replicated_on((ONE, TWO))
    image = image.apply_all(fence_node(image, TWO).records)
    image = image.apply_all(fence_node(image, ONE).records)
    assert states(image) == [(NO_NODE, 1, (ONE,))]
    assert states(started(image, TWO, b"second life")) == [(NO_NODE, 1, (ONE,))], "it may lack what One acknowledged"
    assert states(started(image, ONE, b"second life")) == [(ONE, 2, (ONE,))]


def test_a_new_disk_is_in_sync_with_nothing():
    image = EMPTY_IMAGE
    for node_id in (ONE, TWO):
        image = started(image, node_id, b"first life", directory=b"old disk")
    image = with_partitions(image, (ONE, TWO), (ONE,))
    with pytest.raises(Refusal, match="node 1 is running, with another data directory"):
        register_node(image, ONE, b"second life", directory=b"new disk")
    image = image.apply_all(fence_node(image, ONE).records)
    image = started(image, ONE, b"second life", directory=b"new disk")
    assert states(image) == [(TWO, 1, (TWO,)), (NO_NODE, 1, ())]


def test_a_draining_node_leads_nothing_that_others_can_and_gets_nothing_new():
    image = replicated_on((ONE, TWO), (ONE,))
    image = image.apply_all(drain_node(image, ONE).records)
    assert states(image) == [(TWO, 1, (ONE, TWO)), (ONE, 0, (ONE,))]
    image = with_topics(image, NewTopic("b", 6, 2))
    assert {node_id for it in image.topic_named("b").in_order() for node_id in it.replicas} == {TWO, THREE}
    image = image.apply_all(undrain_node(image, ONE).records)
    assert image.node_may_lead(ONE)


def test_a_node_is_removed_only_when_it_is_stopped_and_empty():
    image = replicated_on((TWO,))
    for node_id, problem in [(ONE, "is running"), (TWO, "has 1 replicas"), (NodeId(9), "no node 9")]:
        with pytest.raises(Refusal, match=problem):
            remove_node(image, node_id)
    image = image.apply_all(fence_node(image, ONE).records)
    assert ONE not in image.apply_all(remove_node(image, ONE).records).nodes


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

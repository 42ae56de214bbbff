"""Changes of many partitions, decided in slices."""

from __future__ import annotations

import pytest

from headrace.metadata.commands.node_commands import (
    NOT_YET,
    admit_node,
    drain_node,
    fence_node,
    register_node,
    unfence_node,
)
from headrace.metadata.commands.partition_commands import InSyncMember, IsrChange, change_in_sync
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.commands.upkeep import taken_from_absent
from headrace.metadata.decisions.slices import CHANGED_MAX, LOOKED_AT_MAX, SlicedChange, first_slice
from headrace.metadata.elections.eligible_replicas import with_eligible
from headrace.metadata.image.records import ClusterNamed, NodeRegistered, PartitionChanged, TopicDeleted
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, LogId, NodeId
from tests.unit.metadata.small_cluster import NODE, cluster_of, with_topics

ONE, TWO, THREE = map(NodeId, (1, 2, 3))
WIDE = 3 * CHANGED_MAX


@pytest.fixture
def image():
    return with_topics(cluster_of(1, 2, 3), NewTopic("narrow", 1, 3), NewTopic("wide", WIDE, 3))


def partitions(image):
    return [partition for topic in image.sorted_topics() for partition in topic.in_order()]


def swept_slices(image, *changes, loser=NO_NODE):
    """The image after all slices, and how many records each had."""
    sizes = []
    for change in changes:
        sliced = SlicedChange(image, change)
        while not sliced.is_over:
            records = sliced.next_slice(image)
            sizes.append(len(records))
            image = image.apply_all(records)
    return image, sizes


def test_a_fence_comes_with_a_first_slice_and_leaves_the_rest(image):
    decision = fence_node(image, ONE)
    assert sum(isinstance(it, PartitionChanged) for it in decision.records) == CHANGED_MAX
    half = image.apply_all(decision.records)
    assert {it.leader for it in partitions(half)} == {TWO, THREE}, "what it led is taken from it first"
    after, sizes = swept_slices(half, *decision.rest)
    assert max(sizes) <= CHANGED_MAX
    assert all(it.isr in {(TWO, THREE), (THREE, TWO)} for it in partitions(after))


def test_where_all_fits_into_one_decision_nothing_is_left():
    small = with_topics(cluster_of(1, 2, 3), NewTopic("narrow", 9, 3))
    decision = fence_node(small, ONE)
    assert decision.rest == ()
    assert all(ONE not in it.isr for it in partitions(small.apply_all(decision.records)))


def test_a_slice_looks_at_a_bounded_number_of_partitions():
    image = with_topics(cluster_of(1), NewTopic("wide", LOOKED_AT_MAX + 1, 1))
    looks = []
    sliced = SlicedChange(image, lambda *seen: looks.append(seen))
    sliced.next_slice(image)
    assert (len(looks), sliced.is_over) == (LOOKED_AT_MAX, False)
    sliced.next_slice(image)
    assert (len(looks), sliced.is_over) == (LOOKED_AT_MAX + 1, True)


def test_what_changes_between_two_slices_counts(image):
    """A topic is deleted, and the node is back."""
    fenced = image.apply_all(fence_node(image, ONE).records)
    sliced = SlicedChange(fenced, taken_from_absent)
    fenced = fenced.apply_all(sliced.next_slice(fenced))
    back = fenced.apply_all(unfence_node(fenced, ONE, fenced.nodes[ONE].broker_epoch).records)
    assert sliced.next_slice(back) == []
    sliced = SlicedChange(image, taken_from_absent)
    gone = image.apply(TopicDeleted(image.topic_named("wide").topic_id))
    assert sliced.next_slice(gone) == []
    assert sliced.is_over


def test_whoever_decides_next_finds_what_was_left(image):
    half = image.apply_all(fence_node(image, ONE).records)
    after, _ = swept_slices(half, taken_from_absent)
    assert not any(ONE in it.isr or it.leader == ONE for it in partitions(after))
    assert first_slice(after, [taken_from_absent]).records == []


def test_a_life_begins_only_when_all_of_the_last_one_is_taken(image):
    decision = register_node(image, ONE, b"second life")
    assert decision.response == NOT_YET
    assert not any(isinstance(it, NodeRegistered) for it in decision.records)
    half = image.apply_all(decision.records)
    assert half.nodes[ONE].is_fenced
    assert register_node(half, ONE, b"second life").response == NOT_YET
    after, _ = swept_slices(half, *decision.rest)
    registered = register_node(after, ONE, b"second life")
    assert registered.response == image.registrations + 1
    assert len(registered.records) == 1


def test_an_empty_disk_is_in_sync_with_nothing_when_its_life_begins():
    image = with_topics(cluster_of(1, 2), NewTopic("alone", WIDE, 1))
    image = image.apply_all([NodeRegistered(ONE, b"first life", broker_epoch=9, directory=b"disk")])
    image = image.apply_all(fence_node(image, ONE).records)
    held = sum(it.isr == (ONE,) for it in partitions(image))
    assert held > CHANGED_MAX
    decision = with_eligible(image, register_node(image, ONE, b"second life", directory=b"another"), NODE)
    assert (decision.response, decision.loser) == (NOT_YET, ONE)
    image, _ = swept_slices(image.apply_all(decision.records), *decision.rest)
    assert register_node(image, ONE, b"second life", directory=b"another").response != NOT_YET
    assert not any(ONE in {*it.isr, *it.eligible} for it in partitions(image))


def test_a_node_that_asks_to_be_let_in_hears_nothing_before_that(image):
    image = image.apply_all([ClusterNamed("cluster")])
    decision = admit_node(image, "", ONE, b"second life")
    assert (decision.response, len(decision.rest)) == ("", 2)
    image, _ = swept_slices(image.apply_all(decision.records), *decision.rest)
    assert admit_node(image, "", ONE, b"second life").response == "cluster"


def test_who_comes_back_and_who_leaves_do_so_in_slices_too(image):
    for node_id in (ONE, TWO, THREE):
        decision = fence_node(image, node_id)
        image, _ = swept_slices(image.apply_all(decision.records), *decision.rest)
    assert {it.leader for it in partitions(image)} == {NO_NODE}
    decision = unfence_node(image, THREE, image.nodes[THREE].broker_epoch)
    assert len(decision.records) == CHANGED_MAX + 1
    image, _ = swept_slices(image.apply_all(decision.records), *decision.rest)
    assert {it.leader for it in partitions(image)} == {THREE}


def test_a_node_that_drains_hands_over_in_slices(image):
    image = with_topics(image, NewTopic("wider", WIDE, 3))
    decision = drain_node(image, ONE)
    assert len(decision.records) == CHANGED_MAX + 1
    image, _ = swept_slices(image.apply_all(decision.records), *decision.rest)
    assert {it.leader for it in partitions(image)} == {TWO, THREE}
    assert all(len(it.isr) == 3 for it in partitions(image))


def test_a_fenced_leader_does_not_change_who_is_in_sync(image):
    """Where the slices have not come to yet it is still called the leader."""
    half = image.apply(fence_node(image, ONE).records[0])
    led = next(it for it in half.topic_named("wide").in_order() if it.leader == ONE)
    epoch = half.nodes[ONE].broker_epoch
    alone = IsrChange(
        LogId(half.topic_named("wide").topic_id, led.partition),
        led.leader_epoch,
        led.partition_epoch,
        (InSyncMember(ONE, epoch),),
    )
    with pytest.raises(Refusal) as caught:
        change_in_sync(half, ONE, epoch, [alone])
    assert caught.value.code is ErrorCode.FENCED_LEADER_EPOCH

"""A new cluster out of one survivor: what it begins with, and what is said to be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.metadata.commands.node_commands import admit_node, register_node, unfence_node
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.records import ClusterNamed, ConfigChanged, PartitionChanged, ProducerIdsReserved
from headrace.metadata.image.snapshots import snapshot_records
from headrace.metadata.rescue import EPOCH_LEAP, PRODUCER_ID_LEAP, Copy, Fate, Wishes, rescue
from headrace.model.errors import Refusal
from headrace.model.names import NO_NODE, Epoch, LogId, NodeId, ProducerId
from tests.unit.metadata.small_cluster import cluster_of, numbered_topic_id, with_topics

if TYPE_CHECKING:
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.rescue import Rescue

ME = NodeId(1)
OTHERS = (NodeId(2), NodeId(3))
DISK = b"the disk that is left"
ORDERS, ELSEWHERE = numbered_topic_id(1), numbered_topic_id(2)
RETENTION = ConfigResource(ResourceKind.TOPIC, "orders")


def old_cluster() -> ClusterImage:
    """`orders` is on all three nodes, `elsewhere` on the others."""
    image = cluster_of(1, 2, 3).apply(ClusterNamed("old"))
    image = with_topics(
        image,
        NewTopic("orders", assignments=((0, (NodeId(2), ME, NodeId(3))), (1, (ME, NodeId(2), NodeId(3))))),
        NewTopic("elsewhere", assignments=((0, OTHERS),)),
    )
    return image.apply_all(
        [ConfigChanged(RETENTION, "retention.ms", "1000"), ProducerIdsReserved(ME, ProducerId(5000))]
    )


def fallen_behind(image: ClusterImage, partition: int) -> ClusterImage:
    before = image.partition(ORDERS, partition)
    assert before is not None
    return image.apply(
        PartitionChanged(
            ORDERS, partition, OTHERS, OTHERS[0], Epoch(before.leader_epoch + 3), before.partition_epoch + 1
        )
    )


def copies(*partitions: int, last_epoch: int = 0) -> dict[LogId, Copy]:
    return {LogId(ORDERS, number): Copy(0, 100, Epoch(last_epoch)) for number in partitions}


def rescued(image: ClusterImage, found: dict[LogId, Copy] | None = None, wishes: Wishes | None = None) -> Rescue:
    return rescue(image, ME, DISK, "new", copies(0, 1) if found is None else found, wishes or Wishes())


def fates(done: Rescue) -> dict[str, Fate]:
    return {str(it.name): it.fate for it in done.partitions}


def started(image: ClusterImage) -> ClusterImage:
    """The survivor has registered, and was let in."""
    registered = register_node(image, ME, b"next life", directory=DISK)
    image = image.apply_all(registered.records)
    return image.apply_all(unfence_node(image, ME, registered.response).records)


def test_what_was_in_sync_is_kept_what_was_not_is_behind_and_the_rest_is_lost() -> None:
    done = rescued(fallen_behind(old_cluster(), 1))
    assert fates(done) == {"orders-0": Fate.KEPT, "orders-1": Fate.BEHIND, "elsewhere-0": Fate.LOST}


def test_a_log_that_is_not_on_the_disk_is_lost_whatever_the_metadata_says() -> None:
    assert fates(rescued(old_cluster(), copies(1)))["orders-0"] is Fate.LOST


def test_an_eligible_copy_has_all_that_was_committed() -> None:
    image = old_cluster()
    before = image.partition(ORDERS, 0)
    assert before is not None
    left = PartitionChanged(
        ORDERS, 0, OTHERS[:1], NO_NODE, before.leader_epoch, before.partition_epoch + 1, eligible=(ME,)
    )
    assert fates(rescued(image.apply(left)))["orders-0"] is Fate.KEPT


def test_the_survivor_leads_everything_alone_in_an_epoch_that_nobody_has_heard_of() -> None:
    before = fallen_behind(old_cluster(), 1)
    after = started(rescued(before).image)
    for log_id in (LogId(ORDERS, 0), LogId(ORDERS, 1), LogId(ELSEWHERE, 0)):
        old, new = before.partition(*log_id), after.partition(*log_id)
        assert old is not None
        assert new is not None
        assert (new.leader, new.isr, new.replicas) == (ME, (ME,), (ME,))
        assert new.leader_epoch > old.leader_epoch + EPOCH_LEAP
        assert new.partition_epoch > old.partition_epoch


def test_the_epoch_is_above_what_is_in_the_log_also_if_the_metadata_knows_less() -> None:
    new = rescued(old_cluster(), copies(0, 1, last_epoch=77)).image.partition(ORDERS, 0)
    assert new is not None
    assert new.leader_epoch == 77 + EPOCH_LEAP


def test_topics_keep_their_ids_settings_and_partitions() -> None:
    old, new = old_cluster(), rescued(old_cluster()).image
    assert [(it.name, it.topic_id, it.partition_count) for it in new.sorted_topics()] == [
        (it.name, it.topic_id, it.partition_count) for it in old.sorted_topics()
    ]
    assert new.configs_of(RETENTION)["retention.ms"] == "1000"


def test_producer_ids_and_broker_epochs_are_not_given_out_twice() -> None:
    old, new = old_cluster(), rescued(old_cluster()).image
    assert new.next_producer_id == old.next_producer_id + PRODUCER_ID_LEAP
    assert new.registrations == old.registrations
    assert started(new).nodes[ME].broker_epoch > max(node.broker_epoch for node in old.nodes.values())


def test_the_cluster_is_another_one_and_nodes_of_the_old_are_refused() -> None:
    new = started(rescued(old_cluster()).image)
    assert new.cluster_id == "new"
    assert list(new.nodes) == [ME]
    with pytest.raises(Refusal, match="belongs to old"):
        admit_node(new, "old", NodeId(2), b"its next life")
    assert admit_node(new, "", NodeId(2), b"a new node").response == "new"


def test_lost_partitions_may_stay_offline_until_somebody_decides() -> None:
    after = started(rescued(old_cluster(), wishes=Wishes(lost_stay_offline=True)).image)
    lost, kept = after.partition(ELSEWHERE, 0), after.partition(ORDERS, 0)
    assert lost is not None
    assert kept is not None
    assert lost.is_lost
    assert kept.leader == ME


def test_replicas_may_be_kept_for_nodes_that_come_back_empty() -> None:
    new = rescued(old_cluster(), wishes=Wishes(keep_replicas=True)).image
    orders, elsewhere = new.partition(ORDERS, 0), new.partition(ELSEWHERE, 0)
    assert orders is not None
    assert elsewhere is not None
    assert (orders.replicas, orders.isr) == ((2, 1, 3), (ME,))
    assert elsewhere.replicas == (1, 2), "as many as before, and one that is there"
    assert all(new.nodes[other].is_fenced and not new.nodes[other].endpoints for other in OTHERS)
    leading = started(new).partition(ORDERS, 0)
    assert leading is not None
    assert (leading.leader, leading.isr) == (ME, (ME,))


def test_the_new_image_survives_a_snapshot() -> None:
    for wishes in (Wishes(), Wishes(keep_replicas=True), Wishes(lost_stay_offline=True)):
        new = rescued(fallen_behind(old_cluster(), 1), wishes=wishes).image
        assert EMPTY_IMAGE.apply_all(snapshot_records(new)) == new

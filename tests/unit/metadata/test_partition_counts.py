"""What a node's dashboards show of partitions: its own share, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.partition_commands import Reassignment, reassign
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.elections.partition_leaders import taking_over
from headrace.metadata.image.effective_configs import NodeConfigs
from headrace.metadata.image.partition_counts import PartitionCounts, count_partitions
from headrace.model.names import LogId, NodeId
from tests.unit.metadata.small_cluster import cluster_of, numbered_topic_id, swept, with_topics

if TYPE_CHECKING:
    from headrace.metadata.image.cluster_image import ClusterImage

ONE, TWO, THREE, FOUR = (NodeId(number) for number in range(1, 5))


def cluster(*replicas: tuple[NodeId, ...], **configs: str) -> ClusterImage:
    """Four nodes, and topics 1, 2 … of one partition each. The first of its replicas leads it."""
    settings = tuple((name.replace("_", "."), value) for name, value in configs.items())
    topics = [
        NewTopic(f"topic-{number}", assignments=(ManualAssignment(0, nodes),), configs=settings)
        for number, nodes in enumerate(replicas, 1)
    ]
    return with_topics(cluster_of(1, 2, 3, 4), *topics)


def counts(image: ClusterImage, node_id: NodeId, *troubled_topics: int) -> PartitionCounts:
    troubles = {numbered_topic_id(number): (0,) for number in troubled_topics}
    return count_partitions(image, NodeConfigs.checked(node_id, {}), troubles)


def test_a_node_counts_what_it_has_and_what_it_leads() -> None:
    image = cluster((ONE, TWO), (ONE, THREE), (TWO, THREE), (THREE,))
    told = [(it.here, it.led) for it in (counts(image, node_id) for node_id in (ONE, TWO, THREE, FOUR))]
    assert told == [(2, 2), (2, 1), (3, 1), (0, 0)]
    assert counts(image, ONE) == PartitionCounts(here=2, led=2)


def test_every_node_counts_the_partitions_that_nobody_leads() -> None:
    image = cluster((ONE, TWO), (THREE,))
    image = image.apply_all(swept(image, *taking_over(THREE)).records)
    assert [counts(image, node_id).offline for node_id in (ONE, TWO, THREE)] == [1, 1, 1]


def test_a_partition_that_its_leader_cannot_serve_is_offline_there() -> None:
    image = cluster((ONE, TWO), (THREE,))
    assert [counts(image, node_id, 1).offline for node_id in (ONE, TWO)] == [1, 0]


def test_trouble_with_a_partition_that_nobody_leads_counts_once() -> None:
    image = cluster((ONE, TWO), (THREE,))
    image = image.apply_all(swept(image, *taking_over(THREE)).records)
    assert counts(image, THREE, 2).offline == 1


def test_the_leader_alone_counts_missing_copies() -> None:
    image = cluster((ONE, TWO, THREE), (TWO, THREE, ONE), (ONE, TWO))
    image = image.apply_all(swept(image, *taking_over(THREE)).records)
    assert [counts(image, node_id).under_replicated for node_id in (ONE, TWO, THREE)] == [1, 1, 0]
    assert [counts(image, node_id).under_min_insync for node_id in (ONE, TWO, THREE)] == [0, 0, 0]


def test_too_few_in_sync_for_a_topics_own_setting() -> None:
    image = cluster((ONE, TWO, THREE), min_insync_replicas="3")
    image = image.apply_all(swept(image, *taking_over(THREE)).records)
    assert counts(image, ONE).under_min_insync == 1


def test_a_topic_with_fewer_replicas_than_the_setting_needs_all_it_has() -> None:
    image = cluster((ONE,), (ONE, TWO), min_insync_replicas="3")
    assert counts(image, ONE).under_min_insync == 0
    image = image.apply_all(swept(image, *taking_over(TWO)).records)
    assert counts(image, ONE).under_min_insync == 1


def test_a_copy_that_is_only_being_made_is_not_missed() -> None:
    image = cluster((ONE, TWO))
    image = image.apply_all(reassign(image, [Reassignment(LogId(numbered_topic_id(1), 0), (ONE, THREE))]).records)
    assert counts(image, ONE) == PartitionCounts(here=1, led=1)
    image = image.apply_all(swept(image, *taking_over(TWO)).records)
    assert counts(image, ONE).under_replicated == 1

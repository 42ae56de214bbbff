"""However records reach an image (one by one, in batches, over the disk), it is the same image, and a sound one."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.metadata.commands.assignments import usable_nodes
from headrace.metadata.commands.config_commands import (
    ConfigEdit,
    ConfigOperation,
    ResourceConfigs,
    ResourceEdits,
    alter_configs,
    incremental_alter_configs,
)
from headrace.metadata.commands.node_commands import (
    drain_node,
    fence_node,
    name_cluster,
    register_node,
    reserve_producer_ids,
    undrain_node,
    unfence_node,
)
from headrace.metadata.commands.partition_commands import (
    InSyncMember,
    IsrChange,
    Reassignment,
    change_in_sync,
    elect_leaders,
    give_up_replica,
    plan_rebalance,
    reassign,
)
from headrace.metadata.commands.topic_commands import (
    MorePartitions,
    NewTopic,
    TopicReference,
    create_partitions,
    create_topics,
    delete_topics,
)
from headrace.metadata.configs.config_keys import CLUSTER_DEFAULTS, ConfigResource, ResourceKind
from headrace.metadata.elections.eligible_replicas import review_of_eligible, with_eligible
from headrace.metadata.elections.log_end_comparison import LogEnd, elect_longest, replicas_to_compare
from headrace.metadata.elections.partition_leaders import Election, ElectionKind, LeaderBalance, partitions_of
from headrace.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, changes, folded_name
from headrace.metadata.image.effective_configs import NodeConfigs, describe_configs, topic_settings
from headrace.metadata.image.record_encoding import decode_record, encode_record
from headrace.metadata.image.snapshots import snapshot_records
from headrace.metadata.placement.consistent_hashing import Load, Loads
from headrace.model.errors import Refusal
from headrace.model.names import LogId, NodeId, TopicId
from tests.unit.metadata.small_cluster import swept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.metadata.decisions.decision import Decision
    from headrace.metadata.image.cluster_image import Partition
    from headrace.metadata.image.records import MetadataRecord

NODE_1 = NodeId(1)
NODE = NodeConfigs.checked(NODE_1, {})

# Few names and mostly good values: commands must meet each other, and get past the first check.
NAMES = st.sampled_from(["a.b", "a_b", "c"])
NODE_IDS = st.integers(1, 3).map(NodeId)
TOPIC_SETTINGS = st.sampled_from(
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "delete"),
        ("headrace.durability", "written"),
        ("max.compaction.lag.ms", "8"),
        ("min.compaction.lag.ms", "9"),
        ("min.insync.replicas", "1"),
        ("min.insync.replicas", "3"),
        ("retention.ms", "5"),
        ("retention.ms", "x"),
    ]
)
NODE_SETTINGS = st.sampled_from(
    [("log.cleanup.policy", "compact"), ("log.retention.ms", "77"), ("node.id", "5"), ("num.partitions", "3")]
)
NODE_RESOURCES = st.sampled_from([CLUSTER_DEFAULTS, ConfigResource(ResourceKind.BROKER, "1")])


class MetadataLog(RuleBasedStateMachine):
    """Commands, decided against the image so far; their records are kept as a log would keep them."""

    def __init__(self) -> None:
        super().__init__()
        self.image = EMPTY_IMAGE
        self.log: list[MetadataRecord] = []
        self.numbers = count(1)

    def submit(self, decision: Decision[object]) -> None:
        before = self.image
        decision = with_eligible(before, decision, NODE)
        self.image = before.apply_all(decision.records)
        self.log += decision.records
        check_changes(before, self.image, decision.records)

    @initialize()
    def the_first_node_starts(self) -> None:
        self.submit(name_cluster(self.image, "cluster"))
        self.start_node(NODE_1, b"life 0", b"disk 1")

    @rule(
        node_id=NODE_IDS,
        life=st.sampled_from([b"life 1", b"life 2", b"life 3"]),
        disk=st.sampled_from([b"disk 1", b"disk 1", b"disk 1", b"disk 2"]),
    )
    def start_node(self, node_id: NodeId, life: bytes, disk: bytes) -> None:
        known = self.image.nodes.get(node_id)
        if known is not None and known.directory != disk:
            self.lose_node(node_id)  # whoever has another disk is let in only then
        registered = register_node(self.image, node_id, life, directory=disk)
        self.submit(registered)
        self.submit(unfence_node(self.image, node_id, registered.response))

    @rule(node_id=NODE_IDS)
    def lose_node(self, node_id: NodeId) -> None:
        self.submit(fence_node(self.image, node_id))

    @rule(node_id=NODE_IDS, is_back=st.booleans())
    def drain_node(self, node_id: NodeId, is_back: bool) -> None:
        if node_id in self.image.nodes:
            self.submit(undrain_node(self.image, node_id) if is_back else drain_node(self.image, node_id))

    @rule(choice=st.integers(0, 100), members=st.sets(NODE_IDS))
    def change_in_sync(self, choice: int, members: set[NodeId]) -> None:
        """Whoever leads asks for what it may ask for, and for what it may not."""
        partitions = list(partitions_of(self.image))
        if not partitions:
            return
        topic, partition = partitions[choice % len(partitions)]
        leader = self.image.nodes.get(partition.leader)
        if leader is None:
            return
        change = IsrChange(
            LogId(topic.topic_id, partition.partition),
            partition.leader_epoch,
            partition.partition_epoch,
            tuple(InSyncMember(member, self._broker_epoch(member)) for member in sorted({*members, leader.node_id})),
        )
        self.submit(change_in_sync(self.image, leader.node_id, leader.broker_epoch, [change]))

    def _broker_epoch(self, node_id: NodeId) -> int:
        return self.image.nodes[node_id].broker_epoch if node_id in self.image.nodes else 0

    @rule(choice=st.integers(0, 100), node_id=NODE_IDS, is_lost=st.booleans())
    def give_up(self, choice: int, node_id: NodeId, is_lost: bool) -> None:
        """A copy is damaged and lost, or its disk is full."""
        partitions = list(partitions_of(self.image))
        if not partitions:
            return
        topic, partition = partitions[choice % len(partitions)]
        log_id = LogId(topic.topic_id, partition.partition)
        with suppress(Refusal):
            self.submit(give_up_replica(self.image, node_id, self._broker_epoch(node_id), log_id, is_lost=is_lost))
            after = self.image.partition(*log_id)
            assert node_id not in after.isr
            assert not (is_lost and node_id in after.eligible)

    @rule(ends=st.lists(st.builds(LogEnd, st.integers(0, 2), st.integers(0, 3)) | st.none(), min_size=3, max_size=3))
    def compare_logs(self, ends: list[LogEnd | None]) -> None:
        """Every node has such logs, and who is away is not waited for."""
        found = {
            log_id: {node_id: ends[node_id - 1] for node_id in replicas_to_compare(self.image, log_id)}
            for log_id in self.image.sorted_leaderless()
        }
        self.submit(elect_longest(self.image, found, overdue=found))
        for log_id, there in found.items():
            partition = self.image.partition(*log_id)
            standing = {node_id: end for node_id, end in there.items() if end is not None}
            assert partition.has_leader == bool(standing)
            assert all(end <= standing[partition.leader] for end in standing.values())

    @rule()
    def review_eligible(self) -> None:
        self.submit(swept(self.image, review_of_eligible(NODE)))
        assert swept(self.image, review_of_eligible(NODE)).response == 0

    @rule(choice=st.integers(0, 100), replicas=st.lists(NODE_IDS, max_size=3))
    def move(self, choice: int, replicas: list[NodeId]) -> None:
        partitions = list(partitions_of(self.image))
        if partitions:
            topic, partition = partitions[choice % len(partitions)]
            log_id = LogId(topic.topic_id, partition.partition)
            self.submit(reassign(self.image, [Reassignment(log_id, tuple(replicas) or None)]))

    @rule()
    def rebalance(self) -> None:
        if usable_nodes(self.image):
            self.submit(reassign(self.image, plan_rebalance(self.image)))

    @rule(choice=st.integers(0, 100), kind=st.sampled_from(ElectionKind))
    def elect(self, choice: int, kind: ElectionKind) -> None:
        partitions = list(partitions_of(self.image))
        if partitions:
            topic, partition = partitions[choice % len(partitions)]
            self.submit(elect_leaders(self.image, [Election(LogId(topic.topic_id, partition.partition), kind)]))
            balance = LeaderBalance(0.1)
            swept(self.image, balance.count)
            self.submit(swept(self.image, balance.give_back))

    @rule(
        names=st.lists(NAMES, min_size=1, max_size=3),
        partition_count=st.integers(-1, 40),
        replication_factor=st.sampled_from([-1, 1, 2, 3]),
        configs=st.lists(TOPIC_SETTINGS, max_size=2),
    )
    def create_topics(
        self, names: list[str], partition_count: int, replication_factor: int, configs: list[tuple[str, str]]
    ) -> None:
        wanted = [NewTopic(name, partition_count, replication_factor, configs=tuple(configs)) for name in names]
        self.submit(create_topics(self.image, wanted, NODE, self._new_topic_id))

    def _new_topic_id(self) -> TopicId:
        return TopicId(next(self.numbers).to_bytes(16, "big"))

    @rule(names=st.lists(NAMES, min_size=1, max_size=2))
    def delete_topics(self, names: list[str]) -> None:
        self.submit(delete_topics(self.image, [TopicReference(name) for name in names], NODE))

    @rule(name=NAMES, partition_count=st.integers(1, 50))
    def create_partitions(self, name: str, partition_count: int) -> None:
        self.submit(create_partitions(self.image, [MorePartitions(name, partition_count)]))

    @rule(name=NAMES, setting=TOPIC_SETTINGS, operation=st.sampled_from(ConfigOperation))
    def edit_topic(self, name: str, setting: tuple[str, str], operation: ConfigOperation) -> None:
        self._edit(ConfigResource(ResourceKind.TOPIC, name), setting, operation)

    @rule(resource=NODE_RESOURCES, setting=NODE_SETTINGS, operation=st.sampled_from(ConfigOperation))
    def edit_node(self, resource: ConfigResource, setting: tuple[str, str], operation: ConfigOperation) -> None:
        self._edit(resource, setting, operation)

    def _edit(self, resource: ConfigResource, setting: tuple[str, str], operation: ConfigOperation) -> None:
        edit = ConfigEdit(setting[0], operation, setting[1])
        self.submit(incremental_alter_configs(self.image, [ResourceEdits(resource, (edit,))], NODE))

    @rule(name=NAMES, configs=st.lists(TOPIC_SETTINGS, max_size=2))
    def replace_configs(self, name: str, configs: list[tuple[str, str]]) -> None:
        resource = ConfigResource(ResourceKind.TOPIC, name)
        self.submit(alter_configs(self.image, [ResourceConfigs(resource, tuple(configs))], NODE))

    @rule()
    def reserve_producer_ids(self) -> None:
        self.submit(reserve_producer_ids(self.image, NODE_1))

    @invariant()
    def the_image_is_sound(self) -> None:
        check_topics(self.image)
        check_loads(self.image)
        check_configs(self.image)

    def teardown(self) -> None:
        one_by_one = EMPTY_IMAGE
        for record in self.log:
            one_by_one = one_by_one.apply(record)
        in_pieces = EMPTY_IMAGE
        for start in range(0, len(self.log), 7):
            in_pieces = in_pieces.apply_all(self.log[start : start + 7])
        at_once = EMPTY_IMAGE.apply_all(self.log)
        from_disk = EMPTY_IMAGE.apply_all(decode_record(encode_record(record)) for record in self.log)
        assert one_by_one == in_pieces == at_once == from_disk == self.image
        from_snapshot = EMPTY_IMAGE.apply_all(decode_record(encode_record(it)) for it in snapshot_records(self.image))
        assert from_snapshot == self.image


MetadataLog.TestCase.settings = settings(max_examples=150, stateful_step_count=20, deadline=None)
TestMetadataLog = MetadataLog.TestCase


def check_topics(image: ClusterImage) -> None:
    assert sorted(image.topic_ids.values()) == sorted(image.topics), "by name and by id agree"
    assert image.partition_count == sum(topic.partition_count for topic in image.sorted_topics())
    assert image.sorted_leaderless() == sorted(
        LogId(topic.topic_id, it.partition) for topic, it in partitions_of(image) if not it.has_leader
    )
    for topic in image.sorted_topics():
        assert image.topic_ids[folded_name(topic.name)] == topic.topic_id
        assert image.topic_named(topic.name) is image.topic(topic.topic_id) is topic
        assert topic.partition_count > 0
        for number, partition in enumerate(topic.in_order()):
            assert partition.partition == number
            assert len(set(partition.replicas)) == len(partition.replicas) > 0
            assert set(partition.isr) <= set(partition.replicas) <= set(image.nodes)
            assert set(partition.eligible) <= set(partition.replicas) - set(partition.isr)
            assert set(partition.adding) | set(partition.removing) <= set(partition.replicas)
            check_leader(image, partition)
            assert partition.leader_epoch <= partition.partition_epoch


def check_leader(image: ClusterImage, partition: Partition) -> None:
    """Only who is in sync and here leads; and who is gone is in sync only as the last one. Where nobody leads, nobody
    could, who is in sync or eligible being away; or their logs are to be compared first."""
    if partition.has_leader:
        assert partition.leader in partition.isr
        assert not image.nodes[partition.leader].is_fenced
        assert not any(image.nodes[member].is_fenced for member in partition.isr)
    else:
        able = {*partition.isr, *partition.eligible}
        assert len(able) != 1 or not any(map(image.is_here, able))


def check_loads(image: ClusterImage) -> None:
    loads = Loads.of(partition.target for _, partition in partitions_of(image))
    assert dict(image.loads) == {
        node_id: Load(count, loads.leaders[node_id]) for node_id, count in loads.replicas.items()
    }


def check_configs(image: ClusterImage) -> None:
    for topic in image.sorted_topics():
        topic_settings(image, topic.name, NODE)
    for resource, configs in image.configs.items():
        assert configs, "a resource without settings has no entry"
        describe_configs(image, resource, None, NODE)  # raises for a topic that does not exist


def check_changes(before: ClusterImage, after: ClusterImage, records: Sequence[MetadataRecord]) -> None:
    """Whoever looks again at what `changes` names has seen every difference."""
    found = changes(records)
    for topic in after.sorted_topics():
        for partition in topic.in_order():
            log_id = LogId(topic.topic_id, partition.partition)
            if before.partition(*log_id) != partition:
                assert log_id in found.partitions
    for topic in before.sorted_topics():
        assert (topic.topic_id in found.deleted_topics) == (after.topic(topic.topic_id) is None)
    for resource in (*after.configs, *before.configs):
        is_gone = resource.kind is ResourceKind.TOPIC and after.topic_named(resource.name) is None
        if not is_gone and before.configs_of(resource) != after.configs_of(resource):
            assert resource in found.configs

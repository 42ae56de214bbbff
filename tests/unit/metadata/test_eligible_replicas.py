"""Who may be elected although it is not in sync, and who no longer."""

from __future__ import annotations

import pytest

from headrace.metadata.commands.config_commands import (
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
    incremental_alter_configs,
)
from headrace.metadata.commands.node_commands import drain_node, fence_node, register_node, unfence_node
from headrace.metadata.commands.partition_commands import (
    InSyncMember,
    IsrChange,
    Reassignment,
    change_in_sync,
    elect_leaders,
    give_up_replica,
    reassign,
    unclean_election,
)
from headrace.metadata.configs.config_keys import CLUSTER_DEFAULTS, ConfigResource, ResourceKind
from headrace.metadata.elections.eligible_replicas import review_of_eligible, with_eligible
from headrace.metadata.elections.log_end_comparison import LogEnd, elect_longest, replicas_to_compare
from headrace.metadata.elections.partition_leaders import Election, ElectionKind
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.effective_configs import NodeConfigs
from headrace.metadata.image.records import ConfigChanged, NodeChanged, PartitionChanged, PartitionCreated, TopicCreated
from headrace.metadata.image.snapshots import snapshot_records
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Epoch, LogId, NodeId, Offset
from tests.unit.metadata.small_cluster import numbered_topic_id, swept

ONE, TWO, THREE, FOUR = (NodeId(number) for number in range(1, 5))
TOPIC = numbered_topic_id(1)
FIRST = LogId(TOPIC, 0)
TOPIC_CONFIGS = ConfigResource(ResourceKind.TOPIC, "a")


class Cluster:
    """Four nodes and one partition, on which commands are decided as a controller decides them."""

    def __init__(self, *replicas: NodeId, static: dict[str, str] | None = None, **settings: str) -> None:
        self.configs = NodeConfigs.checked(ONE, static or {})
        self.image = EMPTY_IMAGE
        self.lives = 0
        for node_id in (ONE, TWO, THREE, FOUR):
            self.start(node_id)
        self.image = self.image.apply_all(
            [
                TopicCreated(TOPIC, "a"),
                *(ConfigChanged(TOPIC_CONFIGS, name.replace("_", "."), value) for name, value in settings.items()),
                PartitionCreated(TOPIC, 0, replicas, replicas, replicas[0], Epoch(0), 0),
            ]
        )

    def decide(self, decision):
        completed = with_eligible(self.image, decision, self.configs)
        self.image = self.image.apply_all(completed.records)
        return completed.response

    @property
    def partition(self):
        return self.image.partition(*FIRST)

    @property
    def state(self):
        """Leader, in-sync set, eligible ones."""
        return self.partition.leader, self.partition.isr, self.partition.eligible

    def register(self, node_id, disk=None):
        self.lives += 1
        directory = b"disk %d" % node_id if disk is None else disk
        return self.decide(register_node(self.image, node_id, b"life %d" % self.lives, directory=directory))

    def let_in(self, node_id):
        self.decide(unfence_node(self.image, node_id, self.image.nodes[node_id].broker_epoch))

    def start(self, node_id, disk=None):
        self.register(node_id, disk)
        self.let_in(node_id)

    def fence(self, *node_ids):
        for node_id in node_ids:
            self.decide(fence_node(self.image, node_id))

    def in_sync(self, *isr):
        """The leader asks for it."""
        nodes, partition = self.image.nodes, self.partition
        members = tuple(InSyncMember(node_id, nodes[node_id].broker_epoch) for node_id in isr)
        change = IsrChange(FIRST, partition.leader_epoch, partition.partition_epoch, members)
        broker_epoch = nodes[partition.leader].broker_epoch
        (outcome,) = self.decide(change_in_sync(self.image, partition.leader, broker_epoch, [change]))
        assert not isinstance(outcome.result, Refusal), outcome.result

    def compare(self):
        """All who may be elected and are here have the same records; nobody else is waited for."""
        ends = dict.fromkeys(replicas_to_compare(self.image, FIRST), LogEnd(Epoch(0), Offset(10)))
        self.decide(elect_longest(self.image, {FIRST: ends}, overdue={FIRST}))

    def give_up(self, node_id, *, is_lost=True, serves_nothing=False):
        epoch = self.image.nodes[node_id].broker_epoch
        decision = give_up_replica(self.image, node_id, epoch, FIRST, is_lost=is_lost, serves_nothing=serves_nothing)
        self.decide(decision)

    def set(self, name, value, resource=TOPIC_CONFIGS):
        edit = ConfigEdit(name, ConfigOperation.SET, value)
        self.decide(incremental_alter_configs(self.image, [ResourceEdits(resource, (edit,))], self.configs))

    def review(self):
        return self.decide(swept(self.image, review_of_eligible(self.configs)))


@pytest.fixture
def cluster():
    """Led by One, in sync with Two and Three; two must be in sync."""
    return Cluster(ONE, TWO, THREE)


# ---- becoming eligible


def test_who_leaves_a_set_that_is_still_large_enough_is_not_eligible(cluster):
    cluster.fence(THREE)
    assert cluster.state == (ONE, (ONE, TWO), ()), "One and Two go on committing without it"


def test_who_leaves_a_set_that_is_too_small_then_is_eligible(cluster):
    cluster.fence(THREE, TWO)
    assert cluster.state == (ONE, (ONE,), (TWO,))


def test_it_makes_no_difference_how_it_leaves(cluster):
    cluster.in_sync(ONE, TWO)
    cluster.in_sync(ONE)
    assert cluster.state == (ONE, (ONE,), (TWO,)), "at its leader's wish"
    cluster.in_sync(ONE, TWO)
    cluster.register(TWO)
    assert cluster.state == (ONE, (ONE,), (TWO,)), "by another life"


def test_several_that_leave_at_once_are_eligible(cluster):
    cluster.in_sync(ONE)
    assert cluster.state == (ONE, (ONE,), (TWO, THREE))


def test_all_must_be_in_sync_if_there_are_no_more_replicas_than_needed():
    cluster = Cluster(ONE, TWO, min_insync_replicas="5")
    cluster.fence(TWO)
    assert cluster.state == (ONE, (ONE,), (TWO,))
    cluster.start(TWO)
    cluster.in_sync(ONE, TWO)
    assert cluster.state == (ONE, (ONE, TWO), ())


def test_where_one_is_enough_nobody_is_eligible():
    cluster = Cluster(ONE, TWO, THREE, min_insync_replicas="1")
    cluster.fence(THREE, TWO)
    assert cluster.state == (ONE, (ONE,), ())


def test_what_is_only_written_may_be_gone_after_a_power_cut_so_nobody_is_eligible():
    cluster = Cluster(ONE, TWO, THREE)
    cluster.set("headrace.durability", "written")
    cluster.fence(THREE, TWO)
    assert cluster.state == (ONE, (ONE,), ())


# ---- being elected


def test_one_that_is_eligible_leads_when_nobody_in_sync_is_there(cluster):
    cluster.in_sync(ONE)
    cluster.fence(ONE)
    cluster.compare()
    assert cluster.state == (TWO, (TWO,), (ONE, THREE)), "One has everything too"
    assert cluster.partition.leader_epoch == 2, "in 1 nobody led"


def test_one_that_comes_back_leads_if_it_is_eligible(cluster):
    cluster.fence(THREE, TWO, ONE)
    assert cluster.state == (NO_NODE, (ONE,), (TWO,))
    cluster.start(THREE)
    cluster.compare()
    assert cluster.state == (NO_NODE, (ONE,), (TWO,)), "it may lack what One and Two have committed"
    cluster.start(TWO)
    cluster.compare()
    assert cluster.state == (TWO, (TWO,), (ONE,))
    cluster.start(ONE)
    assert cluster.state == (TWO, (TWO,), (ONE,)), "it follows, and is compared by epoch"


def test_one_that_drains_leads_only_if_nobody_else_can(cluster):
    cluster.in_sync(ONE)
    cluster.decide(drain_node(cluster.image, TWO))
    cluster.fence(ONE)
    cluster.compare()
    assert cluster.partition.leader == THREE
    cluster.fence(THREE)
    cluster.compare()
    assert cluster.state == (TWO, (TWO,), (ONE, THREE))


def test_a_lost_disk_beside_a_crash_of_the_others(cluster):
    """One's disk is lost, the others crash before anybody has noticed, and One comes back first or last."""
    cluster.register(TWO)
    cluster.register(THREE)
    assert cluster.state == (ONE, (ONE,), (THREE,))
    cluster.fence(ONE)
    cluster.start(ONE, disk=b"new disk")
    assert cluster.state == (NO_NODE, (), (THREE,))
    cluster.let_in(TWO)
    assert cluster.state == (NO_NODE, (), (THREE,))
    cluster.let_in(THREE)
    assert cluster.state == (THREE, (THREE,), ())


def test_who_asks_for_any_leader_gets_one_that_is_eligible_if_there_is_one(cluster):
    cluster.fence(THREE, TWO, ONE)
    cluster.start(THREE)
    assert cluster.partition.leader == NO_NODE
    cluster.register(TWO)
    cluster.image = cluster.image.apply(NodeChanged(TWO, is_fenced=False, is_draining=False))
    cluster.decide(elect_leaders(cluster.image, [Election(FIRST, ElectionKind.UNCLEAN)]))
    assert cluster.state == (TWO, (TWO,), (ONE,)), "Three is there as well, and may lack something"


# ---- being eligible no longer


def test_a_set_that_is_large_enough_again_leaves_everybody_else_behind(cluster):
    cluster.in_sync(ONE)
    cluster.in_sync(ONE, THREE)
    assert cluster.state == (ONE, (ONE, THREE), ())
    cluster.fence(THREE)
    assert cluster.state == (ONE, (ONE,), (THREE,)), "Two may lack what One and Three have committed meanwhile"


def test_who_enters_a_set_that_is_still_too_small_leaves_the_others_eligible():
    cluster = Cluster(ONE, TWO, THREE, FOUR, min_insync_replicas="3")
    cluster.in_sync(ONE)
    cluster.in_sync(ONE, THREE)
    assert cluster.state == (ONE, (ONE, THREE), (TWO, FOUR))


def test_another_disk_is_eligible_nowhere(cluster):
    cluster.in_sync(ONE)
    cluster.fence(TWO)
    cluster.register(TWO)
    assert cluster.state == (ONE, (ONE,), (TWO, THREE)), "the same disk still has it"
    epoch = cluster.partition.partition_epoch
    cluster.register(TWO, disk=b"new disk")
    assert cluster.state == (ONE, (ONE,), (THREE,))
    assert cluster.partition.partition_epoch == epoch + 1
    cluster.start(TWO, disk=b"disk %d" % TWO)
    assert cluster.state == (ONE, (ONE,), (THREE,)), "nobody knows what the old disk missed"


def test_an_unclean_election_gives_up_what_the_others_had(cluster):
    cluster.fence(THREE, TWO, ONE)
    cluster.start(THREE)
    cluster.decide(elect_leaders(cluster.image, [Election(FIRST, ElectionKind.UNCLEAN)]))
    assert cluster.state == (THREE, (THREE,), ())
    cluster.fence(THREE)
    cluster.start(TWO)
    assert cluster.state == (NO_NODE, (THREE,), ())


def test_a_topic_that_would_rather_lose_records_does_not_wait():
    patient, hasty = Cluster(ONE, TWO), Cluster(ONE, TWO, unclean_leader_election_enable="true")
    for cluster in (patient, hasty):
        cluster.in_sync(ONE, TWO)
        cluster.give_up(TWO)
        assert cluster.decide(swept(cluster.image, unclean_election(cluster.configs))) == 0, "it has a leader"
        cluster.fence(TWO, ONE)
        assert cluster.decide(swept(cluster.image, unclean_election(cluster.configs))) == 0, "nobody is there"
        cluster.start(TWO)
        cluster.decide(swept(cluster.image, unclean_election(cluster.configs)))
    assert patient.state == (NO_NODE, (ONE,), ())
    assert hasty.state == (TWO, (TWO,), ())


def test_an_unclean_election_prefers_who_has_everything():
    cluster = Cluster(ONE, TWO, THREE, unclean_leader_election_enable="true")
    cluster.in_sync(ONE)
    cluster.fence(THREE, TWO, ONE)
    cluster.start(THREE)
    assert cluster.decide(swept(cluster.image, unclean_election(cluster.configs))) == 0, "its log is compared first"
    cluster.compare()
    assert cluster.state == (THREE, (THREE,), (ONE, TWO))
    assert cluster.decide(swept(cluster.image, unclean_election(cluster.configs))) == 0


def test_a_damaged_copy_is_not_eligible(cluster):
    cluster.in_sync(ONE)
    cluster.give_up(TWO)
    assert cluster.state == (ONE, (ONE,), (THREE,))
    cluster.give_up(THREE)
    assert cluster.state == (ONE, (ONE,), ())


def test_a_copy_without_room_for_more_is_whole_and_eligible():
    cluster = Cluster(ONE, TWO)
    cluster.give_up(ONE, is_lost=False)
    assert cluster.state == (TWO, (TWO,), (ONE,))
    cluster.fence(TWO)
    cluster.register(TWO, disk=b"new disk")
    assert cluster.state == (ONE, (ONE,), ())


def test_a_damaged_leader_leaves_to_one_that_is_eligible(cluster):
    cluster.in_sync(ONE)
    cluster.give_up(ONE)
    cluster.compare()
    assert cluster.state == (TWO, (TWO,), (THREE,))
    cluster.fence(THREE)
    with pytest.raises(Refusal) as refusal:
        cluster.give_up(TWO)
    assert refusal.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_damaged_copy_is_kept_for_what_is_whole_of_it_if_nobody_else_is_there(cluster):
    cluster.fence(THREE, TWO, ONE)
    cluster.register(TWO)
    with pytest.raises(Refusal) as refusal:
        cluster.give_up(TWO)
    assert refusal.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert cluster.state == (NO_NODE, (ONE,), (TWO,))


def test_a_missing_copy_is_given_up_before_its_node_is_let_in(cluster):
    """Nobody else is there: the partition waits, and One leads it when it is back."""
    cluster.fence(THREE, TWO, ONE)
    cluster.register(TWO)
    cluster.give_up(TWO, serves_nothing=True)
    assert cluster.state == (NO_NODE, (ONE,), ())
    cluster.let_in(TWO)
    assert cluster.state == (NO_NODE, (ONE,), ())
    cluster.start(ONE)
    assert cluster.state == (ONE, (ONE,), ())


def test_a_leader_without_a_copy_leads_no_longer_although_nobody_else_can(cluster):
    cluster.fence(THREE, TWO)
    cluster.give_up(ONE, serves_nothing=True)
    assert cluster.state == (NO_NODE, (), (TWO,))
    cluster.start(TWO)
    cluster.compare()
    assert cluster.state == (TWO, (TWO,), ())


def test_the_last_one_that_may_be_elected_stays_even_if_it_has_nothing(cluster):
    cluster.fence(THREE, TWO)
    cluster.give_up(TWO)
    with pytest.raises(Refusal) as refusal:
        cluster.give_up(ONE, serves_nothing=True)
    assert refusal.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert cluster.state == (ONE, (ONE,), ())


def test_a_partition_without_a_leader_gets_one_when_a_lost_copy_is_given_up(cluster):
    """Three is there, and nobody has thought of electing it yet."""
    cluster.in_sync(ONE)
    cluster.fence(THREE, TWO, ONE)
    cluster.register(TWO)
    cluster.register(THREE)
    cluster.image = cluster.image.apply(NodeChanged(THREE, is_fenced=False, is_draining=False))
    cluster.give_up(TWO)
    cluster.compare()
    assert cluster.state == (THREE, (THREE,), (ONE,))


def test_a_replica_that_moves_away_is_not_eligible(cluster):
    cluster.in_sync(ONE)
    cluster.decide(reassign(cluster.image, [Reassignment(FIRST, (ONE, TWO, FOUR))]))
    assert cluster.state == (ONE, (ONE,), (TWO, THREE)), "until the move has ended it is there"
    cluster.in_sync(ONE, FOUR)
    cluster.in_sync(ONE)
    assert cluster.state == (ONE, (ONE,), (FOUR,))
    cluster.decide(reassign(cluster.image, [Reassignment(FIRST, None)]))
    assert cluster.state == (ONE, (ONE,), ()), "Four has no copy any more"


# ---- settings that change


def test_fewer_are_enough_leaders_do_not_wait_for_eligible_ones_any_longer(cluster):
    cluster.in_sync(ONE)
    assert cluster.review() == 0
    cluster.set("min.insync.replicas", "1")
    assert cluster.state == (ONE, (ONE,), (TWO, THREE)), "they count for One's high watermark until it hears otherwise"
    assert cluster.review() == 1
    assert cluster.state == (ONE, (ONE,), ())
    assert cluster.review() == 0


@pytest.mark.parametrize(("name", "value"), [("min.insync.replicas", "1"), ("headrace.durability", "written")])
def test_less_is_asked_for_and_nobody_leads_so_whoever_has_everything_may_still_be_elected(cluster, name, value):
    cluster.fence(THREE, TWO, ONE)
    cluster.set(name, value)
    assert cluster.review() == 0
    assert cluster.state == (NO_NODE, (ONE,), (TWO,))
    cluster.register(ONE, disk=b"new disk")
    assert cluster.state == (NO_NODE, (), (TWO,))
    cluster.start(TWO)
    cluster.compare()
    assert cluster.state == (TWO, (TWO,), ())


def test_while_nobody_leads_a_set_that_is_large_enough_changes_nothing_for_the_others():
    """Three loses its disk while all are away, and one is enough by then."""
    cluster = Cluster(ONE, TWO, THREE, min_insync_replicas="3")
    cluster.fence(THREE, TWO, ONE)
    assert cluster.state == (NO_NODE, (ONE,), (TWO, THREE))
    cluster.set("min.insync.replicas", "1")
    cluster.register(THREE, disk=b"new disk")
    assert cluster.state == (NO_NODE, (ONE,), (TWO,)), "only Three has lost something"
    cluster.start(TWO)
    cluster.compare()
    assert cluster.state == (TWO, (TWO,), ())


def test_more_are_needed_who_left_before_is_not_eligible_for_that(cluster):
    cluster.fence(THREE)
    cluster.set("min.insync.replicas", "3")
    cluster.fence(TWO)
    assert cluster.state == (ONE, (ONE,), (TWO,))


def test_a_new_durability_ends_it(cluster):
    cluster.in_sync(ONE)
    cluster.set("headrace.durability", "written", CLUSTER_DEFAULTS)
    assert cluster.review() == 1
    assert cluster.state == (ONE, (ONE,), ())


def test_what_the_deciding_node_was_started_with_counts():
    cluster = Cluster(ONE, TWO, THREE, static={"min.insync.replicas": "1"})
    cluster.in_sync(ONE)
    assert cluster.state == (ONE, (ONE,), ())


# ---- on disk


def test_a_snapshot_remembers_who_is_eligible(cluster):
    cluster.in_sync(ONE)
    assert EMPTY_IMAGE.apply_all(snapshot_records(cluster.image)) == cluster.image


def test_a_record_of_a_node_that_knows_nothing_of_it_makes_nobody_eligible(cluster):
    cluster.in_sync(ONE)
    epoch = cluster.partition.partition_epoch + 1
    cluster.image = cluster.image.apply(PartitionChanged(TOPIC, 0, (ONE,), ONE, Epoch(0), epoch))
    assert cluster.state == (ONE, (ONE,), ())


def test_two_changes_of_a_partition_in_one_decision(cluster):
    cluster.in_sync(ONE)
    moves = [Reassignment(FIRST, (ONE, TWO, FOUR)), Reassignment(FIRST, None)]
    cluster.decide(reassign(cluster.image, moves))
    assert cluster.state == (ONE, (ONE,), (TWO, THREE))

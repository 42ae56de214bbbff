"""How partitions change hands in a KIP-848 group, answer by answer and record by record."""

from __future__ import annotations

import pytest

from headrace.coordinators.groups.modern.members import CurrentAssignment, MemberState
from headrace.coordinators.groups.modern.reconciliation import reconcile
from headrace.coordinators.groups.settings import GroupSettings
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import LogId, TopicId
from headrace.wire.messages import group_records as records
from tests.unit.coordinators.modern_world import (
    REBALANCE_MS,
    SESSION_MS,
    Consumer,
    TopicsInMemory,
    World,
    assigned,
    beat,
    join,
)

TOPIC = TopicId((1).to_bytes(16, "big"))


def of_first_topic(*partitions: int) -> frozenset[LogId]:
    return frozenset(LogId(TOPIC, partition) for partition in partitions)


def kinds(world: World, since: int = 0) -> list[int]:
    return [record.key.RECORD_KEY for record in world.log[since:]]


def test_the_first_join_makes_the_group() -> None:
    world = World(TopicsInMemory(t=2), GroupSettings(consumer_heartbeat_interval_ms=777))
    assert world.group.state_name == "Empty"
    response = world.send(join("a", "t"))
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", 1)
    assert response.heartbeat_interval_ms == 777
    assert assigned(response) == of_first_topic(0, 1)
    assert kinds(world) == [5, 3, 7, 6, 8]
    assert world.group.epoch == 1
    assert world.group.state_name == "Stable"
    assert not world.group.is_empty


def test_topics_that_do_not_exist_are_not_assigned() -> None:
    world = World(TopicsInMemory(t=1))
    assert assigned(world.send(join("a", "t", "missing"))) == of_first_topic(0)
    assert world.group.subscribed_topics() == {"t", "missing"}


def test_a_partition_goes_to_its_new_owner_once_the_old_one_has_let_go() -> None:
    world = World(TopicsInMemory(t=4))
    world.send(join("a", "t"))

    response = world.send(join("b", "t"))
    assert (response.member_epoch, assigned(response)) == (2, frozenset())
    assert world.group.state_name == "Reconciling"

    response = world.send(beat("a", 1))
    assert (response.member_epoch, assigned(response)) == (1, of_first_topic(0, 1))

    response = world.send(beat("a", 1, of_first_topic(0, 1, 2, 3)))
    assert (response.member_epoch, assigned(response)) == (1, None), "told already; it has not let go"
    assert assigned(world.send(beat("b", 2, []))) is None

    response = world.send(beat("a", 1, of_first_topic(0, 1)))
    assert (response.member_epoch, assigned(response)) == (2, None), "null: nothing has changed"
    response = world.send(beat("b", 2))
    assert (response.member_epoch, assigned(response)) == (2, of_first_topic(2, 3))
    assert world.group.state_name == "Stable"


def test_a_quiet_heartbeat_writes_nothing() -> None:
    world = World(TopicsInMemory(t=4))
    world.send(join("a", "t"))
    written = len(world.log)
    response = world.send(beat("a", 1, of_first_topic(0, 1, 2, 3)))
    assert (response.member_epoch, assigned(response)) == (1, None)
    assert len(world.log) == written


def test_who_says_everything_is_told_everything() -> None:
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    whole = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": REBALANCE_MS}
    assert assigned(world.send(beat("a", 1, [], **whole))) == of_first_topic(0, 1)
    assert assigned(world.send(beat("a", 1, **whole))) is None
    assert assigned(world.send(beat("a", 1, [], subscribed_topic_names=["t"]))) is None


def test_to_own_nothing_is_an_empty_assignment_not_none() -> None:
    world = World(TopicsInMemory(t=1))
    world.send(join("a", "t"))
    world.topics.delete("t")
    world.topics_changed()
    assert assigned(world.send(beat("a", 1))) == frozenset()
    assert world.send(beat("a", 1, [])).member_epoch == 2


def test_only_what_changes_is_written() -> None:
    world = World(TopicsInMemory(t=4))
    for name in "abcd":
        world.send(join(name, "t"))
    for _ in range(3):
        for name in "abcd":
            epoch = world.group._state.members[name].current.epoch
            world.send(beat(name, epoch, world.group._state.members[name].current.assigned))
    written = len(world.log)
    world.send(join("e", "t"))
    assert kinds(world, written) == [5, 3, 6, 8], "there is nothing for a fifth member, and nobody moves"


def test_leaving() -> None:
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    world.send(join("b", "t"))
    written = len(world.log)
    response = world.send(beat("a", -1))
    assert (response.member_id, response.member_epoch, response.assignment) == ("a", -1, None)
    assert kinds(world, written) == [8, 7, 5, 3]
    assert world.group.state_name == "Assigning"
    assert assigned(world.send(beat("b", 2))) == of_first_topic(0, 1)
    assert world.group.epoch == 3


def test_empty_since() -> None:
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    assert world.group.empty_since_ms is None
    world.now_ms += 5
    world.send(beat("a", -1))
    assert world.group.is_empty
    left_at = world.now.wall_ms
    world.now_ms += 5
    assert world.group.empty_since_ms == left_at
    world.reload()
    assert world.group.empty_since_ms == world.now.wall_ms
    world.send(join("a", "t"))
    assert world.group.empty_since_ms is None


def test_a_silent_member_is_out_when_its_session_is_over() -> None:
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    world.now_ms += SESSION_MS - 1
    world.send(join("b", "t"))
    assert world.group.next_deadline_ms() == world.now_ms + 1
    world.pass_time(1)
    assert [member.member_id for member in world.group.describe().members] == ["b"]
    assert assigned(world.send(beat("b", 2))) == of_first_topic(0, 1)
    with pytest.raises(Refusal) as refusal:
        world.send(beat("a", 1))
    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_session_alive() -> None:
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    for _ in range(5):
        world.pass_time(SESSION_MS - 1)
        world.send(beat("a", 1))
    assert not world.group.is_empty


def test_members_that_expire_together_raise_the_epoch_once() -> None:
    world = World(TopicsInMemory(t=2))
    for name in "abc":
        world.send(join(name, "t"))
    world.pass_time(SESSION_MS)
    assert world.group.is_empty
    assert world.group.epoch == 4
    assert world.group.next_deadline_ms() is None


@pytest.mark.parametrize("reloads", [False, True])
def test_who_does_not_revoke_in_time_is_out(reloads: bool) -> None:
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    world.send(join("b", "t"))
    world.send(beat("a", 1))
    if reloads:
        world.reload()
    for _ in range(4):
        world.pass_time(REBALANCE_MS // 4 - 1)
        world.send(beat("a", 1, of_first_topic(0, 1)))
        world.send(beat("b", 2))
    world.pass_time(4)
    assert [member.member_id for member in world.group.describe().members] == ["b"]
    assert assigned(world.send(beat("b", 2))) == of_first_topic(0, 1)


def test_who_revokes_in_time_stays() -> None:
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    world.send(join("b", "t"))
    world.send(beat("a", 1))
    world.send(beat("a", 1, of_first_topic(0)))
    for _ in range(4):
        world.pass_time(REBALANCE_MS // 2)
        world.send(beat("a", 2))
        world.send(beat("b", 2))
    assert len(world.group.describe().members) == 2


def test_a_new_subscription() -> None:
    world = World(TopicsInMemory(t=1, u=1))
    world.send(join("a", "t"))
    response = world.send(beat("a", 1, subscribed_topic_names=["u"]))
    assert (response.member_epoch, assigned(response)) == (1, frozenset()), "first it gives up t-0"
    response = world.send(beat("a", 1, []))
    assert response.member_epoch == 2
    assert assigned(response) == world.topics.partitions("u")
    assert world.group.subscribed_topics() == {"u"}


def test_growing_created_and_deleted_topics() -> None:
    world = World(TopicsInMemory(t=1, other=1))
    world.send(join("a", "t", "later"))
    written = len(world.log)

    world.topics.grow("other", 9)
    world.topics_changed()
    assert len(world.log) == written, "nobody subscribed to it"

    world.topics.grow("t", 2)
    world.topics_changed()
    assert kinds(world, written) == [3]
    assert assigned(world.send(beat("a", 1))) == world.topics.partitions("t")

    world.topics.create("later", 1)
    world.topics_changed()
    assert assigned(world.send(beat("a", 2))) == world.topics.partitions("t", "later")

    world.topics.delete("t")
    world.topics_changed()
    assert assigned(world.send(beat("a", 3))) == world.topics.partitions("later")

    world.topics.create("t", 2)  # another topic of that name: nothing of the old one is left
    world.topics_changed()
    assert assigned(world.send(beat("a", 3, world.topics.partitions("later")))) == world.topics.partitions("t", "later")


def test_topics_that_change_while_nobody_leads_the_group() -> None:
    world = World(TopicsInMemory(t=1))
    world.send(join("a", "t"))
    world.topics.grow("t", 3)
    world.reload()
    assert world.group.epoch == 2
    assert assigned(world.send(beat("a", 1))) == of_first_topic(0, 1, 2)


def test_regex_subscription() -> None:
    world = World(TopicsInMemory(**{"orders.eu": 1, "orders.us": 1, "pay": 1}))
    response = world.send(join("a", "pay", subscribed_topic_regex=r"orders\..*"))
    assert assigned(response) == world.topics.partitions("pay", "orders.eu", "orders.us")
    world.topics.create("orders.uk", 2)
    world.topics.create("orders", 2)
    world.topics_changed()
    assert world.group.subscribed_topics() == {"pay", "orders.eu", "orders.us", "orders.uk"}
    assert assigned(world.send(beat("a", 1))) == world.topics.partitions("pay", "orders.eu", "orders.us", "orders.uk")
    world.reload()
    assert world.group.epoch == 2, "found the same topics again"
    response = world.send(beat("a", 2, [], subscribed_topic_regex=""))
    assert assigned(response) == world.topics.partitions("pay")


def test_the_assignor_that_most_ask_for() -> None:
    world = World(TopicsInMemory(t=2, u=2))
    assert world.group.describe().assignor_name == "uniform"
    world.send(join("a", "t", "u", server_assignor="range"))
    assert world.group.describe().assignor_name == "range"
    world.send(join("b", "t", "u"))
    targets = [member.target_assignment for member in world.group.describe().members]
    assert [[topic.partitions for topic in target.topic_partitions] for target in targets] == [[[0], [0]], [[1], [1]]]
    world.send(join("c", "t", "u", server_assignor="uniform"))
    assert world.group.describe().assignor_name == "uniform", "as many ask for it, and it is the default"


def test_description() -> None:
    world = World(TopicsInMemory(t=2, u=1))
    world.send(join("b", "t", "u", instance_id="i", rack_id="r"))
    world.send(join("a", "t", subscribed_topic_regex="t"))
    group = world.group.describe()
    assert (group.error_code, group.group_id, group.group_state) == (0, world.group.group_id, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (2, 2, "uniform")
    new, old = group.members
    assert (new.member_id, new.member_epoch, new.instance_id, new.rack_id) == ("a", 2, None, None)
    assert (new.subscribed_topic_names, new.subscribed_topic_regex) == (["t"], "t")
    assert (new.assignment.topic_partitions, new.member_type) == ([], 1)
    (target,) = new.target_assignment.topic_partitions
    assert (target.topic_id, target.topic_name, target.partitions) == (TOPIC, "t", [1])
    assert (old.member_id, old.member_epoch, old.instance_id, old.rack_id) == ("b", 1, "i", "r")
    assert (old.client_id, old.client_host) == ("client", "/127.0.0.1")
    owned = [(topic.topic_name, topic.partitions) for topic in old.assignment.topic_partitions]
    assert owned == [("t", [0, 1]), ("u", [0])]
    world.topics.delete("u")
    assert [topic.topic_name for topic in world.group.describe().members[1].assignment.topic_partitions] == ["t"]


def test_a_forgotten_group_leaves_nothing() -> None:
    world = World(TopicsInMemory(t=2))
    world.send(join("a", "t"))
    world.send(beat("a", -1))
    tombstones = world.group.tombstones()
    assert [type(record.key) for record in tombstones] == [
        records.ConsumerGroupTargetAssignmentMetadataKey,
        records.ConsumerGroupMetadataKey,
    ]
    for record in tombstones:
        world.group.apply(record)
    assert world.group.epoch == 0


def test_a_hundred_members_on_a_thousand_partitions() -> None:
    world = World(TopicsInMemory(t=1_000))
    consumers = [Consumer(f"consumer-{number:03}", "t") for number in range(100)]
    for _ in range(4):
        for consumer in consumers:
            consumer.hear(world.send(consumer.request()))
            consumer.work()
    assert world.group.state_name == "Stable"
    assert {len(consumer.owned) for consumer in consumers} == {10}
    assert frozenset().union(*(consumer.owned for consumer in consumers)) == world.topics.partitions("t")


STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)
NOTHING: frozenset[LogId] = frozenset()


@pytest.mark.parametrize(
    ("before", "owned", "after"),
    [
        pytest.param(
            CurrentAssignment(), NOTHING, CurrentAssignment(9, 0, UNRELEASED, of_first_topic(1, 2)), id="joins"
        ),
        pytest.param(
            CurrentAssignment(8, 7, STABLE, of_first_topic(1, 5)),
            None,
            CurrentAssignment(8, 7, UNREVOKED, of_first_topic(1), of_first_topic(5)),
            id="must give up",
        ),
        pytest.param(
            CurrentAssignment(8, 7, STABLE, of_first_topic(1, 5)),
            of_first_topic(1),
            CurrentAssignment(9, 8, UNRELEASED, of_first_topic(1, 2)),
            id="does not own what it must give up",
        ),
        pytest.param(
            CurrentAssignment(8, 7, UNREVOKED, of_first_topic(1), of_first_topic(5)),
            of_first_topic(1, 5),
            CurrentAssignment(8, 7, UNREVOKED, of_first_topic(1), of_first_topic(5)),
            id="has not yet given up",
        ),
        pytest.param(
            CurrentAssignment(8, 7, UNREVOKED, of_first_topic(1), of_first_topic(5)),
            None,
            CurrentAssignment(8, 7, UNREVOKED, of_first_topic(1), of_first_topic(5)),
            id="does not say",
        ),
        pytest.param(
            CurrentAssignment(8, 7, UNREVOKED, of_first_topic(1, 6), of_first_topic(5)),
            of_first_topic(1, 6),
            CurrentAssignment(8, 7, UNREVOKED, of_first_topic(1), of_first_topic(6)),
            id="gave up, and must give up more by now",
        ),
        pytest.param(
            CurrentAssignment(8, 7, UNREVOKED, of_first_topic(1), of_first_topic(2)),
            of_first_topic(1),
            CurrentAssignment(9, 8, UNRELEASED, of_first_topic(1, 2)),
            id="gave up, and gets it back",
        ),
        pytest.param(
            CurrentAssignment(9, 8, UNRELEASED, of_first_topic(1, 2)),
            None,
            CurrentAssignment(9, 8, UNRELEASED, of_first_topic(1, 2)),
            id="goes on waiting, and knows its epoch before",
        ),
        pytest.param(
            CurrentAssignment(9, 8, STABLE, of_first_topic(1)),
            None,
            CurrentAssignment(9, 8, STABLE, of_first_topic(1)),
            id="has arrived",
        ),
        pytest.param(
            CurrentAssignment(8, 7, MemberState.UNKNOWN, of_first_topic(1)),
            NOTHING,
            CurrentAssignment(9, 8, UNRELEASED, of_first_topic(1, 2)),
            id="begins anew after a state that we do not know",
        ),
    ],
)
def test_reconciliation(before: CurrentAssignment, owned: frozenset[LogId] | None, after: CurrentAssignment) -> None:
    """Towards partitions 1, 2 and 3 at epoch 9; another member still has 3."""
    still_taken = of_first_topic(3)
    step = reconcile(before, 9, of_first_topic(1, 2, 3), owned=owned, is_occupied=still_taken.__contains__)
    assert step == after


@pytest.mark.parametrize("owned", [None, of_first_topic(1)])
def test_an_unknown_state_is_fenced(owned: frozenset[LogId] | None) -> None:
    with pytest.raises(Refusal) as refusal:
        reconcile(CurrentAssignment(8, 7, MemberState(99)), 9, NOTHING, owned=owned, is_occupied=NOTHING.__contains__)
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH

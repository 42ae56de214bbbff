"""The judges themselves: what they let pass, and what they do not."""

from __future__ import annotations

import pytest

from headrace.model.names import TopicPartition
from headrace.simulation.history.checker import check
from headrace.simulation.history.groups import GroupHistory
from headrace.simulation.history.history import ACKS_ALL_IDEMPOTENT, Figures, History, Kind, Reading, Send
from headrace.simulation.history.transactions import Fate, Transaction, TransactionHistory

HERE = TopicPartition("here", 0)
THERE = TopicPartition("there", 0)
GROUP = "group"


class Clock:
    now_s = 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def groups(history: History, clock: Clock) -> GroupHistory:
    return GroupHistory(history, lambda: clock.now_s)


@pytest.fixture
def transactions(history: History) -> TransactionHistory:
    return TransactionHistory(history)


def kinds(history: History) -> list[Kind]:
    return [violation.kind for violation in history.conflicts]


# Offsets.


def commit(groups: GroupHistory, offset: int, *, is_known: bool = True, is_stale: bool = False) -> None:
    begun = groups.begin_commit(GROUP, {HERE: offset}, is_stale=is_stale)
    if is_known:
        groups.committed(begun)


@pytest.mark.parametrize(
    ("found", "is_right"),
    [({HERE: 7}, True), ({HERE: 5}, False), ({HERE: 6}, False), ({}, False)],
)
def test_the_last_acked_commit_is_to_be_found(
    groups: GroupHistory, history: History, found: dict[TopicPartition, int], is_right: bool
) -> None:
    commit(groups, 5)
    commit(groups, 7)
    groups.found(GROUP, found, groups.moment())
    assert kinds(history) == ([] if is_right else [Kind.WRONG_OFFSET])


def test_a_commit_of_unknown_outcome_may_be_found_or_not(groups: GroupHistory, history: History) -> None:
    commit(groups, 5, is_known=False)
    commit(groups, 7)
    for offset in (5, 7):
        groups.found(GROUP, {HERE: offset}, groups.moment())
    assert kinds(history) == []


def test_a_commit_that_was_acked_after_the_look_began_may_be_found_or_not(
    groups: GroupHistory, history: History
) -> None:
    commit(groups, 5)
    asked = groups.moment()
    commit(groups, 7)
    for offset in (5, 7):
        groups.found(GROUP, {HERE: offset}, asked)
    assert kinds(history) == []


def test_a_refused_commit_is_not_to_be_found(groups: GroupHistory, history: History) -> None:
    groups.refused(groups.begin_commit(GROUP, {HERE: 5}, is_stale=False))
    groups.found(GROUP, {HERE: 5}, groups.moment())
    assert kinds(history) == [Kind.WRONG_OFFSET]


def test_a_commit_of_an_old_generation_is_to_be_refused(groups: GroupHistory, history: History) -> None:
    groups.given(GROUP, 1, "one", [HERE])
    assert not groups.is_stale(GROUP, "one", 1)
    groups.given(GROUP, 2, "two", [HERE])
    assert groups.is_stale(GROUP, "one", 1)
    late = groups.begin_commit(GROUP, {HERE: 5}, is_stale=True)
    groups.found(GROUP, {HERE: 5}, groups.moment())
    groups.accepted(late, "one")
    assert kinds(history) == [Kind.WRONG_OFFSET, Kind.STALE_COMMIT]


# Owners.


def test_a_generation_has_one_owner_of_a_partition(groups: GroupHistory, history: History) -> None:
    groups.given(GROUP, 1, "one", [HERE])
    groups.given(GROUP, 1, "two", [THERE])
    groups.given(GROUP, 2, "two", [HERE])
    assert kinds(history) == []
    groups.given(GROUP, 2, "one", [HERE])
    assert kinds(history) == [Kind.TWO_OWNERS]


@pytest.mark.parametrize(("passed_s", "is_right"), [(2.9, False), (3.0, True)])
def test_a_partition_is_given_away_when_its_owners_session_is_over(
    groups: GroupHistory, history: History, clock: Clock, passed_s: float, is_right: bool
) -> None:
    one, two = groups.tenure(GROUP, "one"), groups.tenure(GROUP, "two")
    groups.heard(GROUP, one, 1, certain_until_s=3.0)
    groups.gain(GROUP, one, [HERE])
    clock.now_s = passed_s
    groups.gain(GROUP, two, [HERE])
    assert kinds(history) == ([] if is_right else [Kind.TWO_OWNERS])


def test_what_was_given_up_may_be_given_away(groups: GroupHistory, history: History) -> None:
    one, two = groups.tenure(GROUP, "one"), groups.tenure(GROUP, "two")
    groups.heard(GROUP, one, 1, certain_until_s=3.0)
    groups.gain(GROUP, one, [HERE, THERE])
    one.partitions.discard(HERE)
    groups.gain(GROUP, two, [HERE])
    groups.end_tenure(GROUP, "one")
    groups.gain(GROUP, two, [THERE])
    assert kinds(history) == []


@pytest.mark.parametrize(("read", "is_right"), [([0, 1, 2], True), ([0, 2], False)])
def test_what_lies_before_a_groups_offset_was_read(
    groups: GroupHistory, history: History, read: list[int], is_right: bool
) -> None:
    for offset in read:
        groups.read(GROUP, HERE, offset)
    reading = Reading(HERE, 0, 5, [(offset, b"") for offset in range(5)])
    groups.check_read(GROUP, {HERE: 3}, {HERE: reading}, is_committed_only=False)
    assert kinds(history) == ([] if is_right else [Kind.SKIPPED])


# Transactions.


def begin(transactions: TransactionHistory, history: History, *places: tuple[TopicPartition, int]) -> Transaction:
    transaction = transactions.begin("id", "producer")
    for partition, offset in places:
        value = b"%s-%d" % (partition.topic.encode(), offset)
        send: Send = history.begin("producer", partition, history.next_number("producer"), value, ACKS_ALL_IDEMPOTENT)
        send.ok(offset)
        transactions.add(transaction, send)
    return transaction


def readings(*visible: tuple[TopicPartition, int]) -> list[Reading]:
    return [
        Reading(
            partition,
            0,
            10,
            [(offset, b"%s-%d" % (topic.encode(), offset)) for topic, offset in _in(partition, visible)],
        )
        for partition in (HERE, THERE)
    ]


def _in(partition: TopicPartition, places: tuple[tuple[TopicPartition, int], ...]) -> list[tuple[str, int]]:
    return [(place.topic, offset) for place, offset in places if place == partition]


BOTH = ((HERE, 0), (THERE, 0))


@pytest.mark.parametrize(
    ("fate", "is_commit_asked", "visible", "expected"),
    [
        (Fate.COMMITTED, True, BOTH, []),
        (Fate.COMMITTED, True, BOTH[:1], [Kind.LOST]),
        (Fate.COMMITTED, True, (), [Kind.LOST, Kind.LOST]),
        (Fate.UNKNOWN, True, BOTH, []),
        (Fate.UNKNOWN, True, (), []),
        (Fate.UNKNOWN, True, BOTH[1:], [Kind.TORN]),
        (Fate.ABORTED, False, (), []),
        (Fate.ABORTED, False, BOTH, [Kind.ABORTED_READ]),
        (Fate.ABORTED, True, BOTH, [Kind.ABORTED_READ]),
        (Fate.OPEN, False, BOTH[:1], [Kind.ABORTED_READ]),
    ],
)
def test_a_transaction_is_there_as_a_whole_or_not_at_all(
    transactions: TransactionHistory,
    history: History,
    fate: Fate,
    is_commit_asked: bool,
    visible: tuple[tuple[TopicPartition, int], ...],
    expected: list[Kind],
) -> None:
    transaction = begin(transactions, history, *BOTH)
    transaction.fate, transaction.is_commit_asked = fate, is_commit_asked
    transactions.check(readings(*visible), Figures())
    assert kinds(history) == expected


def test_a_reader_of_committed_records_waits_for_the_commit(transactions: TransactionHistory, history: History) -> None:
    transaction = begin(transactions, history, (HERE, 0))
    transactions.read_committed("reader", HERE, 0, b"here-0")
    assert kinds(history) == [Kind.EARLY_READ]
    transaction.is_commit_asked = True
    transactions.read_committed("reader", HERE, 0, b"here-0")
    assert kinds(history) == [Kind.EARLY_READ]


@pytest.mark.parametrize(("fate", "expected"), [(Fate.COMMITTED, [Kind.PASSED_OPEN]), (Fate.ABORTED, [])])
def test_a_reader_does_not_get_past_a_transaction_that_is_committed_later(
    transactions: TransactionHistory, history: History, fate: Fate, expected: list[Kind]
) -> None:
    transaction = begin(transactions, history, (HERE, 0))
    transactions.read_committed("reader", HERE, 1, b"of somebody else")
    transaction.is_commit_asked, transaction.fate = True, fate
    transactions.check(readings((HERE, 0)) if fate is Fate.COMMITTED else readings(), Figures())
    assert kinds(history) == expected


# Markers in a log.


@pytest.mark.parametrize(
    ("markers", "aborted", "is_committed_only", "expected"),
    [
        ({1}, set(), False, []),
        (set(), set(), False, [Kind.SKIPPED, Kind.GAP]),
        (set(), {1}, True, [Kind.GAP]),
        (set(), {1}, False, [Kind.SKIPPED, Kind.GAP]),
    ],
)
def test_a_consumer_may_be_led_past_markers(
    history: History, markers: set[int], aborted: set[int], is_committed_only: bool, expected: list[Kind]
) -> None:
    sends = [history.begin("producer", HERE, number, b"%d" % number, ACKS_ALL_IDEMPOTENT) for number in (0, 2)]
    for offset, send in zip((0, 2), sends, strict=True):
        send.ok(offset)
        history.polled("consumer", HERE, offset, send.value, is_committed_only=is_committed_only)
    log = Reading(HERE, 0, 3, [(0, b"0"), (2, b"2")], frozenset(markers), frozenset(aborted))
    violations, _ = check(history, [log])
    assert [violation.kind for violation in violations] == expected

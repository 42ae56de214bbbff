"""The judge is judged first: a good run passes, and each planted violation is named, and nothing else with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.history import ACKS_ALL_IDEMPOTENT, ACKS_LEADER, History, Kind, Partition, Reading, check

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITION = Partition("events", 0)
OTHER = Partition("events", 1)
START = 3
ACKED = 6

Records = list[tuple[int, bytes]]


def value_of(number: int) -> bytes:
    return b"value %d" % number


def good_run() -> tuple[History, Records]:
    """Ten sends: three deleted, three acked, an unknown one that was written, two that were not, one refused."""
    history = History()
    for number in range(10):
        history.begin("p", PARTITION, number + 1, value_of(number), ACKS_ALL_IDEMPOTENT)
    for number in range(ACKED):
        history.sends[value_of(number)].ok(number)
    history.sends[value_of(9)].failed()
    for number in range(2, 5):
        history.saw(PARTITION, number, value_of(number))
    history.ask_delete(PARTITION, START)
    history.deleted(PARTITION, START)
    return history, [(number, value_of(number)) for number in range(START, ACKED + 1)]


def kinds(history: History, records: Records, *, start: int = START, end: int = ACKED + 1) -> list[Kind]:
    violations, _ = check(history, [Reading(PARTITION, start, end, records)])
    assert all(str(violation) for violation in violations)
    return [violation.kind for violation in violations]


def test_a_good_run_passes_and_is_counted() -> None:
    history, records = good_run()
    violations, figures = check(history, [Reading(PARTITION, START, ACKED + 1, records)])
    assert violations == []
    assert (figures.sends, figures.acked_all, figures.failed, figures.unknown) == (10, ACKED, 1, 3)
    assert (figures.found, figures.unknown_but_written, figures.seen_by_consumers) == (4, 1, 3)


def lose_the_last_ack(history: History, records: Records) -> Records:
    history.sends[value_of(6)].ok(6)
    return [*records[:-1], (6, value_of(7))]


def swap_values(_: History, records: Records) -> Records:
    return [*records[:2], (5, value_of(6)), (6, value_of(5))]


def drop_a_record(_: History, records: Records) -> Records:
    return [records[0], *records[2:]]


def show_another_value_later(history: History, records: Records) -> Records:
    history.saw(PARTITION, 6, value_of(7))
    return records


def show_two_values(history: History, records: Records) -> Records:
    history.saw(PARTITION, 6, value_of(6))
    history.saw(PARTITION, 6, value_of(7))
    return records


def ack_one_offset_twice(history: History, records: Records) -> Records:
    history.sends[value_of(6)].ok(5)
    return records


def repeat_a_value(_: History, records: Records) -> Records:
    return [*records[:-1], (6, value_of(5))]


def repeat_an_offset(_: History, records: Records) -> Records:
    return [*records, records[-1]]


def revive_a_refused_send(_: History, records: Records) -> Records:
    return [*records[:-1], (6, value_of(9))]


def invent_a_value(_: History, records: Records) -> Records:
    return [*records[:-1], (6, b"nobody sent this")]


def stray_from_another_partition(history: History, records: Records) -> Records:
    history.begin("p", OTHER, 11, b"for the other partition", ACKS_ALL_IDEMPOTENT)
    return [*records[:-1], (6, b"for the other partition")]


def reorder_unknown_sends(history: History, records: Records) -> Records:
    return [*records[:-1], (6, value_of(8)), (7, value_of(7))]


@pytest.mark.parametrize(
    ("plant", "expected", "end"),
    [
        (lose_the_last_ack, [Kind.LOST], 7),
        (swap_values, [Kind.REORDERED, Kind.LOST], 7),
        (drop_a_record, [Kind.GAP, Kind.GONE, Kind.LOST], 7),
        (show_another_value_later, [Kind.TWO_VALUES], 7),
        (show_two_values, [Kind.TWO_VALUES], 7),
        (ack_one_offset_twice, [Kind.TWO_VALUES, Kind.LOST], 7),
        (repeat_a_value, [Kind.REPEATED], 7),
        (repeat_an_offset, [Kind.OUT_OF_PLACE, Kind.REPEATED], 7),
        (revive_a_refused_send, [Kind.REVIVED], 7),
        (invent_a_value, [Kind.INVENTED], 7),
        (stray_from_another_partition, [Kind.INVENTED], 7),
        (reorder_unknown_sends, [Kind.REORDERED], 8),
    ],
)
def test_a_planted_violation_is_named(
    plant: Callable[[History, Records], Records], expected: list[Kind], end: int
) -> None:
    history, records = good_run()
    assert kinds(history, plant(history, records), end=end) == expected


def test_a_log_that_ends_before_its_end_has_a_gap() -> None:
    history, records = good_run()
    assert kinds(history, records, end=9) == [Kind.GAP]


def test_records_past_the_end_are_out_of_place() -> None:
    history, records = good_run()
    assert kinds(history, records, end=6) == [Kind.OUT_OF_PLACE]


def test_a_start_that_nobody_asked_for_is_named() -> None:
    history, records = good_run()
    assert kinds(history, records[1:], start=START + 1) == [Kind.CUT_OFF]


def test_retention_may_move_the_start() -> None:
    history, records = good_run()
    history.expiring.add(PARTITION.topic)
    assert kinds(history, records[1:], start=START + 1) == []


def test_deleted_records_must_not_come_back() -> None:
    history, records = good_run()
    assert kinds(history, [(2, value_of(2)), *records], start=2) == [Kind.UNDELETED]


def test_a_partition_that_was_not_read_is_named_once() -> None:
    history, _ = good_run()
    violations, _ = check(history, [])
    assert [violation.kind for violation in violations] == [Kind.UNREAD]


def test_without_idempotence_a_retry_may_appear_twice_and_a_leader_ack_may_be_lost() -> None:
    history = History()
    for number in range(3):
        history.begin("p", PARTITION, number + 1, value_of(number), ACKS_LEADER).ok(number)
    records = [(0, value_of(0)), (1, value_of(1)), (2, value_of(0))]
    violations, figures = check(history, [Reading(PARTITION, 0, 3, records)])
    assert violations == []
    assert (figures.duplicates_without_idempotence, figures.acked_leader_missing) == (1, 1)


def test_a_value_is_sent_once() -> None:
    history, _ = good_run()
    with pytest.raises(AssertionError, match="second time"):
        history.begin("p", PARTITION, 11, value_of(0), ACKS_ALL_IDEMPOTENT)

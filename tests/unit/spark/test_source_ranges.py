"""How offsets are shared out between batches and tasks, and what is called a loss."""

from __future__ import annotations

import json

import pytest

from headrace.model.names import TopicId, TopicPartition
from headrace_spark.progress import GroupPosition
from headrace_spark.source.data_loss import Bounds, DataLoss, LossPolicy
from headrace_spark.source.offsets import LATEST, from_document, parse_offsets, to_document, topic_ids_in
from headrace_spark.source.ranges import OffsetRange, backlog, check_starts, limit_ends, readable_range, split_ranges

A, B, C = (TopicPartition("t", index) for index in range(3))
STRICT, LENIENT = LossPolicy(is_fatal=True), LossPolicy(is_fatal=False)


def sizes(ranges: list[OffsetRange]) -> list[int]:
    return [piece.size for piece in ranges]


def test_offsets_have_the_connectors_form_in_one_order() -> None:
    offsets = {TopicPartition("z", 10): 1, TopicPartition("z", 9): 2, TopicPartition("a", 0): -2}
    text = json.dumps(to_document(offsets), separators=(",", ":"))
    assert text == '{"a":{"0":-2},"z":{"9":2,"10":1}}'
    assert parse_offsets(text) == offsets
    assert from_document({}) == {}


def test_offsets_name_their_topics_by_id_in_a_form_that_others_read_past() -> None:
    offsets = {TopicPartition("b", 0): 1, TopicPartition("a", 1): 7}
    ids = {"a": TopicId(bytes(range(16))), "c": TopicId(bytes(16))}
    document = to_document(offsets, ids)
    assert document == {"a": {"1": 7}, "b": {"0": 1}, "a:AAECAwQFBgcICQoLDA0ODw": {}}
    assert from_document(document) == offsets
    assert topic_ids_in(document) == {"a": ids["a"]}
    assert topic_ids_in(to_document(offsets)) == {}
    with pytest.raises(ValueError, match="16 bytes"):
        topic_ids_in({"a:AA": {}})


def test_a_limit_is_shared_in_proportion_to_what_waits() -> None:
    limited = limit_ends({A: 0, B: 100}, {A: 900, B: 200, C: 0}, 100)
    assert limited == {A: 90, B: 110, C: 0}


def test_a_small_partition_does_not_starve() -> None:
    assert limit_ends({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    ends = {A: 5, B: 3}
    assert limit_ends({A: 0, B: 0}, ends, 8) == ends
    assert limit_ends({A: 5, B: 3}, ends, 1) == ends


def test_a_new_partition_waits_from_its_first_offset_and_one_that_starts_at_the_latest_has_nothing() -> None:
    assert backlog({A: 2, B: LATEST}, {A: 5, B: 7, C: 4}) == {A: 3, C: 4}
    assert limit_ends({A: 2, B: LATEST}, {A: 5, B: 7, C: 4}, 2) == {A: 3, B: 7, C: 1}


def test_limited_batches_reach_the_end() -> None:
    ends = {A: 1000, B: 10, C: 1}
    at = dict.fromkeys(ends, 0)
    for _ in range(200):
        at = limit_ends(at, ends, 17)
    assert at == ends


def test_one_range_is_one_task_unless_more_are_wanted() -> None:
    ranges = [OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 50, 60)]
    assert split_ranges(ranges, None, None) == ranges
    assert split_ranges(ranges, 2, None) == ranges


def test_large_ranges_are_cut_and_small_ones_stay_whole() -> None:
    ranges = [OffsetRange("t", 0, 0, 1000), OffsetRange("t", 1, 50, 60)]
    cut = split_ranges(ranges, 5, None)
    assert sizes(cut) == [250, 250, 250, 250, 10]
    assert [(piece.start, piece.end) for piece in cut[:2]] == [(0, 250), (250, 500)]


def test_a_task_has_no_more_records_than_allowed() -> None:
    cut = split_ranges([OffsetRange("t", 0, 5, 15), OffsetRange("t", 1, 0, 3)], None, 4)
    assert sizes(cut) == [3, 3, 4, 3]
    assert split_ranges([OffsetRange("t", 0, 0, 2)], 10, None) == [OffsetRange("t", 0, 0, 1), OffsetRange("t", 0, 1, 2)]
    assert split_ranges([], 10, 10) == []


@pytest.mark.parametrize(("start", "end"), [(5, 9), (5, 5), (10, 10), (5, 10)])
def test_a_range_that_is_there_is_read_as_it_is(start: int, end: int) -> None:
    found = readable_range(A, start, end, Bounds(5, 10), STRICT)
    assert found == (None if start == end else OffsetRange("t", 0, start, end))


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [(0, 7, (5, 7)), (7, 12, (7, 10)), (0, 12, (5, 10)), (0, 4, None), (12, 14, None), (9, 6, None)],
)
def test_what_is_gone_is_told_or_skipped(
    start: int, end: int, left: tuple[int, int] | None, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(
        DataLoss, match=r"topic 't', partition 0: .* wanted, but it holds offsets 5 to 9 .*'failOnDataLoss'"
    ):
        readable_range(A, start, end, Bounds(5, 10), STRICT)
    found = readable_range(A, start, end, Bounds(5, 10), LENIENT)
    assert found == (None if left is None else OffsetRange("t", 0, *left))
    assert "partition 0" in caplog.text


def test_losses_since_the_last_batch_are_told_before_the_next() -> None:
    check_starts({A: 5, B: 10, C: LATEST}, {A: Bounds(5, 10), B: Bounds(5, 10)}, STRICT)
    for start, says in ((4, "offsets 5 to 9"), (11, "offsets 5 to 9")):
        with pytest.raises(DataLoss, match=says):
            check_starts({A: start}, {A: Bounds(5, 10)}, STRICT)
    with pytest.raises(DataLoss, match="no such partition any more"):
        check_starts({A: 5}, {}, STRICT)
    check_starts({A: 5}, {}, LENIENT)


def test_an_empty_partition_is_told_as_such() -> None:
    with pytest.raises(DataLoss, match=r"holds no records \(the next one written gets 7\)"):
        readable_range(A, 0, 7, Bounds(7, 7), STRICT)


def test_a_shared_group_stands_where_the_slowest_query_is() -> None:
    position = GroupPosition(["first", "second"])
    position.reached("first", {A: 10, B: 5})
    assert position.lowest() == {}, "nobody knows yet what the second has read"
    position.reached("second", {A: 7, C: 3})
    assert position.lowest() == {A: 7, B: 5, C: 3}
    position.expect("third")
    assert position.lowest() == {}
    position.excuse("third")
    position.excuse("second")
    assert position.lowest() == {A: 7, B: 5, C: 3}

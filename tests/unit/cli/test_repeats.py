from __future__ import annotations

from headrace.cli.messages.deduplication import RepeatFilter
from headrace.model.names import TopicPartition
from headrace.wire.batches.records import Record


def message(number: int, *ids: str | None, partition: int = 0) -> tuple[TopicPartition, Record]:
    headers = tuple(("id", None if text is None else text.encode()) for text in ids)
    return TopicPartition("t", partition), Record(number, 0, None, b"v", headers)


def offsets(batch: object) -> list[int]:
    return [record.offset for _, record in batch]  # type: ignore[attr-defined]


def test_a_repeat_is_dropped_within_a_batch_and_across_batches_and_partitions() -> None:
    repeats = RepeatFilter("id")
    assert offsets(repeats.fresh([message(0, "a"), message(1, "b"), message(2, "a")])) == [0, 1]
    assert offsets(repeats.fresh([message(3, "b", partition=1), message(4, "c", partition=1)])) == [4]
    assert repeats.dropped_count == 2


def test_messages_without_an_id_always_pass() -> None:
    repeats = RepeatFilter("id")
    batch = [message(0), message(1), message(2, None), message(3, None)]
    assert offsets(repeats.fresh(batch)) == [0, 1, 2, 3]
    other = (TopicPartition("t", 0), Record(4, 0, None, b"v", (("other", b"a"),)))
    assert offsets(repeats.fresh([other, other])) == [4, 4]
    assert repeats.dropped_count == 0


def test_of_several_headers_with_the_name_the_last_one_counts() -> None:
    repeats = RepeatFilter("id")
    assert offsets(repeats.fresh([message(0, "a", "b"), message(1, "b"), message(2, "a")])) == [0, 2]


def test_an_empty_id_is_an_id() -> None:
    assert offsets(RepeatFilter("id").fresh([message(0, ""), message(1, "")])) == [0]


def test_the_window_forgets_the_oldest_first() -> None:
    repeats = RepeatFilter("id", window=2)
    repeats.fresh([message(0, "a"), message(1, "b"), message(2, "c")])
    assert offsets(repeats.fresh([message(3, "c"), message(4, "b")])) == []
    assert offsets(repeats.fresh([message(5, "a")])) == [5]
    assert offsets(repeats.fresh([message(6, "b")])) == [6]  # "a" came back, and pushed it out


def test_memory_is_bounded_by_the_window_however_long_ids_are() -> None:
    repeats = RepeatFilter("id", window=10)
    for number in range(100):
        repeats.fresh([message(number, f"{number}" * 1000)])
    assert len(repeats._order) == len(repeats._seen) == 10
    assert {len(digest) for digest in repeats._order} == {16}


def test_a_batch_that_came_to_nothing_is_no_repeat_of_itself() -> None:
    repeats = RepeatFilter("id")
    repeats.fresh([message(0, "a")])
    batch = [message(1, "a"), message(2, "b"), message(3, "b"), message(4, "c")]
    assert offsets(repeats.fresh(batch)) == [2, 4]
    repeats.take_back()
    assert repeats.dropped_count == 0
    assert offsets(repeats.fresh(batch)) == [2, 4]
    assert repeats.dropped_count == 2


def test_taking_back_more_than_the_window_holds() -> None:
    repeats = RepeatFilter("id", window=2)
    batch = [message(0, "a"), message(1, "b"), message(2, "c")]
    repeats.fresh(batch)
    repeats.take_back()
    repeats.take_back()
    assert offsets(repeats.fresh(batch)) == [0, 1, 2]

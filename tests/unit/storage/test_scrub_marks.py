"""Which log is read through next, and what is remembered of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.names import LogId, TopicId
from headrace.storage.files import checkpoints
from headrace.storage.files.scrub_marks import LogEnds, ScrubMark, ScrubMarks

if TYPE_CHECKING:
    from headrace.runtime.disk import SystemDisk

FIRST, SECOND, THIRD = (LogId(TopicId(bytes([7] * 16)), number) for number in range(3))
NOW_MS = 1_700_000_000_000
WEEK_MS = 7 * 24 * 3_600_000


def closed(end: int) -> LogEnds:
    """A log with nothing but closed segments."""
    return LogEnds(end, end)


def test_what_is_written_to_is_due_once_in_a_round() -> None:
    marks = ScrubMarks()
    assert marks.due({FIRST: LogEnds(0, 7)}, NOW_MS, WEEK_MS) == [FIRST]
    assert marks.begin(FIRST, NOW_MS, WEEK_MS) == 0
    marks.checked(FIRST, 7)
    assert marks.due({FIRST: LogEnds(0, 9)}, NOW_MS + 1, WEEK_MS) == []
    assert marks.due({FIRST: LogEnds(12, 15)}, NOW_MS + 1, WEEK_MS) == [FIRST], "it was closed, with more in it"
    assert marks.due({FIRST: LogEnds(0, 9)}, NOW_MS + WEEK_MS, WEEK_MS) == [FIRST]


def test_whoever_was_left_alone_for_the_longest_time_is_first() -> None:
    marks = ScrubMarks({FIRST: ScrubMark(NOW_MS - 2 * WEEK_MS, 10), SECOND: ScrubMark(NOW_MS - 3 * WEEK_MS, 10)})
    assert marks.due({FIRST: closed(10), SECOND: closed(10), THIRD: closed(10)}, NOW_MS, WEEK_MS) == [
        THIRD,
        SECOND,
        FIRST,
    ]


def test_nothing_is_due_without_closed_segments_or_before_its_time() -> None:
    marks = ScrubMarks({FIRST: ScrubMark(NOW_MS - 1, 10)})
    assert marks.due({FIRST: closed(10), SECOND: closed(0)}, NOW_MS, WEEK_MS) == []
    assert marks.due({FIRST: closed(10)}, NOW_MS + WEEK_MS, WEEK_MS) == [FIRST]


def test_a_segment_that_is_closed_belongs_to_the_round_that_is_under_way() -> None:
    marks = ScrubMarks()
    assert marks.begin(FIRST, NOW_MS, WEEK_MS) == 0
    marks.checked(FIRST, 10)
    assert marks.due({FIRST: closed(10)}, NOW_MS + 1, WEEK_MS) == []
    assert marks.due({FIRST: closed(15)}, NOW_MS + 1, WEEK_MS) == [FIRST]
    assert marks.begin(FIRST, NOW_MS + 1, WEEK_MS) == 10
    assert marks.marks[FIRST].since_ms == NOW_MS
    assert marks.begin(FIRST, NOW_MS + WEEK_MS, WEEK_MS) == 0
    assert marks.marks[FIRST] == ScrubMark(NOW_MS + WEEK_MS, 0)


def test_a_mark_from_the_future_counts_for_nothing() -> None:
    assert ScrubMarks({FIRST: ScrubMark(NOW_MS + 1, 10)}).due({FIRST: closed(10)}, NOW_MS, WEEK_MS) == [FIRST]


def test_what_is_gone_or_damaged_is_forgotten() -> None:
    marks = ScrubMarks({log_id: ScrubMark(NOW_MS, 10) for log_id in (FIRST, SECOND, THIRD)})
    marks.keep_only({FIRST, SECOND})
    marks.forget(SECOND)
    marks.forget(THIRD)
    assert marks.due(dict.fromkeys((FIRST, SECOND, THIRD), closed(10)), NOW_MS, WEEK_MS) == [SECOND, THIRD]


def test_marks_last_over_a_restart(disk: SystemDisk) -> None:
    marks = {FIRST: ScrubMark(NOW_MS, 17), SECOND: ScrubMark(0, 0)}
    disk.write_file(checkpoints.SCRUBS, checkpoints.encode_scrubs(marks))
    assert checkpoints.read_scrubs(disk) == marks


@pytest.mark.parametrize("content", [b"", b"0\n1\nno id 3 4\n", b"0\n1\nAAECAwQFBgcICQoLDA0ODw x 3 4\n", b"\xff"])
def test_a_damaged_file_only_means_to_look_again(disk: SystemDisk, content: bytes) -> None:
    assert checkpoints.read_scrubs(disk) == {}
    disk.write_file(checkpoints.SCRUBS, content)
    assert checkpoints.read_scrubs(disk) == {}

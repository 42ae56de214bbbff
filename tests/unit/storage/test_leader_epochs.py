from __future__ import annotations

import pytest

from headrace.model.names import Epoch, Offset
from headrace.storage.files.leader_epochs import EpochStart, LeaderEpochs


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochStart(Epoch(epoch), Offset(start)) for epoch, start in entries)


KNOWN = ((1, 0), (2, 10), (5, 30))


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (-1, -1)), (1, (1, 10)), (2, (2, 30)), (3, (2, 30)), (4, (2, 30)), (5, (5, 99)), (9, (5, 99))],
)
def test_the_end_of_the_largest_epoch_not_above_the_asked(epoch: int, expected: tuple[int, int]) -> None:
    assert epochs_of(*KNOWN).end_offset_for(epoch, 99) == expected


def test_without_epochs_there_is_no_answer() -> None:
    assert LeaderEpochs().end_offset_for(3, 99) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 1), (9, 1), (10, 2), (29, 2), (30, 5), (1000, 5)])
def test_who_wrote_an_offset(offset: int, epoch: int) -> None:
    assert epochs_of(*KNOWN).epoch_at(offset) == epoch


def test_an_older_or_equal_epoch_changes_nothing() -> None:
    epochs = epochs_of(*KNOWN)
    epochs.note(5, 40)
    epochs.note(3, 50)
    epochs.note(-1, 60)
    assert epochs.entries == KNOWN
    assert epochs.changes == 0


def test_an_epoch_that_wrote_nothing_is_replaced() -> None:
    epochs = epochs_of(*KNOWN)
    epochs.note(6, 30)
    assert epochs.entries == ((1, 0), (2, 10), (6, 30))


@pytest.mark.parametrize(("end", "left"), [(31, KNOWN), (30, KNOWN[:2]), (11, KNOWN[:2]), (10, KNOWN[:1]), (0, ())])
def test_cutting_the_end(end: int, left: tuple[tuple[int, int], ...]) -> None:
    epochs = epochs_of(*KNOWN)
    epochs.truncate_end(end)
    assert epochs.entries == left
    assert epochs.latest == (left[-1][0] if left else -1)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, KNOWN),
        (5, KNOWN),
        (10, KNOWN),
        (11, ((2, 10), (5, 30))),
        (30, ((2, 10), (5, 30))),
        (31, ((5, 30),)),
        (70, ((5, 30),)),
    ],
)
def test_cutting_the_start(start: int, left: tuple[tuple[int, int], ...]) -> None:
    epochs = epochs_of(*KNOWN)
    epochs.truncate_start(start)
    assert epochs.entries == left

"""A follower takes from its leader what follows its own log, batch by batch, and nothing that is damaged."""

from __future__ import annotations

import pytest

from headrace.replication.fetched_batches import Expected, new_batches
from headrace.wire.batches.header import CorruptBatch
from tests.unit.storage.small_logs import batch_at

EPOCH = 4
BATCHES = [batch_at(offset, count=3, epoch=EPOCH) for offset in (10, 13, 16)]
RUN = b"".join(BATCHES)
SIZE = len(BATCHES[0])


def taken(run: bytes, next_offset: int = 10, *, latest_epoch: int = EPOCH, may_have_gaps: bool = False) -> list[int]:
    expected = Expected(next_offset, latest_epoch, EPOCH, may_have_gaps)
    views, headers = new_batches(memoryview(run), expected)
    assert b"".join(views) == run
    return [header.base_offset for header in headers]


def test_what_follows_is_taken_and_nothing_comes_twice() -> None:
    assert taken(RUN) == [10, 13, 16]
    assert taken(b"") == []
    with pytest.raises(CorruptBatch, match="has offset 10, expected 13"):
        taken(RUN, 13)


@pytest.mark.parametrize("mask", [0x01, 0x80])
@pytest.mark.parametrize("victim", range(3))
def test_no_flipped_bit_is_taken(victim: int, mask: int) -> None:
    for byte in range(SIZE):
        run = bytearray(RUN)
        run[victim * SIZE + byte] ^= mask
        with pytest.raises(CorruptBatch):
            taken(bytes(run))


@pytest.mark.parametrize("size", [1, 20, SIZE - 1, SIZE + 1, 3 * SIZE - 1])
def test_a_leader_sends_whole_batches(size: int) -> None:
    with pytest.raises(CorruptBatch, match="no whole batch"):
        taken(RUN[:size])


def test_a_gap_is_no_way_on_but_in_a_compacted_log() -> None:
    run = bytes(BATCHES[0] + BATCHES[2])
    with pytest.raises(CorruptBatch, match="has offset 16, expected 13"):
        taken(run)
    assert taken(run, may_have_gaps=True) == [10, 16]
    with pytest.raises(CorruptBatch, match="has offset 10, expected 19"):
        taken(bytes(BATCHES[2] + BATCHES[0]), 16, may_have_gaps=True)


def test_epochs_do_not_step_back_nor_run_ahead() -> None:
    with pytest.raises(CorruptBatch, match="epoch"):
        taken(RUN, latest_epoch=EPOCH + 1)
    with pytest.raises(CorruptBatch, match="epoch"):
        taken(bytes(batch_at(10, epoch=EPOCH + 1)))

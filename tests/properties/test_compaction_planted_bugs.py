"""The dictionary that compacted logs are compared with is worth something only if it finds bugs, such as these."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from headrace.storage.compaction import cleaning
from headrace.storage.compaction.sieve import AbortedTransactions, Sieve
from tests.properties.test_compaction_against_a_dictionary import CompactedLog

if TYPE_CHECKING:
    from headrace.wire.batches.header import BatchHeader, Buffer

Plant = Callable[[pytest.MonkeyPatch], None]


def remove_tombstones_too_early(patch: pytest.MonkeyPatch) -> None:
    """Their time is over at the next pass, whoever has not read them yet."""
    patch.setattr(cleaning, "Sieve", lambda *args, **how: Sieve(*args, **how | {"delete_retention_ms": 0}))


def remove_tombstones_that_hide_what_is_not_clean_yet(patch: pytest.MonkeyPatch) -> None:
    """Beyond what the key map has seen there may be older records of their keys, which would be back."""
    honest = Sieve._keep_records

    def keep(self: Any, batch: memoryview, header: BatchHeader) -> Buffer | None:
        now_ms, self._now_ms, self._map_end = self._now_ms, 1 << 62, self._map_end + 5
        try:
            return honest(self, batch, header)
        finally:
            self._now_ms, self._map_end = now_ms, self._map_end - 5

    patch.setattr(Sieve, "_keep_records", keep)


def remove_markers_before_their_transactions(patch: pytest.MonkeyPatch) -> None:
    """Who replays the log then takes the transaction for open."""
    honest = Sieve._keep_marker

    def keep(self: Any, batch: memoryview, header: BatchHeader, *, is_last: bool) -> Buffer | None:
        self._present.clear()
        self._now_ms = 1 << 62
        return honest(self, batch, header, is_last=is_last)

    patch.setattr(Sieve, "_keep_marker", keep)


def forget_last_sequences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sieve, "_is_last_of_producer", lambda self, header: False)


def show_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AbortedTransactions, "covers", lambda self, header: False)


PLANTS: list[Plant] = [
    remove_tombstones_too_early,
    remove_tombstones_that_hide_what_is_not_clean_yet,
    remove_markers_before_their_transactions,
    forget_last_sequences,
    show_what_was_aborted,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            CompactedLog,
            settings=settings(
                max_examples=2_000,  # enough to find the shyest; the first that does ends it
                report_multiple_bugs=False,
                stateful_step_count=40,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )

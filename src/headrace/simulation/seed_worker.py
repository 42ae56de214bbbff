"""What a process does that runs one seed after another. A module of its own: not every way to start a process on every
Python can find what belongs to a program's main module."""

from __future__ import annotations

import gc
import sys

from headrace.simulation.environment.loop import is_last_word
from headrace.simulation.scenario import Report, run_scenario

GARBAGE_AFTER = 200_000  # objects; a run makes many cycles that live on, and looking for dead ones takes a tenth of it


def settle_in() -> None:
    """Once, before the first seed."""
    gc.freeze()  # modules and classes stay for ever
    gc.set_threshold(GARBAGE_AFTER)
    sys.unraisablehook = _unraisable


def run_seed(seed: int, node_count: int, trouble_s: float | None) -> Report:
    report = run_scenario(seed, node_count=node_count, trouble_s=trouble_s)
    gc.collect()  # a universe that is over is one large cycle; a gigabyte of them would wait for the next collection
    return report


def _unraisable(event: sys.UnraisableHookArgs) -> None:
    if not is_last_word(event):
        sys.__unraisablehook__(event)

"""Run seeds: `python -m headrace.simulation --seeds 1000 --start 0 --jobs 2`. Exit code 1 if one breaks a promise."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headrace.simulation.scenario import Report, run_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

GARBAGE_AFTER = 200_000  # objects; a run makes many cycles that live on, and looking for dead ones takes a tenth of it
VIOLATIONS_SHOWN = 5  # of a seed: the first few say what went wrong, the rest follows from them
EVENTS_SHOWN = 30
PROGRESS_EVERY = 50


@dataclass
class Totals:
    seeds: int = 0
    virtual_s: float = 0.0
    launches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    bad_seeds: list[int] = field(default_factory=list)

    def add(self, report: Report) -> None:
        self.seeds += 1
        self.virtual_s += report.virtual_s
        self.launches += report.launches
        self.counts.update(vars(report.figures))
        self.faults.update(report.faults)
        if not report.is_good:
            self.bad_seeds.append(report.seed)

    def __str__(self) -> str:
        numbers = ", ".join(f"{name}={number:,}" for name, number in self.counts.items())
        faults = ", ".join(f"{name}: {number:,}" for name, number in sorted(self.faults.items()))
        return (
            f"{self.seeds:,} seeds, {self.virtual_s / 60:,.0f} virtual minutes, {self.launches:,} starts of a node\n"
            f"  clients: {numbers}\n"
            f"  faults: {faults}\n"
            f"  seeds with violations: {', '.join(map(str, self.bad_seeds)) or 'none'}"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m headrace.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--nodes", type=int, default=1, help="of the cluster")
    parser.add_argument(
        "--trouble", type=float, metavar="SECONDS", help="of virtual time with faults; else by the seed"
    )
    options = parser.parse_args(arguments)
    seeds = range(options.start, options.start + options.seeds)
    totals = Totals()
    began_s = time.monotonic()
    run = partial(run_scenario, node_count=options.nodes, trouble_s=options.trouble)
    for report in _reports(run, seeds, options.jobs):
        totals.add(report)
        if not report.is_good:
            _show(report)
        if totals.seeds % PROGRESS_EVERY == 0:
            _say(f"{totals.seeds} of {len(seeds)} seeds, {len(totals.bad_seeds)} bad")
    _say(f"{totals}\n  wall time: {time.monotonic() - began_s:.0f} s")
    return 1 if totals.bad_seeds else 0


def _reports(run: Callable[[int], Report], seeds: Iterable[int], jobs: int) -> Iterator[Report]:
    if jobs == 1:
        _spare_garbage()
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=_spare_garbage) as pool:
        yield from pool.map(run, seeds)


def _spare_garbage() -> None:
    gc.freeze()  # modules and classes stay for ever
    gc.set_threshold(GARBAGE_AFTER)


def _show(report: Report) -> None:
    _say(f"seed {report.seed}: {len(report.violations)} violations; faults: {report.faults}")
    for violation in report.violations[:VIOLATIONS_SHOWN]:
        _say(f"  {violation}")
    _say("  the last events:")
    for event in report.last_events[-EVENTS_SHOWN:]:
        _say(f"    {event}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

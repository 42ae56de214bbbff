"""Run seeds: `python -m headrace.simulation --seeds 1000 --start 0 --jobs 2`. Exit code 1 if one breaks a promise."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.simulation.campaign import Outcome, Record, Totals
from headrace.simulation.seed_worker import run_seed, settle_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.simulation.scenario import Report

VIOLATIONS_SHOWN = 5  # of a seed: the first few say what went wrong, the rest follows from them
EVENTS_SHOWN = 30
PROGRESS_EVERY_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    seeds = range(options.start, options.start + options.seeds)
    try:
        record = Record(options.record, {"nodes": options.nodes, "trouble": options.trouble})
    except (OSError, ValueError) as error:
        parser.error(str(error))
    totals = Totals()
    done = {outcome.seed: outcome for outcome in record.outcomes if outcome.seed in seeds}
    for outcome in done.values():
        totals.add(outcome)
    run = partial(run_seed, node_count=options.nodes, trouble_s=options.trouble)
    began_s = told_s = time.monotonic()
    for report in _reports(run, [seed for seed in seeds if seed not in done], options.jobs):
        outcome = Outcome.of(report)
        totals.add(outcome)
        record.note(outcome)
        if not report.is_good:
            _show(report)
        if time.monotonic() - told_s >= PROGRESS_EVERY_S:
            told_s = time.monotonic()
            _say(f"{totals.seeds} of {len(seeds)} seeds, {len(totals.bad_seeds)} bad")
    _say(f"{totals}\n  wall time: {time.monotonic() - began_s:.0f} s")
    return 1 if totals.bad_seeds else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m headrace.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--nodes", type=int, default=1, help="of the cluster")
    parser.add_argument(
        "--trouble", type=float, metavar="SECONDS", help="of virtual time with faults; else by the seed"
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="note each finished seed in FILE, and run only what it lacks: a long campaign may be interrupted; "
        "take a new file for changed code",
    )
    return parser


def _reports(run: Callable[[int], Report], seeds: Iterable[int], jobs: int) -> Iterator[Report]:
    if jobs == 1:
        settle_in()
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=settle_in) as pool:
        yield from pool.map(run, seeds)


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

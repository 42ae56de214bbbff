"""`python -m bench`: take the measures, print a table, keep one JSON file."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from bench import programs, report
from bench.measures import MEASURES
from bench.programs import BenchError
from bench.stage import Stage


def main() -> int:
    options = _arguments()
    if options.list:
        for measure in MEASURES:
            print(f"{measure.name:<25}{measure.summary}")
        return 0
    try:
        programs.compile_all()
    except BenchError as error:
        print(f"bench skipped: {error}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: the node stopped, the files gone
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=options.dir) as workspace:
        try:
            return _take(options, Path(workspace))
        except KeyboardInterrupt:
            print("\ninterrupted; the node is stopped and its files are deleted", file=sys.stderr)
            return 130


def _arguments() -> argparse.Namespace:
    names = [measure.name for measure in MEASURES]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, for a first impression")
    parser.add_argument("--list", action="store_true", help="name the measures and leave")
    parser.add_argument("--dir", type=Path, help="where nodes keep their files (default: the system's temporary place)")
    return parser.parse_args()


def _take(options: argparse.Namespace, workspace: Path) -> int:
    stage = Stage(workspace, quick=options.quick)
    machine = report.machine_facts(workspace)
    print(", ".join(f"{name} {value}" for name, value in machine.items()), file=sys.stderr)
    if report.is_busy():
        print("other programs keep this machine busy: trust CPU costs, not MB/s or times", file=sys.stderr)
    stage.compile_modules()
    outcomes: dict[str, report.Outcome] = {}
    failures: dict[str, str] = {}
    start_s, stolen_before_s = time.monotonic(), report.stolen_s()
    print(report.table_head(), flush=True)
    for measure in MEASURES:
        if options.only and measure.name not in options.only:
            continue
        try:
            outcomes[measure.name] = measure.take(stage)
        except (BenchError, OSError) as error:
            failures[measure.name] = str(error)
            print(f"{measure.name}: FAILED: {error}", flush=True)
        else:
            print(report.table(outcomes[measure.name]), flush=True)
    conditions = {
        "machine": machine,
        "quick": options.quick,
        "seconds": round(time.monotonic() - start_s, 1),
        "stolen_cpu_s": round(report.stolen_s() - stolen_before_s, 1),
    }
    path = report.save(conditions, outcomes, failures)
    print(f"every round: {path}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Plants each bug of the catalogue in a copy of the source, and sees which test catches it.

python -m tools.planted                    all of them; exit 1 if one is not caught
python -m tools.planted --only NAME        of one room, or one bug; may be given more than once
python -m tools.planted --write            and write docs/planted-bugs.md, if all are tried
python -m tools.planted --check            only whether each can still be planted
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tools.planted.catalogue import ROOMS, StaleBug, complaints, read_catalogue
from tools.planted.page import PAGE, page
from tools.planted.workshop import Outcome, Workshop

if TYPE_CHECKING:
    from tools.planted.catalogue import Bug


def main() -> int:
    options = _options()
    try:
        bugs = read_catalogue()
    except StaleBug as stale:
        return _fail(str(stale))
    if found := complaints(bugs):
        return _fail("the catalogue of planted bugs does not fit the source any more:", *found)
    if options.check:
        return 0
    chosen = [bug for bug in bugs if not options.only or {bug.id, bug.room, bug.room.split()[0]} & set(options.only)]
    if not chosen:
        return _fail(f"no room and no bug is called {' or '.join(options.only)}; rooms: {', '.join(ROOMS)}")
    with tempfile.TemporaryDirectory(prefix="headrace-planted-") as place:
        return _run(chosen, Path(place), options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.planted")
    parser.add_argument("--only", action="append", metavar="ROOM|BUG", help="may be given more than once")
    parser.add_argument("--jobs", type=int, default=2, help="how many bugs are tried at a time")
    parser.add_argument("--check", action="store_true", help="only whether each bug can still be planted")
    parser.add_argument("--write", action="store_true", help="write docs/planted-bugs.md, if all bugs are tried")
    parser.add_argument("--no-baseline", action="store_true", help="do not look first whether the tests pass without")
    return parser.parse_args()


def _run(bugs: list[Bug], place: Path, options: argparse.Namespace) -> int:
    workshops = [Workshop(place / str(number)) for number in range(max(1, options.jobs))]
    if not options.no_baseline and (failed := workshops[0].passes_without(bugs, options.jobs)):
        return _fail("tests fail before anything is planted:", failed)
    outcomes = _tried(bugs, workshops)
    missed = [outcome for outcome in outcomes if outcome.caught_by is None]
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} planted bugs are caught")
    if options.write and not options.only:
        PAGE.write_text(page(outcomes, workshops[0]))
    return _fail(*(f"not caught: {it.bug.id}: {it.bug.says}" for it in missed)) if missed else 0


def _tried(bugs: list[Bug], workshops: list[Workshop]) -> list[Outcome]:
    free: SimpleQueue[Workshop] = SimpleQueue()
    for workshop in workshops:
        free.put(workshop)

    def attempt(bug: Bug) -> Outcome:
        workshop = free.get()
        try:
            outcome = workshop.try_bug(bug)
        finally:
            free.put(workshop)
        print(
            f"{bug.id:42} {outcome.seconds:6.1f} s  {outcome.caught_by or 'NOT CAUGHT: ' + outcome.trouble}", flush=True
        )
        return outcome

    with ThreadPoolExecutor(len(workshops)) as threads:
        return list(threads.map(attempt, bugs))


def _fail(*lines: str) -> int:
    print(*lines, sep="\n", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

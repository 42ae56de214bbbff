"""docs/planted-bugs.md: which test catches each bug, and how fast."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tools.planted.catalogue import ROOMS, ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.planted.workshop import Outcome, Workshop

_TELLING: Final = re.compile(r"[a-z][a-z_]{3,40}")  # no values, and no lambda
PAGE: Final = ROOT / "docs" / "planted-bugs.md"
IN_PROCESS: Final = (
    ("tests/simulation/test_planted_bugs.py", "one node: storage, syncs, answers that come too early"),
    ("tests/simulation/test_planted_cluster_bugs.py", "replication, elections, in-sync sets, leases"),
    ("tests/simulation/test_planted_coordination_bugs.py", "groups and transactions"),
    ("tests/properties/test_raft_planted_bugs.py", "Raft's own rules"),
    ("tests/properties/test_compaction_planted_bugs.py", "what compaction may leave out"),
)

HEAD: Final = """# Planted bugs

<!-- Written by `make planted`; do not edit. The bugs are in tools/planted/catalogue. -->

A suite is worth what it catches. Each bug below is one that somebody could make on a bad day: a check that is
forgotten, a bound that is off by one, a sync in the wrong place. One at a time they are planted in a copy of the
source, and a test has to fail.

```
make planted                                  # all of them; writes this page
python -m tools.planted --only storage        # of one room, or one bug by its name
python -m tools.planted --check               # only whether each can still be planted; `make check` does this
```

The seconds are those until the named test has failed, with pytest's start, on two cores that had other work besides.
"""


def page(outcomes: Sequence[Outcome], workshop: Workshop) -> str:
    return "\n".join((HEAD, _summary(outcomes), *(_room(room, outcomes) for room in ROOMS), _in_process(workshop)))


def _summary(outcomes: Sequence[Outcome]) -> str:
    rows = ["| Room | Bugs | Caught | Seconds, in the middle | Slowest |", "|---|---|---|---|---|"]
    for room in (*ROOMS, "all"):
        own = [it for it in outcomes if room in {it.bug.room, "all"}]
        times = sorted(it.seconds for it in own)
        caught = sum(it.caught_by is not None for it in own)
        rows.append(f"| {room} | {len(own)} | {caught} | {times[len(times) // 2]:.0f} | {times[-1]:.0f} |")
    return "\n".join((*rows, ""))


def _room(room: str, outcomes: Sequence[Outcome]) -> str:
    rows = [f"## {room.capitalize()}\n", "| Bug | What is wrong | In | Caught by | Seconds |", "|---|---|---|---|---|"]
    for it in outcomes:
        if it.bug.room == room:
            place = it.bug.file.removeprefix("src/")
            caught_by = f"`{_short(it.caught_by)}`" if it.caught_by else "**nobody**"
            rows.append(f"| `{it.bug.id}` | {it.bug.says} | `{place}` | {caught_by} | {it.seconds:.0f} |")
    return "\n".join((*rows, ""))


def _short(test: str) -> str:
    """With its parameters if they say something: which scenario it was, say."""
    path, _, name = test.partition("::")
    function, bracket, parameters = name.partition("[")
    is_telling = _TELLING.fullmatch(parameters.removesuffix("]"))
    return f"{path.removeprefix('tests/')}::{function}{bracket + parameters if is_telling else ''}"


def _in_process(workshop: Workshop) -> str:
    at_once = [len(workshop.cases_in(path, "-m", "not long")) for path, _ in IN_PROCESS]
    in_all = [len(workshop.cases_in(path)) for path, _ in IN_PROCESS]
    rows = [
        f"| `{path}` | {count} | {total} | {what} |"
        for (path, what), count, total in zip(IN_PROCESS, at_once, in_all, strict=True)
    ]
    about = (
        f"Besides these, tests plant {sum(in_all)} bugs in living nodes and minds, {sum(at_once)} of them with each "
        "`make test`, and see that a few seeds of the [simulator](simulator.md), or a few walks, find each. Many of "
        "them were really there once.\n"
    )
    table = ("| Where | `make test` | With `make test-long` | In |", "|---|---|---|---|", *rows)
    return "\n".join(("## Bugs that are planted by the suite itself\n", about, *table, ""))

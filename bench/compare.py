"""`python -m bench.compare OLD NEW`: whether one commit costs a node more CPU time than another.

Both are checked out side by side and compiled. In each round both start a fresh node, and short bursts of one load go
to the one and the other in turn: A B, B A, A B, so that whatever else the machine does meets both. Counted is the CPU
time of the node alone, all its threads, in nanoseconds, and never the time on the wall. Nodes are pinned to the first
core, the load generator to the last.

The ratio of a round is that of the cheapest burst of each: others on the machine only add to what a burst costs, by
what they push out of the caches. A process is a few percent faster or slower for its whole life, by where its memory
happens to lie: so rounds count, and not bursts, and how far their ratios lie apart says what the result is worth.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import programs
from bench.node import Node
from bench.programs import BenchError
from bench.report import is_busy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HOME = Path(__file__).parents[1]
CORES = sorted(os.sched_getaffinity(0))
TOPIC = "bench"
PARTITIONS = 4
FILL_MB = 8  # read again and again by the fetches
NICENESS = -15  # before whatever else runs on the machine, where that is allowed
WARM_BURSTS = 2  # code paths and buffers
ALLOWED = 1.03  # what a change of structure may cost


class Load(NamedTuple):
    """A burst of about half a second."""

    name: str
    program: str
    options: Mapping[str, Any]
    unit: str
    """What the CPU time is divided by: a key of what the program prints."""


TINY = {"partitions": f"0-{PARTITIONS - 1}", "records": 1, "record_bytes": 100, "requests": 40_000}
LOADS = (
    Load("produce, 100 B, pipelined", "produce_load", {**TINY, "connections": 4, "in_flight": 100}, "requests"),
    Load("produce, 100 B, one by one", "produce_load", {**TINY, "in_flight": 1, "requests": 5_000}, "requests"),
    Load("produce, 16 KiB", "produce_load", {"records": 16, "record_bytes": 1024, "requests": 10_000}, "requests"),
    Load("fetch, 16 KiB", "fetch_load", {"topic": "filled", "partition_bytes": 16 << 10, "passes": 12}, "answers"),
    Load("fetch, 1 MiB", "fetch_load", {"topic": "filled", "partition_bytes": 1 << 20, "passes": 80}, "answers"),
)


class Tree(NamedTuple):
    """A commit, checked out and compiled."""

    commit: str
    path: Path


class NodeOfTree(Node):
    """A node that runs the code of a commit, on the first core."""

    def __init__(self, workspace: Path, tree: Tree) -> None:
        super().__init__(workspace)
        self._tree = tree

    def start(self) -> None:
        super().start()
        os.sched_setaffinity(self._started.pid, {CORES[0]})  # before it starts any thread
        _hasten(self._started.pid)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self._tree.path / "src"), "PYTHONHASHSEED": "0"}

    def cpu_ns(self) -> int:
        """Of all threads that live; a node's live as long as it does."""
        threads = Path(f"/proc/{self._started.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)

    def fill(self) -> None:
        """With what fetches read."""
        self.create_topic(PARTITIONS)
        self.create_topic(PARTITIONS, "filled")
        batches = {"records": 16, "record_bytes": 1024, "megabytes": FILL_MB, "in_flight": 5, "acks": -1}
        programs.run("produce_load", port=self.port, topic="filled", partitions=TINY["partitions"], **batches)

    def cost_us(self, load: Load) -> float:
        """Of one request, in a burst of them."""
        before_ns = self.cpu_ns()
        options = {"topic": TOPIC, "partitions": TINY["partitions"], **load.options}
        numbers = programs.run(load.program, port=self.port, **options)
        return float((self.cpu_ns() - before_ns) / 1e3 / numbers[load.unit])


def main() -> int:
    options = _arguments()
    programs.compile_all()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: nodes stopped, trees and files gone
    if is_busy():
        print("other programs keep this machine busy: look at how far the rounds lie apart", file=sys.stderr)
    loads = [load for load in LOADS if not options.only or any(word in load.name for word in options.only)]
    os.sched_setaffinity(0, {CORES[-1]})  # this process, and with it the load generators
    with tempfile.TemporaryDirectory(prefix="headrace-compare-", dir=options.dir) as workspace, ExitStack() as trees:
        both = [trees.enter_context(_checked_out(rev, Path(workspace))) for rev in (options.old, options.new)]
        _say_head(both)
        rounds = [_round(loads, both, Path(workspace), number, options.bursts) for number in range(options.rounds)]
    slower = [load.name for load in loads if not _told(load, [each[load.name] for each in rounds])]
    return 1 if slower else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", help="another one")
    parser.add_argument("--rounds", type=int, default=9, help="fresh nodes of both (default: 9)")
    parser.add_argument("--bursts", type=int, default=7, help="of each load, to each node, in a round (default: 7)")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="loads with such a word in their names")
    parser.add_argument("--dir", type=Path, help="where trees and data lie (default: the system's temporary place)")
    return parser.parse_args()


@contextmanager
def _checked_out(rev: str, workspace: Path) -> Iterator[Tree]:
    commit = _git("rev-parse", "--verify", f"{rev}^{{commit}}")
    path = workspace / f"{'old' if not any(workspace.iterdir()) else 'new'}-{commit[:12]}"
    _git("worktree", "add", "--detach", str(path), commit)
    try:
        _run(sys.executable, "tools/compiling.py", cwd=path)
        _run(sys.executable, "-m", "compileall", "-q", "src", cwd=path)
        yield Tree(commit, path)
    finally:
        _git("worktree", "remove", "--force", str(path))


def _git(*words: str) -> str:
    return _run("git", *words, cwd=HOME)


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _hasten(pid: int) -> None:
    with suppress(PermissionError):  # it takes an administrator; to wait for others costs no CPU time of its own
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)


def _round(
    loads: Sequence[Load], trees: Sequence[Tree], workspace: Path, number: int, bursts: int
) -> dict[str, tuple[float, float]]:
    """What a request of each load costs the old and the new, with fresh nodes of both."""
    found = {}
    with ExitStack() as running:
        # Who starts first has other pages: they take turns in that as well.
        order = (0, 1) if number % 2 == 0 else (1, 0)
        nodes = {which: running.enter_context(NodeOfTree(workspace, trees[which])) for which in order}
        for which in order:
            nodes[which].fill()
        for load in loads:
            found[load.name] = _bursts(load, nodes, bursts)
            old, new = found[load.name]
            print(f"  round {number + 1}, {load.name}: {old:.2f}, {new:.2f} us", file=sys.stderr, flush=True)
    return found


def _bursts(load: Load, nodes: Mapping[int, NodeOfTree], count: int) -> tuple[float, float]:
    costs: dict[int, list[float]] = {0: [], 1: []}
    for burst in range(WARM_BURSTS + count):
        for which in (0, 1) if burst % 2 == 0 else (1, 0):
            cost_us = nodes[which].cost_us(load)
            if burst >= WARM_BURSTS:
                costs[which].append(cost_us)
    return min(costs[0]), min(costs[1])


def _say_head(trees: Sequence[Tree]) -> None:
    old, new = (tree.commit[:8] for tree in trees)
    print(f"{'CPU of the node, us per request':<34}{old:>10}{new:>10}{'ratio':>9}   of the rounds", flush=True)


def _told(load: Load, rounds: Sequence[tuple[float, float]]) -> bool:
    """One line of the table. Whether the new one is as fast as it has to be, as far as that can be told."""
    old, new = (statistics.median(each[which] for each in rounds) for which in (0, 1))
    ratios = sorted(new_us / old_us for old_us, new_us in rounds)
    ratio = math.exp(statistics.fmean(math.log(it) for it in ratios))
    verdict = "ok" if ratio <= ALLOWED else "SLOWER"
    print(f"{load.name:<34}{old:>10.2f}{new:>10.2f}{ratio:>9.3f}   {ratios[0]:.3f} ... {ratios[-1]:.3f}  {verdict}")
    return ratio <= ALLOWED


if __name__ == "__main__":
    sys.exit(main())

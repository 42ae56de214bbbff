"""A node under attack, an honest client beside it, and what is measured of both.

A round is a quiet stretch and one under attack. In every round the facts must hold: each honest request succeeds and
none hangs, the memory of the node and its children stays within its limit, the node lives, finds no fault in itself,
and is its old self again when the attackers are gone.

That the honest p99 stays within ten times the quiet one has to show in one round of a few: a machine that is busy with
others disturbs some of them, while a node that stands still is slow in all. What is quiet is the median of the quiet
stretches of at least three rounds, so that no disturbance of one of them makes a slow node pass. Only if the p99 is
within ten times the floor is one round enough.

The node's device is no part of it (`headrace.durability=written`): how long a sync takes is up to whoever else writes.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.faults.attacks.apart import Apart
from tests.faults.attacks.honest import HANG_S, Window, be_honest
from tests.faults.hostile import Hostile
from tests.faults.node_process import NodeProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

QUIET_S = 1.2
ATTACK_S = 2.0  # some hundred requests: the slowest hundredth is several of them
STRIKE_MAX_S = 60.0  # an attack that has not had its answers by then is not answered: it takes a second or two
ROUNDS_MAX = 8  # only what stands still, or stands on a machine that is busy all the time, needs as many
TIMES_SLOWER = 10
ROUNDS_MIN = 3  # unless the first leaves nothing to ask
FLOOR_MS = 2.0
"""A quiet p99 below it counts as this. Whoever shares a core with others waits for its turn, which costs some of these
milliseconds on the way there and on the way back, and attackers are such others."""
RECOVERED_MS = 5.0  # half of the honest requests to a quiet node take less than a tenth of it
RECOVERY_LOOK_S = 0.2
RECOVERY_MAX_S = 20.0  # for what somebody who has left has left behind
MEMORY_MAX_MB = 300
LOOK_S = 0.05
POLITE = 10
"""Attackers yield to the others: a stolen core would be measured instead of the node."""

HONEST_TOPIC = "honest"
SIGNS_OF_A_BUG = ("Traceback", "our fault")


class Attack(NamedTuple):
    """One attacker: a function that runs apart, and what it is told."""

    function: Callable[..., object]
    arguments: Mapping[str, Any]


class Round(NamedTuple):
    quiet: Window
    attacked: Window
    results: list[Any]
    """What each attacker says of its answers."""


def times_slower(rounds: Sequence[Round]) -> float:
    """The best p99 under attack, compared with what is quiet."""
    floor_ms = FLOOR_MS
    if len(rounds) >= ROUNDS_MIN:
        floor_ms = max(FLOOR_MS, median(round_.quiet.p99_ms for round_ in rounds))
    return min(round_.attacked.p99_ms for round_ in rounds) / floor_ms


class Measured(NamedTuple):
    """One line of the table."""

    what: str
    round: Round
    """The best one: it tells of the node, the others of the machine."""
    rounds: int
    peak_mb: float


TABLE: list[Measured] = []
"""Of all attacks that this process has measured; `table` makes text of it."""


def table(measured: Sequence[Measured]) -> str:
    head = f"{'attack':36} {'quiet p50/p99':>15} {'attacked p50/p99':>18} {'longest':>9} {'peak':>8}  rounds"
    lines = [
        f"{line.what:36} {line.round.quiet.p50_ms:6.2f} /{line.round.quiet.p99_ms:7.2f} "
        f"{line.round.attacked.p50_ms:8.2f} /{line.round.attacked.p99_ms:8.2f} {line.round.attacked.longest_ms:9.1f} "
        f"{line.peak_mb:5.0f} MB  {line.rounds}"
        for line in measured
    ]
    return "\n".join(["", head + "  (milliseconds)", *lines])


class Memory:
    """The most that a process and its children have held at a time, looked at from a thread."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self.peaks_mb = dict.fromkeys(pids, 0.0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def peak_mb(self) -> float:
        return max(self.peaks_mb.values())

    def look(self) -> None:
        for pid in self._pids:
            self.peaks_mb[pid] = max(self.peaks_mb[pid], sum(map(_peak_mb, _family(pid))))

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self.look()


def _family(pid: int) -> list[int]:
    family = [pid]
    for member in family:
        with contextlib.suppress(OSError):  # gone since it was listed
            for children in Path(f"/proc/{member}/task").glob("*/children"):
                family += map(int, children.read_text().split())
    return family


def _peak_mb(pid: int) -> float:
    """The most that it held in its life, by the kernel's own book: no short peak is missed."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process and its living children have used."""
    ticks = 0
    for member in _family(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Siege:
    """`withstand` measures; everything else is how tests get at the node."""

    def __init__(self, what: str, nodes: Sequence[NodeProcess], honest: Apart, memory: Memory) -> None:
        self.what = what
        self.nodes = nodes
        self.node = nodes[0]
        self.memory = memory
        self._honest = honest
        self.seen: Window = self.window()

    @property
    def port(self) -> int:
        return self.node.port

    def connect(self) -> Hostile:
        return Hostile(self.port)

    def window(self) -> Window:
        """What the honest client saw since the last one."""
        self._honest.tell("window")
        self.seen = Window(*self._honest.hear("window"))
        return self.seen

    def stop_the_honest(self) -> Window:
        """The last window, and no more requests after it."""
        self._honest.tell("end")
        last = Window(*self._honest.hear("result"))
        assert not last.failures, f"honest requests failed: {last.failures}"
        return last

    def withstand(self, attacks: Sequence[Attack], judge: Callable[[list[Any]], None]) -> None:
        """Attack until it shows that the honest client is served as it should be.

        `judge` looks at each round's results: the attack must have taken place, and been answered as it should be.
        """
        rounds: list[Round] = []
        try:
            while not rounds or (times_slower(rounds) > TIMES_SLOWER and len(rounds) < ROUNDS_MAX):
                rounds.append(self._round(attacks))
                self._check(rounds[-1])
                judge(rounds[-1].results)
                self._wait_recovered()
        finally:
            self._note(rounds)
        figures = [f"{round_.quiet.p99_ms:.1f} -> {round_.attacked.p99_ms:.1f} ms" for round_ in rounds]
        assert times_slower(rounds) <= TIMES_SLOWER, f"honest p99, quiet -> attacked, round by round: {figures}"

    def _wait_recovered(self) -> None:
        """Until the node is done with what the attackers have left behind: that is no measure of a quiet node."""
        deadline_s = time.monotonic() + RECOVERY_MAX_S
        self.window()
        while True:
            time.sleep(RECOVERY_LOOK_S)
            if (seen := self.window()).p50_ms < RECOVERED_MS:
                return
            assert time.monotonic() < deadline_s, f"the attackers are gone and the node is still slow: {seen}"

    def _round(self, attacks: Sequence[Attack]) -> Round:
        with ExitStack() as stack:
            attackers = [
                stack.enter_context(Apart(attack.function, nice=POLITE, **attack.arguments)) for attack in attacks
            ]
            for attacker in attackers:
                attacker.hear("ready")
            self.window()
            time.sleep(QUIET_S)
            quiet = self.window()
            for attacker in attackers:
                attacker.tell("begin")
            results = self._attack(attackers)
            attacked = self.window()
        return Round(quiet, attacked, results)

    def _attack(self, attackers: Sequence[Apart]) -> list[Any]:
        """Until each attacker has done its worst, and for as long as the measuring takes."""
        began_s = time.monotonic()
        unanswered = []
        for attacker in attackers:
            try:
                attacker.hear("struck", max(0.1, began_s + STRIKE_MAX_S - time.monotonic()))
            except AssertionError as silence:
                unanswered.append(str(silence))
        time.sleep(max(0.0, began_s + ATTACK_S - time.monotonic()))
        if unanswered:
            return unanswered
        for attacker in attackers:
            attacker.tell("end")
        return [attacker.hear("result") for attacker in attackers]

    def _check(self, round_: Round) -> None:
        self.memory.look()
        for node in self.nodes:
            assert node.is_running, f"the node has ended with {node.exit_code}: {node.log[-2000:]}"
        for stretch in (round_.quiet, round_.attacked):
            assert not stretch.failures, f"honest requests failed: {stretch.failures}"
            assert stretch.requests, "the honest client got no answer at all"
            assert stretch.longest_ms < 1000 * HANG_S, f"an honest request took {stretch.longest_ms:.0f} ms"
        assert self.memory.peak_mb < MEMORY_MAX_MB, f"the node took {self.memory.peak_mb:.0f} MB"
        for node in self.nodes:
            found = [line for line in node.log.splitlines() if any(sign in line for sign in SIGNS_OF_A_BUG)]
            assert not found, node.log[-4000:]
        assert not any(isinstance(result, str) for result in round_.results), f"not answered: {round_.results}"

    def _note(self, rounds: list[Round]) -> None:
        if rounds:
            best = min(rounds, key=lambda round_: round_.attacked.p99_ms)
            TABLE.append(Measured(self.what, best, len(rounds), self.memory.peak_mb))
            print(table(TABLE[-1:]))
            print(*(f"  answers: {round_.results}" for round_ in rounds), sep="\n")


@contextmanager
def besieged(
    what: str,
    directory: Path,
    *,
    configs: Mapping[str, str] | None = None,
    topics: Mapping[str, Mapping[str, str]] | None = None,
    reconnects: bool = False,
) -> Iterator[Siege]:
    """A fresh node with these topics and the honest client's, and that client, which has begun."""
    settings = {"headrace.durability": "written", **(configs or {})}
    with NodeProcess(directory / "data", directory / "node.log", configs=settings) as node:
        node.start()
        with Hostile(node.port) as client:
            for topic, wanted in {HONEST_TOPIC: {}, **(topics or {})}.items():
                assert client.create_topic(topic, configs=wanted) == 0
        with attended(what, [node], node.port, reconnects=reconnects) as siege:
            yield siege
        assert node.stop() == 0, node.log[-4000:]


@contextmanager
def attended(
    what: str, nodes: Sequence[NodeProcess], port: int, *, reconnects: bool = False, commits: bool = True
) -> Iterator[Siege]:
    """An honest client at this port, whose topic is there, and an eye on the memory of all nodes."""
    arguments: dict[str, Any] = {"port": port, "topic": HONEST_TOPIC, "reconnects": reconnects, "commits": commits}
    with Memory([node.pid for node in nodes]) as memory, Apart(be_honest, **arguments) as honest:
        honest.hear("ready")
        honest.tell("begin")
        siege = Siege(what, nodes, honest, memory)
        # What has to be made first, such as the topic of committed offsets, takes a moment and is asked for again.
        wait_until(lambda: (not siege.window().failures and siege.seen.committed >= 0) or not commits, "all is there")
        yield siege

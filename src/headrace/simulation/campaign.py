"""Many seeds: what they amount to together, and a record from which an interrupted campaign goes on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.simulation.scenario import Report


@dataclass(frozen=True)
class Outcome:
    """What stays of a run once its report was shown."""

    seed: int
    is_good: bool
    fingerprint: str
    virtual_s: float
    launches: int
    figures: dict[str, int]
    faults: dict[str, int]

    @classmethod
    def of(cls, report: Report) -> Outcome:
        return cls(
            report.seed,
            report.is_good,
            report.fingerprint,
            report.virtual_s,
            report.launches,
            vars(report.figures),
            report.faults,
        )


class Record:
    """A file with a line for each finished seed. Its first line says what was run: other runs are refused.

    Without a path nothing is kept.
    """

    def __init__(self, path: Path | None, subject: dict[str, object]) -> None:
        self._path = path
        self.outcomes: list[Outcome] = []
        if path is None:
            return
        if not path.exists():
            self._write(subject)
            return
        first, *lines = path.read_text().splitlines()
        if json.loads(first) != subject:
            raise ValueError(f"{path} is the record of {first}, not of {json.dumps(subject)}; take another file")
        self.outcomes += (Outcome(**json.loads(line)) for line in lines)

    def note(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._write(asdict(outcome))

    def _write(self, content: dict[str, object]) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(content) + "\n")


@dataclass
class Totals:
    seeds: int = 0
    virtual_s: float = 0.0
    launches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    bad_seeds: list[int] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.virtual_s += outcome.virtual_s
        self.launches += outcome.launches
        self.counts.update(outcome.figures)
        self.faults.update(outcome.faults)
        if not outcome.is_good:
            self.bad_seeds.append(outcome.seed)

    def __str__(self) -> str:
        numbers = ", ".join(f"{name}={number:,}" for name, number in self.counts.items())
        faults = ", ".join(f"{name}: {number:,}" for name, number in sorted(self.faults.items()))
        return (
            f"{self.seeds:,} seeds, {self.virtual_s / 60:,.0f} virtual minutes, {self.launches:,} starts of a node\n"
            f"  clients: {numbers}\n"
            f"  faults: {faults}\n"
            f"  seeds with violations: {', '.join(map(str, self.bad_seeds)) or 'none'}"
        )

"""What a run found: lines with targets, the raw rounds behind them, and the machine they were taken on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

NAME_WIDTH, VALUE_WIDTH, TARGET_WIDTH = 50, 18, 16
OUT = Path(__file__).parent / "out"


@dataclass(frozen=True)
class Target:
    relation: Literal["<=", ">="]
    bound: float

    def is_met(self, value: float) -> bool:
        return value <= self.bound if self.relation == "<=" else value >= self.bound


@dataclass(frozen=True)
class Line:
    """One row of the table. A value of None could not be measured; the remark says why."""

    name: str
    value: float | None
    unit: str
    target: Target | None = None
    remark: str = ""


@dataclass
class Outcome:
    lines: list[Line] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)


def at_most(bound: float) -> Target:
    return Target("<=", bound)


def at_least(bound: float) -> Target:
    return Target(">=", bound)


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _row(line: Line) -> str:
    value = "-" if line.value is None else f"{_number(line.value)} {line.unit}"
    target = verdict = ""
    if line.target is not None:
        target = f"{line.target.relation} {_number(line.target.bound)} {line.unit}"
        if line.value is not None:
            verdict = "ok" if line.target.is_met(line.value) else "MISSED"
    row = f"{line.name:<{NAME_WIDTH}}{value:>{VALUE_WIDTH}}  {target:<{TARGET_WIDTH}}{verdict:<8}{line.remark}"
    return row.rstrip()


def table_head() -> str:
    return f"{'':<{NAME_WIDTH}}{'result':>{VALUE_WIDTH}}  {'target':<{TARGET_WIDTH}}"


def table(outcome: Outcome) -> str:
    return "\n".join(_row(line) for line in outcome.lines)


def machine_facts(workspace: Path) -> dict[str, Any]:
    """What a reader needs before comparing two files."""
    processor = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cores": os.cpu_count(),
        "processor": processor[0].partition(":")[2].strip() if processor else platform.machine(),
        "memory_gb": round(memory_kb * 1024 / 1e9, 1),
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "file_system": _file_system_of(workspace),
        "load_average": os.getloadavg(),
        "commit": _commit(),
    }


def _file_system_of(path: Path) -> str:
    """The type of the mount that holds `path`: on tmpfs a flush costs nothing, so figures differ."""
    holding, kind = "", "unknown"
    for mount in Path("/proc/mounts").read_text().splitlines():
        _, point, mount_kind, *_ = mount.split()
        is_inside = path.resolve().is_relative_to(point)
        if is_inside and len(point) >= len(holding):
            holding, kind = point, mount_kind
    return kind


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=OUT.parent
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def is_busy() -> bool:
    """Node and load generator want a core each; of two cores even half a stranger is felt."""
    return os.getloadavg()[0] > 0.25 * (os.cpu_count() or 1)


def stolen_s() -> float:
    """CPU time that the hypervisor gave to others, over all cores since boot."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def save(conditions: dict[str, Any], outcomes: dict[str, Outcome], failures: dict[str, str]) -> Path:
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    lines = [
        {"measure": name, **asdict(line), "met": line.target.is_met(line.value)}
        if line.target is not None and line.value is not None
        else {"measure": name, **asdict(line)}
        for name, outcome in outcomes.items()
        for line in outcome.lines
    ]
    contents = {
        **conditions,
        "load_average_after": os.getloadavg(),
        "lines": lines,
        "failures": failures,
        "rounds": {name: outcome.rounds for name, outcome in outcomes.items()},
    }
    path.write_text(json.dumps(contents, indent=1) + "\n")
    return path

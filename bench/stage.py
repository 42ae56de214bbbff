"""What every measure stands on: a place for files, a number of rounds, warm memory, and load with its cost."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import headrace
from bench import programs
from bench.node import COMPILED, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.programs import Numbers

TOPIC = "bench"
BATCH_1MB = {"records": 1000, "record_bytes": 1000}
BATCH_1MB_BYTES = 1_009_997  # what such a batch measures; Kafka's default `max.message.bytes` is 1,048,588


@dataclass(frozen=True)
class Stage:
    workspace: Path
    quick: bool

    def rounds(self, full: int) -> int:
        return max(1, full // 2) if self.quick else full

    def seconds(self, full: float) -> float:
        return full / 2 if self.quick else full

    def node(self, *, cold: bool = False, options: Sequence[str] = ()) -> Node:
        return Node(self.workspace, cold=cold, options=options)

    def compile_modules(self) -> None:
        """As after `pip install`: no measured node spends its first requests on compiling what they need."""
        package = Path(headrace.__file__).parent
        compiled = {"PYTHONPYCACHEPREFIX": str(self.workspace / COMPILED), "PYTHONDONTWRITEBYTECODE": ""}
        subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True, env={**os.environ, **compiled})
        with self.node() as node:  # loads, and so compiles, what the package needs of others
            node.create_topic(1)
            node.metrics()

    def say(self, text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)

    def warm_pages(self, megabytes: int) -> None:
        """Write and delete a file, so that the pages which the next measure takes were used a moment ago.

        On a virtual machine the first use of a page goes to the hypervisor and costs up to ten times the write
        itself. Who happens to run first would pay it.
        """
        chunk, path = bytes(1_000_000), self.workspace / "warm-pages"
        with path.open("wb", buffering=0) as file:
            for _ in range(megabytes):
                file.write(chunk)
        path.unlink()


def load(node: Node, program: str, **options: object) -> Numbers:
    """Run a load program against the node; its numbers, and the node's CPU time meanwhile."""
    cpu_before_s = node.cpu_s()
    numbers = programs.run(program, port=node.port, topic=TOPIC, **options)
    return with_cost(numbers, node.cpu_s() - cpu_before_s)


def with_cost(numbers: Numbers, node_cpu_s: float) -> Numbers:
    per_gb = node_cpu_s / (numbers["megabytes"] / 1e3)
    return {**numbers, "node_cpu_s": round(node_cpu_s, 3), "node_cpu_s_per_gb": round(per_gb, 4)}


def median_of(rounds: Sequence[Numbers], key: str) -> float:
    return statistics.median(float(numbers[key]) for numbers in rounds)

"""How fast topics become Parquet files, and come back: `headrace export` and `headrace import` as a user calls them."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from bench.programs import BenchError
from bench.report import Line, Outcome, at_least
from bench.stage import TOPIC, median_of

if TYPE_CHECKING:
    from bench.node import Node
    from bench.stage import Stage

ROWS = 1_000_000
VALUE_BYTES = 1024
PARTITIONS = 2  # as many as Spark has cores
COMPRESSIONS = ("zstd", "snappy", "none")
COMMAND_S_MAX = 300.0


def export(stage: Stage) -> Outcome:
    outcome = Outcome()
    with stage.node() as node:
        _fill(node)
        for number in range(stage.rounds(3)):
            taken: dict[str, Any] = {}
            for compression in COMPRESSIONS:
                stage.say(f"export with {compression}, round {number + 1}")
                out = stage.workspace / f"export-{compression}"
                taken[compression] = _command(
                    node, "export", "--topic", TOPIC, "--out", out, "--compression", compression
                )
                if taken[compression]["rows"] != ROWS:
                    raise BenchError(f"{ROWS} rows were to be exported, {taken[compression]['rows']} were")
            stage.say(f"import, round {number + 1}")
            copy = f"{TOPIC}-{number}"
            node.create_topic(PARTITIONS, copy)
            taken["import"] = _command(node, "import", "--topic", copy, "--in", stage.workspace / "export-none")
            for compression in COMPRESSIONS:
                shutil.rmtree(stage.workspace / f"export-{compression}")
            outcome.rounds.append(taken)
    for what in (*COMPRESSIONS, "import"):
        numbers = [taken[what] for taken in outcome.rounds]
        name = "import, 1 KiB" if what == "import" else f"export to Parquet, 1 KiB, {what}"
        target = at_least(200) if what == "zstd" else None
        seconds = median_of(numbers, "duration_ms") / 1000
        outcome.lines.append(Line(name, median_of(numbers, "mb_per_s"), "MB/s", target, f"{seconds:.1f} s for 1 GB"))
    return outcome


def _fill(node: Node) -> None:
    """Values of hexadecimal digits: they compress to half, as what people keep in topics does at the least."""
    from confluent_kafka import Producer  # noqa: PLC0415 - other measures do without it

    node.create_topic(PARTITIONS)
    digits = random.Random(1).randbytes(8 << 20).hex().encode()
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.port}",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 100_000,
        }
    )
    for number in range(ROWS):
        start = number * 997 % (len(digits) - VALUE_BYTES)
        value, key = digits[start : start + VALUE_BYTES], b"%08d" % (number % 10_000)
        while True:
            try:
                producer.produce(TOPIC, value, key, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise BenchError("not everything was written")


def _command(node: Node, *arguments: object) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "headrace", *map(str, arguments)),
        *("--master", "local[2]", "--format", "json", "--bootstrap-server", f"127.0.0.1:{node.port}"),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False)
    if ran.returncode:
        raise BenchError(f"{' '.join(command)}: {ran.stderr.strip()}")
    numbers: dict[str, Any] = json.loads(ran.stdout)
    return numbers

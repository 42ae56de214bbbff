"""What is timed inside Spark. Runs in a process of its own, which has the official connector if there is one."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.tuple_source import TupleSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    spark.dataSource.register(TupleSource)


class Cost(NamedTuple):
    seconds: float
    cpu_s: float
    """Of Spark and its Python workers, all threads; the node's not."""


def cost_of_reading(spark: SparkSession, word: str, options: Mapping[str, str]) -> Cost:
    """Every column of every record, to nowhere."""
    start_s, before = time.monotonic(), _family_cpu_s()
    spark.read.format(word).options(**options).load().write.format("noop").mode("overwrite").save()
    return Cost(time.monotonic() - start_s, _cpu_since(before))


def count_rows(spark: SparkSession, word: str, options: Mapping[str, str]) -> int:
    return spark.read.format(word).options(**options).load().count()


def cost_of_writing(spark: SparkSession, word: str, options: Mapping[str, str], rows: int, value_bytes: int) -> Cost:
    """One micro-batch from Spark's own generator to a topic, from its first task until it is committed."""
    generated = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    )
    frame = generated.selectExpr("CAST(value AS STRING) AS key", f"repeat('x', {value_bytes}) AS value")
    before = _family_cpu_s()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-checkpoint-") as checkpoint:
        writer = frame.writeStream.format(word).options(**options).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        (batch,) = (json.loads(progress.json) for progress in query.recentProgress)
    assert batch["numInputRows"] == rows, batch
    return Cost(batch["durationMs"]["addBatch"] / 1000, _cpu_since(before))


def _cpu_since(before: Mapping[int, float]) -> float:
    """Without that of processes which have ended meanwhile: Spark keeps those that work, and ends those long idle."""
    return sum(cpu_s - before.get(pid, 0) for pid, cpu_s in _family_cpu_s().items())


def _family_cpu_s() -> dict[int, float]:
    """CPU time so far of this process and of all that descend from it: the JVM and its Python workers."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(path.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    family, born = set[int](), {os.getpid()}
    while born:
        family |= born
        born = {pid for pid, parent in parents.items() if parent in born}
    return {pid: ticks[pid] / os.sysconf("SC_CLK_TCK") for pid in family}

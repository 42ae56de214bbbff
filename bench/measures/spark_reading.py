"""How fast Spark reads topics and writes them, on two cores: ours, the obvious way, and the official connector."""

from __future__ import annotations

import statistics
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.programs import BenchError
from bench.report import Line, Outcome, at_least
from bench.stage import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.node import Node
    from bench.programs import Numbers
    from bench.spark_jobs import Cost
    from bench.stage import Stage
    from tests.spark.spark_process import SparkProcess

PARTITIONS = 2  # as many as Spark has cores
OURS, TUPLES, OFFICIAL = "headrace", "tuples", "kafka"
NAMES = {OURS: "headrace", TUPLES: "tuple per record", OFFICIAL: "official connector"}
# value bytes -> how many records: enough for the fastest to take seconds, so that Spark's start of a job does not count
READ = {1024: 1_000_000, 100: 4_000_000}
WRITTEN = {1024: 200_000, 100: 500_000}
BATCH_RECORDS = 1000


def spark_source(stage: Stage) -> Outcome:
    """Everything in a topic, to nowhere. All ways take turns within a round, each round in another order."""
    outcome = Outcome()
    with _spark() as (spark, formats, lack):
        for value_bytes, records in READ.items():
            with stage.node() as node:
                options = _fill(stage, node, value_bytes, records)
                rounds = _read_rounds(stage, spark, formats, options, (value_bytes, records))
            outcome.rounds.extend(rounds)
            outcome.lines.extend(_lines("source", rounds, value_bytes, formats, lack))
    return outcome


def spark_sink(stage: Stage) -> Outcome:
    """One micro-batch to a topic. Ours also makes it visible at once and exactly once; the official one does not."""
    outcome = Outcome()
    with _spark() as (spark, formats, lack):
        writing = [word for word in formats if word != TUPLES]
        for value_bytes, rows in WRITTEN.items():
            with stage.node() as node:
                node.create_topic(PARTITIONS)
                rounds = _write_rounds(stage, spark, node, writing, (value_bytes, rows))
            outcome.rounds.extend(rounds)
            outcome.lines.extend(_lines("sink", rounds, value_bytes, writing, lack))
    return outcome


@contextmanager
def _spark() -> Iterator[tuple[SparkProcess, list[str], str]]:
    """A Spark, the formats that it has, and why it lacks one."""
    try:
        import pyspark  # noqa: F401, PLC0415 - the other measures do without it
    except ImportError:
        raise BenchError("Spark is not installed: pip install 'headrace[spark]'") from None
    from bench import spark_jobs  # noqa: PLC0415
    from tests.spark.connector_jars import NotToBeHad, connector_jars  # noqa: PLC0415
    from tests.spark.spark_process import SparkProcess  # noqa: PLC0415

    formats, conf, lack = [OURS, TUPLES], {"spark.driver.memory": "2g"}, ""
    try:
        conf["spark.jars"] = ",".join(str(jar) for jar in connector_jars())
        formats.append(OFFICIAL)
    except NotToBeHad as reason:
        lack = str(reason)
    with SparkProcess(master="local[2]", conf=conf) as spark:
        spark.run(spark_jobs.register)
        yield spark, formats, lack


def _fill(stage: Stage, node: Node, value_bytes: int, records: int) -> dict[str, str]:
    node.create_topic(PARTITIONS)
    stage.warm_pages(records * value_bytes * 3 // 2_000_000)
    written = load(
        node,
        "produce_load",
        records=BATCH_RECORDS,
        record_bytes=value_bytes,
        partitions=f"0-{PARTITIONS - 1}",
        requests=records // BATCH_RECORDS,
        acks=-1,
    )
    if written["records"] != records:
        raise BenchError(f"{records} records were to be written, {written['records']} were")
    return {"kafka.bootstrap.servers": f"127.0.0.1:{node.port}", "subscribe": "bench"}


def _read_rounds(
    stage: Stage, spark: SparkProcess, formats: list[str], options: dict[str, str], size: tuple[int, int]
) -> list[Numbers]:
    from bench import spark_jobs  # noqa: PLC0415

    for word in formats:  # two runs that do not count: the JVM compiles what it sees often
        spark.run(spark_jobs.cost_of_reading, word, options)
        found = spark.run(spark_jobs.count_rows, word, options)
        if found != size[1]:
            raise BenchError(f"{word} read {found} rows of {size[1]}")
    rounds = []
    for number in range(stage.rounds(3)):
        stage.say(f"spark source, {size[0]} B values, round {number + 1}")
        taken = {word: spark.run(spark_jobs.cost_of_reading, word, options) for word in _turn(formats, number)}
        rounds.append(_rates(taken, *size))
    return rounds


def _write_rounds(
    stage: Stage, spark: SparkProcess, node: Node, formats: list[str], size: tuple[int, int]
) -> list[Numbers]:
    from bench import spark_jobs  # noqa: PLC0415

    options = {"kafka.bootstrap.servers": f"127.0.0.1:{node.port}", "topic": "bench"}
    value_bytes, rows = size
    rounds = []
    for number in range(stage.rounds(3) + 1):
        stage.say(f"spark sink, {value_bytes} B values, round {number or 'to warm up'}")
        taken = {
            word: spark.run(spark_jobs.cost_of_writing, word, options, rows, value_bytes)
            for word in _turn(formats, number)
        }
        rounds.append(_rates(taken, value_bytes, rows))
    return rounds[1:]


def _turn(formats: list[str], number: int) -> list[str]:
    first = number % len(formats)
    return formats[first:] + formats[:first]


def _rates(costs: dict[str, Cost], value_bytes: int, rows: int) -> Numbers:
    return {
        "value_bytes": value_bytes,
        "rows": rows,
        "rows_per_s": {word: rows / cost.seconds for word, cost in costs.items()},
        "cpu_us_per_row": {word: 1e6 * cost.cpu_s / rows for word, cost in costs.items()},
    }


def _lines(what: str, rounds: Sequence[Numbers], value_bytes: int, formats: list[str], lack: str) -> list[Line]:
    size = "1 KiB" if value_bytes == 1024 else f"{value_bytes} B"
    lines = []
    for word in formats:
        rate = statistics.median(each["rows_per_s"][word] for each in rounds)
        cpu_us = statistics.median(each["cpu_us_per_row"][word] for each in rounds)
        remark = f"{rate * value_bytes / 1e6:,.0f} MB/s of values, CPU {cpu_us:.3g} us a row"
        lines.append(Line(f"Spark {what}, {size}, {NAMES[word]}", rate / 1e3, "k rows/s", remark=remark))
    if TUPLES in formats:
        gain = _gain(rounds, TUPLES)
        lines.append(Line(f"Spark {what}, {size}, over a tuple per record", gain, "x", at_least(3), "aim 5 x"))
    if OFFICIAL in formats:
        target = at_least(1) if what == "source" else None
        lines.append(Line(f"Spark {what}, {size}, over the official one", _gain(rounds, OFFICIAL), "x", target))
    else:
        lines.append(Line(f"Spark {what}, {size}, over the official one", None, "x", remark=lack))
    return lines


def _gain(rounds: Sequence[Numbers], word: str) -> float:
    """The median of the rounds' own ratios: a noisy minute hits all sides of a round."""
    return statistics.median(float(each["rows_per_s"][OURS] / each["rows_per_s"][word]) for each in rounds)

"""How much goes through, and what it costs the node."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING

from bench import programs
from bench.programs import BenchError
from bench.report import Line, Outcome, at_least, at_most
from bench.stage import BATCH_1MB, BATCH_1MB_BYTES, TOPIC, load, median_of

if TYPE_CHECKING:
    from bench.programs import Numbers
    from bench.stage import Stage

ROUND_MB = 1000  # long enough to measure, short enough that the kernel does not yet throttle the writer
WARM_MB = ROUND_MB * 3 // 2
IN_FLIGHT = 5  # what Kafka clients allow themselves by default
TINY = {"connections": 16, "partitions": "0-3", "in_flight": 100, "records": 1, "record_bytes": 100}


def generator(stage: Stage) -> Outcome:
    """What `produce_load` reaches when the other side costs next to nothing."""
    outcome = Outcome()
    with programs.running("instant_ack") as server:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]

        def against_nothing(**options: object) -> Numbers:
            numbers = programs.run("produce_load", port=port, topic=TOPIC, **options)
            outcome.rounds.append({"options": options, **numbers})
            return numbers

        for _ in range(stage.rounds(3)):
            against_nothing(**BATCH_1MB, in_flight=IN_FLIGHT, megabytes=3000)
            against_nothing(**TINY, seconds=stage.seconds(1))
            against_nothing(rate=1000, in_flight=100, seconds=stage.seconds(2))
    large, tiny, paced = (outcome.rounds[first::3] for first in range(3))
    outcome.lines = [
        Line("generator alone, 1 MB batches", median_of(large, "mb_per_s"), "MB/s"),
        Line("generator alone, tiny requests", median_of(tiny, "requests_per_s") / 1e3, "k/s"),
        Line("generator alone, ack p50 at 1 k msg/s", median_of(paced, "p50_us") / 1e3, "ms"),
        Line("generator alone, ack p99 at 1 k msg/s", median_of(paced, "p99_us") / 1e3, "ms"),
    ]
    return outcome


def produce(stage: Stage) -> Outcome:
    """Rotated: the C loop, the node, and again. Each turn has a fresh file and pages that were just used."""
    outcome = Outcome()
    for number in range(stage.rounds(5)):
        stage.say(f"produce, round {number + 1}")
        taken = {}
        for connections in (1, 4):
            taken[f"c_loop_{connections}"] = _receive_1mb(stage, connections)
            taken[f"node_{connections}"] = _produce_1mb(stage, connections)
        outcome.rounds.append(taken)
    for connections in (1, 4):
        c_loop, node = ([each[f"{who}_{connections}"] for each in outcome.rounds] for who in ("c_loop", "node"))
        outcome.lines += _produce_lines(f"{connections} connection{'s' if connections > 1 else ''}", c_loop, node)
    return outcome


def _produce_lines(how: str, c_loop: list[Numbers], node: list[Numbers]) -> list[Line]:
    # The median of the rounds' own ratios: a noisy minute hits both sides of a round.
    pairs = list(zip(node, c_loop, strict=True))
    share = statistics.median(float(ours["mb_per_s"] / limit["mb_per_s"]) for ours, limit in pairs)
    cost = statistics.median(float(ours["node_cpu_s_per_gb"] / limit["cpu_s_per_gb"]) for ours, limit in pairs)
    c_cost = median_of(c_loop, "cpu_s_per_gb")
    return [
        Line(f"C loop, {how}", median_of(c_loop, "mb_per_s"), "MB/s", remark=f"CPU {c_cost:.2f} s/GB"),
        Line(f"produce 1 MB, {how}", median_of(node, "mb_per_s"), "MB/s"),
        Line(f"produce 1 MB, {how}, share of the C loop", 100 * share, "%", at_least(70), "aim 90 %"),
        Line(
            f"produce 1 MB, {how}, CPU",
            median_of(node, "node_cpu_s_per_gb"),
            "s/GB",
            at_most(0.6),
            f"{cost:.2f} x the C loop's",
        ),
        Line(f"produce 1 MB, {how}, memory at its peak", max(each["peak_mb"] for each in node), "MB"),
    ]


def _receive_1mb(stage: Stage, connections: int) -> Numbers:
    stage.warm_pages(WARM_MB)
    file = stage.workspace / "limit"
    return programs.run(
        "limit", "receive", file=file, megabytes=ROUND_MB, chunk_bytes=BATCH_1MB_BYTES, connections=connections
    )


def _produce_1mb(stage: Stage, connections: int) -> Numbers:
    options = {**BATCH_1MB, "connections": connections, "partitions": f"0-{connections - 1}", "in_flight": IN_FLIGHT}
    with stage.node() as node:
        node.create_topic(connections)
        load(node, "produce_load", **options, megabytes=50)  # first requests: buffers grow, code paths warm
        stage.warm_pages(WARM_MB)
        numbers = load(node, "produce_load", **options, megabytes=ROUND_MB)
        return {**numbers, "peak_mb": round(node.resident_mb(peak=True), 1)}


def fetch(stage: Stage) -> Outcome:
    """One node, loaded once; then the C loop and the drains take turns. Everything is in the page cache."""
    outcome = Outcome()
    partitions = {"partitions": "0-3"}
    with stage.node() as node:
        node.create_topic(4)
        stage.warm_pages(WARM_MB)
        # acks=all: every byte is below the high watermark before the first drain begins.
        sent = load(
            node, "produce_load", **BATCH_1MB, **partitions, connections=4, in_flight=1, megabytes=ROUND_MB, acks=-1
        )
        for number in range(stage.rounds(5)):
            stage.say(f"fetch, round {number + 1}")
            limit = programs.run(
                "limit",
                "sendfile",
                file=stage.workspace / "limit",
                megabytes=ROUND_MB,
                chunk_bytes=BATCH_1MB_BYTES,
            )
            one = load(node, "fetch_load", **partitions, connections=1)
            four = load(node, "fetch_load", **partitions, connections=4)
            for drained in (one, four):
                if drained["records"] != sent["records"]:
                    raise BenchError(f"{sent['records']} records were acknowledged, {drained['records']} came back")
            outcome.rounds.append({"c_loop": limit, "one": one, "four": four})

    c_loop, one_connection, four_connections = (
        [each[who] for each in outcome.rounds] for who in ("c_loop", "one", "four")
    )
    c_cost = median_of(c_loop, "cpu_s_per_gb")
    outcome.lines = [
        Line("C loop, sendfile", median_of(c_loop, "mb_per_s"), "MB/s", remark=f"CPU {c_cost:.2f} s/GB"),
        Line("fetch, 1 connection", median_of(one_connection, "mb_per_s"), "MB/s"),
        Line("fetch, 1 connection, CPU", median_of(one_connection, "node_cpu_s_per_gb"), "s/GB", at_most(0.35)),
        Line("fetch, 4 connections", median_of(four_connections, "mb_per_s"), "MB/s"),
        Line("fetch, 4 connections, CPU", median_of(four_connections, "node_cpu_s_per_gb"), "s/GB", at_most(0.35)),
    ]
    return outcome


def tiny(stage: Stage) -> Outcome:
    outcome = Outcome()
    with stage.node() as node:
        node.create_topic(4)
        load(node, "produce_load", **TINY, seconds=0.5)
        for number in range(stage.rounds(5)):
            stage.say(f"tiny requests, round {number + 1}")
            numbers = load(node, "produce_load", **TINY, seconds=stage.seconds(2))
            outcome.rounds.append({**numbers, "node_cpu_us": 1e6 * numbers["node_cpu_s"] / numbers["requests"]})
    outcome.lines = [
        Line(
            "tiny requests, 16 connections",
            median_of(outcome.rounds, "requests_per_s") / 1e3,
            "k/s",
            at_least(100),
        ),
        Line("tiny requests, CPU per request", median_of(outcome.rounds, "node_cpu_us"), "us"),
    ]
    return outcome


def batching(stage: Stage) -> Outcome:
    """The same records over one connection: one by one, pipelined one per request, and a thousand per request."""
    ways = {
        "one by one": {"records": 1, "in_flight": 1},
        "one per request, pipelined": {"records": 1, "in_flight": IN_FLIGHT},
        "1,000 per request": {"records": 1000, "in_flight": IN_FLIGHT, "megabytes": ROUND_MB},
    }
    outcome = Outcome()
    with stage.node() as node:
        node.create_topic(1)
        stage.warm_pages(ROUND_MB)
        for number in range(stage.rounds(3)):
            stage.say(f"batching, round {number + 1}")
            taken: dict[str, Numbers] = {}
            for way, options in ways.items():
                numbers = load(node, "produce_load", record_bytes=100, seconds=stage.seconds(2), **options)
                numbers["records_per_s"] = numbers["records"] / numbers["seconds"]
                numbers["node_cpu_us_per_record"] = 1e6 * numbers["node_cpu_s"] / numbers["records"]
                taken[way] = numbers
            outcome.rounds.append(taken)

    def middle(way: str, key: str) -> float:
        return median_of([each[way] for each in outcome.rounds], key)

    for way in ways:
        rate, cost_us = middle(way, "records_per_s"), middle(way, "node_cpu_us_per_record")
        outcome.lines.append(Line(f"100 B records, {way}", rate / 1e3, "k/s", remark=f"CPU {cost_us:.3g} us each"))
    batched = middle("1,000 per request", "records_per_s")
    outcome.lines.append(
        Line("gain of batching over single sends", batched / middle("one by one", "records_per_s"), "x")
    )
    return outcome

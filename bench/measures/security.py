"""What it costs to be safe: TLS and a login beside plain connections, and access rules beside none."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from bench.measures import clients
from bench.measures.clients import MESSAGE, MESSAGES, PARTITIONS, QUIET
from bench.measures.throughput import TINY
from bench.node import Node, free_ports
from bench.programs import BenchError
from bench.report import Line, Outcome, at_most
from bench.stage import TOPIC, load, median_of

if TYPE_CHECKING:
    from pathlib import Path

    from bench.programs import Numbers
    from bench.stage import Stage

RULES: Final = 1000
PACE_S: Final = 0.001
WAYS: Final = ("plain", "TLS")


def security(stage: Stage) -> Outcome:
    made = stage.workspace / "security"
    _run("security", "init", "--dir", str(made))
    outcome = Outcome()
    outcome.lines = [*_tls(stage, made, outcome), *_rules(stage, made, outcome)]
    return outcome


# ---- TLS and a login


def _tls(stage: Stage, made: Path, outcome: Outcome) -> list[Line]:
    (port,) = free_ports(1)
    rounds: list[dict[str, dict[str, Numbers]]] = []
    for number in range(stage.rounds(4)):
        stage.say(f"TLS and SCRAM beside plain, round {number + 1}")
        everybody = ("-X", "super.users=User:admin;User:ANONYMOUS")
        with stage.node(options=[*_secured(made, port), *everybody]) as node:
            node.create_topic(PARTITIONS)
            settings = {
                "plain": {"bootstrap.servers": f"127.0.0.1:{node.port}"},
                "TLS": {**_client(made), "bootstrap.servers": f"127.0.0.1:{port}"},
            }
            stage.warm_pages(MESSAGES * len(MESSAGE) * 6 // 2_000_000)
            order = WAYS if number % 2 else WAYS[::-1]
            rounds.append({way: _measured(stage, node, settings[way]) for way in order})
    outcome.rounds += rounds

    def middle(way: str, what: str, key: str) -> float:
        return median_of([each[way][what] for each in rounds], key)

    lines = []
    for what in ("produce", "consume"):
        for way in WAYS:
            cost = middle(way, what, "node_cpu_s_per_gb")
            remark = f"{middle(way, what, 'mb_per_s'):.0f} MB/s, bound by the client"
            lines.append(Line(f"librdkafka {what}, {way}, CPU of the node", cost, "s/GB", remark=remark))
    for way in WAYS:
        remark = f"p50 {middle(way, 'ack', 'p50_ms'):.3g} ms"
        lines.append(Line(f"librdkafka ack p99 at 1 k msg/s, {way}", middle(way, "ack", "p99_ms"), "ms", remark=remark))
    return lines


def _measured(stage: Stage, node: Node, settings: dict[str, str]) -> dict[str, Numbers]:
    return {
        "produce": clients.timed(node, clients.produce, settings),
        "consume": clients.timed(node, clients.consume, settings),
        "ack": _paced(settings, stage.seconds(5)),
    }


def _paced(settings: dict[str, str], seconds: float) -> Numbers:
    """Sent each millisecond, however long the last one takes; timed from when it was to be sent."""
    from confluent_kafka import Producer  # noqa: PLC0415 - the other measures do without it

    producer = Producer({**settings, "linger.ms": 0, "acks": 1, **QUIET})
    took_s: list[float] = []
    begin_s = time.monotonic() + 1.0  # connected by then
    producer.produce(TOPIC, MESSAGE[:100], partition=0)
    producer.flush(10)
    for number in range(round(seconds / PACE_S)):
        due_s = begin_s + number * PACE_S
        while (left_s := due_s - time.monotonic()) > 0:
            producer.poll(left_s)

        def delivered(error: object, _: Any, due_s: float = due_s) -> None:
            took_s.append(float("inf") if error is not None else time.monotonic() - due_s)

        producer.produce(TOPIC, MESSAGE[:100], partition=0, on_delivery=delivered)
    producer.flush(30)
    cuts = statistics.quantiles(took_s, n=100)
    return {"p50_ms": 1e3 * cuts[49], "p99_ms": 1e3 * cuts[98]}


# ---- access rules


def _rules(stage: Stage, made: Path, outcome: Outcome) -> list[Line]:
    (port,) = free_ports(1)
    pairs: list[dict[str, float]] = []
    with ExitStack() as stack:
        nodes = {
            "none": stack.enter_context(stage.node()),
            "rules": stack.enter_context(stage.node(options=_secured(made, port))),
        }
        topics = [part for number in range(RULES - 1) for part in ("--topic", f"orders-{number}")]
        admin = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(made / "admin.properties"))
        _run("acls", "add", "--principal", "User:somebody", "--allow", "write", *topics, *admin)
        _run("topics", "create", "--name", TOPIC, "--partitions", "4", *admin)
        _run("acls", "add", "--principal", "User:ANONYMOUS", "--allow", "write", "--topic", TOPIC, *admin)
        nodes["none"].create_topic(4)
        for node in nodes.values():
            load(node, "produce_load", **TINY, seconds=0.5)
        for number in range(stage.rounds(20)):
            order = list(nodes) if number % 2 else list(nodes)[::-1]
            pairs.append({who: _tiny_us(nodes[who], stage.seconds(1)) for who in order})
    outcome.rounds += pairs
    cost = statistics.median(pair["rules"] / pair["none"] for pair in pairs)
    both = ", ".join(f"{who} {median_of(pairs, who):.2f} us" for who in ("none", "rules"))
    return [Line(f"tiny requests, CPU with {RULES:,} access rules", cost, "x", at_most(1.03), both)]


def _tiny_us(node: Node, seconds: float) -> float:
    numbers = load(node, "produce_load", **TINY, seconds=seconds)
    return 1e6 * float(numbers["node_cpu_s"]) / float(numbers["requests"])


# ---- both


def _secured(made: Path, port: int) -> list[str]:
    """As `security init` has it, with a plain listener, where everybody is anonymous, beside it: that is the one that
    the node is told of by `--listen`."""
    protocols = "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:SSL"
    return [
        *("--config", str(made / "node.toml")),
        *("-X", f"listeners=PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:{port}"),
        *("-X", f"listener.security.protocol.map={protocols}"),
    ]


def _client(made: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in (made / "admin.properties").read_text().splitlines() if line[:1] != "#")
    return {name: value for name, _, value in lines if name}


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *arguments], capture_output=True, text=True, env=os.environ, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"headrace {' '.join(arguments[:2])}: {done.stderr}")

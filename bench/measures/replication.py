"""What it costs to have everything three times: time, CPU, and the moment without a leader."""

from __future__ import annotations

import json
import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench import wire
from bench.cluster import Cluster
from bench.measures.latency import PACE, STALL_MS_MAX
from bench.programs import BenchError, finish, running
from bench.report import Line, Outcome, at_most
from bench.stage import TOPIC, load, median_of

if TYPE_CHECKING:
    from bench.cluster import ClusterNode
    from bench.stage import Stage


SEED_BREAKDOWN_MS = {"network": 4, "append": 1, "flush": None, "replicate": 5, "answer": 0}
"""Of seed 004: 2 ms there and 2 ms back, 1 ms to append, 5 ms to replicate, nothing to commit."""
BATCH_1MB = {"records": 1000, "record_bytes": 1024}
PARTITIONS, TOPICS = 4000, 4
IDLE_S = 10.0
SETTLE_S = 5.0
FAILOVERS = 10
TRY_EVERY_S = 0.002
WRITABLE_S_MAX = 60.0


def acks(stage: Stage) -> Outcome:
    outcome = Outcome()
    with Cluster(stage.workspace) as cluster:
        cluster.create_topic()
        leader = cluster.leader()
        load(leader, "produce_load", **PACE, acks=-1, seconds=0.5)
        for number in range(stage.rounds(3)):
            stage.say(f"acks=all on three nodes at 1 k msg/s, round {number + 1}")
            cpu_before_s = cluster.cpu_s()
            taken = load(leader, "produce_load", **PACE, acks=-1, seconds=stage.seconds(5))
            outcome.rounds.append({"paced": taken, "cluster_cpu_s": cluster.cpu_s() - cpu_before_s})
    paced = [each["paced"] for each in outcome.rounds]
    requests = sum(int(each["requests"]) for each in paced)
    cpu_us = 1e6 * sum(each["cluster_cpu_s"] for each in outcome.rounds) / requests
    outcome.lines = [
        Line("three nodes, ack p50 at 1 k msg/s, acks=all", median_of(paced, "p50_us") / 1e3, "ms"),
        Line("three nodes, ack p99 at 1 k msg/s, acks=all", median_of(paced, "p99_us") / 1e3, "ms", at_most(20)),
        Line("three nodes, CPU per message at 1 k msg/s", cpu_us, "µs"),
        *_breakdown(stage, outcome),
    ]
    return outcome


def _breakdown(stage: Stage, outcome: Outcome) -> list[Line]:
    """Where the time goes, on nodes that take it. Network is what is left of the time that the client saw."""
    stage.say("acks=all on three nodes, by stage")
    with Cluster(stage.workspace, program="bench.timed_node") as cluster:
        cluster.create_topic()
        leader = cluster.leader()
        taken = load(leader, "produce_load", **PACE, acks=-1, seconds=stage.seconds(5))
        cluster.ask_to_stop()
        stages = _timings(leader)
    inside_us = {name: statistics.median(seen) for name, seen in stages.items()}
    network_us = float(taken["p50_us"]) - sum(inside_us.values())
    outcome.rounds.append({"timed": taken, "stages_p50_us": {"network": network_us, **inside_us}})
    return [
        Line(f"  of it: {name}, p50", us / 1e3, "ms", remark=_seed(name))
        for name, us in {"network": network_us, **inside_us}.items()
    ]


def _timings(node: ClusterNode) -> dict[str, list[float]]:
    deadline = time.monotonic() + WRITABLE_S_MAX
    while node.is_alive() or not node.timings.exists():
        if time.monotonic() > deadline:
            raise BenchError("the timed node did not stop, or wrote no timings")
        time.sleep(0.05)
    timings: dict[str, list[float]] = json.loads(node.timings.read_text())
    return timings


def _seed(stage: str) -> str:
    seed_ms = SEED_BREAKDOWN_MS[stage]
    return "seed: not waited for" if seed_ms is None else f"seed: {seed_ms} ms"


def throughput(stage: Stage) -> Outcome:
    """One producer at each node, which leads one partition and follows the other two."""
    outcome = Outcome()
    with Cluster(stage.workspace) as cluster:
        cluster.create_topic(partitions=3)
        _produce_everywhere(cluster, megabytes=20)
        for number in range(stage.rounds(3)):
            stage.say(f"throughput of three nodes, round {number + 1}")
            stage.warm_pages(1500)
            cpu_before_s, start_s = cluster.cpu_s(), time.monotonic()
            megabytes = _produce_everywhere(cluster, megabytes=int(stage.seconds(200)))
            seconds = time.monotonic() - start_s
            cpu_s_per_gb = (cluster.cpu_s() - cpu_before_s) / (megabytes / 1e3)
            outcome.rounds.append({"mb_per_s": megabytes / seconds, "cluster_cpu_s_per_gb": cpu_s_per_gb})
        outcome.rounds.append({"loop_lag_s": cluster.longest_lag_s()})
    *rounds, lag = outcome.rounds
    outcome.lines = [
        Line("three nodes, acks=all, 1 KiB messages", median_of(rounds, "mb_per_s"), "MB/s"),
        Line("three nodes, CPU of all, each byte kept thrice", median_of(rounds, "cluster_cpu_s_per_gb"), "s/GB"),
        Line("three nodes, longest stall of a loop", 1e3 * lag["loop_lag_s"], "ms", at_most(STALL_MS_MAX)),
    ]
    return outcome


def _produce_everywhere(cluster: Cluster, megabytes: int) -> float:
    with ExitStack() as producers:
        started = [
            producers.enter_context(
                running(
                    "produce_load",
                    **BATCH_1MB,
                    port=cluster.nodes[state.leader].port,
                    topic=TOPIC,
                    partitions=index,
                    in_flight=5,
                    acks=-1,
                    megabytes=megabytes,
                )
            )
            for index, state in enumerate(cluster.wait_settled())
        ]
        return sum(float(finish(each)["megabytes"]) for each in started)


def idle(stage: Stage) -> Outcome:
    outcome = Outcome()
    with Cluster(stage.workspace) as cluster:
        time.sleep(SETTLE_S)
        empty = _cpu_share(cluster, stage.seconds(IDLE_S))
        stage.say(f"creating {PARTITIONS:,} partitions with three replicas")
        cpu_before_s, start_s = cluster.cpu_s(), time.monotonic()
        for number in range(TOPICS):
            cluster.create_topic(PARTITIONS // TOPICS, f"idle-{number}")
        created = {"created_s": time.monotonic() - start_s, "created_cpu_s": cluster.cpu_s() - cpu_before_s}
        lag_s = cluster.longest_lag_s()
        time.sleep(SETTLE_S)
        share = _cpu_share(cluster, stage.seconds(IDLE_S))
        rss_mb = max(node.resident_mb() for node in cluster.nodes.values())
        outcome.rounds.append({"empty": empty, "share": share, "loop_lag_s": lag_s, "rss_mb": rss_mb, **created})
    (taken,) = outcome.rounds
    many = f"{PARTITIONS:,} partitions × 3"
    outcome.lines = [
        Line("three idle nodes, CPU of all, no topic", 100 * taken["empty"], "%"),
        Line(f"three idle nodes, CPU of all, {many}", 100 * taken["share"], "%"),
        Line(f"creating {many}", taken["created_s"], "s", remark=f"{taken['created_cpu_s']:.1f} s of CPU, all nodes"),
        Line(f"creating {many}, longest stall of a loop", 1e3 * taken["loop_lag_s"], "ms"),
        Line(f"memory of a node with {many} (RSS)", taken["rss_mb"], "MB"),
    ]
    return outcome


def _cpu_share(cluster: Cluster, seconds: float) -> float:
    before_s = cluster.cpu_s()
    time.sleep(seconds)
    return (cluster.cpu_s() - before_s) / seconds


def failover(stage: Stage) -> Outcome:
    """SIGKILL, then attempts at the other two nodes until one acknowledges with acks=all."""
    outcome = Outcome()
    with Cluster(stage.workspace) as cluster:
        cluster.create_topic()
        for number in range(stage.rounds(FAILOVERS)):
            stage.say(f"failover, round {number + 1}")
            leader = cluster.leader()
            leader.kill()
            killed_s = time.monotonic()
            others = [node for node in cluster.nodes.values() if node is not leader]
            _write_somewhere(others, deadline_s=killed_s + WRITABLE_S_MAX)
            outcome.rounds.append({"writable_s": time.monotonic() - killed_s})
            leader.start()
            leader.wait_ready()
    times_s = [each["writable_s"] for each in outcome.rounds]
    outcome.lines = [
        Line("writable again after SIGKILL of the leader, p50", statistics.median(times_s), "s", at_most(1)),
        Line("writable again after SIGKILL of the leader, max", max(times_s), "s", at_most(3)),
    ]
    return outcome


def _write_somewhere(nodes: list[ClusterNode], deadline_s: float) -> None:
    while time.monotonic() < deadline_s:
        for node in nodes:
            try:
                with node.connect() as connection:
                    wire.produce_one(connection, TOPIC, b"still there")
            except BenchError:
                time.sleep(TRY_EVERY_S)
            else:
                return
    raise BenchError(f"nobody took a write within {WRITABLE_S_MAX} s")

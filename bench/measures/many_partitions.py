"""A cluster with very many partitions: what each step costs that concerns all of them, above all the loss of a node."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench import wire
from bench.cluster import SAFE, Cluster
from bench.programs import BenchError
from bench.report import Line, Outcome, at_most

if TYPE_CHECKING:
    from socket import socket

    from bench.cluster import ClusterNode
    from bench.programs import Numbers
    from bench.stage import Stage

PARTITIONS, TOPICS = 20_000, 20
QUICK_PARTITIONS = 4_000
CREATED_S_MAX = 60.0
RETRY_S = 0.5
RESTART_S_MAX = 300.0
WRITABLE_S_MAX = 60.0
AFTERMATH_S = 5.0  # the last slices, and the first look at all in-sync sets, come after the first write
TRY_EVERY_S = 0.01


def many_partitions(stage: Stage) -> Outcome:
    outcome = Outcome()
    partitions = QUICK_PARTITIONS if stage.quick else PARTITIONS
    with Cluster(stage.workspace, program="bench.turning_node") as cluster:
        outcome.rounds.append(_created(stage, cluster, partitions))
        victim = cluster.nodes[1]
        outcome.rounds.append(_killed(stage, cluster, victim))
        outcome.rounds.append(_restarted(stage, cluster, victim))
    created, killed, restarted = outcome.rounds
    many = f"{partitions:,} × 3"
    cpu = f"{created['cpu_s']:.1f} s of CPU, all nodes"
    outcome.lines = [
        Line(f"{many}: creating them", created["seconds"], "s", remark=cpu),
        Line(f"{many}: creating them, longest turn", created["turn_cpu_ms"], "ms", remark=_wall(created)),
        Line(f"{many}: a node killed, longest turn", killed["turn_cpu_ms"], "ms", at_most(50), remark=_wall(killed)),
        Line(
            f"{many}: a node killed, writable again",
            killed["writable_s"],
            "s",
            at_most(3),
            remark=f"{killed['cpu_s']:.1f} s of CPU on the busier survivor",
        ),
        Line(f"{many}: it starts again, ready", restarted["ready_s"], "s"),
        Line(f"{many}: it starts again, all in sync", restarted["in_sync_s"], "s"),
        Line(f"{many}: it starts again, longest turn", restarted["turn_cpu_ms"], "ms", remark=_wall(restarted)),
    ]
    return outcome


def _created(stage: Stage, cluster: Cluster, partitions: int) -> Numbers:
    stage.say(f"creating {partitions:,} partitions with three replicas")
    cpu_before_s, start_s = cluster.cpu_s(), time.monotonic()
    for number in range(TOPICS):
        _create(cluster, _topic(number), partitions // TOPICS)
    _wait_settled(cluster)
    taken = {"seconds": time.monotonic() - start_s, "cpu_s": cluster.cpu_s() - cpu_before_s}
    return {**taken, **_longest(list(cluster.nodes.values()), start_s)}


def _create(cluster: Cluster, topic: str, partitions: int) -> None:
    """On a busy machine there may be no controller for a moment."""
    deadline_s = time.monotonic() + CREATED_S_MAX
    while True:
        try:
            with cluster.any_node().connect() as connection:
                wire.create_topic(connection, topic, partitions, replicas=3, configs=SAFE)
        except BenchError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(RETRY_S)
            with cluster.any_node().connect() as connection:
                if wire.partitions_of(connection, topic):
                    return  # it was created after all
        else:
            return


def _killed(stage: Stage, cluster: Cluster, victim: ClusterNode) -> Numbers:
    """A partition of each topic that it led is written to, until all have taken a record."""
    with cluster.any_node().connect() as connection:
        led = {_topic(number): _first_led_by(victim, connection, _topic(number)) for number in range(TOPICS)}
    stage.say("killing a node")
    victim.kill()
    others = [node for node in cluster.nodes.values() if node is not victim]
    killed_s, cpu_before_s = time.monotonic(), [node.cpu_s() for node in others]
    for topic, partition in led.items():
        _write_somewhere(others, topic, partition, deadline_s=killed_s + WRITABLE_S_MAX)
    writable_s = time.monotonic() - killed_s
    cpu_s = max(node.cpu_s() - before_s for node, before_s in zip(others, cpu_before_s, strict=True))
    time.sleep(AFTERMATH_S)
    return {"writable_s": writable_s, "cpu_s": cpu_s, **_longest(others, killed_s)}


def _restarted(stage: Stage, cluster: Cluster, victim: ClusterNode) -> Numbers:
    stage.say("starting it again")
    start_s = time.monotonic()
    victim.start()
    victim.wait_ready(RESTART_S_MAX)
    ready_s = time.monotonic() - start_s
    _wait_settled(cluster)
    in_sync_s = time.monotonic() - start_s
    return {"ready_s": ready_s, "in_sync_s": in_sync_s, **_longest(list(cluster.nodes.values()), start_s)}


def _wait_settled(cluster: Cluster) -> None:
    for number in range(TOPICS):
        cluster.wait_settled(_topic(number))


def _longest(nodes: list[ClusterNode], since_s: float) -> Numbers:
    """By CPU time, which other programs on the machine do not lengthen; and where that turn was spent."""
    turns = [turn for node in nodes for turn in node.long_turns(since_s)]
    longest: Numbers = max(
        turns, key=lambda turn: float(turn["cpu_s"]), default={"cpu_s": 0.0, "wall_s": 0.0, "at": []}
    )
    return {"turn_cpu_ms": 1e3 * longest["cpu_s"], "turn_wall_ms": 1e3 * longest["wall_s"], "turn_at": longest["at"]}


def _wall(taken: Numbers) -> str:
    return f"of CPU; {taken['turn_wall_ms']:.0f} ms on the wall"


def _first_led_by(node: ClusterNode, connection: socket, topic: str) -> int:
    states = wire.partitions_of(connection, topic)
    return next(index for index, state in enumerate(states) if state.leader == node.node_id)


def _write_somewhere(nodes: list[ClusterNode], topic: str, partition: int, deadline_s: float) -> None:
    while time.monotonic() < deadline_s:
        for node in nodes:
            try:
                with node.connect() as connection:
                    wire.produce_one(connection, topic, b"still there", partition)
            except BenchError:
                time.sleep(TRY_EVERY_S)
            else:
                return
    raise BenchError(f"nobody took a write to {topic} within {WRITABLE_S_MAX} s")


def _topic(number: int) -> str:
    return f"many-{number:02}"

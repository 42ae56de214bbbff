"""Three nodes on this machine, each a process of its own, and topics with a replica on each of them."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from bench import wire
from bench.node import Node, free_ports, longest_lag_s
from bench.programs import BenchError
from bench.stage import TOPIC

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from bench.programs import Numbers
    from bench.wire import PartitionState

NODE_IDS = (1, 2, 3)
SAFE = {"min.insync.replicas": "2"}
SETTLED_S_MAX = 120.0
LOOK_S = 0.05


class ClusterNode(Node):
    def __init__(self, workspace: Path, node_id: int, voters: str, program: str) -> None:
        super().__init__(workspace, cold=True)
        self.node_id = node_id
        self.timings = self.home / "timings.json"
        self.turns = self.home / "turns.jsonl"
        self._voters = voters
        self._program = program

    def command(self) -> list[str]:
        python, _, _, *rest = super().command()
        return [python, "-m", self._program, *rest, "--node-id", str(self.node_id), "--voters", self._voters]

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "BENCH_TIMINGS": str(self.timings), "BENCH_TURNS": str(self.turns)}

    def long_turns(self, since_s: float) -> list[Numbers]:
        """Of a node that runs `bench.turning_node`: those that began since then, on the steady clock."""
        lines = self.turns.read_text().splitlines() if self.turns.exists() else []
        whole = [json.loads(line) for line in lines if line.endswith("}")]
        return [turn for turn in whole if turn["at_s"] >= since_s]


class Cluster:
    """`with Cluster(workspace) as cluster:` starts it and waits until it is ready. `program` may be a node that
    measures itself: `bench.timed_node`, `bench.turning_node`."""

    def __init__(self, workspace: Path, *, program: str = "headrace") -> None:
        ports = dict(zip(NODE_IDS, free_ports(len(NODE_IDS)), strict=True))
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())
        self.nodes = {it: ClusterNode(workspace, it, voters, program) for it in NODE_IDS}
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            for node in self.nodes.values():
                starting.enter_context(node)
            for node in self.nodes.values():  # a majority is needed before any is
                node.wait_ready()
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ask_to_stop()
        self._running.close()

    def ask_to_stop(self) -> None:
        for node in self.nodes.values():
            node.ask_to_stop()

    # ---- topics

    def create_topic(self, partitions: int = 1, topic: str = TOPIC, *, replicas: int = len(NODE_IDS)) -> None:
        with self.any_node().connect() as connection:
            wire.create_topic(connection, topic, partitions, replicas=replicas, configs=SAFE if replicas > 1 else None)
        self.wait_settled(topic, replicas)

    def wait_settled(self, topic: str = TOPIC, replicas: int = len(NODE_IDS)) -> list[PartitionState]:
        """Until every partition is led, and all of its replicas are in sync."""
        deadline = time.monotonic() + SETTLED_S_MAX
        with self.any_node().connect() as connection:
            while time.monotonic() < deadline:
                partitions = wire.partitions_of(connection, topic)
                if all(it.leader >= 0 and it.in_sync == replicas for it in partitions):
                    return partitions
                time.sleep(LOOK_S)
        raise BenchError(f"after {SETTLED_S_MAX} s not all replicas of {topic} are in sync")

    def any_node(self) -> ClusterNode:
        return next(node for node in self.nodes.values() if node.is_alive())

    def leader(self, partition: int = 0, topic: str = TOPIC) -> ClusterNode:
        return self.nodes[self.wait_settled(topic)[partition].leader]

    # ---- costs

    def cpu_s(self) -> float:
        return sum(node.cpu_s() for node in self.nodes.values())

    def longest_lag_s(self) -> float:
        """Of any node's event loop, since they started."""
        return max(longest_lag_s("", node.metrics()) or 0.0 for node in self.nodes.values())

"""A busy cluster of three nodes, its clients, and the final check: what all fault campaigns on clusters have in common.

A fault is a context manager: it strikes on entering and is over on leaving. It hands over the moment from which on the
cluster should serve again; how long that takes is measured inside.
"""

from __future__ import annotations

import math
import random
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from tests.faults.campaigns import listed, noted
from tests.faults.committing_group import CommittingGroup
from tests.faults.history import ACKS_ALL, ACKS_LEADER, Figures, History, Outcome, check
from tests.faults.load import HeadraceLoad, LibrdkafkaLoad, SendingClient, Watcher, create_topics, wait_for_acks
from tests.faults.log_readers import partition_directories, read_as_client, read_files
from tests.faults.node_clusters import NodeCluster, Site
from tests.faults.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.faults.history import Partition, Reading
    from tests.faults.load import Client
    from tests.faults.node_process import NodeProcess

    Fault = Callable[["ClusterCampaign"], AbstractContextManager[float]]

NODE_COUNT: Final = 3
NODE_CONFIGS: Final = {"group.initial.rebalance.delay.ms": "0"}
TOPICS: Final = {
    "steady": (6, {"min.insync.replicas": "2", "segment.bytes": str(1 << 20)}),  # small, so that logs roll often
}
PAUSE_S: Final = 0.05  # a load that two cores can carry besides three nodes
ANSWER_MS: Final = 2000
"""How long clients wait for a node that does not answer, before they ask who leads now. With the minutes that are the
default they would sit out every fault that leaves a connection open."""
BETWEEN_FAULTS_S: Final = 1.0  # at most


class ClusterCampaign:
    """Use it with `with`: it starts the nodes and the load, and ends whatever still runs."""

    def __init__(self, home: Path, sites: Sequence[Site] | None = None, seed: int = 1) -> None:
        self.chance = random.Random(seed)
        self.outages_s: dict[str, list[float]] = {}
        """By fault: how long it took each time until every partition was writable again."""
        self.history = History(has_failovers=True)
        self.cluster = NodeCluster(
            home, sites or [Site(home / f"node-{number}") for number in range(1, NODE_COUNT + 1)], NODE_CONFIGS
        )
        self._seed = seed
        self._ending = ExitStack()

    def __enter__(self) -> ClusterCampaign:
        with ExitStack() as starting:
            starting.enter_context(self.cluster)
            bootstrap = self.cluster.start().bootstrap
            self.partitions = create_topics(bootstrap, TOPICS, NODE_COUNT)
            self.cluster.wait_in_sync(self.partitions)
            self._enlist(bootstrap)
            starting.callback(self._halt)
            for client in self.clients:
                client.start()
            wait_for_acks(self.clients, 10)
            self.group.wait_for_commits(1)
            self._ending = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def _enlist(self, bootstrap: str) -> None:
        where = (bootstrap, self.history, self.partitions)
        quick = {"socket.timeout.ms": ANSWER_MS}
        plain = {**quick, "enable.idempotence": False, "acks": "all", "max.in.flight": 1}
        pace = {"pause_s": PAUSE_S, "seed": self._seed}
        self.durable: list[SendingClient] = [
            LibrdkafkaLoad("idempotent", *where, settings=quick, **pace),
            HeadraceLoad("headrace", *where, request_timeout_s=ANSWER_MS / 1000, **pace),
            LibrdkafkaLoad("plain", *where, promise=ACKS_ALL._replace(keeps_order=False), settings=plain, **pace),
        ]
        self.probe = Probe("probe", *where, answer_ms=ANSWER_MS)
        self.group = CommittingGroup("group", bootstrap, self.history, sorted(TOPICS), self.partitions)
        self.clients: list[Client] = [
            *self.durable,
            LibrdkafkaLoad(
                "leader-acks", *where, promise=ACKS_LEADER._replace(keeps_order=False), settings=quick, **pace
            ),
            self.probe,
            Watcher("watcher", bootstrap, self.history, self.partitions),
            *self.group.members,
        ]

    def _halt(self) -> None:
        for client in self.clients:
            client.stopping.set()

    # ---- whom a fault may befall

    def any_leader(self) -> NodeProcess:
        """Of a partition that is chosen by chance."""
        return self.cluster.nodes[self.cluster.leader_id(self.chance.choice(self.partitions))]

    def controller(self) -> NodeProcess:
        return self.cluster.nodes[self.cluster.controller_id()]

    def all_but(self, node: NodeProcess) -> list[NodeProcess]:
        return [other for other in self.cluster.nodes.values() if other is not node]

    # ---- what happens

    def suffer(self, name: str, fault: Fault, rounds: int = 1) -> None:
        """Let a fault strike under load, see the cluster serve again, and return to health, again and again."""
        for _ in range(rounds):
            time.sleep(self.chance.uniform(0.0, BETWEEN_FAULTS_S))
            self.cluster.wait_in_sync(self.partitions)  # on a busy machine a node may be missed for a moment
            with fault(self) as began_s:
                outage_s = self.probe.wait_writable(began_s)
            self.outages_s.setdefault(name, []).append(outage_s)
            print(f"{time.strftime('%H:%M:%S')} {name}: writable again after {outage_s:.2f} s", flush=True)
            self.wait_for_acks(2)
            self.group.wait_for_commits(1)

    def wait_for_acks(self, count: int) -> None:
        """Until each of those who wait for all has so many more."""
        wait_for_acks([*self.durable, self.probe], count)

    def acked_meanwhile(self, wait_s: float) -> int:
        """How many sends with acks=all that begin from now on are acked within this time."""
        begun = self.history.numbers()
        time.sleep(wait_s)
        acked = [send for send in list(self.history.sends.values()) if send.outcome is Outcome.OK]
        return sum(send.promise.is_durable and send.number > begun.get(send.producer, 0) for send in acked)

    # ---- the end

    def finish(self) -> Figures:
        """Let everybody end. Then what clients read, and what each node has on its disk, must all keep the promises."""
        for client in self.clients:
            client.end()
        self.cluster.wait_in_sync(self.partitions)
        self.group.check()
        bootstrap = self.cluster.bootstrap
        as_client: dict[Partition, Reading] = {}
        figures = self._checked("clients see it", noted(read_as_client(bootstrap, self.partitions), as_client))
        directories = {
            node_id: partition_directories(bootstrap, node.data_dir, self.partitions)
            for node_id, node in self.cluster.nodes.items()
        }
        self.cluster.stop()
        self.cluster.check_logs()
        starts = {partition: reading.start_offset for partition, reading in as_client.items()}
        for node_id, places in directories.items():
            on_disk: dict[Partition, Reading] = {}
            self._checked(f"node {node_id} has it", noted(read_files(places, starts), on_disk))
            for partition, reading in as_client.items():
                end_offset = on_disk[partition].end_offset
                assert end_offset == reading.end_offset, f"{partition}: on node {node_id} it ends at {end_offset}"
        return figures

    def _checked(self, how: str, readings: Iterable[Reading]) -> Figures:
        violations, figures = check(self.history, readings)
        assert not violations, f"as {how}: {listed(violations)}"
        return figures

    def report(self, figures: Figures) -> str:
        """Only a run without violations gets here, so nothing acked by all is lost."""
        text = (
            f"\nseed {self._seed}: sent {figures.sends}, acked by all {figures.acked_all}, lost 0, repeated with "
            f"idempotence 0; repeated without {figures.duplicates_without_idempotence}; acked by the leader alone "
            f"{figures.acked_leader}, of these gone {figures.acked_leader_missing}; seen by consumers "
            f"{figures.seen_by_consumers}, commits {self.group.commit_count}"
        )
        for fault, outages_s in self.outages_s.items():
            ordered = sorted(outages_s)
            median_s, p99_s = _quantile(ordered, 0.5), _quantile(ordered, 0.99)
            text += (
                f"\n  {fault} x {len(ordered)}: writable again after {median_s:.2f} s (median), {p99_s:.2f} s (p99), "
                f"{ordered[-1]:.2f} s (longest)"
            )
        return text


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    """The least value that so many are not above."""
    return ordered[math.ceil(len(ordered) * fraction) - 1]

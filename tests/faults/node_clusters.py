"""Several nodes that form a cluster, each a real process that faults can befall."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from headrace.wire.messages.metadata import MetadataRequest
from tests.clients.raw_connection import Closed, RawConnection
from tests.faults.node_process import LOCAL, PATIENCE_S, NodeProcess, wait_until
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from confluent_kafka.admin import PartitionMetadata

    from tests.faults.history import Partition

METADATA_TOPIC = "__cluster_metadata"
SIGNS_OF_A_BUG = ("our fault", "Traceback")  # that one stops when its disk fails is as it should be
ASK_S = 2.0  # a node that stands still does not answer; the next one is asked
LOOK_S = 0.05


class Site(NamedTuple):
    """Where a node runs, and where it keeps what it stores."""

    data_dir: Path
    host: str = LOCAL
    prefix: tuple[str, ...] = ()
    """A command that runs the node there."""


class NodeCluster:
    """Nodes 1 to N, each at its site. Use it with `with`: whatever happens, no process is left behind."""

    def __init__(self, home: Path, sites: Sequence[Site], configs: Mapping[str, str] | None = None) -> None:
        self._home = home
        places = {node_id: f"{site.host}:{free_port()}" for node_id, site in enumerate(sites, 1)}
        voters = ",".join(f"{node_id}@{place}" for node_id, place in places.items())
        self.nodes = {
            node_id: NodeProcess(
                site.data_dir,
                home / f"node-{node_id}.log",
                configs=configs,
                host=site.host,
                options=("--node-id", str(node_id), "--voters", voters, "--cluster-listen", places[node_id]),
                prefix=site.prefix,
            )
            for node_id, site in enumerate(sites, 1)
        }

    def __enter__(self) -> NodeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.__exit__()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self, *node_ids: int) -> NodeCluster:
        """All at once, for a majority is needed before any is ready. Without ids: every node."""
        starting = [self.nodes[node_id] for node_id in node_ids or self.nodes]
        for node in starting:
            node.launch()
        for node in starting:
            node.wait_ready()
        return self

    def stop(self) -> None:
        """As an operator does it: every node at once, and each must end in peace."""
        for node in self.nodes.values():
            node.tell_to_stop()
        codes = {node_id: node.wait_exit() for node_id, node in self.nodes.items()}
        assert not any(codes.values()), f"nodes ended with exit codes {codes}"

    def check_logs(self) -> None:
        """Nobody has found a bug in itself, in any of its lives."""
        for node_id in self.nodes:
            lines = (self._home / f"node-{node_id}.log").read_text(errors="replace").splitlines()
            found = [number for number, line in enumerate(lines) if any(sign in line for sign in SIGNS_OF_A_BUG)]
            if found:
                raise AssertionError(f"node {node_id} says:\n" + "\n".join(lines[found[0] : found[0] + 60]))

    # ---- who does what

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 5000})

    def controller_id(self) -> int:
        """As all nodes agree that can be asked."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            said = {leader for node in self.nodes.values() if (leader := _controller_as_seen_by(node)) is not None}
            if len(said) == 1 and -1 not in said:
                return said.pop()
            assert time.monotonic() < deadline_s, f"nodes do not agree on a controller: {said}"
            time.sleep(LOOK_S)

    def leader_id(self, partition: Partition) -> int:
        return int(self.seen(partition).leader)

    def seen(self, partition: Partition) -> PartitionMetadata:
        """Leader, replicas and in-sync set, as clients are told."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                topics = self._admin.list_topics(partition.topic, timeout=ASK_S).topics
                return topics[partition.topic].partitions[partition.partition]
            except KafkaException:  # librdkafka asks one node only: the one that was just killed, it may be
                if time.monotonic() > deadline_s:
                    raise

    def wait_in_sync(self, partitions: Sequence[Partition]) -> None:
        """Until every replica is in sync and somebody leads each partition, as all nodes say. One that was cut off may
        have heard of nothing yet, and says that all is well."""
        wait_until(lambda: not self._lacking(partitions), "all replicas are in sync", lambda: self._lack(partitions))

    def _lacking(self, partitions: Sequence[Partition]) -> list[str]:
        return [lack for node_id in self.nodes for lack in self._lacking_as_seen_by(node_id, partitions)]

    def _lacking_as_seen_by(self, node_id: int, partitions: Sequence[Partition]) -> list[str]:
        try:
            with RawConnection(self.nodes[node_id].bootstrap) as connection:
                answer = connection.ask(MetadataRequest(None))
        except (OSError, Closed) as silence:
            return [f"node {node_id} does not answer: {silence}"]
        seen = {(topic.name, it.partition_index): it for topic in answer.topics for it in topic.partitions}
        return [
            f"node {node_id} says of {partition}: {found}"
            for partition in partitions
            if (found := seen.get(partition)) is None
            or found.leader_id < 0
            or len(found.isr_nodes) < len(found.replica_nodes)
        ]

    def _lack(self, partitions: Sequence[Partition]) -> str:
        return "\n".join(self._lacking(partitions))


def _controller_as_seen_by(node: NodeProcess) -> int | None:
    """None if the node does not answer; -1 if it knows nobody."""
    if not node.is_running:
        return None
    try:
        with RawConnection(node.bootstrap) as connection:
            answer = connection.ask(DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(0)])]))
    except OSError:
        return None
    (found,) = answer.topics[0].partitions
    return -1 if found.error_code else int(found.leader_id)

"""Who is in sync, who is not, and what that means for producers: with real nodes, disks and lines."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.history import Partition
from tests.faults.log_readers import read_as_client
from tests.faults.network_namespaces import HostNetwork, Way, needs_namespaces
from tests.faults.node_clusters import NodeCluster, Site
from tests.faults.node_process import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("cluster")

LAG_MAX_MS = 1500
SHORT_MS = 4000  # how long a producer tries that is meant to fail


def create_topic(cluster: NodeCluster, name: str, replicas: Sequence[int], **configs: str) -> Partition:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    named = {key.replace("_", "."): value for key, value in configs.items()}
    wanted = NewTopic(name, num_partitions=1, replica_assignment=[list(replicas)], config=named)
    admin.create_topics([wanted])[name].result(PATIENCE_S)
    partition = Partition(name, 0)
    cluster.wait_in_sync([partition])
    return partition


def send(cluster: NodeCluster, partition: Partition, value: bytes, **settings: object) -> KafkaError | None:
    """With acks=all; the error that ended it, if any."""
    ends: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, **settings})
    producer.produce(
        partition.topic, value, partition=partition.partition, on_delivery=lambda error, _: ends.append(error)
    )
    assert producer.flush(PATIENCE_S) == 0
    return ends[0]


def values(cluster: NodeCluster, partition: Partition) -> list[bytes]:
    return [value for reading in read_as_client(cluster.bootstrap, [partition]) for _, value in reading.records]


def wait_for_in_sync(cluster: NodeCluster, partition: Partition, in_sync: set[int]) -> None:
    wait_until(
        lambda: set(cluster.seen(partition).isrs) == in_sync,
        f"{in_sync} are in sync",
        lambda: str(cluster.seen(partition).isrs),
    )


@needs_namespaces
def test_a_follower_that_lags_leaves_the_in_sync_set_and_returns(tmp_path: Path) -> None:
    """It lives, and its controller hears it; only its leader does not."""
    hosts = {node_id: f"host-{node_id}" for node_id in (1, 2, 3)}
    with HostNetwork(hosts.values()) as network:
        sites = [Site(tmp_path / host, network.address(host), network.command_at(host)) for host in hosts.values()]
        with NodeCluster(tmp_path, sites, {"replica.lag.time.max.ms": str(LAG_MAX_MS)}) as cluster:
            controller = cluster.start().controller_id()
            leader, follower = sorted({1, 2, 3} - {controller})
            partition = create_topic(cluster, "events", [leader, controller, follower], min_insync_replicas="2")
            assert send(cluster, partition, b"before") is None
            there, back = Way([hosts[leader]], [hosts[follower]]), Way([hosts[follower]], [hosts[leader]])
            with network.cut([there, back]):
                assert send(cluster, partition, b"meanwhile") is None, "the others are enough"
                wait_for_in_sync(cluster, partition, {leader, controller})
            wait_for_in_sync(cluster, partition, {1, 2, 3})
            assert send(cluster, partition, b"after") is None
            assert values(cluster, partition) == [b"before", b"meanwhile", b"after"]
            cluster.stop()
            cluster.check_logs()


def test_with_too_few_in_sync_producers_are_refused(tmp_path: Path) -> None:
    with NodeCluster(tmp_path, [Site(tmp_path / f"node-{number}") for number in (1, 2, 3)]) as cluster:
        controller = cluster.start().controller_id()
        leader, follower = sorted({1, 2, 3} - {controller})
        partition = create_topic(cluster, "events", [leader, follower], min_insync_replicas="2")
        assert send(cluster, partition, b"before") is None
        cluster.nodes[follower].kill()
        wait_for_in_sync(cluster, partition, {leader})
        refusals: list[KafkaError | None] = []

        def is_refused() -> bool:
            """Where the machine is busy, the leader itself may be missed for a moment."""
            refusals.append(send(cluster, partition, b"refused", **{"message.send.max.retries": 0}))
            assert refusals[-1] is not None
            return refusals[-1].code() == KafkaError.NOT_ENOUGH_REPLICAS

        wait_until(is_refused, "the leader says that they are too few", lambda: str(refusals))
        cluster.start(follower)
        assert send(cluster, partition, b"after") is None
        assert values(cluster, partition) == [b"before", b"after"]
        cluster.stop()
        cluster.check_logs()


def test_a_node_with_an_empty_disk_is_not_elected(tmp_path: Path) -> None:
    """Five nodes, so that the cluster itself can do without two."""
    with NodeCluster(tmp_path, [Site(tmp_path / f"node-{number}") for number in range(1, 6)]) as cluster:
        controller = cluster.start().controller_id()
        leader, emptied = sorted(set(cluster.nodes) - {controller})[:2]
        partition = create_topic(cluster, "events", [leader, emptied])
        assert send(cluster, partition, b"kept") is None
        cluster.nodes[emptied].kill()
        wait_for_in_sync(cluster, partition, {leader})
        cluster.nodes[leader].kill()
        shutil.rmtree(cluster.nodes[emptied].data_dir)
        cluster.start(emptied)
        refusal = send(cluster, partition, b"to nobody", **{"message.timeout.ms": SHORT_MS})
        assert refusal is not None, "a node that has lost everything leads"
        wait_until(lambda: cluster.leader_id(partition) == -1, "nobody leads")
        cluster.start(leader)
        wait_for_in_sync(cluster, partition, {leader, emptied})
        assert send(cluster, partition, b"after") is None
        assert values(cluster, partition) == [b"kept", b"after"]
        cluster.stop()
        cluster.check_logs()

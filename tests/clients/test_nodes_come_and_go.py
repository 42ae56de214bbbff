"""Nodes join, lose their disks, leave and are restarted one after the other, while the cluster goes on."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import Ran, call_here
from tests.clients.raw_connection import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("cluster")


def here(cluster: ClusterProcesses, *arguments: str) -> Ran:
    return call_here(cluster.bootstrap_servers, *arguments)


def quorum(cluster: ClusterProcesses) -> dict[str, Any]:
    told = json.loads(here(cluster, "cluster", "status", "--format", "json").out)
    return told["quorum"] or {"members": []}


def voters(cluster: ClusterProcesses) -> list[int]:
    return sorted(it["node_id"] for it in quorum(cluster)["members"] if it["is_voter"])


def learners(cluster: ClusterProcesses) -> list[int]:
    return sorted(it["node_id"] for it in quorum(cluster)["members"] if not it["is_voter"])


def send(cluster: ClusterProcesses, topic: str, count: int) -> list[bytes]:
    """Acknowledged by all that are in sync, every one of them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    values = [secrets.token_bytes(12) for _ in range(count)]
    refused = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert not any(refused)
    return values


def in_sync_everywhere(cluster: ClusterProcesses, topic: str) -> bool:
    return all(in_sync == [1, 2, 3] for _, _, in_sync in cluster.partitions(topic).values())


def committed(cluster: ClusterProcesses, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})
    try:
        return consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)[0].offset
    finally:
        consumer.close()


def received(cluster: ClusterProcesses, topic: str, count: int, *, commits: bool = False) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        deadline_s = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline_s, f"{len(found)} of {count} came"
            message = consumer.poll(1.0)
            if message is not None and not message.error():
                found.append(message.value())
        if commits:
            consumer.commit(offsets=[TopicPartition(topic, 0, count)], asynchronous=False)
        return found
    finally:
        consumer.close()


def test_one_node_grows_into_a_cluster(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 1, {"offsets.topic.num.partitions": "2"}, guests=2) as cluster:
        cluster.create_topic("early", [[1]])
        values = send(cluster, "early", 20)
        assert received(cluster, "early", 20, commits=True) == values
        cluster.start(2)
        wait_until(lambda: learners(cluster) == [2], "node 2 learns")
        assert voters(cluster) == [1]  # two would stop when either does
        cluster.create_topic("shared", [[2, 1]])
        assert cluster.partitions("shared")[0] == (2, [2, 1], [1, 2])
        cluster.start(3)
        wait_until(lambda: voters(cluster) == [1, 2, 3], "all three vote")
        cluster.create_topic("whole", [[1, 2, 3]])
        wait_until(lambda: in_sync_everywhere(cluster, "__consumer_offsets"), "positions are on three nodes")
        cluster.kill(1)  # the founder, which was once all there was
        wait_until(lambda: cluster.partitions("whole")[0][0] in {2, 3}, "others lead")
        assert committed(cluster, "early") == 20
        cluster.start(1)
        assert received(cluster, "early", 20) == values


def test_all_nodes_move_at_once(tmp_path: Path) -> None:
    """The log knows the old places only, and nobody can write down the new ones before somebody is elected."""
    with ClusterProcesses(tmp_path) as cluster:
        topic = cluster.create_topic("kept", [[3, 1, 2]])
        values = send(cluster, topic, 20)
        cluster.stop(*cluster.node_ids)
        cluster.move(*cluster.node_ids)
        cluster.start(*cluster.node_ids)
        wait_until(lambda: in_sync_everywhere(cluster, topic), "all follow")
        values += send(cluster, topic, 20)
        assert received(cluster, topic, 40) == values


@pytest.mark.parametrize("moved", [[2], [2, 3]], ids=["one, another away", "two"])
def test_voters_move_whose_votes_are_needed(tmp_path: Path, moved: list[int]) -> None:
    """Node 1 goes on running, and nobody tells it where the others are now, but they themselves."""
    with ClusterProcesses(tmp_path) as cluster:
        topic = cluster.create_topic("kept", [[1, *moved]])
        values = send(cluster, topic, 20)
        cluster.kill(2, 3)
        cluster.move(*moved)
        cluster.start(*moved)
        wait_until(lambda: cluster.partitions(topic)[0][2] == [1, *moved], "all follow")
        values += send(cluster, topic, 20)
        assert received(cluster, topic, 40) == values


def votes_again(cluster: ClusterProcesses, node_id: int) -> bool:
    """Whether the controller has written that it does, after it had lost its vote."""
    logs = "".join(cluster.log_of(other) for other in cluster.node_ids)
    others = [other for other in cluster.node_ids if other != node_id]
    return f"voters are {list(cluster.node_ids)}" in logs.partition(f"voters are {others}, learners [{node_id}]")[2]


def test_a_lost_disk_is_filled_again_and_votes_again(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        topic = cluster.create_topic("kept", [[3, 1, 2]])
        values = send(cluster, topic, 50)
        cluster.kill(3)
        cluster.replace_disk(3)
        cluster.start(3)
        values += send(cluster, topic, 50)
        wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "node 3 is in sync again")
        wait_until(lambda: votes_again(cluster, 3), "node 3 votes again")
        cluster.kill(1)  # the two that are left decide only if the vote of node 3 counts
        cluster.create_topic("later", [[3, 2]])
        cluster.start(1)
        assert received(cluster, topic, 100) == values
        assert "there is a cluster already" in cluster.log_of(3)


def eligible_for(cluster: ClusterProcesses, node_id: int, topic: str) -> list[int]:
    """Who may lead partition 0 although it is not in sync, as this node says."""
    with RawConnection(cluster.address(node_id)) as connection:
        answer = connection.ask(DescribeTopicPartitionsRequest([TopicRequest(topic)]))
    return answer.topics[0].partitions[0].eligible_leader_replicas


def test_the_last_in_sync_loses_its_disk_and_another_has_everything(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        topic = cluster.create_topic("twice", [[1, 2]])
        values = send(cluster, topic, 50)
        cluster.kill(2)
        wait_until(lambda: cluster.partitions(topic)[0][2] == [1], "node 2 is missed")
        wait_until(
            lambda: eligible_for(cluster, 1, topic) == [2], "it may lead: with node 1 alone nothing is committed"
        )
        cluster.kill(1)
        cluster.replace_disk(1)
        cluster.start(2)
        wait_until(lambda: cluster.partitions(topic)[0][0] == 2, "node 2 leads")
        wait_until(lambda: eligible_for(cluster, 2, topic) == [1], "so may node 1: nobody knows of its disk yet")
        cluster.start(1)
        values += send(cluster, topic, 50)
        assert received(cluster, topic, 100) == values
        wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2], "node 1 is in sync again")
        wait_until(lambda: eligible_for(cluster, 1, topic) == [], "and counts for that alone")


def test_only_a_topic_that_would_rather_lose_records_goes_on_without_the_last_in_sync(tmp_path: Path) -> None:
    alone = {"min.insync.replicas": "1"}
    with ClusterProcesses(tmp_path) as cluster:
        patient = cluster.create_topic("patient", [[1, 2]], alone)
        hasty = cluster.create_topic("hasty", [[1, 2]], {**alone, "unclean.leader.election.enable": "true"})
        kept = send(cluster, hasty, 20)
        cluster.kill(2)
        for topic in (patient, hasty):
            wait_until(lambda topic=topic: cluster.partitions(topic)[0][2] == [1], "node 2 is missed")
        send(cluster, hasty, 20)  # only node 1 has these
        cluster.kill(1)
        cluster.start(2)
        wait_until(lambda: cluster.partitions(hasty)[0][0] == 2, "node 2 leads, with what it has")
        assert cluster.partitions(patient)[0][0] == -1
        cluster.start(1)
        kept += send(cluster, hasty, 20)
        assert received(cluster, hasty, 40) == kept
        wait_until(lambda: cluster.partitions(hasty)[0][2] == [1, 2], "node 1 has cut what node 2 lacks, and follows")
        wait_until(lambda: cluster.partitions(patient)[0][0] == 1, "node 1 was waited for")


def replicas_of(cluster: ClusterProcesses, topic: str) -> set[tuple[int, int]]:
    """Partition and node of each replica."""
    return {(index, node_id) for index, (_, nodes, _) in cluster.partitions(topic).items() for node_id in nodes}


def nodes_of(cluster: ClusterProcesses, topic: str) -> set[int]:
    return {node_id for _, node_id in replicas_of(cluster, topic)}


def test_an_older_copy_of_a_disk_is_found_out_and_brought_up_to_date(tmp_path: Path) -> None:
    """Nobody should put one back; but somebody will, and then the node must not be locked out, nor count as company."""
    with ClusterProcesses(tmp_path) as cluster:
        topic = cluster.create_topic("kept", [[1, 2, 3]])
        controller = json.loads(here(cluster, "cluster", "status", "--format", "json").out)["controller"]
        restored, other = (node_id for node_id in (1, 2, 3) if node_id != controller)
        cluster.stop(restored)
        shutil.copytree(cluster.data_dir(restored), tmp_path / "copy")
        cluster.start(restored)
        wait_until(lambda: in_sync_everywhere(cluster, topic), "all are in sync")
        values = send(cluster, topic, 20)
        cluster.create_topic("later", [[1, 2, 3]])
        cluster.stop(restored)
        shutil.rmtree(cluster.data_dir(restored))
        shutil.move(tmp_path / "copy", cluster.data_dir(restored))
        cluster.start(restored)
        wait_until(lambda: in_sync_everywhere(cluster, topic), "it has fetched what it lacked")
        assert "the data directory is an older copy" in cluster.log_of(restored)
        wait_until(lambda: votes_again(cluster, restored), "it votes again")
        cluster.kill(other)
        made = here(cluster, "topics", "create", "--name", "last", "--replication-factor", "2")
        assert made.code == 0, f"both of them decide again: {made.talk}"
        assert received(cluster, topic, 20) == values


def test_a_fourth_node_gets_its_share_and_gives_it_back(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, guests=1) as cluster:
        here(cluster, "topics", "create", "--name", "old", "--partitions", "8", "--replication-factor", "3")
        before = replicas_of(cluster, "old")
        cluster.start(4)
        here(cluster, "topics", "create", "--name", "new", "--partitions", "2", "--replication-factor", "3")
        assert 4 in nodes_of(cluster, "new")
        assert replicas_of(cluster, "old") == before
        assert here(cluster, "cluster", "rebalance", "--wait").code == 0
        wait_until(lambda: len(replicas_of(cluster, "old") - before) >= 4, "who is asked knows what has moved")
        after = replicas_of(cluster, "old")
        assert {node_id for _, node_id in after - before} == {4}
        assert 4 <= len(after - before) == len(before - after) <= 6  # a quarter of 24, with what "new" has there
        assert here(cluster, "cluster", "drain", "--node", "4", "--wait").code == 0
        both = ("old", "new")
        wait_until(lambda: not any(4 in nodes_of(cluster, it) for it in both), "node 4 has nothing")


def test_a_node_is_drained_removed_and_may_come_back(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, guests=1) as cluster:
        cluster.start(4)
        topic = cluster.create_topic("kept", [[1, 2, 3]])
        values = send(cluster, topic, 20)
        too_early = here(cluster, "cluster", "remove", "--node", "3")
        assert too_early.code == 1
        assert "drain it first" in too_early.talk
        drained = here(cluster, "cluster", "drain", "--node", "3", "--wait")
        assert drained.code == 0, drained.talk
        wait_until(lambda: sorted(cluster.partitions(topic)[0][1]) == [1, 2, 4], "node 4 has it in place of node 3")
        assert "stop it first" in here(cluster, "cluster", "remove", "--node", "3").talk
        cluster.stop(3)
        removed = here(cluster, "cluster", "remove", "--node", "3")
        assert removed.code == 0, removed.talk
        wait_until(lambda: voters(cluster) == [1, 2, 4], "node 4 votes in its place")
        cluster.replace_disk(3)
        cluster.start(3)
        wait_until(lambda: learners(cluster) == [3], "node 3 is back, as a learner")
        assert received(cluster, topic, 20) == values


@contextmanager
def load_on(cluster: ClusterProcesses, topic: str) -> Iterator[list[bytes]]:
    """Somebody sends all the time. Whatever is refused in the end, after retries, fails the test."""
    sent: list[bytes] = []
    refused: list[object] = []
    is_over = Event()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 5})

    def work() -> None:
        while not is_over.wait(0.005):
            value = b"%d" % len(sent)
            producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and refused.append(error))
            sent.append(value)
            producer.poll(0)

    worker = Thread(target=work)
    worker.start()
    try:
        yield sent
    finally:
        is_over.set()
        worker.join()
    assert producer.flush(PATIENCE_S) == 0
    assert not refused


def test_a_rolling_restart_fails_no_request(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        topic = cluster.create_topic("busy", [[1, 2, 3]])
        with load_on(cluster, topic) as sent:
            for node_id in cluster.node_ids:
                wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "all are in sync")
                cluster.stop(node_id)
                cluster.start(node_id)
        assert received(cluster, topic, len(sent)) == sent
        logs = "".join(cluster.log_of(node_id) for node_id in cluster.node_ids)
        assert "is to be the controller" in logs
        assert "is gone, or was not heard" not in logs

"""A byte is flipped under a running cluster, on a leader and on a follower: it is found, refused, and fetched again."""

from __future__ import annotations

import json
from contextlib import contextmanager
from hashlib import sha256
from shutil import rmtree
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer, TopicCollection, TopicPartition
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import KafkaAdminClient

from headrace.cli.cluster.command import UNHEALTHY
from headrace.model.names import LogId, TopicId
from headrace.storage.files.checkpoints import RECOVERY_POINTS
from headrace.storage.files.layout import DAMAGED, LOG, directory_of
from headrace.wire.batches.header import HEADER_SIZE, read_header
from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import Ran, call_here
from tests.clients.nodes import new_name
from tests.faults.log_readers import consumer_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("cluster")

SEGMENT_BYTES = 1 << 20
VALUE_BYTES = 4000
MESSAGES = 1000  # three closed segments, and something in the one that is written to


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("damaged")) as running:
        yield running


class Acked:
    """What a producer was promised, by offset, in partition 0 of a topic."""

    def __init__(self, cluster: ClusterProcesses, topic: str) -> None:
        self.values: dict[int, bytes] = {}
        self._topic = topic
        self._number = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "batch.num.messages": 10,
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            value = f"{self._number} ".encode().ljust(VALUE_BYTES, b"%d" % (self._number % 7))
            self._number += 1
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        self.values[message.offset()] = message.value()

    @contextmanager
    def written_on(self) -> Iterator[None]:
        """Writers do not stop because a file is damaged."""
        is_over = Event()

        def go_on() -> None:
            while not is_over.wait(0.02):
                self.write(5)

        writer = Thread(target=go_on)
        writer.start()
        try:
            yield
        finally:
            is_over.set()
            writer.join(PATIENCE_S)


@contextmanager
def read_on(cluster: ClusterProcesses, topic: str) -> Iterator[set[tuple[int, bytes]]]:
    """A consumer that checks CRCs goes through the topic again and again. Gives what it saw: offsets and digests.

    It begins again after an error too: a librdkafka that has met a bad batch does not find its way on by itself.
    """
    seen: set[tuple[int, bytes]] = set()
    is_over = Event()

    def go_on() -> None:
        consumer = consumer_of(cluster.bootstrap_servers, **{"check.crcs": True, "enable.partition.eof": True})
        while not is_over.is_set():
            consumer.assign([TopicPartition(topic, 0, 0)])
            while not is_over.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is not None:
                    break
                if message is not None:
                    seen.add((message.offset(), digest(message.value())))
        consumer.close()

    reader = Thread(target=go_on)
    reader.start()
    try:
        yield seen
    finally:
        is_over.set()
        reader.join(PATIENCE_S)


def digest(value: bytes) -> bytes:
    return sha256(value).digest()


def new_topic(cluster: ClusterProcesses, replicas: list[int]) -> str:
    return cluster.create_topic(new_name("damaged"), [replicas], {"segment.bytes": str(SEGMENT_BYTES)})


def directory(cluster: ClusterProcesses, node_id: int, topic: str) -> Path:
    described = cluster.admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE_S)
    uuid = described.topic_id
    halves = (uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
    raw = b"".join(bits.to_bytes(8, "big", signed=True) for bits in halves)
    return cluster.home / f"node-{node_id}" / directory_of(LogId(TopicId(raw), 0))


def segments(cluster: ClusterProcesses, node_id: int, topic: str) -> list[Path]:
    return sorted(directory(cluster, node_id, topic).glob(f"*{LOG}"))


def content(cluster: ClusterProcesses, node_id: int, topic: str) -> bytes:
    return b"".join(path.read_bytes() for path in segments(cluster, node_id, topic))


def batches(path: Path) -> list[tuple[int, int, int]]:
    """Position, first offset and next offset of each."""
    raw, position, found = path.read_bytes(), 0, []
    while position + HEADER_SIZE <= len(raw):
        header = read_header(raw, position)
        found.append((position, header.base_offset, header.next_offset))
        position += header.size
    return found


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def damage(path: Path) -> tuple[int, int]:
    """A bit in the middle of the middle batch. Its first offset, and the next one's."""
    found = batches(path)
    position, first_offset, next_offset = found[len(found) // 2]
    flip(path, position + HEADER_SIZE + 1000)
    return first_offset, next_offset


def scrub(cluster: ClusterProcesses, *arguments: str) -> Ran:
    return call_here(cluster.bootstrap_servers, "cluster", "scrub", "--format", "json", *arguments)


def read(cluster: ClusterProcesses, topic: str, offset: int, count: int) -> dict[int, bytes]:
    consumer = consumer_of(cluster.bootstrap_servers, **{"check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: dict[int, bytes] = {}
    try:
        while len(found) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"silence after {len(found)} messages"
            assert message.error() is None, message.error()
            found[message.offset()] = message.value()
    finally:
        consumer.close()
    return found


def wait_until_whole(cluster: ClusterProcesses, topic: str, nodes: list[int]) -> None:
    wait_until(lambda: cluster.partitions(topic)[0][2] == nodes, f"{nodes} are in sync with {topic}")
    kept = [directory(cluster, node_id, topic) for node_id in nodes]
    wait_until(
        lambda: not any(path.with_name(path.name + DAMAGED).exists() for path in kept), "damaged copies are removed"
    )


def check_equal(cluster: ClusterProcesses, topic: str, nodes: list[int], acked: Acked) -> None:
    """All have the same bytes, all of them sound, and every message that was ever acknowledged."""
    wait_until(lambda: len({content(cluster, node_id, topic) for node_id in nodes}) == 1, "all copies are equal")
    assert scrub(cluster, "--topic", topic).code == 0
    assert read(cluster, topic, 0, len(acked.values)) == acked.values


def test_a_flipped_bit_is_found_refused_and_fetched_again(cluster: ClusterProcesses) -> None:
    """On the leader, and then on a follower, while others write and read."""
    topic = new_topic(cluster, [1, 2, 3])
    acked = Acked(cluster, topic)
    acked.write(MESSAGES)
    with read_on(cluster, topic) as seen, acked.written_on():
        for is_leader in (True, False):
            leader = cluster.partitions(topic)[0][0]
            victim = leader if is_leader else leader % 3 + 1
            first_offset, next_offset = damage(segments(cluster, victim, topic)[1])
            ran = scrub(cluster, "--topic", topic)
            assert ran.code == UNHEALTHY
            (told,) = json.loads(ran.out)
            assert (told["node_id"], told["first_offset"], told["last_offset"]) == (
                victim,
                first_offset,
                next_offset - 1,
            )
            wait_until(
                lambda node_id=victim: f"{topic}-0 is fetched again from" in cluster.log_of(node_id), "it is given up"
            )
            wait_until_whole(cluster, topic, [1, 2, 3])
    check_equal(cluster, topic, [1, 2, 3], acked)
    assert {offset for offset, _ in seen} >= set(range(MESSAGES))
    assert seen <= {(offset, digest(value)) for offset, value in acked.values.items()}


def test_a_follower_that_gets_bad_bytes_has_its_leader_look(cluster: ClusterProcesses) -> None:
    topic = new_topic(cluster, [1, 2])
    acked = Acked(cluster, topic)
    acked.write(MESSAGES)
    damage(segments(cluster, 1, topic)[0])
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    admin.alter_partition_reassignments({KafkaPythonPartition(topic, 0): [1, 2, 3]})
    admin.close()
    wait_until_whole(cluster, topic, [1, 2, 3])
    assert "node 1 sent bad bytes" in cluster.log_of(3)
    assert f"{topic}-0 is fetched again from node 2" in cluster.log_of(1)
    check_equal(cluster, topic, [1, 2, 3], acked)


def test_what_a_start_finds_damaged_is_fetched_again(cluster: ClusterProcesses) -> None:
    topic = new_topic(cluster, [1, 2, 3])
    acked = Acked(cluster, topic)
    acked.write(MESSAGES)
    path = segments(cluster, 2, topic)[-1]
    cluster.kill(2)
    # As if it had crashed before its first checkpoint: then everything is verified.
    (cluster.home / "node-2" / RECOVERY_POINTS).unlink(missing_ok=True)
    damage(path)
    acked.write(10)
    cluster.start(2)
    wait_until_whole(cluster, topic, [1, 2, 3])
    assert "is fetched again from node" in cluster.log_of(2)
    check_equal(cluster, topic, [1, 2, 3], acked)


def test_what_a_start_finds_damaged_is_fetched_again_although_it_might_have_been_elected(
    cluster: ClusterProcesses,
) -> None:
    """With the other one alone nothing is committed, so this copy would be as good as that, were it whole."""
    topic = new_topic(cluster, [1, 2])
    acked = Acked(cluster, topic)
    acked.write(MESSAGES)
    path = segments(cluster, 2, topic)[-1]
    cluster.kill(2)
    (cluster.home / "node-2" / RECOVERY_POINTS).unlink(missing_ok=True)
    damage(path)
    wait_until(lambda: cluster.partitions(topic)[0][2] == [1], "node 2 is missed")
    cluster.start(2)
    wait_until_whole(cluster, topic, [1, 2])
    acked.write(10)
    check_equal(cluster, topic, [1, 2], acked)
    assert f"{topic}-0 is offline" not in cluster.log_of(2), "nobody has to do anything"


def test_a_log_that_a_start_does_not_find_is_fetched_again_although_it_might_have_been_elected(
    cluster: ClusterProcesses,
) -> None:
    """It comes back first, and is not elected with nothing: the partition waits for the other one."""
    topic = new_topic(cluster, [1, 2])
    acked = Acked(cluster, topic)
    acked.write(MESSAGES)
    gone = directory(cluster, 2, topic)
    cluster.kill(2)
    wait_until(lambda: cluster.partitions(topic)[0][2] == [1], "node 2 is missed")
    cluster.kill(1)
    rmtree(gone)
    cluster.start(2)
    assert "is missing, although this node is counted on to have it" in cluster.log_of(2)
    wait_until(lambda: cluster.partitions(topic)[0][0] != 1, "node 1 is missed")
    assert cluster.partitions(topic)[0][0] == -1
    cluster.start(1)
    wait_until_whole(cluster, topic, [1, 2])
    acked.write(10)
    check_equal(cluster, topic, [1, 2], acked)


def test_the_scrub_finds_by_itself_what_a_start_does_not_look_at(cluster: ClusterProcesses) -> None:
    topic = new_topic(cluster, [1, 2, 3])
    acked = Acked(cluster, topic)
    acked.write(MESSAGES)
    path = segments(cluster, 3, topic)[0]
    cluster.stop(3)
    damage(path)
    cluster.start(3)
    wait_until(lambda: f"{topic}-0 is fetched again" in cluster.log_of(3), "the scrub has found it")
    wait_until_whole(cluster, topic, [1, 2, 3])
    check_equal(cluster, topic, [1, 2, 3], acked)


def test_the_only_copy_refuses_what_is_damaged_and_serves_the_rest(cluster: ClusterProcesses) -> None:
    topic = new_topic(cluster, [1])
    acked = Acked(cluster, topic)
    acked.write(MESSAGES)
    path = segments(cluster, 1, topic)[1]
    first_offset, next_offset = damage(path)
    before = path.read_bytes()
    assert scrub(cluster, "--topic", topic, "--node", "1").code == UNHEALTHY
    wait_until(lambda: "the only copy in sync is damaged" in cluster.log_of(1), "the operator is told")
    assert set(read(cluster, topic, 0, first_offset)) == set(range(first_offset))
    assert set(read(cluster, topic, next_offset, MESSAGES - next_offset)) == set(range(next_offset, MESSAGES))
    consumer = consumer_of(cluster.bootstrap_servers, **{"check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, first_offset)])
    assert consumer.poll(2.0) is None
    consumer.close()
    acked.write(10)
    assert path.read_bytes() == before

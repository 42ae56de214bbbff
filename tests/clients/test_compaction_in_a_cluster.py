"""Three nodes compact their copies each on its own. Whoever leads next must know the same newest values."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from headrace.cli.cluster.command import UNHEALTHY
from headrace.storage.files.layout import DAMAGED, LOG, NAME, TOPICS
from headrace.wire.batches.header import read_header
from headrace.wire.batches.records import decode_records
from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import call_here
from tests.clients.four_clients import Confluent, Message
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("cluster")

EAGER = {"log.cleaner.backoff.ms": "100"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "200"}
KEYS = 10


def segments_of(cluster: ClusterProcesses, node_id: int, topic: str) -> list[Path]:
    (directory,) = (
        path.parent
        for path in (cluster.home / f"node-{node_id}").glob(f"{TOPICS}/*/{NAME}")
        if path.read_text().startswith(f"topic: {topic}\n") and not path.parent.name.endswith(DAMAGED)
    )
    return sorted(directory.glob(f"*{LOG}"))


def copy_of(cluster: ClusterProcesses, node_id: int, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record that a node has on its disk."""
    records = []
    for segment in segments_of(cluster, node_id, topic):
        content = segment.read_bytes()
        position = 0
        while position < len(content):
            header = read_header(content, position)
            batch = content[position : position + header.size]
            records += [(one.offset, one.key, one.value) for one in decode_records(batch, inflate_max=1 << 24)]
            position += header.size
    return records


def is_compacted(cluster: ClusterProcesses, node_id: int, topic: str, count: int) -> bool:
    with suppress(FileNotFoundError):  # replaced while we looked
        return len(copy_of(cluster, node_id, topic)) <= count
    return False


def update(cluster: ClusterProcesses, topic: str, first: int) -> dict[bytes | None, bytes | None]:
    """Thousands of values of a few keys; what stays of them."""
    messages = [Message(b"%d" % number, b"key %d" % (number % KEYS)) for number in range(first, first + 2000)]
    messages.append(Message(None, b"key 0"))
    for start in range(0, len(messages), 500):  # in batches of their own, so that nothing stays of most of them
        Confluent().write(cluster.bootstrap_servers, topic, messages[start : start + 500])
    return {message.key: message.value for message in messages}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("compacting"), configs=EAGER) as running:
        yield running


def test_leaders_and_followers_compact_alone_and_agree(cluster: ClusterProcesses) -> None:
    topic = cluster.create_topic(new_name(), [[1, 2, 3]], COMPACTED)
    expected = update(cluster, topic, 0)
    for node_id in cluster.node_ids:
        wait_until(lambda node_id=node_id: is_compacted(cluster, node_id, topic, KEYS), "every copy is compacted")

    cluster.kill(3)
    expected |= update(cluster, topic, 10_000)
    wait_until(lambda: is_compacted(cluster, 1, topic, KEYS), "the leader has compacted what node 3 lacks")
    cluster.start(3)
    wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "node 3 has caught up over the gaps")

    for dead in (1, 2):
        cluster.kill(dead)
        wait_until(lambda dead=dead: cluster.partitions(topic)[0][0] not in (dead, -1), "another node leads")
        seen = Confluent().read(cluster.bootstrap_servers, topic)
        assert {one.message.key: one.message.value for one in seen} == expected
        cluster.start(dead)
        wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "all are in sync again")

    for node_id in cluster.node_ids:
        wait_until(lambda node_id=node_id: is_compacted(cluster, node_id, topic, KEYS), "every copy is compacted")
    copies = [copy_of(cluster, node_id, topic) for node_id in cluster.node_ids]
    assert copies[0] == copies[1] == copies[2]
    assert {key: value for _, key, value in copies[0]} == expected


def test_gaps_outlive_the_setting_that_made_them(cluster: ClusterProcesses) -> None:
    """Who gets a copy of what was once compacted must not take its gaps for damage, and wait for ever."""
    topic = cluster.create_topic(new_name(), [[1, 2]], COMPACTED)
    expected = update(cluster, topic, 0)
    wait_until(lambda: is_compacted(cluster, 1, topic, KEYS), "the leader has compacted")
    alter(cluster, topic, {"cleanup.policy": "delete"})
    move(cluster, topic, [1, 2, 3])
    wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "node 3 has copied it")
    assert copy_of(cluster, 3, topic) == copy_of(cluster, 1, topic)
    assert "bad bytes" not in cluster.log_of(3)

    cluster.kill(3)
    Confluent().write(cluster.bootstrap_servers, topic, [Message(b"one more", b"key 1")])
    cluster.start(3)
    wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "node 3 has opened it, gaps and all")
    move(cluster, topic, [3])
    wait_until(lambda: cluster.partitions(topic)[0][:2] == (3, [3]), "node 3 has the only copy")
    seen = Confluent().read(cluster.bootstrap_servers, topic)
    assert {one.message.key: one.message.value for one in seen} == expected | {b"key 1": b"one more"}


def test_a_damaged_copy_of_a_compacted_log_is_fetched_again_and_compacted_on(cluster: ClusterProcesses) -> None:
    topic = cluster.create_topic(new_name(), [[1, 2, 3]], COMPACTED)
    expected = update(cluster, topic, 0)
    for node_id in cluster.node_ids:
        wait_until(lambda node_id=node_id: is_compacted(cluster, node_id, topic, KEYS), "every copy is compacted")
    for victim in (2, cluster.partitions(topic)[0][0]):
        flip_a_bit(segments_of(cluster, victim, topic)[0])
        ran = call_here(cluster.bootstrap_servers, "cluster", "scrub", "--topic", topic)
        assert ran.code == UNHEALTHY
        wait_until(lambda victim=victim: "is not compacted any more" in cluster.log_of(victim), "its cleaning stops")
        wait_until(lambda victim=victim: f"{topic}-0 is fetched again" in cluster.log_of(victim), "it is given up")
        wait_until(lambda: cluster.partitions(topic)[0][2] == [1, 2, 3], "it is whole again")
        expected |= update(cluster, topic, 10_000 * victim)
        for node_id in cluster.node_ids:
            wait_until(lambda node_id=node_id: is_compacted(cluster, node_id, topic, KEYS), "all compact again")
    copies = [copy_of(cluster, node_id, topic) for node_id in cluster.node_ids]
    assert copies[0] == copies[1] == copies[2]
    assert {key: value for _, key, value in copies[0]} == expected


def alter(cluster: ClusterProcesses, topic: str, configs: dict[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    cluster.admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def move(cluster: ClusterProcesses, topic: str, replicas: list[int]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    admin.alter_partition_reassignments({TopicPartition(topic, 0): replicas})
    admin.close()


def flip_a_bit(segment: Path) -> None:
    """Of the last byte: it belongs to a batch that is not empty, or to the header of one that is."""
    content = bytearray(segment.read_bytes())
    content[-1] ^= 0x10
    segment.write_bytes(content)

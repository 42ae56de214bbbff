"""Three nodes compact their copies each on its own. Whoever leads next must know the same newest values."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from headrace.storage.layout import LOG, NAME, TOPICS
from headrace.wire.batches import read_header
from headrace.wire.records import decode_records
from tests.clients.clusters import ClusterProcesses, wait_until
from tests.clients.four_clients import Confluent, Message
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("cluster")

EAGER = {"log.cleaner.backoff.ms": "100"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "200"}
KEYS = 10


def copy_of(cluster: ClusterProcesses, node_id: int, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record that a node has on its disk."""
    (directory,) = (
        path.parent
        for path in (cluster.home / f"node-{node_id}").glob(f"{TOPICS}/*/{NAME}")
        if path.read_text().startswith(f"topic: {topic}\n")
    )
    records = []
    for segment in sorted(directory.glob(f"*{LOG}")):
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
    Confluent().write(cluster.bootstrap_servers, topic, messages)
    return {message.key: message.value for message in messages}


def test_leaders_and_followers_compact_alone_and_agree(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, configs=EAGER) as cluster:
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

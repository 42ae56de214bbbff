"""Millions of updates of few keys, while a node compacts them: what stays is right, small, and nobody waits for it.

The short form runs always. The long one takes its sizes from COMPACTION_UPDATES, COMPACTION_KEYS and
COMPACTION_UPDATES_PER_S, and says what it measured.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

UPDATES = int(os.environ.get("COMPACTION_UPDATES", "5000000"))
UPDATES_PER_S = int(os.environ.get("COMPACTION_UPDATES_PER_S", "0"))  # 0: as fast as the client can
KEYS = int(os.environ.get("COMPACTION_KEYS", "100000"))
CAMPAIGN_S = 3600.0  # against hangs only
KEY_MAP_BYTES = 128 << 20
SMALL_KEY_MAP_BYTES = 1 << 20
SEGMENT_BYTES = 16 << 20
VALUE_BYTES = 100
MiB = 1 << 20
WORKER_MB_MAX = 60  # an interpreter, a batch and its like; beside the key map
EVERY_NTH_IS_DELETED = 50
GATHER_S = 0.1  # how long a reader gathers messages before it looks at them


class Measured(NamedTuple):
    worker_peak_mb: int
    passes: int


class WorkerWatch(threading.Thread):
    """The memory of the cleaner's processes, looked at while they live."""

    def __init__(self, node_pid: int) -> None:
        super().__init__(daemon=True)
        self._node_pid = node_pid
        self._is_over = threading.Event()
        self._seen: dict[int, int] = {}

    def run(self) -> None:
        while not self._is_over.wait(0.02):
            for pid in _children(self._node_pid):
                peak_kb = _peak_kb(pid)
                if peak_kb:
                    self._seen[pid] = peak_kb

    def end(self) -> Measured:
        self._is_over.set()
        self.join()
        return Measured(max(self._seen.values(), default=0) // 1024, len(self._seen))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, children.read_text().split())
        except OSError:
            continue
    return found


def _peak_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


class Probe(threading.Thread):
    """A client of another topic, which writes one message after the other and waits for each."""

    def __init__(self, node: NodeProcess, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": node.bootstrap_servers, "linger.ms": 0, "acks": "all"})
        self._topic = topic
        self._is_over = threading.Event()
        self.took_ms: list[float] = []

    def run(self) -> None:
        while not self._is_over.wait(0.01):
            began_s = time.perf_counter()
            self._producer.produce(self._topic, b"probe", b"probe")
            assert self._producer.flush(PATIENCE_S) == 0
            self.took_ms.append((time.perf_counter() - began_s) * 1000)

    def take(self) -> tuple[float, int]:
        """The 99th percentile since the last time, and of how many."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not self.took_ms:  # on a busy machine not one may have been answered yet
            assert time.monotonic() < deadline_s, "no write was answered"
            time.sleep(0.01)
        took_ms, self.took_ms = sorted(self.took_ms), []
        return took_ms[int(len(took_ms) * 0.99)], len(took_ms)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


def read_all(node: NodeProcess, topic: str) -> tuple[dict[bytes, bytes], int]:
    """The values that a reader ends with, and how many records it saw."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: dict[bytes, bytes] = {}
    count = 0
    silent_until_s = time.monotonic() + PATIENCE_S
    while True:
        # A call returns when it has all it asked for, or its time is over: the end of a partition does not end it.
        messages = consumer.consume(10_000, GATHER_S)
        if messages:
            silent_until_s = time.monotonic() + PATIENCE_S
        assert time.monotonic() < silent_until_s, f"silence after {count} records"
        for message in messages:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                consumer.close()
                return values, count
            count += 1
            if message.value() is None:
                values.pop(message.key(), None)
            else:
                values[message.key()] = message.value()


def update(node: NodeProcess, topic: str, updates: int, keys: int, expected: dict[bytes, bytes]) -> None:
    """`expected` becomes the values that must stay."""
    began_s = time.monotonic()
    chance = random.Random(updates)
    errors: list[KafkaError] = []
    producer = Producer(
        {"bootstrap.servers": node.bootstrap_servers, "linger.ms": 20, "queue.buffering.max.messages": 200_000}
    )

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error)

    for number in range(updates):
        key = b"key %d" % chance.randrange(keys)
        is_deleted = chance.randrange(EVERY_NTH_IS_DELETED) == 0
        value = None if is_deleted else (b"%d " % number).ljust(VALUE_BYTES, b"v")
        while True:
            try:
                producer.produce(topic, value, key, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if value is None:
            expected.pop(key, None)
        else:
            expected[key] = value
        if number % 1000 == 0:
            early_s = began_s + number / UPDATES_PER_S - time.monotonic() if UPDATES_PER_S else 0.0
            producer.poll(0)
            time.sleep(max(0.0, early_s))
    assert producer.flush(CAMPAIGN_S) == 0
    assert not errors


def size_of(node: NodeProcess, topic: str) -> int:
    total = 0
    for path in node.directory_of(topic).glob("*.log"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # just replaced
            continue
    return total


def campaign(
    start_node: Callable[[dict[str, str]], NodeProcess], updates: int, keys: int, key_map_bytes: int, segment_bytes: int
) -> None:
    node = start_node(
        {
            "log.cleaner.backoff.ms": "100",
            "log.cleaner.dedupe.buffer.size": str(key_map_bytes),
            "log.cleaner.enable": "false",
        }
    )
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(segment_bytes),
        "min.cleanable.dirty.ratio": "0.3",
        "delete.retention.ms": "2000",
        "max.compaction.lag.ms": "60000",
    }
    topic = node.create_topic(new_name("updates"), configs=settings)
    probed = node.create_topic(new_name("probed"))
    watch = WorkerWatch(node.pid)
    watch.start()
    expected: dict[bytes, bytes] = {}
    began_s = time.monotonic()
    with Probe(node, probed) as probe:
        update(node, topic, updates // 5, keys, expected)  # to compare with: what others feel of the writing alone
        alone_ms, alone_count = probe.take()
        node.alter_settings({"log.cleaner.enable": "true"})
        update(node, topic, updates - updates // 5, keys, expected)
        wrote_s = time.monotonic() - began_s
        cleaning_ms, cleaning_count = probe.take()
    assert read_all(node, topic)[0] == expected
    # Now all of it, and not only the share that was worth it so far. Only what is sealed is compacted.
    node.alter_topic(topic, {"min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "1000"})
    deadline_s = time.monotonic() + CAMPAIGN_S
    while (seen := read_all(node, topic))[1] > len(expected):
        assert time.monotonic() < deadline_s, f"{seen[1]} records are left, expected {len(expected)}"
        time.sleep(1)
    measured = watch.end()
    assert seen[0] == expected
    assert measured.passes > 0, "no process of the cleaner was ever seen"
    assert measured.worker_peak_mb < WORKER_MB_MAX + key_map_bytes // MiB
    raw_mb = updates * (VALUE_BYTES + 20) / MiB
    print(
        f"\n{updates} updates of {keys} keys in {wrote_s:.0f} s; some {raw_mb:.0f} MiB written, "
        f"{size_of(node, topic) / MiB:.1f} MiB stay in {len(expected)} records; {measured.passes} passes; "
        f"node at most {node.memory_mb('VmHWM')} MB, cleaner {measured.worker_peak_mb} MB; "
        f"a write elsewhere meanwhile: p99 {cleaning_ms:.1f} ms of {cleaning_count}, "
        f"without compaction {alone_ms:.1f} ms of {alone_count}"
    )


def test_updates_of_few_keys_stay_few(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    campaign(start_node, updates=6_000, keys=500, key_map_bytes=12 * 1024, segment_bytes=MiB)


@pytest.mark.long
@pytest.mark.timeout(2 * CAMPAIGN_S)
def test_millions_of_updates_stay_few(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    campaign(start_node, UPDATES, KEYS, KEY_MAP_BYTES, SEGMENT_BYTES)


@pytest.mark.long
@pytest.mark.timeout(2 * CAMPAIGN_S)
def test_more_keys_than_the_cleaner_may_remember(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    campaign(start_node, UPDATES // 5, KEYS, SMALL_KEY_MAP_BYTES, SEGMENT_BYTES)

"""Compacted topics, seen from clients: gaps, emptied batches, tombstones with their horizon, records without a key."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from headrace.wire.batches.header import Codec
from tests.clients.commands import call
from tests.clients.four_clients import CLIENTS, READ_COMMITTED, Confluent, Message, client_name
from tests.clients.nodes import PATIENCE_S, NodeProcess, new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.clients.four_clients import Client, Seen

pytest_plugins = ["tests.clients.node_fixtures"]

EAGER = {"log.cleaner.backoff.ms": "50", "group.initial.rebalance.delay.ms": "0"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "100"}
KEYS = [b"key %d" % number for number in range(7)]
OFFSETS = "__consumer_offsets"
LONG_AGO_MS = 1_600_000_000_000


@pytest.fixture(scope="module")
def eager_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Looks for something to compact all the time."""
    running = NodeProcess(tmp_path_factory.mktemp("eager"), EAGER).start()
    try:
        yield running
    finally:
        running.stop()


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"never came to pass: {what}"
        time.sleep(0.05)


def first_offset(node: NodeProcess, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody"})
    first, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
    consumer.close()
    return first


def read(node: NodeProcess, topic: str, isolation: str = READ_COMMITTED) -> list[Seen]:
    return Confluent().read(node.bootstrap_servers, topic, first_offset(node, topic), isolation=isolation)


def newest(seen: Sequence[Seen]) -> dict[bytes | None, bytes | None]:
    return {one.message.key: one.message.value for one in seen}


def wait_for_few(node: NodeProcess, topic: str, count: int) -> None:
    wait_until(lambda: len(read(node, topic)) <= count, f"{topic} holds no more than {count} records")


@pytest.fixture(scope="module")
def mixed(eager_node: NodeProcess) -> tuple[NodeProcess, str, dict[bytes, bytes]]:
    """A topic with batches of every codec, transactions of both ends, and nothing left but the newest values."""
    topic = eager_node.create_topic(new_name("mixed"), configs=COMPACTED)
    expected: dict[bytes, bytes] = {}
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        messages = []
        for turn in range(40):
            for key in KEYS[number:]:
                value = b"%b in %b, %d" % (key, codec.encode(), turn)
                messages.append(Message(value, key, (("turn", b"%d" % turn),), LONG_AGO_MS + turn))
                expected[key] = value
        Confluent().write(eager_node.bootstrap_servers, topic, messages, codec=codec)
    producer = Producer({"bootstrap.servers": eager_node.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    for is_committed in (True, False, True, False):
        producer.begin_transaction()
        for key in KEYS[-2:]:
            value = b"%b, committed: %d" % (key, is_committed)
            producer.produce(topic, key=key, value=value, partition=0)
            if is_committed:
                expected[key] = value
        producer.flush(PATIENCE_S)
        if is_committed:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    wait_for_few(eager_node, topic, len(KEYS))
    return eager_node, topic, expected


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("client", CLIENTS, ids=client_name)
def test_every_client_reads_over_the_gaps(
    mixed: tuple[NodeProcess, str, dict[bytes, bytes]], client: Client, isolation: str
) -> None:
    node, topic, expected = mixed
    seen = client.read(node.bootstrap_servers, topic, isolation=isolation)
    assert newest(seen) == expected
    assert len(seen) == len(expected), "an older record, or one of an aborted transaction, is still there"
    offsets = [one.offset for one in seen]
    assert offsets == sorted(offsets)
    for one in seen:
        if b" in " in (one.message.value or b""):
            turn = dict(one.message.headers)["turn"] or b""
            assert one.message.timestamp_ms == LONG_AGO_MS + int(turn)


def test_our_own_client_reads_over_the_gaps(mixed: tuple[NodeProcess, str, dict[bytes, bytes]]) -> None:
    node, topic, expected = mixed
    ran = call(node.bootstrap_servers, "consume", "--topic", topic, "--format", "json")
    assert ran.code == 0, ran.talk
    seen = [json.loads(line) for line in ran.lines]
    assert {one["key"].encode(): one["value"].encode() for one in seen} == expected


@pytest.mark.parametrize("client", CLIENTS, ids=client_name)
def test_every_client_reads_from_the_middle_of_a_gap(
    mixed: tuple[NodeProcess, str, dict[bytes, bytes]], client: Client
) -> None:
    node, topic, _ = mixed
    offsets = [one.offset for one in read(node, topic)]
    for before, after in pairwise(offsets):
        if after > before + 1:
            seen = client.read(node.bootstrap_servers, topic, from_offset=before + 1)
            assert seen[0].offset == after
            return
    raise AssertionError("the log has no gap")


def test_batches_keep_their_codec_and_their_offsets(mixed: tuple[NodeProcess, str, dict[bytes, bytes]]) -> None:
    node, topic, _ = mixed
    batches = [header for header in node.stored_batches(topic) if header.record_count and not header.is_control]
    assert {Codec(header.codec) for header in batches} == set(Codec)
    assert any(header.record_count < header.last_offset_delta + 1 for header in batches)


def test_a_tombstone_stays_for_its_time_and_then_goes(eager_node: NodeProcess) -> None:
    kept = eager_node.create_topic(new_name("kept"), configs=COMPACTED)
    passing = eager_node.create_topic(new_name("passing"), configs={**COMPACTED, "delete.retention.ms": "300"})
    for topic in (kept, passing):
        messages = [Message(b"a value", b"stays"), Message(b"a value", b"goes"), Message(None, b"goes")]
        Confluent().write(eager_node.bootstrap_servers, topic, messages)
    wait_until(lambda: newest(read(eager_node, passing)) == {b"stays": b"a value"}, "the tombstone is gone")
    wait_for_few(eager_node, kept, 2)
    assert newest(read(eager_node, kept)) == {b"stays": b"a value", b"goes": None}


def test_a_record_without_a_key_is_refused_and_named(eager_node: NodeProcess) -> None:
    topic = eager_node.create_topic(new_name("keyed"), configs=COMPACTED)
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": eager_node.bootstrap_servers, "linger.ms": 50})
    for key in (b"a", None, b"b"):
        producer.produce(topic, b"value", key, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert KafkaError.INVALID_RECORD in {error.code() for error in outcomes if error is not None}


def test_what_was_compacted_is_there_after_a_crash(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    node = start_node(EAGER)
    topic = node.create_topic(new_name(), configs=COMPACTED)
    for turn in range(3):
        messages = [Message(b"%d" % (turn * 1000 + number), b"%d" % (number % 20)) for number in range(1000)]
        Confluent().write(node.bootstrap_servers, topic, messages)
        if turn < 2:
            node.kill()
            node.start()
    wait_for_few(node, topic, 20)
    node.kill()
    node.start()
    assert newest(read(node, topic)) == {b"%d" % (number % 20): b"%d" % (2000 + number) for number in range(980, 1000)}


def test_what_is_compacted_and_deleted_goes_when_it_is_old(
    start_node: Callable[[dict[str, str]], NodeProcess],
) -> None:
    node = start_node({**EAGER, "log.retention.check.interval.ms": "100"})
    both = node.create_topic(
        new_name("both"), configs={**COMPACTED, "cleanup.policy": "compact,delete", "retention.ms": "3600000"}
    )
    alone = node.create_topic(new_name("alone"), configs={**COMPACTED, "retention.ms": "3600000"})
    old, new = KEYS[:4], KEYS[2:]
    for topic in (both, alone):
        for turn in range(3):
            Confluent().write(
                node.bootstrap_servers, topic, [Message(b"old %d" % turn, key, (), LONG_AGO_MS + turn) for key in old]
            )
    wait_until(lambda: first_offset(node, both) == 3 * len(old), "what is old is deleted")
    for topic in (both, alone):
        for turn in range(3):
            Confluent().write(node.bootstrap_servers, topic, [Message(b"new %d" % turn, key) for key in new])
    wait_for_few(node, both, len(new))
    wait_for_few(node, alone, len(KEYS))
    for _ in range(2):
        seen = read(node, both)
        assert newest(seen) == dict.fromkeys(new, b"new 2")
        assert newest(read(node, alone)) == dict.fromkeys(KEYS[:2], b"old 2") | dict.fromkeys(new, b"new 2")
        assert [one.offset for one in seen] == [one.offset for one in read(node, alone)][-len(new) :]
        node.kill()
        node.start()
    assert delete_before(node, both, seen[2].offset) is None
    assert newest(read(node, both)) == dict.fromkeys(new[2:], b"new 2")
    assert delete_before(node, alone, 1) == KafkaError.POLICY_VIOLATION


def delete_before(node: NodeProcess, topic: str, offset: int) -> int | None:
    """The error, if it was refused."""
    place = TopicPartition(topic, 0, offset)
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    try:
        admin.delete_records([place])[place].result(PATIENCE_S)
    except KafkaException as refused:
        return refused.args[0].code()
    return None


def test_groups_read_on_over_gaps_and_have_no_lag(eager_node: NodeProcess) -> None:
    topic, group = eager_node.create_topic(new_name(), configs=COMPACTED), new_name("group")
    for number, read_on in enumerate((read_in_group_with_confluent, read_in_group_with_kafka_python)):
        for turn in range(4):
            messages = [Message(b"%d %d" % (number, turn), key) for key in KEYS]
            Confluent().write(eager_node.bootstrap_servers, topic, messages)
        end = 4 * len(KEYS) * (number + 1)
        wait_for_few(eager_node, topic, len(KEYS))
        if number:
            assert lag_of(eager_node, group) == 4 * len(KEYS), "what is gone counts too, as in Kafka"
        assert read_on(eager_node, topic, group, len(KEYS)) == [
            (end - len(KEYS) + place, key) for place, key in enumerate(KEYS)
        ]
        assert lag_of(eager_node, group) == 0


def read_in_group_with_confluent(node: NodeProcess, topic: str, group: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    seen: list[tuple[int, bytes]] = []
    while len(seen) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"silence after {seen}"
        assert message.error() is None, message.error()
        seen.append((message.offset(), message.key()))
    consumer.commit(asynchronous=False)
    consumer.close()
    return seen


def read_in_group_with_kafka_python(node: NodeProcess, topic: str, group: str, count: int) -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=node.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    seen: list[tuple[int, bytes]] = []
    for message in consumer:
        seen.append((message.offset, message.key))
        if len(seen) == count:
            break
    consumer.commit()
    consumer.close()
    return seen


def lag_of(node: NodeProcess, group: str) -> int:
    ran = call(node.bootstrap_servers, "lag", "--group", group, "--format", "json")
    (partition,) = json.loads(ran.out)["partitions"]
    return int(partition["lag"])


def test_its_state_is_told(mixed: tuple[NodeProcess, str, dict[bytes, bytes]]) -> None:
    node, topic, _ = mixed
    facts = json.loads(call(node.bootstrap_servers, "topics", "describe", "--name", topic, "--format", "json").out)
    (compaction,) = facts["partitions"][0]["compaction"]
    assert compaction["node"] == 1
    assert compaction["error"] is None
    assert compaction["saved_bytes"] > 5_000
    assert compaction["last_pass_ms"] > LONG_AGO_MS
    verbose = call(node.bootstrap_servers, "topics", "describe", "--name", topic, "--verbose").out
    assert "LAST COMPACTED" in verbose
    with urllib.request.urlopen(f"{node.http}/metrics", timeout=PATIENCE_S) as answer:
        metrics = answer.read().decode()
    labels = f'{{partition="0",topic="{topic}"}}'
    for name in ("headrace_log_dirty_bytes", "headrace_compactions_total", "headrace_compaction_saved_bytes_total"):
        assert f"{name}{labels}" in metrics


def test_committed_offsets_are_compacted_and_still_there(
    start_node: Callable[[dict[str, str]], NodeProcess],
) -> None:
    node = start_node({**EAGER, "offsets.topic.num.partitions": "1"})
    topic = node.create_topic(new_name())
    Confluent().write(node.bootstrap_servers, topic, [Message(b"%d" % number) for number in range(300)])
    group = {"bootstrap.servers": node.bootstrap_servers, "group.id": new_name("group"), "enable.auto.commit": False}
    consumer = Consumer(group)
    for number in range(1, 301):
        consumer.commit(offsets=[TopicPartition(topic, 0, number)], asynchronous=False)
    node.alter_topic(OFFSETS, {"min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "100"})

    def count() -> int:
        with suppress(FileNotFoundError):  # a segment was replaced while we looked
            return sum(header.record_count for header in node.stored_batches(OFFSETS))
        return 1000

    wait_until(lambda: count() < 10, "few of the 300 commits are left")
    for end_node in (node.stop, node.kill):
        assert consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 300
        end_node()
        node.start()
    assert consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 300
    consumer.close()


def test_the_death_of_the_cleaner_is_noticed_and_survived(
    start_node: Callable[[dict[str, str]], NodeProcess],
) -> None:
    node = start_node({**EAGER, "log.cleaner.io.max.bytes.per.second": "1000000"})
    topic = node.create_topic(new_name(), configs=COMPACTED)
    messages = [Message(b"%d" % number + b"v" * 1000, b"key %d" % (number % 10)) for number in range(2500)]
    Confluent().write(node.bootstrap_servers, topic, messages)
    found: list[int] = []

    def has_cleaner() -> bool:
        found[:] = [int(pid) for pid in Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()]
        return bool(found)

    wait_until(has_cleaner, "the cleaner's process runs")
    os.kill(found[0], signal.SIGKILL)
    wait_until(lambda: "was ended by signal 9" in node.log_path.read_text(), "its end is told")
    wait_for_few(node, topic, 10)
    assert newest(read(node, topic)) == {message.key: message.value for message in messages[-10:]}


def test_a_damaged_segment_stops_the_cleaning_of_its_log_alone(
    start_node: Callable[[dict[str, str]], NodeProcess],
) -> None:
    node = start_node({**EAGER, "log.cleaner.enable": "false"})
    damaged, sound = (node.create_topic(new_name(name), configs=COMPACTED) for name in ("damaged", "sound"))
    for topic in (damaged, sound):
        messages = [Message(b"value %d" % number, b"key %d" % (number % 5)) for number in range(100)]
        Confluent().write(node.bootstrap_servers, topic, messages)
    node.flip_byte(damaged, position=200)
    node.stop()
    node = node.with_configs(EAGER).start()
    try:
        wait_for_few(node, sound, 5)
        wait_until(lambda: "is not compacted any more" in node.log_path.read_text(), "the damage is told")
        line = next(line for line in node.log_path.read_text().splitlines() if "not compacted any more" in line)
        assert damaged in line
        assert "does not match its CRC" in line
    finally:
        node.stop()

"""A live migration from Apache Kafka by its own MirrorMaker 2: records, settings, and where groups had read to."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.nodes import PATIENCE_S
from tests.ports import free_row
from tools.kafka_tools.apache import ApacheKafka, java_command
from tools.kafka_tools.jars import NotToBeHad, java, kafka_class_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from confluent_kafka import Message

    from tests.clients.nodes import NodeProcess
    from tests.docs.told_blocks import ToldBlocks

pytest_plugins = ("tests.clients.node_fixtures", "tests.docs.told_blocks")
pytestmark = pytest.mark.xdist_group("apache-kafka")  # one Java machine beside another is enough for a small computer

MIGRATION_S_MAX: Final = 120.0  # against hangs; it takes twenty seconds, most of them Java's starts
TOPIC: Final = "orders"
GROUP: Final = "billing"
SETTINGS: Final = {
    "clusters": "kafka, headrace",
    "kafka->headrace.enabled": "true",
    "kafka->headrace.topics": TOPIC,
    "kafka->headrace.groups": GROUP,
    "headrace->kafka.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "sync.group.offsets.enabled": "true",
    "tasks.max": "1",
    "offset.lag.max": "0",
    "headrace.offset.flush.interval.ms": "1000",
    "headrace.scheduled.rebalance.max.delay.ms": "0",
    **{
        f"{what}.interval.seconds": "1"
        for what in ("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.group.offsets", "emit.checkpoints")
    },
    **{
        f"{what}.replication.factor": "1"
        for what in (
            "checkpoints.topic",
            "heartbeats.topic",
            "offset-syncs.topic",
            "offset.storage",
            "config.storage",
            "status.storage",
        )
    },
    "replication.factor": "1",
}


@contextmanager
def mirror_maker(home: Path, kafka: str, headrace: str) -> Iterator[None]:
    properties = home / "mirror.properties"
    places = {"kafka.bootstrap.servers": kafka, "headrace.bootstrap.servers": headrace}
    properties.write_text("".join(f"{name} = {value}\n" for name, value in (SETTINGS | places).items()))
    log = home / "mirror.log"
    with log.open("w") as said:
        command = java_command(home, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties))
        running = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield
        assert running.poll() is None, log.read_text()[-4000:]
    finally:
        running.kill()
        running.wait()


def wait_until(is_so: Callable[[], bool], what: str, log: Path) -> None:
    give_up = time.monotonic() + MIGRATION_S_MAX
    while not is_so():
        assert time.monotonic() < give_up, f"{what} did not come over\n{log.read_text()[-4000:]}"
        time.sleep(0.2)


class Side:
    """One of the two clusters, as its clients see it."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})

    def create_topic(self, settings: dict[str, str]) -> None:
        self._admin.create_topics([NewTopic(TOPIC, 2, 1, config=settings)])[TOPIC].result(PATIENCE_S)

    def produce(self, numbers: range) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for number in numbers:
            headers = [("number", str(number).encode()), ("empty", None), ("number", b"twice")]
            producer.produce(TOPIC, f"v{number}", f"k{number % 7}", headers=headers, partition=number % 2)
        assert producer.flush(PATIENCE_S) == 0

    def read(self, count: int, group: str) -> list[Message]:
        """So many records as a member of the group, from where it stands; then it stands behind them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([TOPIC])
        records: list[Message] = []
        give_up = time.monotonic() + PATIENCE_S
        while len(records) < count and time.monotonic() < give_up:
            records += consumer.consume(count - len(records), 0.5)
        assert not [record.error() for record in records if record.error()]
        consumer.commit(asynchronous=False)
        consumer.close()
        return records

    @property
    def count(self) -> int:
        if TOPIC not in self._admin.list_topics(timeout=PATIENCE_S).topics:
            return 0
        asked = {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in (0, 1)}
        return sum(future.result(PATIENCE_S).offset for future in self._admin.list_offsets(asked).values())

    @property
    def settings(self) -> Mapping[str, str | None]:
        topic = ConfigResource(ResourceType.TOPIC, TOPIC)
        described = self._admin.describe_configs([topic])[topic].result(PATIENCE_S)
        return {name: entry.value for name, entry in described.items()}

    def alter(self, changes: Mapping[str, str | None]) -> None:
        """None takes a setting back."""
        ways = {name: AlterConfigOpType.SET if value else AlterConfigOpType.DELETE for name, value in changes.items()}
        entries = [ConfigEntry(name, changes[name], incremental_operation=way) for name, way in ways.items()]
        topic = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
        self._admin.incremental_alter_configs([topic])[topic].result(PATIENCE_S)

    @property
    def committed(self) -> list[int]:
        asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
        found = self._admin.list_consumer_group_offsets([asked])[GROUP].result(PATIENCE_S)
        return [place.offset for place in found.topic_partitions or []]


def what(record: Message) -> tuple[object, ...]:
    return record.partition(), record.key(), record.value(), record.headers()


def test_the_settings_on_the_page_are_those_of_the_move(told_blocks: ToldBlocks) -> None:
    page = dict(line.split(" = ") for line in told_blocks.take("clusters = kafka, headrace").text.splitlines())
    assert (
        page.items()
        <= {**SETTINGS, **{name: page[name] for name in page if name.endswith("bootstrap.servers")}}.items()
    )


@pytest.mark.timeout(600)  # the jars are fetched once
def test_topics_settings_and_groups_come_over_from_a_running_kafka(
    tmp_path: Path, start_node: Callable[[dict[str, str]], NodeProcess]
) -> None:
    try:
        java(), kafka_class_path()
    except NotToBeHad as missing:
        pytest.skip(f"missing: Apache Kafka's jars, or a Java for them: {missing}")
    log = tmp_path / "mirror.log"
    here = Side(start_node({"group.initial.rebalance.delay.ms": "0"}).bootstrap_servers)
    with ApacheKafka(tmp_path / "kafka", [free_row(2)]) as kafka:
        there = Side(kafka.bootstrap_servers)
        there.create_topic({"retention.ms": "3600000", "max.message.bytes": "500000"})
        there.produce(range(100))
        with mirror_maker(tmp_path, there.servers, here.servers):
            wait_until(lambda: here.count == 100, "the first records", log)
            assert here.settings["retention.ms"] == "3600000"
            assert here.settings["max.message.bytes"] == "500000"

            # What changes while it runs: records, settings, and where the group stands.
            there.produce(range(100, 150))
            there.alter({"retention.ms": "7200000", "max.message.bytes": None, "cleanup.policy": "compact,delete"})
            known = there.read(150, GROUP)
            assert there.committed == [75, 75]
            wait_until(lambda: here.count == 150, "later records", log)
            wait_until(lambda: here.settings["retention.ms"] == "7200000", "a changed setting", log)
            wait_until(lambda: here.settings["max.message.bytes"] == "1048588", "the end of a setting", log)
            assert here.settings["cleanup.policy"] == "compact,delete"
            wait_until(lambda: here.committed == [75, 75], "the group's offsets", log)
            there.produce(range(150, 160))
            wait_until(lambda: here.count == 160, "the last records", log)

    # Kafka is gone. Whoever read there goes on here, and misses and repeats nothing.
    went_on = here.read(10, GROUP)
    assert sorted(record.value() for record in went_on) == [b"v%d" % number for number in range(150, 160)]
    everything = [what(record) for record in here.read(160, "newcomer")]
    assert sorted(map(repr, everything)) == sorted(repr(what(record)) for record in (*known, *went_on))
    headers = [("number", b"157"), ("empty", None), ("number", b"twice")]
    assert (1, b"k3", b"v157", headers) in everything

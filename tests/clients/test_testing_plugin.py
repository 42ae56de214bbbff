"""`headrace.testing` as another project meets it: fixtures in its own test suite, a broker in its own code."""

from __future__ import annotations

import asyncio
import threading
import time
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.model.errors import ErrorCode, Refusal
from headrace.testing import Broker
from tests.certificates import Certificates
from tests.clients.four_clients import CLIENTS, Confluent, Message

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]

# An installed headrace registers its fixtures by itself; one that is merely on the path has to be named.
PLUGIN = () if entry_points(group="pytest11", name="headrace") else ("-p", "headrace.testing.plugin")

ROUND_TRIP = """
    from confluent_kafka import Consumer, Producer, TopicPartition

    def round_trip(servers, topic, value):
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(topic, value)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "nobody"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        received = consumer.poll(30).value()
        consumer.close()
        return received
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A small project of somebody else, with a helper that writes and reads one message."""
    pytester.makepyfile(round_trip=ROUND_TRIP)
    pytester.makeini("[pytest]\npythonpath = .\n")
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", *options)


def test_the_fixtures_work_in_a_project_of_their_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_orders="""
        from round_trip import round_trip

        seen = set()

        def test_first(kafka_broker, kafka_topic):
            seen.add((kafka_broker.bootstrap_servers, kafka_topic))
            assert round_trip(kafka_broker.bootstrap_servers, kafka_topic, b"first") == b"first"

        def test_second(kafka_bootstrap_servers, kafka_topic):
            seen.add((kafka_bootstrap_servers, kafka_topic))
            assert round_trip(kafka_bootstrap_servers, kafka_topic, b"second") == b"second"

        def test_same_broker_other_topic():
            assert len({servers for servers, _ in seen}) == 1
            assert len({topic for _, topic in seen}) == 2
        """
    )
    run(project).assert_outcomes(passed=3)


def test_each_worker_of_xdist_has_a_broker_of_its_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_parallel="""
        import os
        import pathlib
        import pytest
        from round_trip import round_trip

        @pytest.mark.parametrize("number", range(8))
        def test_one_of_many(kafka_broker, kafka_topic, number):
            value = b"%d" % number
            assert round_trip(kafka_broker.bootstrap_servers, kafka_topic, value) == value
            worker = os.environ["PYTEST_XDIST_WORKER"]
            pathlib.Path(worker).write_text(kafka_broker.bootstrap_servers)
        """
    )
    run(project, "-n", "2").assert_outcomes(passed=8)
    addresses = {(project.path / worker).read_text() for worker in ("gw0", "gw1")}
    assert len(addresses) == 2


def test_options_change_the_broker_and_its_topics(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_options="""
        from confluent_kafka.admin import AdminClient

        def test_counts(kafka_broker, kafka_topic):
            kafka_broker.create_topic("by-default", partitions=-1)
            topics = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers}).list_topics(timeout=30).topics
            assert len(topics[kafka_topic].partitions) == 3
            assert len(topics["by-default"].partitions) == 5
        """
    )
    run(project, "--kafka-partitions", "3", "--kafka-config", "num.partitions=5").assert_outcomes(passed=1)


def test_a_wrong_option_is_explained(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(kafka_broker): pass")
    result = run(project, "--kafka-config", "nonsense")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*takes NAME=VALUE, not 'nonsense'*"])


def test_a_suite_without_brokers_does_not_pay_for_one(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            assert "headrace.broker.node" not in sys.modules
        """
    )
    run(project).assert_outcomes(passed=1)


# ---- the broker by itself


async def test_an_asyncio_program_runs_a_broker() -> None:
    began = time.perf_counter()
    async with Broker() as broker:
        print(f"ready after {time.perf_counter() - began:.3f} s")
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one")
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            consumer.seek(TopicPartition("orders", 0), 0)
            assert (await asyncio.wait_for(consumer.getone(), 30)).value == b"one"


def test_every_client_talks_to_a_broker_in_the_same_process() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        for number, client in enumerate(CLIENTS):
            client.write(broker.bootstrap_servers, "orders", [Message(client.name.encode())])
            assert [one.message.value for one in client.read(broker.bootstrap_servers, "orders")] == [
                writer.name.encode() for writer in CLIENTS[: number + 1]
            ]


def test_topics_are_made_with_settings_and_deleted() -> None:
    with Broker() as broker:
        broker.create_topic("orders", partitions=3, configs={"compression.type": "gzip"})
        with pytest.raises(Refusal) as refused:
            broker.create_topic("orders")
        assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        broker.delete_topic("orders")
        broker.create_topic("orders")


def test_brokers_live_side_by_side_and_leave_nothing_behind() -> None:
    threads_before = threading.active_count()
    with Broker() as one, Broker() as another:
        assert one.bootstrap_servers != another.bootstrap_servers
        Confluent().write(one.bootstrap_servers, "orders", [Message(b"of one")])
        Confluent().write(another.bootstrap_servers, "orders", [Message(b"of the other")])
        (seen,) = Confluent().read(one.bootstrap_servers, "orders")
        assert seen.message.value == b"of one"
    assert threading.active_count() == threads_before


def test_a_broker_with_a_directory_keeps_its_data(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        Confluent().write(broker.bootstrap_servers, "orders", [Message(b"kept")])
        address = broker.bootstrap_servers
    with Broker(data_dir=tmp_path, port=int(address.rpartition(":")[2])) as broker:
        assert broker.bootstrap_servers == address
        assert [one.message.value for one in Confluent().read(broker.bootstrap_servers, "orders")] == [b"kept"]


def test_a_broker_that_cannot_start_says_why() -> None:
    with pytest.raises(Refusal, match=r"no\.such\.setting"):
        Broker(configs={"no.such.setting": "1"}).start()


def test_a_broker_with_users_lets_in_nobody_else() -> None:
    with Broker(users={"alice": "secret", "bob": "other"}) as broker:
        broker.create_topic("orders")
        settings = broker.client_settings("alice")
        producer = Producer(settings)
        producer.produce("orders", b"hello")
        assert producer.flush(30) == 0
        for refused in ({**settings, "sasl.password": "other"}, {"bootstrap.servers": broker.bootstrap_servers}):
            with pytest.raises(KafkaException):
                AdminClient({**refused, "log_level": 0}).list_topics(timeout=1)
        with pytest.raises(KeyError):
            broker.client_settings("carol")


def test_listeners_of_a_broker_are_settings_as_of_any_node(tmp_path: Path) -> None:
    held = Certificates(tmp_path).issue("node")
    configs = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(held.certificate),
        "ssl.key.location": str(held.key),
    }
    with Broker(users={"alice": "secret"}, configs=configs) as broker:
        settings = {**broker.client_settings("alice"), "ssl.ca.location": str(held.authority)}
        assert settings["security.protocol"] == "SASL_SSL"
        assert AdminClient(settings).list_topics(timeout=30).brokers
    both = {**configs, "listeners": "SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"}
    with Broker(users={"alice": "secret"}, configs=both) as broker:
        plain = broker.bootstrap_servers_of("PLAINTEXT")
        assert plain != broker.bootstrap_servers
        assert AdminClient({"bootstrap.servers": plain}).list_topics(timeout=30).brokers
    with pytest.raises(ValueError, match="listeners"):
        Broker(configs={"listeners": "nonsense"})
    with pytest.raises(ValueError, match=r"OPEN at 0\.0\.0\.0:1 serves everybody who reaches it"):
        Broker(
            configs={
                "listeners": "PLAINTEXT://127.0.0.1:0,OPEN://:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OPEN:PLAINTEXT",
            }
        )

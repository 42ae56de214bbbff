"""The decoder gives what real clients wrote, in every codec, and real clients read what the encoder made."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headrace.client.reading.offsets import IsolationLevel
from headrace.testing import Broker
from headrace.wire.batches.header import Codec
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from headrace_spark.blocking import BlockingCluster
from headrace_spark.codec.columns import HEADERS_TYPE
from headrace_spark.codec.decoder import RangeDecoder
from headrace_spark.codec.encoder import encode
from tests.clients.four_clients import CODECS, PYTHON_CLIENTS, Confluent, Message, client_name
from tests.clients.nodes import PATIENCE_S
from tests.unit.spark.record_rows import ALL, Row, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.four_clients import Client

START_MS = 1_700_000_000_000
ANSWER_BYTES = 20_000  # small, so that one partition takes several answers
MESSAGES = [
    Message(b"", None, (), START_MS),
    Message(None, b"a tombstone", (), START_MS + 1),
    Message(b"value", b"", (("empty", b""), ("twice", b"1"), ("twice", b"2")), START_MS + 2),
    Message(b"earlier", "clé".encode(), (("ключ", "значение".encode()),), START_MS - 86_400_000),
    *(
        Message(f"{number} again and again".encode() * (number % 40), b"k", (), START_MS + number)
        for number in range(500)
    ),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[BlockingCluster]:
    with BlockingCluster(broker.bootstrap_servers) as connected:
        yield connected


def read_everything(cluster: BlockingCluster, topic: str, end: int) -> list[Row]:
    decoder = RangeDecoder(topic, 0, 0, end, ALL, read_committed=True)
    rows: list[Row] = []
    while not decoder.is_done:
        answer = cluster.run(fetch(cluster, topic, decoder.next_offset))
        part = answer.responses[0].partitions[0]
        assert part.error_code == 0
        for batch in decoder.decode(part.records or b"", part.aborted_transactions or ()):
            rows += rows_of(batch)
    return rows


async def fetch(blocking: BlockingCluster, topic: str, offset: int) -> FetchResponse:
    cluster = blocking.cluster
    await cluster.topic(topic)
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=ANSWER_BYTES)
    request = FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        isolation_level=IsolationLevel.READ_COMMITTED,
        topics=[FetchTopic(topic, cluster.topic_id(topic), [partition])],
    )
    connection = await cluster.any_connection()
    return await connection.request(request, FetchResponse)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", PYTHON_CLIENTS, ids=client_name)
def test_what_a_client_wrote(broker: Broker, cluster: BlockingCluster, client: Client, codec: str) -> None:
    topic = f"{client.name}-{codec}"
    broker.create_topic(topic)
    offsets = client.write(broker.bootstrap_servers, topic, MESSAGES, codec=codec)
    assert offsets == list(range(len(MESSAGES)))
    rows = read_everything(cluster, topic, len(MESSAGES))
    assert rows == [
        Row(offset, message.timestamp_ms or 0, 0, message.key, message.value, message.headers)
        for offset, message in enumerate(MESSAGES)
    ]


def test_a_topic_that_keeps_the_time_of_arrival(broker: Broker, cluster: BlockingCluster) -> None:
    broker.create_topic("arrivals", configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = time.time_ns() // 1_000_000
    Confluent().write(broker.bootstrap_servers, "arrivals", MESSAGES)
    after_ms = time.time_ns() // 1_000_000
    rows = read_everything(cluster, "arrivals", len(MESSAGES))
    assert {row.timestamp_type for row in rows} == {1}
    assert all(before_ms <= row.timestamp_ms <= after_ms for row in rows)
    assert [row.value for row in rows] == [message.value for message in MESSAGES]


def test_only_what_a_transaction_committed(broker: Broker, cluster: BlockingCluster) -> None:
    broker.create_topic("transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t", "linger.ms": 5})
    producer.init_transactions(PATIENCE_S)
    for number in range(6):
        producer.begin_transaction()
        for value in ("first", "second"):
            producer.produce("transactions", f"{number} {value}", partition=0)
        if number % 3 == 1:
            producer.flush(PATIENCE_S)  # so that the log has what is then given up
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    kept = [f"{number} {value}".encode() for number in (0, 2, 3, 5) for value in ("first", "second")]
    assert [row.value for row in read_everything(cluster, "transactions", 18)] == kept  # 12 records and 6 markers
    from_within = RangeDecoder("transactions", 0, 4, 18, ALL, read_committed=True)  # in the midst of an aborted one
    part = cluster.run(fetch(cluster, "transactions", 4)).responses[0].partitions[0]
    batches = from_within.decode(part.records or b"", part.aborted_transactions or ())
    assert [row.value for batch in batches for row in rows_of(batch)] == kept[2:]


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_what_a_client_reads(broker: Broker, cluster: BlockingCluster, codec: Codec) -> None:
    topic = f"encoded-{codec.name.lower()}"
    broker.create_topic(topic)
    rows = pa.record_batch(
        {
            "key": pa.array([message.key for message in MESSAGES], pa.binary()),
            "value": pa.array([message.value for message in MESSAGES], pa.binary()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in message.headers] for message in MESSAGES], HEADERS_TYPE
            ),
            "timestamp": pa.array([message.timestamp_ms for message in MESSAGES], pa.timestamp("ms", "UTC")),
        }
    )
    for batch in encode(rows, codec=codec, batch_bytes_max=ANSWER_BYTES, now_ms=START_MS):
        produced = cluster.run(produce(cluster, topic, bytes(batch.records)))
        assert produced.responses[0].partition_responses[0].error_code == 0
    for client in PYTHON_CLIENTS:
        assert [seen.message for seen in client.read(broker.bootstrap_servers, topic)] == MESSAGES, client.name


async def produce(blocking: BlockingCluster, topic: str, records: bytes) -> ProduceResponse:
    cluster = blocking.cluster
    await cluster.topic(topic)
    partition = PartitionProduceData(0, records)
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(topic, cluster.topic_id(topic), [partition])]
    )
    connection = await cluster.any_connection()
    return await connection.request(request, ProduceResponse)

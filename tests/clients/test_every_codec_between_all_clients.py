"""What one client writes, every client reads: each message once and in order, whatever the codec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.wire.batches.header import Codec
from tests.clients.four_clients import CLIENTS, CODECS, PYTHON_CLIENTS, Aiokafka, Confluent, Kcat, Message, client_name

if TYPE_CHECKING:
    from tests.clients.four_clients import Client
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

START_MS = 1_700_000_000_000
ODD_MESSAGES = (
    Message(b"", None, (), START_MS),
    Message(None, b"a tombstone", (), START_MS + 1),
    Message(b"value", b"", (), START_MS + 2),
    Message(b"", b"", (("empty", b""), ("twice", b"1"), ("twice", b"2")), START_MS + 3),
    Message("κλειδί — 键".encode(), "clé".encode(), (("ключ", "значение".encode()),), START_MS + 4),
    Message(b"earlier than those before it", b"k", (), START_MS - 86_400_000),
    Message(b"the first millisecond", b"k", (), 1),
)


def compressible_messages(count: int) -> list[Message]:
    return [
        Message(
            f"{number} {'said again and again ' * 20}".encode(),
            f"key-{number % 7}".encode(),
            (("origin", b"a test"),),
            START_MS + number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", CLIENTS, ids=client_name)
def test_every_client_reads_what_a_client_wrote(node: NodeProcess, topic: str, producer: Client, codec: str) -> None:
    if codec not in producer.codecs:
        pytest.skip(f"{producer.name} lacks a library for {codec}")
    messages = compressible_messages(300)

    offsets = producer.write(node.bootstrap_servers, topic, messages, codec=codec)

    assert offsets == list(range(300))
    _assert_stored_as(node, topic, codec, messages)
    for consumer in CLIENTS:
        if codec not in consumer.codecs:
            continue
        seen = consumer.read(node.bootstrap_servers, topic)
        assert [one.offset for one in seen] == list(range(300)), consumer.name
        assert [_known(one.message, producer) for one in seen] == [_known(one, producer) for one in messages]


def _known(message: Message, producer: Client) -> Message:
    """Without the timestamp where the producer chose it."""
    return message if producer.sets_timestamps else message._replace(timestamp_ms=None)


def _assert_stored_as(node: NodeProcess, topic: str, codec: str, messages: list[Message]) -> None:
    batches = node.stored_batches(topic)
    assert {batch.codec for batch in batches} == {Codec[codec.upper()]}
    assert sum(batch.record_count for batch in batches) == len(messages)
    plain_size = sum(len(message.value or b"") for message in messages)
    stored_size = sum(batch.size for batch in batches)
    if codec == "none":
        assert stored_size > plain_size
    else:
        assert stored_size < plain_size / 3


@pytest.mark.parametrize("producer", PYTHON_CLIENTS, ids=client_name)
def test_nulls_empties_headers_and_timestamps_arrive_as_they_were_sent(
    node: NodeProcess, topic: str, producer: Client
) -> None:
    producer.write(node.bootstrap_servers, topic, ODD_MESSAGES)

    for consumer in CLIENTS:
        seen = [one.message for one in consumer.read(node.bootstrap_servers, topic)]
        assert seen == list(ODD_MESSAGES), consumer.name


@pytest.mark.parametrize("producer", [Confluent(), Kcat()], ids=client_name)
def test_a_message_may_be_nothing_at_all(node: NodeProcess, topic: str, producer: Client) -> None:
    """The other clients refuse to send this one."""
    messages = [Message(None, b"key"), Message(b"value", None), Message(None, None)]
    producer.write(node.bootstrap_servers, topic, messages)

    for consumer in CLIENTS:
        seen = [one.message._replace(timestamp_ms=None) for one in consumer.read(node.bootstrap_servers, topic)]
        assert seen == messages, consumer.name


@pytest.mark.parametrize("producer", [Confluent(), Aiokafka()], ids=client_name)
def test_a_header_may_be_null(node: NodeProcess, topic: str, producer: Client) -> None:
    """The other clients cannot say it."""
    message = Message(b"value", b"key", (("null", None), ("after it", b"another")), START_MS)
    producer.write(node.bootstrap_servers, topic, [message])

    for consumer in CLIENTS:
        assert [one.message for one in consumer.read(node.bootstrap_servers, topic)] == [message], consumer.name


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("client", CLIENTS, ids=client_name)
def test_every_level_of_acks(node: NodeProcess, topic: str, client: Client, acks: int | str) -> None:
    messages = [Message(f"{number}".encode(), None) for number in range(100)]

    client.write(node.bootstrap_servers, topic, messages, acks=acks)

    # Only acks=all promises that a message can be read; the others are readable soon after.
    seen = client.read(node.bootstrap_servers, topic)
    while acks != "all" and len(seen) < len(messages):
        seen = client.read(node.bootstrap_servers, topic)
    assert [(one.offset, one.message.value) for one in seen] == [
        (number, message.value) for number, message in enumerate(messages)
    ]

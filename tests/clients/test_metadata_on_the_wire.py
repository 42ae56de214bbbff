"""Metadata seen frame by frame: which topics it names, and when it creates one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Producer

from headrace.model.errors import ErrorCode
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.clients.four_clients import CLIENTS, Message, client_name
from tests.clients.nodes import PATIENCE_S, new_name
from tests.clients.raw_connection import RawConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.wire.messages.metadata import MetadataResponseTopic
    from tests.clients.four_clients import Client
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

CREATES_ONLY_IF_ASKED_FROM = 4


@pytest.fixture
def connection(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.bootstrap_servers) as opened:
        yield opened


def names(connection: RawConnection) -> set[str]:
    return {topic.name for topic in connection.ask(MetadataRequest(None)).topics}


def ask_for(connection: RawConnection, name: str, *, create: bool, version: int | None = None) -> MetadataResponseTopic:
    request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=create)
    (topic,) = connection.ask(request, version).topics
    answer: MetadataResponseTopic = topic
    return answer


def test_null_asks_for_all_topics_and_an_empty_list_for_none(connection: RawConnection, topic: str) -> None:
    assert topic in names(connection)
    assert connection.ask(MetadataRequest([])).topics == []
    assert connection.ask(MetadataRequest([])).brokers
    oldest = connection.ask(MetadataRequest([]), 0)
    assert topic in {described.name for described in oldest.topics}


def test_a_topic_is_made_when_it_is_asked_for_and_usable_at_once(connection: RawConnection) -> None:
    name = new_name()
    made = ask_for(connection, name, create=True)
    assert (made.error_code, len(made.partitions), made.partitions[0].leader_id) == (ErrorCode.NONE, 1, 1)
    assert ask_for(connection, name, create=False).topic_id == made.topic_id


def test_a_topic_is_not_made_unless_the_client_allows_it(connection: RawConnection) -> None:
    name = new_name()
    assert ask_for(connection, name, create=False).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert name not in names(connection)
    old = ask_for(connection, name, create=True, version=CREATES_ONLY_IF_ASKED_FROM - 1)
    assert old.error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", ["..", "a/b", "", "x" * 250])
def test_an_invalid_name_is_said_to_be_one_and_never_made(connection: RawConnection, name: str) -> None:
    for create in (True, False):
        assert ask_for(connection, name, create=create).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert name not in names(connection)


def test_a_topic_is_found_by_its_id(connection: RawConnection, topic: str) -> None:
    topic_id = connection.topic_id(topic)
    wanted = [MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"\x07" * 16, None)]  # type: ignore[arg-type]
    found, lost = connection.ask(MetadataRequest(wanted, allow_auto_topic_creation=True)).topics
    assert (found.error_code, found.name) == (ErrorCode.NONE, topic)
    assert (lost.error_code, lost.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, b"\x07" * 16)


def test_a_node_can_be_told_not_to_make_topics(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    node = start_node({"auto.create.topics.enable": "false"})
    with RawConnection(node.bootstrap_servers) as connection:
        name = new_name()
        assert ask_for(connection, name, create=True).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert names(connection) == set()
    outcomes: list[KafkaError | None] = []
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "topic.metadata.propagation.max.ms": 100,
            "message.timeout.ms": 60_000,
        }
    )
    producer.produce(name, b"value", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert outcomes[0] is not None
    assert outcomes[0].code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}


@pytest.mark.parametrize("client", CLIENTS, ids=client_name)
def test_the_first_message_of_every_client_makes_its_topic(node: NodeProcess, client: Client) -> None:
    name = new_name(client.name)
    client.write(node.bootstrap_servers, name, [Message(b"first")])
    assert [one.message.value for one in client.read(node.bootstrap_servers, name)] == [b"first"]

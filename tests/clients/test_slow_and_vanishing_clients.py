"""Clients that do not read, go away in the middle, or ask for what has left memory: nobody else notices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.wire.batches.header import read_header
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.clients.four_clients import CLIENTS, Confluent, Message
from tests.clients.nodes import new_name
from tests.clients.raw_connection import FETCH_BY_NAME, RawConnection, batch_of, fetch_request, produce_request

if TYPE_CHECKING:
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

MEGABYTE = 1 << 20


def fill(node: NodeProcess, megabytes: int) -> str:
    """A topic with one batch to the megabyte, each of one message that begins with its number."""
    topic = node.create_topic(new_name(), configs={"max.message.bytes": str(2 * MEGABYTE)})
    with RawConnection(node.bootstrap_servers) as connection:
        for number in range(megabytes):
            connection.produce(topic, batch_of(b"%06d" % number + b"x" * MEGABYTE))
    return topic


def test_a_client_that_does_not_read_costs_no_memory_and_loses_nothing(own_node: NodeProcess) -> None:
    topic = fill(own_node, 10)
    before_mb = own_node.memory_mb()
    with RawConnection(own_node.bootstrap_servers) as slow, RawConnection(own_node.bootstrap_servers) as quick:
        for number in range(200):
            slow.send(fetch_request({topic: number % 10}, max_bytes=1), FETCH_BY_NAME)
        for _ in range(50):
            quick.produce(topic, batch_of(b"meanwhile"))
        assert own_node.memory_mb() < before_mb + 30
        for number in range(200):
            answer = slow.receive(FetchRequest.API_KEY, FETCH_BY_NAME, correlation_id=number + 1)
            records = answer.responses[0].partitions[0].records
            assert read_header(records).base_offset == number % 10
            assert b"%06d" % (number % 10) in bytes(records[:100])


def test_clients_that_vanish_leave_nothing_behind(own_node: NodeProcess) -> None:
    topic = fill(own_node, 4)
    for number in range(300):
        with RawConnection(own_node.bootstrap_servers) as connection:
            match number % 4:
                case 0:  # while it waits for more
                    connection.send(fetch_request({topic: 4}, min_bytes=1, max_wait_ms=60_000), FETCH_BY_NAME)
                case 1:  # with a session that nobody will close
                    connection.send(fetch_request({topic: 4}, session_epoch=0), FETCH_BY_NAME)
                case 2:  # before it has taken what it asked for
                    connection.send(fetch_request({topic: 0}, max_bytes=4 * MEGABYTE), FETCH_BY_NAME)
                case _:  # in the middle of a request
                    connection.send_bytes(b"\x00\x01\x00\x00" + bytes(1000))
    with RawConnection(own_node.bootstrap_servers) as connection:
        assert connection.produce(topic, batch_of(b"still here")).base_offset == 4
        assert len(connection.ask(MetadataRequest(None)).topics) == 1
    assert len(os.listdir(f"/proc/{own_node.pid}/fd")) < 50


def test_what_has_left_the_page_cache_is_read_from_the_disk(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name(), configs={"segment.bytes": str(MEGABYTE)})
    messages = [Message(b"%d " % number + os.urandom(5000), timestamp_ms=1_700_000_000_000) for number in range(1000)]
    Confluent().write(own_node.bootstrap_servers, topic, messages)

    for client in CLIENTS[:3]:
        forget_pages(own_node)
        assert [one.message for one in client.read(own_node.bootstrap_servers, topic)] == messages, client.name

    forget_pages(own_node)
    with RawConnection(own_node.bootstrap_servers) as connection:
        # Cold and warm answers in one line keep their order, and a produce between them is not held up.
        for number in range(0, 1000, 100):
            connection.send(fetch_request({topic: number}, max_bytes=1), FETCH_BY_NAME)
            connection.send(produce_request(topic, batch_of(b"between")), 9)
        for place, number in enumerate(range(0, 1000, 100)):
            answer = connection.receive(FetchRequest.API_KEY, FETCH_BY_NAME, correlation_id=2 * place + 1)
            header = read_header(answer.responses[0].partitions[0].records)
            assert header.base_offset <= number <= header.last_offset
            connection.receive(0, 9, correlation_id=2 * place + 2)


def test_clients_that_leave_while_the_disk_is_read_harm_nobody(own_node: NodeProcess) -> None:
    topic = fill(own_node, 20)
    for _ in range(10):
        forget_pages(own_node)
        for number in range(20):
            with RawConnection(own_node.bootstrap_servers) as connection:
                connection.send(fetch_request({topic: number}), FETCH_BY_NAME)
    with RawConnection(own_node.bootstrap_servers) as connection:
        assert connection.produce(topic, batch_of(b"still here")).base_offset == 20


def forget_pages(node: NodeProcess) -> None:
    """Ask the operating system to drop the logs from memory; what is flushed, it drops."""
    for path in node.data_dir.glob("topics/*/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)

"""Quotas with confluent-kafka: who has one is held to it, and who has none is not held up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.nodes import PATIENCE_S
from tests.docs.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.nodes import NodeProcess
    from tests.docs.told_blocks import ToldBlocks

pytest_plugins = ["tests.clients.node_fixtures", "tests.docs.told_blocks"]

RATE = 300_000  # as the page has it
RECORD = b"x" * 10_000
RECORDS = 90
REQUEST_MAX = 60_000  # bytes: of a batch, and of what may be fetched in one piece
TOPIC = "reported"


def written(node: NodeProcess, client_id: str, **options: Any) -> float:
    """How long it takes until all records are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "client.id": client_id,
            "batch.size": REQUEST_MAX,
            "compression.type": "none",
            **options,
        }
    )
    began_s = time.monotonic()
    for _ in range(RECORDS):
        producer.produce(TOPIC, RECORD)
    assert producer.flush(PATIENCE_S) == 0
    return time.monotonic() - began_s


def read(node: NodeProcess, client_id: str) -> float:
    """How long it takes to read as many."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "client.id": client_id,
            "group.id": "none",
            "fetch.message.max.bytes": REQUEST_MAX,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    began_s, count = time.monotonic(), 0
    while count < RECORDS:
        assert time.monotonic() - began_s < PATIENCE_S
        message = consumer.poll(1.0)
        count += message is not None and message.error() is None
    took_s = time.monotonic() - began_s
    consumer.close()
    return took_s


def expect_held(took_s: float, rate: float) -> None:
    """All but the last request was paid for before that was sent. Nobody says here how long it may take at most."""
    assert took_s >= (RECORDS * len(RECORD) - REQUEST_MAX) / rate


def test_quotas_as_the_page_has_them(own_node: NodeProcess, tmp_path: Path, told_blocks: ToldBlocks) -> None:
    terminal = Terminal(tmp_path / "home", own_node.bootstrap_servers)
    terminal.follow(told_blocks.take("$ headrace quotas set"))
    own_node.create_topic(TOPIC)

    told: list[float] = []
    expect_held(written(own_node, "reports", throttle_cb=lambda event: told.append(event.throttle_time)), RATE)
    assert any(told), "the client is told to wait"
    expect_held(read(own_node, "reports"), RATE)

    told.clear()
    written(own_node, "orders", throttle_cb=lambda event: told.append(event.throttle_time))
    read(own_node, "orders")
    assert not any(told), "nobody else is"

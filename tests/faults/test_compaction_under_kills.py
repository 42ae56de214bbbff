"""A node that is killed again and again while it compacts: no newest value is lost, no deleted key comes back."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Producer

from tests.clients.four_clients import Confluent
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

KILLS = int(os.environ.get("HEADRACE_KILLS", "30"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
KEYS = 200
UPDATES = 3000
EAGER = {"log.cleaner.backoff.ms": "1"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "max.compaction.lag.ms": "50",
    "delete.retention.ms": "500",
}


def update(node: NodeProcess, topic: str, chance: random.Random, expected: dict[bytes, bytes], first: int) -> None:
    """Every write is acknowledged before the next kill, so that there is one right answer."""
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "acks": "all", "linger.ms": 2})
    for number in range(first, first + UPDATES):
        key = b"key %d" % chance.randrange(KEYS)
        value = None if chance.random() < 0.3 else b"%d" % number
        producer.produce(topic, value, key, on_delivery=lambda error, _: errors.append(error) if error else None)
        expected.pop(key, None)
        if value is not None:
            expected[key] = value
    assert producer.flush(PATIENCE_S) == 0
    assert not errors


def run(start_node: Callable[[dict[str, str]], NodeProcess], kills: int) -> None:
    chance = random.Random(SEED)
    node = start_node(EAGER)
    topic = node.create_topic(new_name(), configs=COMPACTED)
    expected: dict[bytes, bytes] = {}
    for number in range(kills):
        update(node, topic, chance, expected, number * UPDATES)
        time.sleep(chance.random())  # somewhere in a pass, a swap, or between
        node.kill()
        node.start()
        seen = Confluent().read(node.bootstrap_servers, topic)
        values = {one.message.key: one.message.value for one in seen}
        assert {key: value for key, value in values.items() if value is not None} == expected
    assert not [line for line in node.log_path.read_text().splitlines() if "not compacted any more" in line]


def test_a_few_kills_lose_nothing(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    run(start_node, 3)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_kills_lose_nothing(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    run(start_node, KILLS)

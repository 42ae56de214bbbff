"""The operator's chapter of the design document, command by command, as it is written there.

What the document shows as output is compared by its shape: numbers may be others, nothing else may.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.clusters import wait_until
from tests.clients.commands import environment
from tests.clients.dev_clusters import dev_cluster
from tests.clients.nodes import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("cluster")

TOPICS = """
# Create topic with partitions and replication
streaming-system topics create --name events --partitions 3 --replication-factor 3

# Describe topic (shows partition leaders, ISR)
streaming-system topics describe --name events
# Output:
# Partition 0: Leader=1, ISR=[1,2,3]
# Partition 1: Leader=2, ISR=[2,3,1]
# Partition 2: Leader=3, ISR=[3,1,2]

# Increase partitions (cannot decrease)
streaming-system topics alter --name events --partitions 6
"""

GROUPS = """
# List all consumer groups
streaming-system groups list

# Describe group (shows members, partition assignments, lag)
streaming-system groups describe --group my-group
# Output:
# Consumer-1: Partitions [0, 1], Lag: 100
# Consumer-2: Partitions [2], Lag: 0

# Reset offsets (for reprocessing)
streaming-system groups reset-offsets --group my-group --topic events --to-earliest
"""

MONITORING = """
# Check cluster health
streaming-system cluster status

# Show under-replicated partitions
streaming-system cluster under-replicated

# Show consumer lag by group
streaming-system lag --group my-group
"""

MESSAGES = 100


class Command(NamedTuple):
    line: str
    shown: list[str]


def commands(block: str) -> list[Command]:
    """A command and what belongs to it end with an empty line."""
    found = []
    for paragraph in block.strip().split("\n\n"):
        told, _, shown = paragraph.partition("\n# Output:\n")
        (line,) = (line for line in told.splitlines() if not line.startswith("#"))
        found.append(Command(line, [text.removeprefix("# ") for text in shown.splitlines()]))
    return found


def shape(line: str) -> str:
    """Without its numbers: of a list, one is left."""
    return re.sub(r"\[N(, ?N)*\]", "[N]", re.sub(r"\d+", "N", line))


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with dev_cluster(tmp_path_factory.mktemp("chapter")) as running:
        yield running.addresses


def typed(addresses: str, command: Command) -> list[str]:
    """The lines that it answers with."""
    beside_python = str(Path(sys.executable).parent)
    ended = subprocess.run(
        shlex.split(command.line),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**environment(addresses), "PATH": f"{beside_python}{os.pathsep}{os.environ['PATH']}"},
        check=False,
    )
    assert ended.returncode == 0, f"{command.line}\n{ended.stderr}"
    lines = ended.stdout.splitlines()
    if command.shown:
        assert {shape(line) for line in lines} == {shape(line) for line in command.shown}
    return lines


def two_consumers(addresses: str) -> list[Consumer]:
    """Both are in the group, have read nothing, and say so."""
    consumers = []
    for number in (1, 2):
        consumer = Consumer(
            {
                "bootstrap.servers": addresses,
                "group.id": "my-group",
                "client.id": f"Consumer-{number}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["events"])
        consumers.append(consumer)

    def is_shared() -> bool:
        for consumer in consumers:
            consumer.poll(0.1)
        return [len(consumer.assignment()) for consumer in consumers] == [3, 3]

    wait_until(is_shared, "both read half of the partitions")
    for consumer in consumers:
        places = [TopicPartition(it.topic, it.partition, 0) for it in consumer.assignment()]
        consumer.commit(offsets=places, asynchronous=False)
    return consumers


def send(addresses: str, partition: int) -> None:
    producer = Producer({"bootstrap.servers": addresses, "acks": "all"})
    for number in range(MESSAGES):
        producer.produce("events", str(number), partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def test_from_first_to_last_command(addresses: str) -> None:
    create, describe, alter = commands(TOPICS)
    typed(addresses, create)
    described = typed(addresses, describe)
    assert [line.split(":")[0] for line in described] == ["Partition 0", "Partition 1", "Partition 2"]
    assert sorted(re.findall(r"Leader=(\d)", "".join(described))) == ["1", "2", "3"]
    for line in described:
        leader, in_sync = re.findall(r"Leader=(\d), ISR=\[(\d,\d,\d)\]", line)[0]
        assert in_sync.startswith(leader)
        assert sorted(in_sync.split(",")) == ["1", "2", "3"]
    typed(addresses, alter)

    listing, describe_group, reset = commands(GROUPS)
    consumers = two_consumers(addresses)
    send(addresses, partition=0)
    assert any(line.split()[:2] == ["my-group", "Stable"] for line in typed(addresses, listing))
    assert typed(addresses, describe_group) == [
        f"Consumer-1: Partitions [0, 1, 2], Lag: {MESSAGES}",
        "Consumer-2: Partitions [3, 4, 5], Lag: 0",
    ]
    for consumer in consumers:  # a group that reads cannot be moved
        consumer.close()
    assert len(typed(addresses, reset)) == 1 + 6

    status, under_replicated, lag = commands(MONITORING)
    assert any(re.fullmatch(r"State: +healthy", line) for line in typed(addresses, status))
    assert typed(addresses, under_replicated) == []
    assert [line.split()[4] for line in typed(addresses, lag)] == ["LAG", str(MESSAGES), "0", "0", "0", "0", "0"]

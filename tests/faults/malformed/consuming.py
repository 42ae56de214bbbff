"""Let librdkafka read partitions, in a process of its own: some batches make it abort, or fetch the same for ever.

python -m tests.faults.malformed.consuming PORT    places as JSON on stdin, what became of each as JSON on stdout
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

READ = "read"
ROOT = Path(__file__).parents[3]
SILENCE_S = 10.0  # a reader that says nothing for so long has stopped
OFTEN = 3  # a partition that yields this many times its records goes round in circles


class Place(NamedTuple):
    """A partition to read from its start to `end`."""

    name: str
    topic: str
    partition: int
    end: int


def consume(port: int, places: Sequence[Place]) -> dict[str, str]:
    """By name: `READ` if every offset came once and in order, else what went wrong."""
    if not places:
        return {}
    command = [sys.executable, "-m", __name__, str(port)]
    child = subprocess.run(command, cwd=ROOT, input=json.dumps(places), capture_output=True, text=True, check=False)
    if child.returncode < 0:
        return dict.fromkeys((place.name for place in places), f"librdkafka ends the process: {_last(child.stderr)}")
    assert child.returncode == 0, child.stderr
    found: dict[str, str] = json.loads(child.stdout)
    return found


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no word"])[-1]


def _read(port: int, places: Sequence[Place]) -> dict[str, str]:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    waiting = {(place.topic, place.partition): place for place in places}
    offsets: dict[str, list[int]] = {place.name: [] for place in places}
    found = {place.name: "it never reaches the end" for place in places}
    consumer.assign([TopicPartition(place.topic, place.partition, 0) for place in places])
    while waiting and (message := consumer.poll(SILENCE_S)) is not None:
        if (place := waiting.get((str(message.topic()), int(message.partition() or 0)))) is None:
            continue
        seen, error = offsets[place.name], message.error()
        if error is None:
            seen.append(int(message.offset() or 0))
            if len(seen) <= OFTEN * place.end:
                continue
            found[place.name] = "it goes round in circles"
        elif error.code() == KafkaError._PARTITION_EOF:
            found[place.name] = READ if seen == list(range(place.end)) else f"it reads the offsets {seen}"
        else:
            found[place.name] = error.str()
        del waiting[place.topic, place.partition]
    consumer.close()
    return found


def main() -> None:
    places = [Place(*fields) for fields in json.load(sys.stdin)]
    print(json.dumps(_read(int(sys.argv[1]), places)))


if __name__ == "__main__":
    main()

"""What a real client costs the node. The client is the slower side here, so only the node's CPU time is judged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench.programs import BenchError
from bench.report import Line, Outcome, at_most
from bench.stage import TOPIC, median_of, with_cost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.node import Node
    from bench.programs import Numbers
    from bench.stage import Stage

    Settings = Mapping[str, str]

MESSAGE = bytes(range(256)) * 4
MESSAGES = 700_000
PARTITIONS = 4
WAIT_S_MAX = 60.0
QUIET = {"log_level": 3}  # errors only: a reconnect is no news here


def librdkafka(stage: Stage) -> Outcome:
    try:
        import confluent_kafka  # noqa: F401, PLC0415 - the other measures do without it
    except ImportError:
        raise BenchError("confluent-kafka is not installed") from None
    outcome = Outcome()
    for number in range(stage.rounds(3)):
        stage.say(f"librdkafka, round {number + 1}")
        with stage.node() as node:
            node.create_topic(PARTITIONS)
            stage.warm_pages(MESSAGES * len(MESSAGE) * 3 // 2_000_000)
            sent = _timed(node, produce)
            read = _timed(node, consume)
        outcome.rounds.append({"produce": sent, "consume": read})
    sends, reads = ([each[side] for each in outcome.rounds] for side in ("produce", "consume"))
    outcome.lines = [
        Line("librdkafka produce, 1 KiB messages", median_of(sends, "mb_per_s"), "MB/s", remark="bound by the client"),
        Line("librdkafka produce, CPU of the node", median_of(sends, "node_cpu_s_per_gb"), "s/GB", at_most(0.6)),
        Line("librdkafka consume, 1 KiB messages", median_of(reads, "mb_per_s"), "MB/s", remark="bound by the client"),
        Line("librdkafka consume, CPU of the node", median_of(reads, "node_cpu_s_per_gb"), "s/GB", at_most(0.35)),
    ]
    return outcome


def _timed(node: Node, work: Callable[[Settings], None]) -> Numbers:
    return timed(node, work, {"bootstrap.servers": f"127.0.0.1:{node.port}"})


def timed(node: Node, work: Callable[[Settings], None], settings: Settings) -> Numbers:
    """`settings` say how librdkafka reaches the node."""
    cpu_before_s, start_s = node.cpu_s(), time.monotonic()
    work(settings)
    seconds, megabytes = time.monotonic() - start_s, MESSAGES * len(MESSAGE) / 1e6
    numbers = {"seconds": seconds, "megabytes": megabytes, "mb_per_s": megabytes / seconds}
    return with_cost(numbers, node.cpu_s() - cpu_before_s)


def produce(settings: Settings) -> None:
    """As a user would for throughput: acks=all and librdkafka's defaults, with a little linger and large batches."""
    from confluent_kafka import Producer  # noqa: PLC0415

    failed: list[Any] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {
            **settings,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "on_delivery": delivered,
            **QUIET,
        }
    )
    for number in range(MESSAGES):
        while True:
            try:
                producer.produce(TOPIC, MESSAGE, partition=number * PARTITIONS // MESSAGES)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(WAIT_S_MAX)
    if failed or left:
        raise BenchError(f"librdkafka: {len(failed)} messages failed, {left} unsent; {failed[:1]}")


def consume(settings: Settings) -> None:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer({**settings, "group.id": "bench", "enable.auto.commit": False, **QUIET})
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        count, deadline = 0, time.monotonic() + WAIT_S_MAX
        while count < MESSAGES:
            for message in consumer.consume(10_000, timeout=1.0):
                if message.error() is not None:
                    raise BenchError(f"librdkafka: {message.error()}")
                count += 1
            if time.monotonic() > deadline:
                raise BenchError(f"librdkafka: {count} of {MESSAGES} messages after {WAIT_S_MAX} s")
    finally:
        consumer.close()

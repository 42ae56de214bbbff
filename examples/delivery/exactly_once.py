"""Exactly once: results and position are written in one transaction. A crash undoes both, and both are done again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition
from stage import BATCH, BOOTSTRAP, ORDERS, crash, crash_once, new_topic, report, topic_of_orders

if TYPE_CHECKING:
    from collections.abc import Iterator


def work(topic: str, results: str, crash_at: int | None) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": topic,
            "group.instance.id": "worker",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": f"{topic}-worker"})
    producer.init_transactions()  # ends what an earlier life left open
    consumer.subscribe([topic])
    number = -1
    while number < ORDERS - 1:
        batch = consumer.consume(BATCH, timeout=10)
        if not batch:
            continue
        producer.begin_transaction()
        for message in batch:
            number = int(message.value())
            if number == crash_at:
                producer.flush()  # what was done so far is in the log; and yet nobody will see it
                crash()
            producer.produce(results, message.value())
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, batch[-1].offset() + 1)], consumer.consumer_group_metadata()
        )
        producer.commit_transaction()
    consumer.close()


def committed(topic: str) -> Iterator[int]:
    """All that a reader of committed messages sees."""
    reader = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    while (message := reader.poll(10)) is not None and message.error() is None:
        yield int(message.value())
    reader.close()


if __name__ == "__main__":
    results = new_topic()
    crash_once(work, topic_of_orders(), results)
    report("exactly once", committed(results))

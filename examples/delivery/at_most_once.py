"""At most once: the position is stored before the work is done. A crash loses what was between the two."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer
from stage import BATCH, BOOTSTRAP, ORDERS, crash, crash_once, report, topic_of_orders


def work(topic: str, ledger: Path, crash_at: int | None) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": topic,
            "group.instance.id": "worker",  # so that its second life need not wait until the first is given up
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    number = -1
    while number < ORDERS - 1:
        batch = consumer.consume(BATCH, timeout=10)
        if batch:
            consumer.commit(message=batch[-1], asynchronous=False)  # before the work
        for message in batch:
            number = int(message.value())
            if number == crash_at:
                crash()
            with ledger.open("a") as file:
                file.write(f"{number}\n")
    consumer.close()


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        ledger = Path(directory) / "ledger"
        crash_once(work, topic_of_orders(), ledger)
        report("at most once", map(int, ledger.read_text().split()))

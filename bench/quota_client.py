"""A confluent-kafka client in a process of its own: `python -m bench.quota_client produce|consume PORT TOPIC ID RATE`.

It sends or reads as fast as it can, or so many bytes a second if RATE is not 0, and prints a line with the bytes that
were acknowledged or read so far, every tenth of a second, until its stdin ends.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Final

MESSAGE: Final = bytes(range(256)) * 4
TELL_S: Final = 0.1
BATCH: Final = 64 << 10  # small beside a second of any quota here
QUEUED_MAX: Final = 2000
BEHIND_S: Final = 0.5


class Told:
    """What was done, and the thread that says it."""

    def __init__(self) -> None:
        self.done = 0
        self.is_over = threading.Event()
        threading.Thread(target=self._tell, daemon=True).start()
        threading.Thread(target=self._wait_for_end, daemon=True).start()

    def _tell(self) -> None:
        while not self.is_over.wait(TELL_S):
            print(time.monotonic(), self.done, flush=True)

    def _wait_for_end(self) -> None:
        sys.stdin.read()
        self.is_over.set()


class Pace:
    """Who was held up does not make up for more than `BEHIND_S` of it: else a rate would say more of the past."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._began_s = time.monotonic()

    def is_ahead(self, done: int) -> bool:
        if not self._rate:
            return False
        now_s, is_due_s = time.monotonic(), self._began_s + done / self._rate
        if is_due_s < now_s - BEHIND_S:
            self._began_s += now_s - BEHIND_S - is_due_s
        return is_due_s > now_s


def produce(settings: dict[str, Any], topic: str, rate: int, told: Told) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415 - the other measures do without it

    def acknowledged(error: object, _: object) -> None:
        if error is None:
            told.done += len(MESSAGE)

    producer = Producer({**settings, "batch.size": BATCH, "linger.ms": 5, "queue.buffering.max.messages": QUEUED_MAX})
    pace, sent = Pace(rate), 0
    while not told.is_over.is_set():
        if pace.is_ahead(sent):
            producer.poll(0.005)
            continue
        try:
            producer.produce(topic, MESSAGE, on_delivery=acknowledged)
        except BufferError:
            producer.poll(0.01)
        else:
            sent += len(MESSAGE)
            producer.poll(0)
    producer.purge()


def consume(settings: dict[str, Any], topic: str, rate: int, told: Told) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415

    own = {"group.id": "none", "enable.partition.eof": True, "queued.max.messages.kbytes": 4096}
    consumer = Consumer({**settings, **own})
    beginning = [TopicPartition(topic, 0, OFFSET_BEGINNING)]
    consumer.assign(beginning)
    pace = Pace(rate)
    while not told.is_over.is_set():
        if pace.is_ahead(told.done):
            time.sleep(0.005)
            continue
        for message in consumer.consume(200, 0.1):
            if message.error() is None:
                told.done += len(message.value())
            else:
                consumer.assign(beginning)
    consumer.close()


def main() -> None:
    what, port, topic, client_id, rate = sys.argv[1:]
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "client.id": client_id, "log_level": 3}
    {"produce": produce, "consume": consume}[what](settings, topic, int(rate), Told())


if __name__ == "__main__":
    main()

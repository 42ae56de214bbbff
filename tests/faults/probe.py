"""A producer that finds out when a partition takes writes again, as any client does: told who leads, it tries."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.faults.history import ACKS_ALL
from tests.faults.load import FOREVER_MS, QUICK_RECONNECT, SendingClient
from tests.faults.node_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import KafkaError, Message

    from tests.faults.history import History, Partition, Send

PERIOD_S = 0.03  # how exact the measure is; more often would be a load of its own


class Probe(SendingClient):
    """Sends a small message with acks=all to each partition, and the next one soon after it was acked."""

    def __init__(
        self, name: str, bootstrap: str, history: History, partitions: Sequence[Partition], *, answer_ms: int
    ) -> None:
        super().__init__(name, bootstrap, history, partitions, ACKS_ALL, seed=0)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": FOREVER_MS,
                "socket.timeout.ms": answer_ms,
                **QUICK_RECONNECT,
            }
        )
        self._idle = set(partitions)
        self._sent_s: dict[Partition, list[float]] = {partition: [] for partition in partitions}
        self._acked_s: dict[Partition, list[float]] = {partition: [] for partition in partitions}

    def work(self) -> None:
        while not self.stopping.is_set():
            for partition in sorted(self._idle):
                self._send(partition)
            self.stopping.wait(PERIOD_S)
            self._producer.poll(0)
        self._producer.flush(FOREVER_MS / 1000)

    def _send(self, partition: Partition) -> None:
        self._idle.discard(partition)
        number = self.history.next_number(self.name)
        value = b"%s#%d" % (self.name.encode(), number)
        send = self.history.begin(self.name, partition, number, value, self.promise)
        sent_s = time.monotonic()
        self._producer.produce(
            partition.topic,
            value,
            partition=partition.partition,
            on_delivery=lambda error, message: self._delivered(send, sent_s, error, message),
        )

    def _delivered(self, send: Send, sent_s: float, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"the probe was given up: {error}"
        self._acked_s[send.partition].append(time.monotonic())
        self._sent_s[send.partition].append(sent_s)
        self.acked(send, message.offset())
        self._idle.add(send.partition)

    def wait_writable(self, began_s: float) -> float:
        """Wait until every partition has acked what was sent after this moment. How long the slowest took from it."""
        wait_until(lambda: None not in self._firsts(began_s), "all partitions take writes", self._silent_since)
        return max(acked_s for acked_s in self._firsts(began_s) if acked_s is not None) - began_s

    def _firsts(self, began_s: float) -> list[float | None]:
        return [self._first_ack(partition, began_s) for partition in self.partitions]

    def _first_ack(self, partition: Partition, began_s: float) -> float | None:
        place = bisect_left(self._sent_s[partition], began_s)
        acked_s = self._acked_s[partition]
        return acked_s[place] if place < len(acked_s) else None

    def _silent_since(self) -> str:
        now_s = time.monotonic()
        return "\n".join(f"{it}: last ack {now_s - self._acked_s[it][-1]:.1f} s ago" for it in self.partitions)

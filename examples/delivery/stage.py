"""What the three examples share: a topic of numbered orders, a worker that dies once, and a look at the result."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from multiprocessing import get_context
from typing import TYPE_CHECKING
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

ORDERS = 30
BATCH = 10
CRASH_AT = 15  # in the middle of the second batch

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"


def new_topic() -> str:
    """One partition, so that the outcome is the same at every run."""
    name = f"orders-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


def topic_of_orders() -> str:
    """Order 0 to order 29."""
    name = new_topic()
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    for number in range(ORDERS):
        producer.produce(name, str(number))
    producer.flush()
    return name


def crash_once(worker: Callable[..., None], *arguments: Any) -> None:
    """Run the worker in a process of its own, twice: in its first life it crashes, in its second it does not."""
    for crash_at in (CRASH_AT, None):
        life = get_context("spawn").Process(target=worker, args=(*arguments, crash_at))
        life.start()
        life.join()
        assert life.exitcode == (0 if crash_at is None else -signal.SIGKILL), life.exitcode


def crash() -> None:
    """No cleaning up, no goodbye: as if somebody pulled the plug."""
    os.kill(os.getpid(), signal.SIGKILL)


def report(promise: str, seen: Iterable[int]) -> None:
    counts = Counter(seen)
    lost = [number for number in range(ORDERS) if not counts[number]]
    repeated = sorted(number for number, count in counts.items() if count > 1)
    print(f"{promise}: {len(lost)} of {ORDERS} orders lost {lost}, {len(repeated)} repeated {repeated}")

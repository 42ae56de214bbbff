"""Live load for the tour: numbered payments go in, a group reads them, and what became of each is remembered."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError
from headrace.client.groups.group_consumer import GroupConsumer, GroupConsumerSettings
from headrace.client.producing.producer import BatchingProducer
from headrace.client.reading.consumer import AssignedConsumer
from headrace.client.reading.offsets import find_bounds
from headrace.model.errors import Refusal
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.client.producing.batch import Receipt

TOPIC: Final = "payments"
GROUP: Final = "audit"
PARTITIONS: Final = 3
ROUND_S: Final = 0.01  # one payment to each partition: about 300 a second, which no machine minds
COMMIT_S: Final = 1.0  # so that the group's lag, as other commands show it, is nearly the real one


class Load:
    """Use it with `async with`: leaving the block waits for the outcome of what was sent."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent_count = 0
        self.failed_count = 0
        self.read_count = 0
        self.acked: list[int] = []
        self._cluster = cluster
        self._acks_s: dict[int, list[float]] = {index: [] for index in range(PARTITIONS)}
        self._stopping = asyncio.Event()
        self._writers: list[asyncio.Task[None]] = []
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Load:
        self._writers = [asyncio.create_task(self._write())]
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Also where something failed: nothing goes on behind the tour's back."""
        tasks = [*self._writers, *([self._reader] if self._reader else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop_writing(self) -> None:
        """Until every payment that was sent is acknowledged or has failed."""
        self._stopping.set()
        await asyncio.gather(*self._writers)

    # ---- what became of it

    def acks_of(self, partition: int) -> int:
        return len(self._acks_s[partition])

    def longest_pause_s(self, partition: int, since_s: float) -> float:
        """Between two acknowledgements, of which the later came after `since_s`."""
        return max(
            (later - earlier for earlier, later in pairwise(self._acks_s[partition]) if later > since_s), default=0.0
        )

    async def found(self) -> Counter[int]:
        """How often each payment is in the log, read from its beginning."""
        names = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        bounds = await find_bounds(self._cluster, names)
        numbers: Counter[int] = Counter()
        async with AssignedConsumer(self._cluster) as consumer:
            await consumer.assign(
                {name: first for name, (first, _) in bounds.items()}, {name: end for name, (_, end) in bounds.items()}
            )
            while not consumer.is_finished:
                for records in (await consumer.poll()).values():
                    numbers.update(int(record.value or b"") for record in records)
        return numbers

    # ---- writing and reading

    async def _write(self) -> None:
        receipts: list[asyncio.Queue[tuple[int, Receipt] | None]] = [asyncio.Queue() for _ in range(PARTITIONS)]
        async with BatchingProducer(self._cluster) as producer:
            watchers = [asyncio.create_task(self._watch(index, queue)) for index, queue in enumerate(receipts)]
            try:
                while not self._stopping.is_set():
                    for index, queue in enumerate(receipts):
                        number = self.sent_count
                        self.sent_count += 1
                        receipt = await producer.send(TOPIC, None, str(number).encode(), partition=index)
                        queue.put_nowait((number, receipt))
                    await asyncio.sleep(ROUND_S)
                for queue in receipts:
                    queue.put_nowait(None)
                await asyncio.gather(*watchers)
            finally:
                for watcher in watchers:
                    watcher.cancel()

    async def _watch(self, partition: int, receipts: asyncio.Queue[tuple[int, Receipt] | None]) -> None:
        while (item := await receipts.get()) is not None:
            number, receipt = item
            try:
                await receipt
            except (ClientError, Refusal):
                self.failed_count += 1
            else:
                self.acked.append(number)
                self._acks_s[partition].append(self._cluster.clock.monotonic_s())

    async def _read(self) -> None:
        settings = GroupConsumerSettings(auto_commit=True, auto_commit_interval_s=COMMIT_S)
        async with GroupConsumer(self._cluster, GROUP, [TOPIC], settings) as consumer:
            while True:
                taken = await consumer.poll()
                self.read_count += sum(len(records) for records in taken.values())

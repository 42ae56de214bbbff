"""A compacted topic with few keys, written and deleted over and over while every replica compacts on its own.

In the end each replica must show the newest value of every key: the last that was acked, or a later one of unknown
outcome. No key that was deleted is back.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import Acks, BatchingProducer, ProducerSettings
from headrace.model.names import TopicPartition
from headrace.simulation.history.history import Kind
from headrace.simulation.workloads.produce_and_consume import DELIVERY_TIMEOUT_S, TROUBLE
from headrace.wire.batches.header import read_header
from headrace.wire.batches.records import decode_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from headrace.broker.partitions.partition import Partition
    from headrace.client.producing.batch import Receipt
    from headrace.simulation.cluster import NodeProcess
    from headrace.simulation.history.history import Figures
    from headrace.simulation.workloads.context import WorkloadContext
    from headrace.wire.batches.records import Record

COMPACTED_KEYS: Final = "compacted keys"
PLACE: Final = TopicPartition("keyed", 0)
KEYS: Final = (b"a", b"b", b"c", b"d", b"e")  # few, so that most records are soon out of date
TOMBSTONE_FRACTION: Final = 0.25
NODE_CONFIGS: Final = {"log.cleaner.backoff.ms": "3000"}
CAUGHT_UP_WITHIN_S: Final = 30.0  # after a restart: an election, and what was missed
LOOK_EVERY_S: Final = 0.2
INFLATE_MAX: Final = 1 << 20  # far more than a burst has

_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",
    "max.compaction.lag.ms": "3000",  # seals what nobody writes to any more
}
# A replica that was away for longer than tombstones are kept may miss one, and that is known. So in a cluster they
# outlive the run; where there is nobody to be away they go as soon as they may.
RETENTION_MS: Final = "3600000"
RETENTION_ALONE_MS: Final = "500"


class Found(NamedTuple):
    offset: int
    value: bytes | None


@dataclass
class Attempts:
    """What was ever sent for one key; None deletes it."""

    acked: Found | None = None
    """The newest."""
    unknown: list[bytes | None] = field(default_factory=list)
    """A value is there once, a deletion as often as one was sent that is not known to have been acked."""

    def why_wrong(self, found: Found | None) -> str | None:
        """None if a reader may see this as the newest record of the key."""
        acked = self.acked
        if found is None:
            may_be_gone = acked is None or acked.value is None or None in self.unknown
            return None if may_be_gone else f"nothing is there, and {acked} was acked"
        if found == acked:
            return None
        is_later = acked is None or found.offset > acked.offset
        return None if is_later and found.value in self.unknown else f"the newest is {found}, and {acked} was acked"


class CompactedKeys:
    def __init__(self, context: WorkloadContext) -> None:
        self._context = context
        self._attempts = {key: Attempts() for key in KEYS}

    async def create_topic(self) -> None:
        retention_ms = RETENTION_MS if self._context.is_clustered else RETENTION_ALONE_MS
        async with self._context.client("operator") as cluster:
            await Admin(cluster).create_topic(
                PLACE.topic, partitions=1, configs={**_CONFIGS, "delete.retention.ms": retention_ms}
            )

    # Writing

    async def write(self, name: str) -> None:
        """One producer after the other. Each numbers its batches: no value is written twice, and none long after."""
        chance = self._context.random(name)
        settings = ProducerSettings(acks=Acks.ALL, is_idempotent=True, delivery_timeout_s=DELIVERY_TIMEOUT_S)
        while not self._context.is_over():
            async with self._context.client(name) as cluster:
                producer = BatchingProducer(cluster, settings)
                for _ in range(chance.randint(5, 20)):
                    if self._context.is_over():
                        break
                    await self._send_burst(producer, name, chance)
                    await self._context.rest_between(chance.choice((0.1, 0.5)))
                with suppress(*TROUBLE):  # every send's outcome was noted already
                    await producer.close()

    async def _send_burst(self, producer: BatchingProducer, name: str, chance: Random) -> None:
        burst: list[tuple[bytes, bytes | None, Receipt]] = []
        for key in chance.choices(KEYS, k=chance.randint(1, 4)):
            value = None if chance.random() < TOMBSTONE_FRACTION else self._context.value(name, chance)
            self._attempts[key].unknown.append(value)
            with suppress(*TROUBLE):
                burst.append((key, value, await producer.send(PLACE.topic, key, value, partition=PLACE.partition)))
        for key, value, receipt in burst:
            with suppress(*TROUBLE):
                self._note_acked(key, Found((await receipt).offset, value))

    def _note_acked(self, key: bytes, sent: Found) -> None:
        attempts = self._attempts[key]
        attempts.unknown.remove(sent.value)
        if attempts.acked is None or sent.offset > attempts.acked.offset:
            attempts.acked = sent

    # The end

    async def check(self, figures: Figures) -> None:
        """On every replica, once all have what the leader has."""
        deadline_s = self._context.now_s + CAUGHT_UP_WITHIN_S
        while not (replicas := self._caught_up()):
            if self._context.now_s > deadline_s:
                detail = f"its replicas are not alike {CAUGHT_UP_WITHIN_S:g} s after a restart"
                self._context.history.report(Kind.STUCK, PLACE, -1, detail)
                return
            await asyncio.sleep(LOOK_EVERY_S)
        for process, partition in replicas:
            self._check_replica(process, partition)
            mark = partition.log.cleaner_checkpoint  # kept in a file: it speaks of all the node's lives
            figures.compacted_replicas += mark is not None and mark.clean_end_offset > 0
        figures.keys_acked += sum(attempts.acked is not None for attempts in self._attempts.values())

    def _caught_up(self) -> list[tuple[NodeProcess, Partition]]:
        """Every replica; none if one is missing or behind."""
        replicas = [
            (process, partition)
            for process in self._context.cluster.nodes
            if process.node is not None
            for partition in process.node.topics.partitions()
            if partition.name == PLACE
        ]
        ends = {end for _, it in replicas for end in (it.log.next_offset, it.high_watermark)}
        wanted_counts = {len(it.replica.replicas) for _, it in replicas}
        is_complete = wanted_counts == {len(replicas)}  # nodes may be more than those
        return replicas if is_complete and len(ends) == 1 else []

    def _check_replica(self, process: NodeProcess, partition: Partition) -> None:
        newest = {record.key: Found(record.offset, record.value) for record in _records(process, partition)}
        for key, attempts in self._attempts.items():
            found = newest.pop(key, None)
            problem = attempts.why_wrong(found)
            if problem is not None:
                detail = f"on node {process.node_id} of key {key!r} {problem}"
                self._context.history.report(Kind.WRONG_VALUE, PLACE, -1 if found is None else found.offset, detail)
        for stranger, found in newest.items():
            self._context.history.report(Kind.INVENTED, PLACE, found.offset, f"nobody has sent the key {stranger!r}")


def _records(process: NodeProcess, partition: Partition) -> Iterator[Record]:
    """Read from the device itself: a node must not notice."""
    for segment in partition.log.segments:
        content = bytes(process.host.device.file(segment.log_path).cached[: segment.size])
        position = 0
        while position < len(content):
            header = read_header(content, position)
            yield from decode_records(content[position : position + header.size], inflate_max=INFLATE_MAX)
            position += header.size

"""The topic `__audit`: what all nodes have noted, in one place that consumers can read."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.broker.coordination.internal_topics import create_missing
from headrace.client.errors import ClientError
from headrace.metadata.configs.internal_topics import AUDIT
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.write_audit import AuditRecord as WireRecord
from headrace.wire.messages.write_audit import WriteAuditRequest, WriteAuditResponse
from headrace.wire.partitioning import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.broker.membership.commands import Commands
    from headrace.broker.membership.peers import Peers
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.counters import AuditCounters
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.metadata.image.cluster_image import Topic
    from headrace.runtime.clock import Clock

log = logging.getLogger(__name__)

LANE: Final = "audit"
WAITING_MAX: Final = 10_000  # records that wait until the topic can be written; some 4 MB
SENT_AT_ONCE: Final = 200
SENT_BYTES_MAX: Final = 256 << 10  # a topic takes a megabyte in one batch, unless an operator says less
COMMIT_S_MAX: Final = 8.0  # less than another node waits for the answer
TRY_AGAIN_S: Final = 0.5
TRY_AGAIN_S_MAX: Final = 30.0


class AuditRecord(NamedTuple):
    timestamp_ms: int
    key: bytes
    value: bytes


# size: the parts that it takes to write to a topic, wherever that is led
class AuditTopic:
    """Each record arrives once or, where an answer was lost, twice: node and sequence say which are the same."""

    def __init__(
        self,
        view: MetadataView,
        topics: TopicTable,
        peers: Peers,
        commands: Commands,
        clock: Clock,
        counters: AuditCounters,
    ) -> None:
        self._view = view
        self._topics = topics
        self._peers = peers
        self._commands = commands
        self._clock = clock
        self._counters = counters
        self._waiting: deque[AuditRecord] = deque()
        self._wake = asyncio.Event()
        self._is_failing = False

    def offer(self, records: Iterable[AuditRecord]) -> None:
        """Those that find no room are counted: the file has them."""
        for record in records:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append(record)
            else:
                self._counters.not_delivered += 1
        self._wake.set()

    async def run(self) -> None:
        backoff_s = TRY_AGAIN_S
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                if await self._send_some():
                    backoff_s = TRY_AGAIN_S
                    continue
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, TRY_AGAIN_S_MAX)

    async def _send_some(self) -> bool:
        """False if it has to be tried again."""
        records = self._next()
        try:
            await self._deliver(records)
        except (Refusal, ClientError) as trouble:
            self._say_once(str(trouble))
            if not (isinstance(trouble, Refusal) and trouble.code is ErrorCode.MESSAGE_TOO_LARGE):
                return False
            self._counters.not_delivered += len(records)  # it is as large the next time, and others wait behind it
        else:
            self._counters.delivered += len(records)
            self._say_it_works()
        for _ in records:
            self._waiting.popleft()
        return True

    def _next(self) -> list[AuditRecord]:
        records: list[AuditRecord] = []
        size = 0
        for record in islice(self._waiting, SENT_AT_ONCE):
            size += len(record.key) + len(record.value)
            if records and size > SENT_BYTES_MAX:
                break
            records.append(record)
        return records

    async def _deliver(self, records: Sequence[AuditRecord]) -> None:
        """Raises Refusal or ClientError; then some of them may be there already."""
        topic = await self._there()
        by_partition: dict[int, list[AuditRecord]] = {}
        for record in records:
            by_partition.setdefault(partition_for_key(record.key, topic.partition_count), []).append(record)
        for index, theirs in by_partition.items():
            leader = topic.partitions[index].leader
            if leader == self._view.node_id:
                await self.append_here(index, theirs)
                continue
            request = WriteAuditRequest(index, [WireRecord(*record) for record in theirs])
            answer = await self._peers.ask(leader, request, WriteAuditResponse, lane=LANE)
            if answer.error_code:
                raise Refusal(ErrorCode(answer.error_code), answer.error_message or f"as node {leader} says")

    async def _there(self) -> Topic:
        topic = self._view.image.topic_named(AUDIT)
        if topic is None:
            refusal = (await create_missing(self._commands, self._view, [AUDIT])).get(AUDIT)
            topic = self._view.image.topic_named(AUDIT)
            if topic is None:
                raise refusal or Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{AUDIT} is being created")
        return topic

    async def append_here(self, index: int, records: Sequence[AuditRecord]) -> None:
        """Where this node leads the partition; returns once they are committed. Raises Refusal."""
        partition = self._topics.partition(AUDIT, index)
        append = partition.writer.append(encode_batch([(*record, ()) for record in records]))
        await append.settling(self._clock.monotonic_s() + COMMIT_S_MAX)
        if append.refusal is not None:
            raise Refusal(append.refusal.code, append.refusal.message)

    def _say_once(self, trouble: str) -> None:
        if not self._is_failing:
            log.warning("the audit does not reach %s, and waits in memory: %s. %s", AUDIT, trouble, "The file has it")
        self._is_failing = True

    def _say_it_works(self) -> None:
        if self._is_failing:
            log.info("the audit reaches %s again; %d records are missing", AUDIT, self._counters.not_delivered)
        self._is_failing = False

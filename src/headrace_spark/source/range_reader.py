"""What a task does: fetch one range of one partition as raw bytes, and decode it to Arrow.

Answers are fetched ahead on the client's thread while this one decodes. Memory holds a handful of answers, however
long the range is.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.connections.cluster import RetryBackoff
from headrace.client.reading.offsets import find_bounds
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID
from headrace.wire.batches.header import HEADER_SIZE, read_header
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headrace_spark.blocking import BlockingCluster
from headrace_spark.codec.decoder import RangeDecoder
from headrace_spark.source.data_loss import Bounds, DataLoss, LossPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicId
    from headrace.wire.messages.fetch import AbortedTransaction, PartitionData
    from headrace_spark.kafka_options import KafkaOptions
    from headrace_spark.source.options import SourceOptions
    from headrace_spark.source.ranges import OffsetRange

QUEUED_ANSWERS: Final = 1  # with the one that waits to be queued, two are ahead of the decoder
TOPIC_WAIT_S: Final = 5.0  # the topic was there when the range was planned; another node may not have heard of it yet
FETCH_WAIT_MS: Final = 500  # for records that should be there; a node without them is asked again
ANSWER_GRACE_S: Final = 10.0  # beyond that wait: a node may have to read a cold disk
EMPTY_ANSWERS_MAX: Final = 3  # from a node that has records there, and is not throttled: they were compacted away

_GONE: Final = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


class RecreatedTopic(Exception):
    """The topic that was planned is gone, and another one has its name."""

    def __init__(self, topic: str, wanted: TopicId, found: TopicId) -> None:
        super().__init__(topic, wanted, found)
        self.ids = (wanted, found)


class FetchedBatches(NamedTuple):
    """What one Fetch brought, still encoded."""

    first_offset: int
    """What was asked for. The first batch may begin before it: batches come whole."""
    records: memoryview | bytes
    aborted: Sequence[AbortedTransaction]
    next_offset: int


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of the range, with the columns that the options name, in their order."""
    kafka = options.kafka
    # The driver has just spoken to the cluster: if nobody answers now, it is worth waiting for.
    patience_s = kafka.settings.retry_for_s
    settings = replace(kafka.settings, reach_for_s=patience_s, topic_wait_s=min(TOPIC_WAIT_S, patience_s))
    decoder = RangeDecoder(
        *wanted.name, wanted.start, wanted.end, options.columns, read_committed=kafka.is_read_committed
    )
    names = list(options.column_names)
    with BlockingCluster(kafka.bootstrap_servers, settings) as blocking:
        fetcher = blocking.run(_open_fetcher(blocking.cluster, kafka, wanted, LossPolicy(options.fail_on_data_loss)))
        try:
            while (answer := blocking.run(fetcher.next_fetched())) is not None:
                decoder.next_offset = answer.first_offset  # further on than the decoder is, if something was skipped
                for batch in decoder.decode(answer.records, answer.aborted):
                    yield batch.select(names)
        finally:
            blocking.run(fetcher.close())


async def _open_fetcher(cluster: Cluster, kafka: KafkaOptions, wanted: OffsetRange, losses: LossPolicy) -> RangeFetcher:
    """On the client's loop, where a fetcher lives."""
    return RangeFetcher(cluster, kafka, wanted, losses)


class RangeFetcher:
    """Fetches a range, answer by answer, a little ahead of its reader."""

    def __init__(self, cluster: Cluster, kafka: KafkaOptions, wanted: OffsetRange, losses: LossPolicy) -> None:
        self._cluster = cluster
        self._kafka = kafka
        self._name = wanted.name
        self._topic_id = wanted.topic_id
        self._next_offset = wanted.start
        self._end = wanted.end
        self._losses = losses
        self._answers: asyncio.Queue[FetchedBatches | Exception | None] = asyncio.Queue(QUEUED_ANSWERS)
        self._fetching = asyncio.get_running_loop().create_task(self._fetch_all(), name=f"fetch {self._name}")

    async def next_fetched(self) -> FetchedBatches | None:
        """None at the end. Raises what stopped the fetching."""
        answer = await self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Stop fetching."""
        self._fetching.cancel()
        await asyncio.gather(self._fetching, return_exceptions=True)

    async def _fetch_all(self) -> None:
        try:
            await self._find_topic()
            while self._next_offset < self._end:
                answer = await self._fetch()
                if answer is not None:
                    self._next_offset = answer.next_offset
                    await self._answers.put(answer)
        except Exception as trouble:  # noqa: BLE001 - it is raised where the answers are taken
            await self._answers.put(self._unless_accepted(trouble))
        else:
            await self._answers.put(None)

    async def _find_topic(self) -> None:
        """A node may not have heard of it yet, and still tell of the one before."""
        cluster, topic = self._cluster, self._name.topic
        await cluster.topic(topic)
        patience = RetryBackoff(cluster, cluster.settings.topic_wait_s)
        while (other := self._other_topic()) is not None:
            await patience.wait_or_raise(other)
            await cluster.refresh()

    def _other_topic(self) -> RecreatedTopic | None:
        """What is known under the topic's name, if that is not the one that was planned."""
        known = self._cluster.topic_id(self._name.topic)
        if self._topic_id is None or known in {self._topic_id, NO_TOPIC_ID}:
            return None
        return RecreatedTopic(self._name.topic, self._topic_id, known)

    def _unless_accepted(self, trouble: Exception) -> Exception | None:
        """A topic that was deleted meanwhile is a data loss, which the options may allow: then there is no error."""
        try:
            match trouble:
                case RecreatedTopic():
                    self._losses.report_made_anew(self._name.topic, *trouble.ids)
                case Refusal() if trouble.code in _GONE:
                    self._losses.report_gone(self._name, self._next_offset)
                case _:
                    return trouble
        except DataLoss as loss:
            return loss
        return None

    async def _fetch(self) -> FetchedBatches | None:
        """The next records; or None after the position was moved past those that do not exist."""
        clock = self._cluster.clock
        deadline_s = clock.monotonic_s() + self._cluster.settings.retry_for_s
        empty_count = 0
        while True:
            answered = await self._cluster.retry(self._ask)
            part = answered.responses[0].partitions[0]
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._skip_what_is_gone()
                return None
            records = part.records or b""
            next_offset = _next_offset(records, self._next_offset)
            if next_offset > self._next_offset:
                return FetchedBatches(self._next_offset, records, part.aborted_transactions or (), next_offset)
            if self._visible_end(part) >= self._end and not answered.throttle_time_ms:
                empty_count += 1
            if empty_count == EMPTY_ANSWERS_MAX:
                self._next_offset = self._end
                return None
            if clock.monotonic_s() > deadline_s:
                await self._skip_what_is_gone()
                return None

    def _visible_end(self, part: PartitionData) -> int:
        return part.last_stable_offset if self._kafka.is_read_committed else part.high_watermark

    async def _ask(self) -> FetchResponse:
        """An answer about the partition, which may say that there is no such offset. Other refusals are raised."""
        cluster, name, kafka = self._cluster, self._name, self._kafka
        if (other := self._other_topic()) is not None:
            raise other
        leader = cluster.leader_of(name)
        if leader is None:
            raise cluster.why_no_leader(name)
        partition = FetchPartition(
            name.partition, leader.leader_epoch, self._next_offset, partition_max_bytes=kafka.partition_fetch_bytes
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=kafka.fetch_bytes,
            isolation_level=kafka.isolation,
            topics=[FetchTopic(name.topic, cluster.topic_id(name.topic), [partition])],
        )
        connection = await cluster.node_connection(leader.leader)
        answer = await connection.request(request, FetchResponse, timeout_s=FETCH_WAIT_MS / 1000 + ANSWER_GRACE_S)
        code = ErrorCode(answer.error_code or answer.responses[0].partitions[0].error_code)
        if code not in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
            raise Refusal(code, f"{name} cannot be read: {code.name.lower().replace('_', ' ')}")
        return answer

    async def _skip_what_is_gone(self) -> None:
        """The log begins later or ends earlier than it did when the range was planned."""
        found = await find_bounds(self._cluster, [self._name], self._kafka.isolation)
        bounds = Bounds(*found[self._name])
        if bounds.first <= self._next_offset < bounds.end:
            return  # a leader that was behind; it has it now
        self._losses.report_missing(self._name, f"offsets {self._next_offset} to {self._end - 1} are", bounds)
        self._next_offset = bounds.first if self._next_offset < bounds.first else self._end


def _next_offset(records: memoryview | bytes, start: int) -> int:
    """The offset after the last whole batch; `start` if there is none."""
    next_offset, position = start, 0
    while len(records) - position >= HEADER_SIZE:
        header = read_header(records, position)
        if header.size < HEADER_SIZE or position + header.size > len(records):
            break
        next_offset = max(next_offset, header.next_offset)
        position += header.size
    return next_offset

"""Takes batches to their leaders and reads the answers. Ready partitions of one node share a request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from headrace.client.errors import ClientError, in_words, refuse_unless_ok
from headrace.client.producing.batch import Identity
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Millis, Offset, ProducerId
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.connection import Connection
    from headrace.client.producing.batch import PendingBatch
    from headrace.client.producing.partition_queue import PartitionQueue
    from headrace.client.producing.producer import ProducerSettings
    from headrace.client.producing.transactions import Transactions
    from headrace.model.names import TopicPartition
    from headrace.runtime.tasks import TaskScope
    from headrace.wire.messages.produce import PartitionProduceResponse

REQUEST_BYTES = 4 << 20  # batches for one node in one request; more would only make the first wait for the last
RETRY_FIRST_S = 0.05
RETRY_MAX_S = 1.0
UNUSED_TIMEOUT_MS = 60_000  # must be positive even for producers without transactions
NUMBERING_TAKES = "WRITE on some topic, or IDEMPOTENT_WRITE on the cluster"

# The log has lost track of this producer, for example because retention took all it wrote.
_IDENTITY_LOST = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}


class Outcomes(Protocol):
    """Who wants to know what became of a batch."""

    settings: ProducerSettings

    def batch_left(self, batch: PendingBatch) -> None:
        """It is on its way, for the first time or again."""

    def batch_delivered(self, batch: PendingBatch) -> None:
        """All of its messages are in the log."""

    def batch_failed(self, batch: PendingBatch, error: Exception) -> None:
        """It was given up."""

    def batch_split(self, batch: PendingBatch, halves: tuple[PendingBatch, PendingBatch]) -> None:
        """It was too large: its halves are sent instead."""


class Deliveries:
    """Groups the partitions that have something to send by their leaders, and repeats what may pass."""

    def __init__(
        self, outcomes: Outcomes, cluster: Cluster, scope: TaskScope, transactions: Transactions | None
    ) -> None:
        self._outcomes = outcomes
        self._cluster = cluster
        self._scope = scope
        self._transactions = transactions
        self._awake: dict[TopicPartition, PartitionQueue] = {}
        self._is_scheduled = False
        self._identity: Identity | None = None
        self._identity_lock = asyncio.Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Start nothing more. Timers may still come."""
        self._is_stopped = True

    def wake(self, queue: PartitionQueue) -> None:
        """Look at this partition soon. Those that are woken in one turn of the loop can share a request."""
        self._awake[queue.partition] = queue
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._start_deliveries)

    def _start_deliveries(self) -> None:
        self._is_scheduled = False
        if self._is_stopped:
            return
        now_s = self._cluster.clock.monotonic_s()
        awake, self._awake = self._awake, {}
        by_leader: dict[int, list[PartitionQueue]] = {}
        leaderless: list[PartitionQueue] = []
        for queue in awake.values():
            if not queue.is_ready(now_s):
                continue
            leader = self._cluster.leader_of(queue.partition)
            (leaderless if leader is None else by_leader.setdefault(leader.leader, [])).append(queue)
        for node_id, queues in by_leader.items():
            for share in _shares(queues):
                self._start(share)
                self._scope.start(self._deliver(node_id, share), f"deliver to node {node_id}")
        if leaderless:
            self._start(leaderless)
            self._scope.start(self._find_leaders(leaderless), "find leaders")

    def _start(self, queues: list[PartitionQueue]) -> None:
        for queue in queues:
            self._outcomes.batch_left(queue.start_next())

    async def _find_leaders(self, queues: list[PartitionQueue]) -> None:
        unreachable: Exception | None = None
        try:
            await self._cluster.refresh()
        except (ClientError, Refusal) as trouble:
            unreachable = trouble
        for queue in queues:
            assert queue.under_way is not None
            if self._cluster.leader_of(queue.partition) is not None:
                self._try_again(queue, queue.under_way, 0.0)
            else:
                queue.under_way.attempts += 1
                self._attempt_failed(queue, unreachable or self._cluster.why_no_leader(queue.partition))

    async def _deliver(self, node_id: int, queues: list[PartitionQueue]) -> None:
        is_sent = False
        try:
            identity = await self._identify(queues)
            connection = await self._cluster.node_connection(node_id)
            request = self._request(queues, identity)
            is_sent = True
            answer = await self._exchange(connection, request)
        except (ClientError, Refusal) as trouble:
            for queue in queues:
                assert queue.under_way is not None
                queue.under_way.is_uncertain |= is_sent
                queue.under_way.attempts += 1
                self._attempt_failed(queue, trouble)
            if isinstance(trouble, ClientError):
                await self._refresh_quietly()
            return
        if answer is None:
            for queue in queues:
                self._arrived(queue)
        else:
            self._read_answers(queues, request, answer)

    def _request(self, queues: list[PartitionQueue], identity: Identity | None) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for queue in queues:
            assert queue.under_way is not None
            name = queue.partition.topic
            if name not in topics:
                topics[name] = TopicProduceData(name, self._cluster.topic_id(name))
            topics[name].partition_data.append(
                PartitionProduceData(queue.partition.partition, memoryview(queue.encode(queue.under_way, identity)))
            )
        settings = self._outcomes.settings
        timeout_ms = int(self._cluster.settings.request_timeout_s * 1000)
        transactional_id = None if self._transactions is None else self._transactions.transactional_id
        return ProduceRequest(transactional_id, settings.acks, timeout_ms, list(topics.values()))

    async def _exchange(self, connection: Connection, request: ProduceRequest) -> ProduceResponse | None:
        if request.acks != 0:
            versions = None if self._transactions is None else self._transactions.flow.produce
            # The node itself gives up after timeout_ms; wait a little longer, to hear it say so.
            return await connection.request(
                request,
                ProduceResponse,
                version=connection.version_for(ProduceRequest, versions),
                timeout_s=request.timeout_ms / 1000 + 1,
            )
        connection.send_only(request)
        await connection.wait_sent()
        return None

    # Answers.

    def _read_answers(self, queues: list[PartitionQueue], request: ProduceRequest, answer: ProduceResponse) -> None:
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        # From version 13 on an answer names topics by id alone.
        answers = {
            (topic.name or names.get(topic.topic_id), partition.index): partition
            for topic in answer.responses
            for partition in topic.partition_responses
        }
        for queue in queues:
            assert queue.under_way is not None
            queue.under_way.attempts += 1
            found = answers.get(queue.partition)
            if found is None:
                queue.under_way.is_uncertain = True
                missing = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"the node said nothing about {queue.partition}")
                self._attempt_failed(queue, missing)
            else:
                self._read_answer(queue, queue.under_way, found)

    def _read_answer(self, queue: PartitionQueue, batch: PendingBatch, answer: PartitionProduceResponse) -> None:
        if answer.error_code == ErrorCode.NONE:
            batch.base_offset = Offset(answer.base_offset)
            batch.timestamp_ms = Millis(answer.log_append_time_ms) if answer.log_append_time_ms >= 0 else None
            self._arrived(queue)
        elif answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._arrived(queue)  # written by an earlier attempt, so long ago that its place is forgotten
        else:
            self._refused(queue, batch, answer)

    def _arrived(self, queue: PartitionQueue) -> None:
        batch = queue.under_way
        assert batch is not None
        queue.arrived(batch)
        queue.under_way = None
        self._outcomes.batch_delivered(batch)
        self.wake(queue)

    def _refused(self, queue: PartitionQueue, batch: PendingBatch, answer: PartitionProduceResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.is_uncertain:
            halves = batch.split()
            queue.put_back(halves, 0.0)
            self._outcomes.batch_split(batch, halves)
            self.wake(queue)
            return
        if self._can_start_afresh(batch, code):
            assert batch.identity is not None
            self._forget(batch.identity)
            batch.renumber()
            self._try_again(queue, batch, 0.0)
            return
        # A leader that lost its place, or its followers, may have written the batch before it said no.
        batch.is_uncertain |= code.is_retriable or code == ErrorCode.UNKNOWN_SERVER_ERROR
        message = answer.error_message or in_words(
            code, str(queue.partition), f"WRITE on topic {queue.partition.topic!r}"
        )
        for record in answer.record_errors:
            explanation = record.batch_index_error_message or message
            batch.errors_by_position[record.batch_index] = Refusal(code, explanation)
        self._attempt_failed(queue, Refusal(code, message))

    def _can_start_afresh(self, batch: PendingBatch, code: ErrorCode) -> bool:
        """True if the batch can go out again under a new identity. Not inside a transaction, which belongs to one."""
        is_first = batch.attempts == 1 and not batch.is_uncertain
        return is_first and code in _IDENTITY_LOST and batch.identity is not None and self._transactions is None

    def _attempt_failed(self, queue: PartitionQueue, trouble: Exception) -> None:
        """Put the batch back if trying again makes sense and there is time; otherwise it failed."""
        batch = queue.under_way
        assert batch is not None
        now_s = self._cluster.clock.monotonic_s()
        if self._cluster.is_retriable(trouble) and now_s < batch.deadline_s:
            backoff_s = min(RETRY_FIRST_S * 2 ** min(batch.attempts, 10), RETRY_MAX_S)
            if isinstance(trouble, Refusal) and not self._is_stopped:
                self._scope.start(self._refresh_quietly(), "refresh metadata")
            self._try_again(queue, batch, backoff_s)
            return
        if batch.is_uncertain and batch.identity is not None:
            # It may be in the log or not, so its numbers can neither be used again nor skipped.
            self._forget(batch.identity)
        queue.under_way = None
        self._outcomes.batch_failed(batch, trouble)
        self.wake(queue)

    def _try_again(self, queue: PartitionQueue, batch: PendingBatch, backoff_s: float) -> None:
        queue.put_back((batch,), self._cluster.clock.monotonic_s() + backoff_s)
        asyncio.get_running_loop().call_later(backoff_s, self._backoff_ended, queue)

    def _backoff_ended(self, queue: PartitionQueue) -> None:
        queue.retry_at_s = 0.0
        self.wake(queue)

    async def _refresh_quietly(self) -> None:
        self._cluster.ask_another()
        try:
            await self._cluster.refresh()
        except (ClientError, Refusal):
            return  # the next attempt meets the same trouble, and counts it

    # Identity.

    async def _identify(self, queues: list[PartitionQueue]) -> Identity | None:
        """Whose batches these are, if anybody's."""
        if self._transactions is not None:
            return await self._transactions.admit([queue.partition for queue in queues])
        if not self._outcomes.settings.numbers_batches:
            return None
        async with self._identity_lock:
            if self._identity is None:
                answer = await self._cluster.ask(InitProducerIdRequest(None, UNUSED_TIMEOUT_MS), InitProducerIdResponse)
                refuse_unless_ok(answer.error_code, "a producer's id", right=NUMBERING_TAKES)
                self._identity = Identity(ProducerId(answer.producer_id), answer.producer_epoch)
            return self._identity

    def _forget(self, identity: Identity) -> None:
        """Take a new identity for what is sent from now on. Batches under way keep the old one."""
        if self._identity == identity:
            self._identity = None


def _shares(queues: list[PartitionQueue]) -> list[list[PartitionQueue]]:
    """Cut the partitions of one node into requests of a reasonable size."""
    shares: list[list[PartitionQueue]] = [[]]
    size = 0
    for queue in queues:
        batch = queue.waiting[0] if queue.waiting else queue.filling
        assert batch is not None
        if shares[-1] and size + batch.size > REQUEST_BYTES:
            shares.append([])
            size = 0
        shares[-1].append(queue)
        size += batch.size
    return shares

"""Produce (key 0). Two stages: stage the batches now, answer when they are written or committed.

Some requests have a stage before these, in which their connection waits: batches whose records are too much work for
the loop are looked at beside it, the coordinator of a transaction must agree to its first batch in a partition, and of
very many batches only some are begun in one turn. See `produced_batches`.

Not yet: the current leader in answers to those who ask the wrong node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.handlers.records.produced_batches import ProducedBatches, refused
from headrace.servers.kafka.rights import Right, Rights
from headrace.servers.kafka.slot import Slot
from headrace.wire.batches.examination import TakesLong
from headrace.wire.batches.header import ATTRIBUTES_LOW_BYTE, HEADER_SIZE, TRANSACTIONAL_BIT
from headrace.wire.produce import (
    PARTITIONS_MAX,
    ProduceOutcome,
    TooManyPartitions,
    decode_one_batch,
    encode_one_success,
    encode_outcome,
    encode_produce_response,
    with_throttle,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker.partitions.pending_appends import PendingAppend
    from headrace.broker.partitions.writing import AppendStage
    from headrace.servers.kafka.handlers.records.produced_batches import ProduceParts, Result
    from headrace.servers.kafka.interfaces import ClientConnection
    from headrace.servers.kafka.record_rights import RecordRights

    Results = list[tuple[str | bytes, list[Result]]]
    """By topic, in the order of the request."""

VERSIONS = (3, 13)

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1

AT_ONCE = 64  # batches that are begun in one turn: a millisecond or two, if each is for a partition of its own


class Buffer(Protocol):
    """Where a request's bytes lie."""

    @property
    def raw(self) -> bytes | bytearray: ...

    @property
    def view(self) -> memoryview: ...


class Frame(NamedTuple):
    """One Produce request: where its bytes lie, from where its client id ends on, and how to read them."""

    raw: bytes | bytearray
    view: memoryview
    position: int
    end: int
    version: int
    correlation_id: int
    is_crowd: bool = False
    """It has more batches than are begun at once."""
    throttle_ms: int = 0
    """For how long its client is to send nothing more."""


class PendingProduce(Slot):
    """A request between its two stages; it is its own place in the line of answers."""

    __slots__ = (
        "_awaited",
        "_connection",
        "_results",
        "_timeout_ms",
        "_version",
        "acks",
        "correlation_id",
        "throttle_ms",
    )

    def __init__(self, acks: int, timeout_ms: int, version: int, correlation_id: int, results: Results) -> None:
        self.chunks = None
        self.size = 0
        self.acks = acks
        self.correlation_id = correlation_id
        self.throttle_ms = 0
        """For how long its client is to send nothing more."""
        self._version = version
        self._timeout_ms = timeout_ms
        self._results = results
        self._awaited: int
        self._connection: ClientConnection

    def finish(self, connection: ClientConnection) -> None:
        """Second stage, after the write: answer, or wait until every batch is committed."""
        if self.acks == ACKS_LEADER:
            answer = self._answer()
            connection.fill(self, self._with_throttle(answer) if self.throttle_ms else answer)
        elif self.acks == ACKS_NONE:
            self._close_on_error(connection)
        else:
            self._wait(connection)

    def _all_results(self) -> Results:
        return self._results

    def _wait(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._awaited = 0
        for _, results in self._all_results():
            self._watch(results)
        if not self._awaited:
            answer = self._answer()
            connection.fill(self, self._with_throttle(answer) if self.throttle_ms else answer)

    def _watch(self, results: Sequence[Result]) -> None:
        """In the turn that wrote them: later this node may follow another, whose high watermark says nothing of what
        was written here."""
        deadline_s = self._connection.clock.monotonic_s() + self._timeout_ms / 1000
        for result in results:
            if not isinstance(result, ProduceOutcome) and result.when_settled(self._one_committed, deadline_s):
                self._awaited += 1

    def _one_committed(self) -> None:
        self._awaited -= 1
        if not self._awaited and not self._connection.is_gone:
            answer = self._answer()
            self._connection.answer_together(self, self._with_throttle(answer) if self.throttle_ms else answer)

    def _with_throttle(self, answer: bytes) -> bytes:
        return with_throttle(answer, self._version, self.throttle_ms)

    def _answer(self) -> bytes:
        topics = [(topic, self._encoded(results)) for topic, results in self._all_results()]
        return encode_produce_response(self.correlation_id, self._version, topics)

    def _encoded(self, results: Sequence[Result]) -> list[bytes]:
        return [encode_outcome(self._version, _outcome(result)) for result in results]

    def _close_on_error(self, connection: ClientConnection) -> None:
        """A client that wants no answers learns of an error by losing its connection."""
        for topic, results in self._all_results():
            for result in results:
                outcome = _outcome(result)
                if outcome.error_code:
                    name = ErrorCode(outcome.error_code).name
                    connection.refuse(f"produce with acks=0 to {topic!r}-{outcome.partition} failed: {name}")
                    return


class PendingInTurns(PendingProduce):
    """A request whose batches are begun, and written, in several turns."""

    __slots__ = ("_begun",)

    def __init__(self, connection: ClientConnection, request: ProducedBatches, frame: Frame) -> None:
        super().__init__(request.acks, request.timeout_ms, frame.version, frame.correlation_id, [])
        self.throttle_ms = frame.throttle_ms
        self._connection = connection
        self._awaited = 1  # for those that are not begun yet
        self._begun: list[Result] = []

    async def begin(self, request: ProducedBatches, stage: AppendStage) -> None:
        """All batches, some in each turn. When it returns, all are written."""
        connection = self._connection
        while results := await request.begin_next(AT_ONCE, connection.address):
            stage.commit()
            if self.acks == ACKS_ALL:
                self._watch(results)
            self._note(results)
            await asyncio.sleep(0)
        self._results = request.by_topic(self._begun)

    def _note(self, results: list[Result]) -> None:
        self._begun += results

    def _wait(self, connection: ClientConnection) -> None:  # noqa: ARG002 - it is the one that it has
        self._one_committed()


class PendingCrowd(PendingInTurns):
    """A request of very many batches. What became of them is noted as bytes where it is final: so many objects would
    keep the garbage collector busy. Its answer is put together in several turns, too."""

    __slots__ = ("_answers", "_is_committed")

    def __init__(self, connection: ClientConnection, request: ProducedBatches, frame: Frame) -> None:
        super().__init__(connection, request, frame)
        self._answers: list[bytes] = []
        self._is_committed = asyncio.Event()

    def _note(self, results: list[Result]) -> None:
        if self.acks in {ACKS_ALL, ACKS_NONE}:
            self._begun += results
        else:
            self._answers += self._encoded(results)

    async def answer(self, request: ProducedBatches) -> bytes:
        """When everything is written, or committed."""
        if self.acks == ACKS_ALL:
            self._one_committed()
            await self._is_committed.wait()
            for first in range(0, len(self._begun), AT_ONCE):
                self._answers += self._encoded(self._begun[first : first + AT_ONCE])
                await asyncio.sleep(0)
        answer = encode_produce_response(self.correlation_id, self._version, request.by_topic(self._answers))
        return with_throttle(answer, self._version, self.throttle_ms)

    def _one_committed(self) -> None:
        self._awaited -= 1
        if not self._awaited:
            self._is_committed.set()


class PendingOne(PendingProduce):
    """A request for one partition, whose batch was let in: what nearly all of them are."""

    __slots__ = ("_append", "_topic")

    def __init__(
        self, acks: int, timeout_ms: int, version: int, correlation_id: int, topic: str | bytes, append: PendingAppend
    ) -> None:
        self.chunks = None
        self.size = 0
        self.acks = acks
        self.correlation_id = correlation_id
        self.throttle_ms = 0
        self._version = version
        self._timeout_ms = timeout_ms
        self._topic = topic
        self._append = append

    def _all_results(self) -> Results:
        return [(self._topic, [self._append])]

    def _answer(self) -> bytes:
        append = self._append
        if append.refusal is not None:
            return super()._answer()
        partition = append.partition
        offsets = (append.base_offset, append.append_time_ms, partition.log.start_offset)
        return encode_one_success(self.correlation_id, self._version, self._topic, partition.index, offsets)


RIGHTS = Rights(
    inside=(
        Right(Operation.WRITE, ResourceType.TOPIC, "topic_data"),
        Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
    )
)


def begin(
    parts: ProduceParts,
    rights: RecordRights | None,
    buffer: Buffer,
    position: int,
    end: int,
    version: int,
    correlation_id: int,
) -> PendingProduce | Frame:
    """First stage: check every batch and stage it for this turn's write. `position` is where the client id ends.

    A request that has to wait is returned as it stands; `begin_slowly` goes on with it.
    """
    one = decode_one_batch(buffer.raw, position, end, version)
    if one is None or not ACKS_ALL <= one[0] <= ACKS_LEADER:
        return _begin_some(parts, rights, Frame(buffer.raw, buffer.view, position, end, version, correlation_id))
    acks, timeout_ms, topic, index, start, size = one
    try:
        if rights is not None and not (rights.is_known_writable(topic) or rights.may_write(topic)):
            raise rights.no_write(topic)
        if rights is not None and size >= HEADER_SIZE and buffer.raw[start + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
            raise rights.no_transaction()
        writer = parts.topics.partition(topic, index).writer
        append = writer.admit(buffer.view[start : start + size], acks, version, None, buffer.raw, start)
    except Refusal as refusal:
        return PendingProduce(acks, timeout_ms, version, correlation_id, [(topic, [refused(index, refusal)])])
    except TakesLong:
        return Frame(buffer.raw, buffer.view, position, end, version, correlation_id)
    return PendingOne(acks, timeout_ms, version, correlation_id, topic, append)


def _begin_some(parts: ProduceParts, rights: RecordRights | None, frame: Frame) -> PendingProduce | Frame:
    """A request of a few batches, if nothing has to be waited for."""
    try:
        request = ProducedBatches(parts, rights, frame, AT_ONCE)
    except TooManyPartitions:
        return frame._replace(is_crowd=True)
    results = request.begin_at_once()
    if results is None:
        return frame
    topics = request.by_topic(results)
    return PendingProduce(request.acks, request.timeout_ms, frame.version, frame.correlation_id, topics)


async def begin_slowly(parts: ProduceParts, connection: ClientConnection, frame: Frame) -> PendingProduce:
    """First stage of a request that has to wait for something. Nobody may change its bytes meanwhile."""
    request = ProducedBatches(parts, connection.rights, frame, AT_ONCE)
    pending = PendingInTurns(connection, request, frame)
    await pending.begin(request, parts.stage)
    return pending


async def serve_crowd(parts: ProduceParts, connection: ClientConnection, frame: Frame) -> None:
    """Both stages of a request with very many batches. What is known of them takes memory until it is answered, so
    there should be few such requests at a time, and fewer that begin."""
    async with connection.server.crowds_beginning.turn(connection.address):
        request = ProducedBatches(parts, connection.rights, frame, PARTITIONS_MAX)
        pending = PendingCrowd(connection, request, frame)
        await pending.begin(request, parts.stage)
    if not pending.acks:
        pending.finish(connection)
    elif not connection.is_gone:
        connection.stand_in_line(pending)
        connection.answer_later(pending, (await pending.answer(request),))


def _outcome(result: PendingAppend | ProduceOutcome) -> ProduceOutcome:
    return result if isinstance(result, ProduceOutcome) else result.outcome()

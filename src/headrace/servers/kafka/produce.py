"""Produce (key 0). Two stages: stage the batches now, answer when they are written or committed.

Not yet: transactions; the current leader in answers to those who ask the wrong node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.partition import RefusedRecords
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.slot import Slot
from headrace.wire.primitives import Malformed
from headrace.wire.produce import (
    ProduceOutcome,
    decode_one_batch,
    decode_produce,
    encode_one_success,
    encode_produce_response,
    skip_tags,
)

if TYPE_CHECKING:
    from headrace.broker.appending import Admitted
    from headrace.broker.node import Node
    from headrace.broker.partition import Partition
    from headrace.servers.kafka.connection import Connection
    from headrace.servers.kafka.receive_buffer import ReceiveBuffer

VERSIONS = (3, 13)
FLEXIBLE_FROM = 9

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1

Results = list[tuple[str | bytes, "list[Admitted | ProduceOutcome]"]]
"""By topic, in the order of the request."""


class PendingProduce(Slot):
    """A request between its two stages; it is its own place in the line of answers."""

    __slots__ = ("_awaited", "_connection", "_results", "_timeout_ms", "_version", "acks", "correlation_id")

    def __init__(self, acks: int, timeout_ms: int, version: int, correlation_id: int, results: Results) -> None:
        self.chunks = None
        self.size = 0
        self.acks = acks
        self.correlation_id = correlation_id
        self._version = version
        self._timeout_ms = timeout_ms
        self._results = results
        self._awaited: int
        self._connection: Connection

    def finish(self, connection: Connection) -> None:
        """Second stage, after the write: answer, or wait until every batch is committed."""
        if self.acks == ACKS_LEADER:
            connection.fill(self, self._answer())
        elif self.acks == ACKS_NONE:
            self._close_on_error(connection)
        else:
            self._wait(connection)

    def _all_results(self) -> Results:
        return self._results

    def _wait(self, connection: Connection) -> None:
        self._connection = connection
        self._awaited = 0
        for _, results in self._all_results():
            for result in results:
                if not isinstance(result, ProduceOutcome) and not result.is_settled:
                    self._awaited += 1
                    result.partition.when_committed(result, self._one_committed, self._deadline_s(connection))
        if not self._awaited:
            connection.fill(self, self._answer())

    def _deadline_s(self, connection: Connection) -> float:
        return connection.node.world.clock.monotonic_s() + self._timeout_ms / 1000

    def _one_committed(self) -> None:
        self._awaited -= 1
        if not self._awaited and not self._connection.is_gone:
            self._connection.answer_later(self, (self._answer(),))

    def _answer(self) -> bytes:
        topics = [(topic, [_outcome(result) for result in parts]) for topic, parts in self._all_results()]
        return encode_produce_response(self.correlation_id, self._version, topics)

    def _close_on_error(self, connection: Connection) -> None:
        """A client that wants no answers learns of an error by losing its connection."""
        for topic, results in self._all_results():
            for result in results:
                outcome = _outcome(result)
                if outcome.error_code:
                    name = ErrorCode(outcome.error_code).name
                    connection.refuse(f"produce with acks=0 to {topic!r}-{outcome.partition} failed: {name}")
                    return


class PendingOne(PendingProduce):
    """A request for one partition, whose batch was let in: what nearly all of them are."""

    __slots__ = ("_admitted", "_topic")

    def __init__(
        self, acks: int, timeout_ms: int, version: int, correlation_id: int, topic: str | bytes, admitted: Admitted
    ) -> None:
        self.chunks = None
        self.size = 0
        self.acks = acks
        self.correlation_id = correlation_id
        self._version = version
        self._timeout_ms = timeout_ms
        self._topic = topic
        self._admitted = admitted

    def _all_results(self) -> Results:
        return [(self._topic, [self._admitted])]

    def _answer(self) -> bytes:
        admitted = self._admitted
        if admitted.refusal is not None:
            return super()._answer()
        partition = admitted.partition
        offsets = (admitted.base_offset, admitted.append_time_ms, partition.log.start_offset)
        return encode_one_success(self.correlation_id, self._version, self._topic, partition.index, offsets)


def begin(
    node: Node, buffer: ReceiveBuffer, position: int, end: int, version: int, correlation_id: int
) -> PendingProduce:
    """First stage: check every batch and stage it for this turn's write. `position` is where the client id ends."""
    one = decode_one_batch(buffer.raw, position, end, version)
    if one is None or not ACKS_ALL <= one[0] <= ACKS_LEADER:
        return _begin_many(node, buffer, position, end, version, correlation_id)
    acks, timeout_ms, topic, index, start, size = one
    try:
        admitted = node.topics.partition(topic, index).admit(buffer.view[start : start + size], acks, version)
    except Refusal as refusal:
        return PendingProduce(acks, timeout_ms, version, correlation_id, [(topic, [_refused(index, refusal)])])
    return PendingOne(acks, timeout_ms, version, correlation_id, topic, admitted)


def _begin_many(
    node: Node, buffer: ReceiveBuffer, position: int, end: int, version: int, correlation_id: int
) -> PendingProduce:
    if version >= FLEXIBLE_FROM:
        position = _after_tags(buffer.raw, position)
    _, acks, timeout_ms, topics = decode_produce(buffer.raw, position, end, version)
    view = buffer.view
    partition_of = node.topics.partition if ACKS_ALL <= acks <= ACKS_LEADER else _refuse_acks
    answers: Results = []
    for topic, parts in topics:
        results: list[Admitted | ProduceOutcome] = []
        for index, start, size in parts:
            try:
                batch = view[start : start + size] if size > 0 else view[:0]
                results.append(partition_of(topic, index).admit(batch, acks, version))
            except Refusal as refusal:
                results.append(_refused(index, refusal))
        answers.append((topic, results))
    return PendingProduce(acks, timeout_ms, version, correlation_id, answers)


def _after_tags(raw: bytearray, position: int) -> int:
    """A flexible request's header ends with tags, which mean nothing to us."""
    try:
        return skip_tags(raw, position)
    except IndexError as error:
        raise Malformed("Produce: the tags of the header end after the frame") from error


def _refuse_acks(topic: str | bytes, index: int) -> Partition:
    raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks for {topic!r}-{index} must be -1 (all), 0 or 1")


def _outcome(result: Admitted | ProduceOutcome) -> ProduceOutcome:
    return result if isinstance(result, ProduceOutcome) else result.outcome()


def _refused(partition: int, refusal: Refusal) -> ProduceOutcome:
    errors = refusal.record_errors if isinstance(refusal, RefusedRecords) else ()
    return ProduceOutcome(partition, refusal.code, -1, -1, -1, errors, refusal.message)

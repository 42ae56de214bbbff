"""Produce (key 0). Two stages: stage the batches now, answer when they are written or committed.

The first batch of a transaction in a partition has a stage before these: the transaction's coordinator must agree.

Not yet: the current leader in answers to those who ask the wrong node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.broker.rules import RefusedRecords
from headrace.coordinators.transactions.state import BUMPING_VERSION
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ProducerId
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
    from collections.abc import Mapping

    from headrace.broker.appending import Admitted
    from headrace.broker.node import Node
    from headrace.broker.partition import Partition
    from headrace.model.names import TopicPartition
    from headrace.replication.transactions import TransactionClaim
    from headrace.servers.kafka.connection import Connection
    from headrace.wire.produce import Produced

    Topics = list[tuple[str | bytes, list[Produced]]]

VERSIONS = (3, 13)
FLEXIBLE_FROM = 9

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1

IMPLICIT_ADD_FROM = 12  # transaction.version 2: no AddPartitionsToTxn before it
ABORTABLE_FROM = 11

_COORDINATOR_TROUBLE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}

Results = list[tuple[str | bytes, "list[Admitted | ProduceOutcome]"]]
"""By topic, in the order of the request."""


class Frame(Protocol):
    """Where a request's bytes lie."""

    @property
    def raw(self) -> bytearray: ...

    @property
    def view(self) -> memoryview: ...


class Claim(NamedTuple):
    partition: Partition
    claim: TransactionClaim


class NeedsGrants(NamedTuple):
    """Instead of a begun request: the transaction's coordinator must agree first."""

    transactional_id: str
    claims: list[Claim]


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
            self._connection.answer_together(self, self._answer())

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
    node: Node, buffer: Frame, position: int, end: int, version: int, correlation_id: int
) -> PendingProduce | NeedsGrants:
    """First stage: check every batch and stage it for this turn's write. `position` is where the client id ends."""
    one = decode_one_batch(buffer.raw, position, end, version)
    if one is None or not ACKS_ALL <= one[0] <= ACKS_LEADER:
        return _begin_many(node, buffer, position, end, version, correlation_id)
    acks, timeout_ms, topic, index, start, size = one
    try:
        admitted = node.topics.partition(topic, index).writer.admit(buffer.view[start : start + size], acks, version)
    except Refusal as refusal:
        return PendingProduce(acks, timeout_ms, version, correlation_id, [(topic, [_refused(index, refusal)])])
    return PendingOne(acks, timeout_ms, version, correlation_id, topic, admitted)


def _begin_many(
    node: Node,
    frame: Frame,
    position: int,
    end: int,
    version: int,
    correlation_id: int,
    refused: Mapping[TopicPartition, ErrorCode] | None = None,
) -> PendingProduce | NeedsGrants:
    if version >= FLEXIBLE_FROM:
        position = _after_tags(frame.raw, position)
    transactional_id, acks, timeout_ms, topics = decode_produce(frame.raw, position, end, version)
    view = frame.view
    if transactional_id is not None and refused is None:
        claims = _claims(node, view, topics)
        if claims:
            return NeedsGrants(transactional_id, claims)
    partition_of = node.topics.partition if ACKS_ALL <= acks <= ACKS_LEADER else _refuse_acks
    answers: Results = []
    for topic, parts in topics:
        results: list[Admitted | ProduceOutcome] = []
        for index, start, size in parts:
            try:
                batch = view[start : start + size] if size > 0 else view[:0]
                partition = partition_of(topic, index)
                if refused and (code := refused.get(partition.name)):
                    raise Refusal(code, f"the transaction of {transactional_id!r} does not take {partition.name}")
                results.append(partition.writer.admit(batch, acks, version))
            except Refusal as refusal:
                results.append(_refused(index, refusal))
        answers.append((topic, results))
    return PendingProduce(acks, timeout_ms, version, correlation_id, answers)


def _claims(node: Node, view: memoryview, topics: Topics) -> list[Claim]:
    """Which partitions meet a producer's transaction for the first time in this request."""
    claims = []
    for topic, parts in topics:
        for index, start, size in parts:
            try:
                partition = node.topics.partition(topic, index)
            except Refusal:
                continue  # it is refused when its turn comes
            claim = partition.writer.wants_grant(view[start : start + size]) if size > 0 else None
            if claim is not None:
                claims.append(Claim(partition, claim))
    return claims


class FrameCopy(NamedTuple):
    """A request's bytes beyond the turn in which they came: it has to wait, and the buffer is needed for others."""

    raw: bytearray
    view: memoryview


async def begin_granted(
    node: Node, needs: NeedsGrants, frame: FrameCopy, position: int, version: int, correlation_id: int
) -> PendingProduce:
    """First stage of a request that begins a transaction in some partition. Ask, then stage what was agreed to.

    Between the coordinator's answer and the write nothing is awaited: no marker can come between them.
    """
    refused = await _ask_for_grants(node, needs, version)
    for partition, claim in needs.claims:
        if not refused.get(partition.name):
            partition.writer.grant_transaction(claim)
    pending = _begin_many(node, frame, position, len(frame.raw), version, correlation_id, refused)
    assert isinstance(pending, PendingProduce)
    return pending


async def _ask_for_grants(node: Node, needs: NeedsGrants, version: int) -> dict[TopicPartition, ErrorCode]:
    codes: dict[TopicPartition, ErrorCode] = {}
    by_producer: dict[tuple[int, int], list[TopicPartition]] = {}
    for partition, claim in needs.claims:
        by_producer.setdefault((claim.producer_id, claim.producer_epoch), []).append(partition.name)
    for (producer_id, producer_epoch), names in by_producer.items():
        codes |= await node.coordination.add_to_transaction(
            needs.transactional_id,
            ProducerId(producer_id),
            producer_epoch,
            names,
            transaction_version=BUMPING_VERSION,
            verify_only=version < IMPLICIT_ADD_FROM,
        )
    return {name: _code_for(code, version) for name, code in codes.items()}


def _code_for(code: ErrorCode, version: int) -> ErrorCode:
    """What a producer of this version understands: older ones take only errors that Produce always had."""
    if code in _COORDINATOR_TROUBLE or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < IMPLICIT_ADD_FROM):
        return ErrorCode.NOT_ENOUGH_REPLICAS  # it tries again
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


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

"""The batches of one Produce request: what is known of each, and how it gets in.

Each is looked at before it is let in: on the loop, if that is little work, else beside it. Then the coordinator of its
transaction may have to agree. Between the last answer that was waited for and the write nothing is awaited: no marker
can come between them, and settings that have changed meanwhile count.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from headrace.coordinators.transactions.state import BUMPING_VERSION
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ProducerId
from headrace.runtime.tasks import outlast
from headrace.wire.batches.examination import ON_THE_LOOP, Rejected, TakesLong, Unopened, examine, rejected
from headrace.wire.batches.header import is_of_transaction
from headrace.wire.primitives import Malformed
from headrace.wire.produce import ProduceOutcome, Tags, decode_produce

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.membership.registration import Registration
    from headrace.broker.partitions.examiner import Examiner
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.pending_appends import PendingAppend
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.partitions.writing import AppendStage, PartitionWriter
    from headrace.model.names import TopicPartition
    from headrace.replication.open_transactions import TransactionClaim
    from headrace.runtime.clock import Clock
    from headrace.servers.kafka.handlers.records.produce import Frame
    from headrace.servers.kafka.record_rights import RecordRights
    from headrace.wire.batches.examination import Demands, Examined

    Result = PendingAppend | ProduceOutcome
    """What became of one batch."""

T = TypeVar("T")

TURN_BYTES = 4 << 20  # to check and to write them takes some milliseconds
FLEXIBLE_FROM = 9
IMPLICIT_ADD_FROM = 12  # transaction.version 2: no AddPartitionsToTxn before it
ABORTABLE_FROM = 11

_COORDINATOR_TROUBLE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class ProduceParts(NamedTuple):
    """The parts of a node that Produce uses: looked up once for all requests."""

    topics: TopicTable
    examiner: Examiner
    coordinators: Coordinators
    registration: Registration
    stage: AppendStage
    clock: Clock


class Claim(NamedTuple):
    partition: Partition
    claim: TransactionClaim


class ProducedBatch:
    """One partition's share of a request."""

    __slots__ = ("index", "is_long", "look", "size", "start", "topic", "unopened")

    def __init__(self, topic: str | bytes, index: int, start: int, size: int) -> None:
        self.topic = topic
        self.index = index
        self.start = start
        self.size = max(size, 0)
        self.look: Examined | ProduceOutcome | None = None
        """What is in it, or how it is refused; None while nobody has looked."""
        self.unopened: Unopened | None = None
        """What is to be looked at. Its header was checked, and need not be again."""
        self.is_long = False
        """It is too much for a turn of the loop."""

    def is_known(self, demands: Demands) -> bool:
        """Nobody needs to look again: settings that change meanwhile ask for other things."""
        look = self.look
        return look is not None and (isinstance(look, ProduceOutcome) or look.demands == demands)


class ProducedBatches:
    """Of one request. Raises Malformed, TooManyPartitions if there are more than `most` topics, or partitions."""

    def __init__(self, parts: ProduceParts, rights: RecordRights | None, frame: Frame, most: int) -> None:
        self._parts = parts
        self._rights = rights
        """What its client may do; None where nobody is asked."""
        self._frame = frame
        self._transactional_id, self.acks, self.timeout_ms, self._topics = decode_produce(
            frame.raw, _after_header(frame), frame.end, frame.version, most
        )
        self._unmade = (ProducedBatch(topic, *part) for topic, parts in self._topics for part in parts)
        self._waiting: list[ProducedBatch] = []

    def by_topic(self, results: Iterable[T]) -> list[tuple[str | bytes, list[T]]]:
        """What became of all batches, in the order of the request."""
        left = iter(results)
        return [(topic, list(islice(left, len(parts)))) for topic, parts in self._topics]

    def begin_at_once(self) -> list[Result] | None:
        """Stage all of them. None if something has to be waited for, or is too much for one turn."""
        share = list(self._unmade)
        is_much = sum(batch.size for batch in share) > TURN_BYTES
        return None if is_much or self._look(share) or self._claims(share) else self._admit(share)

    async def begin_next(self, at_once: int, address: str) -> list[Result]:
        """Stage some of those that wait; nothing if none is left. No batch waits for those behind it: what is known is
        let in, and the rest is for the next time."""
        refusals: dict[TopicPartition, ErrorCode] | None = None
        asked = 0
        self._make_some(at_once)
        parts = self._parts
        while self._waiting:
            parts.registration.look_at_lease(parts.clock.monotonic_s())
            share = self._waiting if refusals is None else self._waiting[:asked]
            unopened = self._look(share)
            if unopened:
                if unopened[0][0] is share[0]:
                    refusals = None
                    await self._have_opened(unopened, address)
                    continue
                share = share[: share.index(unopened[0][0])]
            claims = self._claims(share) if refusals is None else []
            if not claims:
                self._waiting = self._waiting[len(share) :]
                return self._admit(share, refusals)
            refusals, asked = await outlast(self._ask_for_grants(claims)), len(share)
            for partition, claim in claims:
                if not refusals.get(partition.name):
                    partition.writer.grant_transaction(claim)
        return []

    def _make_some(self, at_once: int) -> None:
        """As many as one turn takes: each batch is read for its CRC, and written."""
        size = sum(batch.size for batch in self._waiting)
        while len(self._waiting) < at_once and size < TURN_BYTES and (batch := next(self._unmade, None)) is not None:
            self._waiting.append(batch)
            size += batch.size

    # ---- what is in them

    def _look(self, share: Sequence[ProducedBatch]) -> list[tuple[ProducedBatch, Unopened]]:
        """Find out what is not known yet. Returns what is too much for the loop, which has one allowance for all."""
        steps_left = ON_THE_LOOP.steps
        unopened = []
        for batch in share:
            try:
                partition = self._partition_of(batch)
                if batch.is_known(partition.writer.rules.demands):
                    continue
                found = self._look_at(batch, partition.writer, steps_left)
            except Refusal as refusal:
                batch.look = refused(batch.index, refusal)
                steps_left -= batch.size
                continue
            if isinstance(found, Unopened):
                steps_left = 0
                unopened.append((batch, found))
            else:
                batch.look = found
                steps_left -= found.steps
        return unopened

    def _look_at(self, batch: ProducedBatch, writer: PartitionWriter, steps_left: int) -> Examined | Unopened:
        frame, unopened = self._frame, batch.unopened
        if unopened is None or unopened.demands != writer.rules.demands:
            view = self._view_of(batch)
            unopened = Unopened(view, writer.check(view, self.acks, frame.version), writer.rules.demands)
            batch.unopened, batch.is_long = unopened, False
        if batch.is_long:
            return unopened
        batch.is_long = steps_left == ON_THE_LOOP.steps  # else it may only have come after others
        try:
            return examine(*unopened, ON_THE_LOOP.within(steps_left), frame.raw, batch.start)
        except TakesLong:
            return unopened

    async def _have_opened(self, unopened: Sequence[tuple[ProducedBatch, Unopened]], address: str) -> None:
        found = await self._parts.examiner.examine([one for _, one in unopened], address)
        for (batch, _), look in zip(unopened, found, strict=False):
            batch.look = _rejected(batch.index, look) if isinstance(look, Rejected) else look
            batch.unopened = None

    # ---- may they come in

    def _claims(self, share: Sequence[ProducedBatch]) -> list[Claim]:
        """Which partitions meet a producer's transaction for the first time in these batches."""
        claims = []
        for batch in share if self._transactional_id is not None else ():
            if isinstance(batch.look, ProduceOutcome):
                continue
            try:
                partition = self._partition_of(batch)
            except Refusal:
                continue  # it is refused when its turn comes
            claim = partition.writer.wants_grant(self._view_of(batch))
            if claim is not None:
                claims.append(Claim(partition, claim))
        return claims

    async def _ask_for_grants(self, claims: Sequence[Claim]) -> dict[TopicPartition, ErrorCode]:
        assert self._transactional_id is not None, "claims without a transaction"
        version = self._frame.version
        codes: dict[TopicPartition, ErrorCode] = {}
        by_producer: dict[tuple[int, int], list[TopicPartition]] = {}
        for partition, claim in claims:
            by_producer.setdefault((claim.producer_id, claim.producer_epoch), []).append(partition.name)
        for (producer_id, producer_epoch), names in by_producer.items():
            codes |= await self._parts.coordinators.add_to_transaction(
                self._transactional_id,
                ProducerId(producer_id),
                producer_epoch,
                names,
                transaction_version=BUMPING_VERSION,
                verify_only=version < IMPLICIT_ADD_FROM,
            )
        return {name: _code_for(code, version) for name, code in codes.items()}

    def _admit(
        self, share: Sequence[ProducedBatch], refusals: Mapping[TopicPartition, ErrorCode] | None = None
    ) -> list[Result]:
        """Stage those of which everything is known."""
        results: list[Result] = []
        for batch in share:
            look = batch.look
            assert look is not None, "nobody has looked at the batch"
            if isinstance(look, ProduceOutcome):
                results.append(look)
                continue
            try:
                results.append(self._admit_one(batch, look, refusals))
            except Refusal as refusal:
                results.append(refused(batch.index, refusal))
        return results

    def _admit_one(
        self, batch: ProducedBatch, look: Examined, refusals: Mapping[TopicPartition, ErrorCode] | None
    ) -> PendingAppend:
        partition = self._partition_of(batch)
        if refusals and (code := refusals.get(partition.name)):
            raise Refusal(code, f"the transaction of {self._transactional_id!r} does not take {partition.name}")
        return partition.writer.admit(self._view_of(batch), self.acks, self._frame.version, look)

    # ---- where they lie, and where they go

    def _view_of(self, batch: ProducedBatch) -> memoryview:
        return self._frame.view[batch.start : batch.start + batch.size]

    def _partition_of(self, batch: ProducedBatch) -> Partition:
        if not -1 <= self.acks <= 1:
            name = f"{batch.topic!r}-{batch.index}"
            raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks for {name} must be -1 (all), 0 or 1")
        rights = self._rights
        if rights is not None:
            if self._transactional_id is not None and not rights.may_use(self._transactional_id):
                raise rights.no_use(self._transactional_id)
            if not rights.may_write(batch.topic):
                raise rights.no_write(batch.topic)
            if self._transactional_id is None and is_of_transaction(self._view_of(batch)):
                raise rights.no_transaction()
        return self._parts.topics.partition(batch.topic, batch.index)


def _after_header(frame: Frame) -> int:
    """A flexible request's header ends with tags, which mean nothing to us."""
    if frame.version < FLEXIBLE_FROM:
        return frame.position
    try:
        return Tags().skip(frame.raw, frame.position)
    except IndexError as error:
        raise Malformed("Produce: the tags of the header end after the frame") from error


def _code_for(code: ErrorCode, version: int) -> ErrorCode:
    """What a producer of this version understands: older ones take only errors that Produce always had."""
    if code in _COORDINATOR_TROUBLE or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < IMPLICIT_ADD_FROM):
        return ErrorCode.NOT_ENOUGH_REPLICAS  # it tries again
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def refused(partition: int, refusal: Refusal) -> ProduceOutcome:
    return _rejected(partition, rejected(refusal))


def _rejected(partition: int, why: Rejected) -> ProduceOutcome:
    return ProduceOutcome(partition, why.code, -1, -1, -1, why.record_errors, why.message)

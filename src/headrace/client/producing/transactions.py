"""The transactions of one producer, one after the other, as its coordinator sees them.

There are two flows. With `transaction.version` 2 (KIP-890) a partition joins the transaction with the first batch that
is written to it, and every end brings a new epoch, so that nothing late can touch the next transaction. Older clusters
want to hear of each partition and group first, and keep the epoch.

Whatever goes wrong dooms the transaction: it can only be aborted. That is done by asking for the id anew, which aborts
what is open and brings an epoch under which nothing is in doubt. The answer also tells a producer that was merely too
slow from one whose id was taken by another.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError, ProducerFenced, TransactionAborted, refuse_unless_ok
from headrace.client.groups.consumer_protocol import by_topic
from headrace.client.producing.batch import Identity
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ProducerId, TopicPartition
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.client.connections.cluster import Cluster
    from headrace.client.groups.group_offsets import GroupMetadata

FEATURE = "transaction.version"
IMPLICIT_LEVEL = 2  # of the feature, from which on partitions need not be announced

INIT_VERSIONS = (3, 5)  # a producer may present the identity that it has
ADD_PARTITIONS_VERSIONS = (3, 3)  # later ones are for nodes
_NO_IDENTITY = Identity(ProducerId(-1), -1, is_transactional=True)

# Somebody else has the id, or the coordinator ended the transaction itself. To tell which, one has to ask.
_PERHAPS_FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


# What a coordinator answers to a commit only if it has not committed, however often it was asked before. Of other
# refusals that cannot be said: an earlier attempt whose answer was lost may have been served.
_NOT_COMMITTED = {*_PERHAPS_FENCED, ErrorCode.INVALID_TXN_STATE}


class Flow(NamedTuple):
    """Versions, lowest and highest, in which a transaction is spoken of."""

    is_implicit: bool
    produce: tuple[int, int]
    offset_commit: tuple[int, int]
    end: tuple[int, int]


ANNOUNCED = Flow(is_implicit=False, produce=(3, 11), offset_commit=(3, 4), end=(3, 4))
IMPLICIT = Flow(is_implicit=True, produce=(12, 13), offset_commit=(5, 5), end=(5, 5))


class Phase(Enum):
    """What a producer's transaction is doing. The value is told to whoever asks for something out of turn."""

    IDLE = "no transaction is open"
    OPEN = "a transaction is open"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    FENCED = "another producer has taken over this transactional id"


class Outcome(Enum):
    """What became of a transaction, as far as its producer knows."""

    NOT_COMMITTED = "it was not committed; once it has ended, nothing of it will ever be seen"
    UNKNOWN = "it was asked to be committed, and nobody has answered"
    COMMITTED = "it was committed"


class Transactions:
    """The transactions of one producer. It decides nothing about messages; `BatchingProducer` sends those."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.flow = ANNOUNCED
        self.phase = Phase.IDLE
        self.outcome = Outcome.NOT_COMMITTED
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._identity = _NO_IDENTITY
        self._coordinator = Coordinator(cluster, CoordinatorKind.TRANSACTION, transactional_id)
        self._group_coordinators: dict[str, Coordinator] = {}
        self._announced: dict[TopicPartition, None] = {}
        self._doom: Exception | None = None  # why it cannot be committed
        self._has_work = False  # the coordinator may know of it
        self._is_commit_sent = False
        self._is_in_doubt = False  # a commit was sent, and its answer lost

    # What the producer may do.

    async def begin(self) -> None:
        """The first time this takes the id over from whoever had it, and ends what they left open."""
        if self.phase is not Phase.IDLE:
            raise self._untimely("begin")
        if self._identity == _NO_IDENTITY:
            await self._take_identity()
        self.phase = Phase.OPEN
        self.outcome = Outcome.NOT_COMMITTED
        self._announced = {}
        self._doom = None
        self._has_work = self._is_commit_sent = self._is_in_doubt = False

    def check_open(self) -> None:
        """Raises unless messages and offsets can be added."""
        if self.phase is not Phase.OPEN:
            raise self._untimely("write")
        if self._doom is not None:
            raise self._doomed() from self._doom

    def begin_commit(self) -> None:
        """No more messages; those on their way still count."""
        if self.phase not in {Phase.OPEN, Phase.COMMITTING}:
            raise self._untimely("commit")
        self.phase = Phase.COMMITTING

    def begin_abort(self) -> None:
        """Nothing more, not even what is on its way."""
        if self.phase not in {Phase.OPEN, Phase.COMMITTING, Phase.ABORTING} or self._is_commit_sent:
            raise self._untimely("abort")
        self.phase = Phase.ABORTING

    @property
    def can_abort(self) -> bool:
        """True while a transaction is open and its commit has not been asked for."""
        return self.phase in {Phase.OPEN, Phase.COMMITTING, Phase.ABORTING} and not self._is_commit_sent

    def doom(self, cause: Exception) -> None:
        """A message of the transaction is lost, or may be."""
        if self._doom is None:
            self._doom = cause

    # What it takes.

    async def admit(self, partitions: Collection[TopicPartition]) -> Identity:
        """Before a batch of the transaction is sent to these partitions. Returns whose batches they are."""
        if self.phase not in {Phase.OPEN, Phase.COMMITTING}:
            raise self._untimely("write")
        if self._doom is not None:
            raise self._doomed() from self._doom
        self._has_work = True
        fresh = [name for name in partitions if name not in self._announced]
        if fresh and not self.flow.is_implicit:
            await self._announce(fresh)
        self._announced.update(dict.fromkeys(fresh))
        return self._identity

    async def _announce(self, partitions: list[TopicPartition]) -> None:
        def check(answer: AddPartitionsToTxnResponse) -> None:
            codes = [
                part.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            ]
            # When one is refused, the others are not even tried.
            codes.sort(key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED)
            for code in codes:
                refuse_unless_ok(
                    code,
                    f"transactional id {self.transactional_id!r} cannot write",
                    right=f"WRITE on it and on {', '.join(sorted({it.topic for it in partitions}))}",
                )

        await self._coordinator.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._identity.producer_id,
                v3_and_below_producer_epoch=self._identity.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in by_topic(partitions).items()
                ],
            ),
            AddPartitionsToTxnResponse,
            check,
            versions=ADD_PARTITIONS_VERSIONS,
        )

    async def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """A group's offsets that count once the transaction commits."""
        self.check_open()
        if not offsets:
            return
        self._has_work = True
        try:
            if not self.flow.is_implicit:
                await self._announce_group(group.group_id)
            await self._commit_offsets(offsets, group)
        except (ClientError, Refusal) as trouble:
            self.doom(trouble)
            await self._raise_doom(trouble)
        except asyncio.CancelledError:
            self.doom(ClientError(f"nobody waited to hear whether group {group.group_id!r} takes its offsets"))
            raise

    async def _announce_group(self, group_id: str) -> None:
        await self._coordinator.ask(
            AddOffsetsToTxnRequest(self.transactional_id, self._identity.producer_id, self._identity.epoch, group_id),
            AddOffsetsToTxnResponse,
            lambda answer: self._expect_ok(answer.error_code),
        )

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            group.group_id,
            self._identity.producer_id,
            self._identity.epoch,
            group.generation_id,
            group.member_id,
            group.instance_id,
            [
                TxnOffsetCommitRequestTopic(
                    topic,
                    [
                        TxnOffsetCommitRequestPartition(index, offsets[TopicPartition(topic, index)], -1, "")
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )

        def check(answer: TxnOffsetCommitResponse) -> None:
            for topic in answer.topics:
                for part in topic.partitions:
                    what = f"group {group.group_id!r} cannot commit {topic.name}-{part.partition_index}"
                    refuse_unless_ok(part.error_code, what, right="READ on both")

        coordinator = self._group_coordinators.get(group.group_id)
        if coordinator is None:
            coordinator = Coordinator(self._cluster, CoordinatorKind.GROUP, group.group_id)
            self._group_coordinators[group.group_id] = coordinator
        await coordinator.ask(request, TxnOffsetCommitResponse, check, versions=self.flow.offset_commit)

    async def commit(self) -> None:
        """After `begin_commit`, once the fate of every message is known.

        An error that is neither TransactionAborted nor ProducerFenced leaves it open whether the transaction was
        committed. Then it can only be committed again, which does no harm if it was.
        """
        assert self.phase is Phase.COMMITTING
        if self._doom is not None:
            await self._raise_doom(self._doom)
        if self._has_work:
            self._is_in_doubt = self._is_commit_sent
            self._is_commit_sent = True
            self.outcome = Outcome.UNKNOWN
            try:
                await self._end(is_commit=True)
            except Refusal as refusal:
                self._is_in_doubt |= refusal.__cause__ is not None
                if refusal.code.is_retriable or (self._is_in_doubt and refusal.code not in _NOT_COMMITTED):
                    raise
                self._is_commit_sent = False
                if not self._is_in_doubt:
                    self.outcome = Outcome.NOT_COMMITTED
                self.doom(refusal)
                await self._raise_doom(refusal)
        self.outcome = Outcome.COMMITTED
        self.phase = Phase.IDLE

    async def abort(self) -> None:
        """After `begin_abort`, once nothing is on its way any more."""
        assert self.phase is Phase.ABORTING
        if self._has_work:
            if self._doom is None:
                try:
                    await self._end(is_commit=False)
                except Refusal as refusal:
                    self.doom(refusal)
            if self._doom is not None:
                await self._take_identity()
        self.phase = Phase.IDLE

    # Inside.

    def _expect_ok(self, code: int) -> None:
        name = repr(self.transactional_id)
        refuse_unless_ok(code, f"transactional id {name}", right=f"WRITE on transactional id {name}")

    async def _end(self, *, is_commit: bool) -> None:
        answer = await self._coordinator.ask(
            EndTxnRequest(self.transactional_id, self._identity.producer_id, self._identity.epoch, is_commit),
            EndTxnResponse,
            lambda answer: self._expect_ok(answer.error_code),
            versions=self.flow.end,
        )
        if answer.producer_id >= 0:
            self._identity = Identity(ProducerId(answer.producer_id), answer.producer_epoch, is_transactional=True)

    async def _take_identity(self) -> None:
        """Ask for the id, as who we are if we are somebody already. Waits until what is open under it is aborted."""
        try:
            answer = await self._coordinator.ask(
                InitProducerIdRequest(
                    self.transactional_id, self._timeout_ms, self._identity.producer_id, self._identity.epoch
                ),
                InitProducerIdResponse,
                lambda answer: self._expect_ok(answer.error_code),
                versions=INIT_VERSIONS,
            )
        except Refusal as refusal:
            if refusal.code not in _PERHAPS_FENCED:
                raise
            self.phase = Phase.FENCED
            raise self._fenced() from refusal
        self._identity = Identity(ProducerId(answer.producer_id), answer.producer_epoch, is_transactional=True)
        connection = await self._coordinator.connection()
        self.flow = IMPLICIT if connection.features.get(FEATURE, 0) >= IMPLICIT_LEVEL else ANNOUNCED
        self._has_work = False  # whatever there was is aborted

    async def _raise_doom(self, cause: Exception) -> None:
        """TransactionAborted, or ProducerFenced if that is why."""
        if isinstance(cause, Refusal) and cause.code in _PERHAPS_FENCED and self._has_work:
            await self._take_identity()
        self.outcome = Outcome.NOT_COMMITTED
        raise self._doomed() from cause

    def _untimely(self, wish: str) -> ClientError:
        if self.phase is Phase.FENCED:
            return self._fenced()
        if self.phase is Phase.ABORTING and wish == "write":
            return TransactionAborted(f"the transaction of {self.transactional_id!r} was aborted")
        remedy = ""
        if self.phase is Phase.IDLE:
            remedy = "; begin one first"
        elif self._is_commit_sent:
            remedy = "; it may have been committed already, so it can only be committed again"
        return ClientError(f"cannot {wish} a transaction of {self.transactional_id!r}: {self.phase.value}{remedy}")

    def _doomed(self) -> TransactionAborted:
        return TransactionAborted(
            f"the transaction of {self.transactional_id!r} cannot be committed; abort it, then begin another. "
            f"The reason: {self._doom}"
        )

    def _fenced(self) -> ProducerFenced:
        fate = "nothing of its open transaction will be seen"
        if self._is_in_doubt:
            fate = "whether its last transaction was committed before that is not known: read the topic to learn it"
        return ProducerFenced(
            f"another producer has taken over the transactional id {self.transactional_id!r}; this one can do nothing "
            f"more, and {fate}"
        )

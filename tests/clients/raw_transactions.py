"""A transactional producer without a mind of its own: it sends what a test says, in the version that a test says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headrace.model.errors import ErrorCode
from headrace.wire.batches.header import read_header
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.clients.nodes import PATIENCE_S
from tests.clients.raw_connection import ACKS_ALL, RawConnection, batch_of, by_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.wire.messages.fetch import PartitionData

# The last versions of the older flow, and the first of the newer one (KIP-890).
OLD_PRODUCE, OLD_END, OLD_ADD, OLD_OFFSETS = 11, 4, 3, 4
NEW_PRODUCE, NEW_END, NEW_OFFSETS = 12, 5, 5

GROUP_KIND, TRANSACTION_KIND = 0, 1  # of coordinators
TIMEOUT_MS = 60_000
OFFSETS_BY_NAME = 9  # from version 10 on OffsetFetch names topics by id

PASSING = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
PAUSE_S = 0.01


def insist(ask: Callable[[], Any]) -> Any:
    """Ask again while the answer is one of the errors after which every client asks again."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        answer = ask()
        if answer.error_code not in PASSING:
            return answer
        assert time.monotonic() < deadline_s, f"still {ErrorCode(answer.error_code).name}"
        time.sleep(PAUSE_S)


def find_coordinator(connection: RawConnection, key: str, kind: int) -> None:
    """As every client does first. It also creates the topic that the coordinator keeps its state in."""
    insist(lambda: connection.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators[0])


class RawProducer:
    """What it was told to be called is in `producer_id` and `producer_epoch`; a test may change them at will."""

    def __init__(self, connection: RawConnection, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self.connection = connection
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self) -> RawProducer:
        find_coordinator(self.connection, self.transactional_id, TRANSACTION_KIND)
        answer = insist(self.try_init)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        self.adopt(answer)
        return self

    def try_init(self, version: int | None = None, **fields: Any) -> Any:
        request = InitProducerIdRequest(self.transactional_id, self.timeout_ms, **fields)
        return self.connection.ask(request, version)

    def adopt(self, answer: Any) -> None:
        """Go by the identity that an answer gives; its batches are numbered from 0."""
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    def add_partitions(self, topic: str, *partitions: int, version: int = OLD_ADD) -> ErrorCode:
        """The older flow's first step. All partitions must get the same answer."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(partitions or (0,)))],
        )
        (result,) = self.connection.ask(request, version).results_by_topic_v3_and_below
        (code,) = {part.partition_error_code for part in result.results_by_partition}
        return ErrorCode(code)

    def produce(self, topic: str, *values: bytes, partition: int = 0, version: int = NEW_PRODUCE) -> ErrorCode:
        place = (topic, partition)
        sequence = self.sequences.get(place, 0)
        code = self.produce_batch(topic, self.batch(*values, sequence=sequence), partition=partition, version=version)
        if code == ErrorCode.NONE:
            self.sequences[place] = sequence + len(values)
        return code

    def batch(self, *values: bytes, sequence: int) -> bytearray:
        return batch_of(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def produce_batch(
        self, topic: str, batch: bytes | bytearray, *, partition: int = 0, version: int = NEW_PRODUCE
    ) -> ErrorCode:
        part = PartitionProduceData(partition, bytes(batch))
        topics = [TopicProduceData(topic, partition_data=[part])]
        request = ProduceRequest(self.transactional_id, ACKS_ALL, int(PATIENCE_S * 1000), topics)
        answer = self.connection.ask(request, version)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def add_offsets(self, group: str, version: int | None = None) -> ErrorCode:
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.producer_epoch, group)
        return ErrorCode(self.connection.ask(request, version).error_code)

    def commit_offset(
        self, group: str, topic: str, offset: int, *, version: int = NEW_OFFSETS, **fields: Any
    ) -> ErrorCode:
        part = TxnOffsetCommitRequestPartition(0, offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            group,
            self.producer_id,
            self.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(topic, [part])],
            **fields,
        )
        answer = self.connection.ask(request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool, version: int = NEW_END) -> Any:
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.producer_epoch, commit)
        return self.connection.ask(request, version)

    def end_well(self, *, commit: bool, version: int = NEW_END) -> None:
        """End it, wait until its markers are written, and go by the identity that the newer flow gives."""
        answer = insist(lambda: self.end(commit=commit, version=version))
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        if version >= NEW_END:
            self.adopt(answer)
        wait_for_state(self.connection, self.transactional_id, "CompleteCommit" if commit else "CompleteAbort")


def describe(connection: RawConnection, transactional_id: str) -> Any:
    return connection.ask(DescribeTransactionsRequest([transactional_id])).transaction_states[0]


def wait_for_state(connection: RawConnection, transactional_id: str, state: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := describe(connection, transactional_id).transaction_state) != state:
        assert time.monotonic() < deadline_s, f"{transactional_id} is in {found!r}, not in {state}"
        time.sleep(PAUSE_S)


def wait_until_stable(servers: str, *places: tuple[str, int]) -> None:
    """A commit is answered once it is certain; readers see it when its markers are written, a moment later."""
    deadline_s = time.monotonic() + PATIENCE_S
    with RawConnection(servers) as connection:
        for topic, partition in places:
            while True:
                part = by_topic(connection.fetch(topic, 0, partition=partition))[topic]
                if part.last_stable_offset == part.high_watermark:
                    break
                assert time.monotonic() < deadline_s, f"{topic}-{partition} has an open transaction"
                time.sleep(PAUSE_S)


def fetch_offset(connection: RawConnection, group: str, topic: str, *, require_stable: bool = True) -> Any:
    """A group's place in partition 0: an answer with `committed_offset` and `error_code`."""
    wanted = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[0])])
    request = OffsetFetchRequest(groups=[wanted], require_stable=require_stable)
    (found,) = connection.ask(request, OFFSETS_BY_NAME).groups
    assert found.error_code == ErrorCode.NONE
    return found.topics[0].partitions[0]


def fetch_all(connection: RawConnection, topic: str, partition: int = 0, **fields: Any) -> list[PartitionData]:
    """Answers from a partition's first offset up to the end that such a reader may see."""
    pieces: list[PartitionData] = []
    offset = 0
    while True:
        piece = by_topic(connection.fetch(topic, offset, partition=partition, **fields))[topic]
        assert piece.error_code == ErrorCode.NONE, ErrorCode(piece.error_code).name
        batches = batches_in(piece)
        if not batches:
            return pieces
        pieces.append(piece)
        offset = read_header(batches[-1]).next_offset


def batches_in(piece: PartitionData) -> list[memoryview]:
    batches = []
    raw = memoryview(piece.records or b"")
    while raw:
        size = read_header(raw).size
        batches.append(raw[:size])
        raw = raw[size:]
    return batches

"""What an operator asks about transactions: which are open, where, since when; and how to end one that nobody ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.client.connections.cluster import no_such_partition
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import refuse_unless_ok
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Millis, NodeId, Offset, ProducerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.connection import Answer
    from headrace.wire.api import Message
    from headrace.wire.messages.describe_producers import ProducerState

OPEN_STATES = {"Ongoing", "PrepareCommit", "PrepareAbort"}
MARKER_VERSIONS = (1, 1)  # an operator's marker belongs to no version of the transaction protocol


class TransactionListing(NamedTuple):
    """A transactional id, as the list of all of them has it. `state` is in Kafka's words, such as `Ongoing`."""

    transactional_id: str
    producer_id: ProducerId
    state: str
    coordinator: NodeId


class TransactionDescription(NamedTuple):
    """A transactional id with what its transaction has written to."""

    transactional_id: str
    state: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    started_ms: Millis | None
    """None if no transaction is open."""
    partitions: list[TopicPartition]
    coordinator: NodeId


class ActiveProducer(NamedTuple):
    """A producer that a partition remembers."""

    producer_id: ProducerId
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: Millis
    coordinator_epoch: int
    transaction_start_offset: Offset | None
    """Where its open transaction begins in this partition; None if it has none."""


class TransactionAdmin:
    """Transactions of all producers: which are open, where, since when; and an end for those that nobody ends."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_transactions(
        self, states: Sequence[str] = (), producer_ids: Sequence[int] = (), *, older_than_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids of all nodes; of these states, of these producers, and open for longer than
        `older_than_ms`.

        Refusal INVALID_REQUEST for a state that the nodes do not know.
        """
        from headrace.wire.messages.list_transactions import (  # noqa: PLC0415
            ListTransactionsRequest,
            ListTransactionsResponse,
        )

        async def attempt() -> list[TransactionListing]:
            listings: list[TransactionListing] = []
            for node_id in sorted((await self._cluster.refresh()).nodes):
                connection = await self._cluster.node_connection(node_id)
                request = ListTransactionsRequest(list(states), list(producer_ids), older_than_ms)
                answer = await connection.request(request, ListTransactionsResponse)
                refuse_unless_ok(answer.error_code, f"transactions of node {node_id}")
                if answer.unknown_state_filters:
                    unknown = ", ".join(answer.unknown_state_filters)
                    raise Refusal(ErrorCode.INVALID_REQUEST, f"no transaction is ever in the state {unknown}")
                listings += [
                    TransactionListing(
                        found.transactional_id, ProducerId(found.producer_id), found.transaction_state, NodeId(node_id)
                    )
                    for found in answer.transaction_states
                ]
            return sorted(listings)

        return await self._cluster.retry(attempt)

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """Refusal TRANSACTIONAL_ID_NOT_FOUND if nobody ever used this id, or it was forgotten."""
        from headrace.wire.messages.describe_transactions import (  # noqa: PLC0415
            DescribeTransactionsRequest,
            DescribeTransactionsResponse,
        )

        def check(answer: DescribeTransactionsResponse) -> None:
            for found in answer.transaction_states:
                refuse_unless_ok(found.error_code, f"transactional id {transactional_id!r}")

        coordinator = Coordinator(self._cluster, CoordinatorKind.TRANSACTION, transactional_id)
        answer = await coordinator.ask(
            DescribeTransactionsRequest([transactional_id]), DescribeTransactionsResponse, check
        )
        (found,) = answer.transaction_states
        return TransactionDescription(
            transactional_id,
            found.transaction_state,
            ProducerId(found.producer_id),
            found.producer_epoch,
            found.transaction_timeout_ms,
            Millis(found.transaction_start_time_ms) if found.transaction_state in OPEN_STATES else None,
            sorted(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions),
            await coordinator.node_id(),
        )

    async def producers(self, partition: TopicPartition) -> list[ActiveProducer]:
        """Who writes, or has lately written, to a partition."""
        from headrace.wire.messages.describe_producers import (  # noqa: PLC0415
            DescribeProducersRequest,
            DescribeProducersResponse,
            TopicRequest,
        )

        request = DescribeProducersRequest([TopicRequest(partition.topic, [partition.partition])])

        async def attempt() -> list[ActiveProducer]:
            answer = await self._ask_leader(partition, request, DescribeProducersResponse)
            part = answer.topics[0].partitions[0]
            refuse_unless_ok(part.error_code, f"producers of {partition}", part.error_message)
            return sorted(_active_producer(state) for state in part.active_producers)

        await self._check_there(partition)
        return await self._cluster.retry(attempt)

    async def abort(self, transactional_id: str) -> None:
        """Abort what is open under this id, and fence its producer. Returns when that is done."""
        from headrace.wire.messages.init_producer_id import (  # noqa: PLC0415
            InitProducerIdRequest,
            InitProducerIdResponse,
        )

        timeout_ms = (await self.describe(transactional_id)).timeout_ms  # also: a wrong name must not be made
        coordinator = Coordinator(self._cluster, CoordinatorKind.TRANSACTION, transactional_id)
        # To take over an id is to abort what its last owner left open. The answer waits until that is done.
        await coordinator.ask(
            InitProducerIdRequest(transactional_id, timeout_ms),
            InitProducerIdResponse,
            lambda answer: refuse_unless_ok(answer.error_code, f"transactional id {transactional_id!r}"),
        )

    async def abort_hanging(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write an abort marker into one partition, for a transaction that no coordinator knows of any more.

        Only for such: one that is still alive would be torn in two.
        """
        from headrace.wire.messages.write_txn_markers import (  # noqa: PLC0415
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
            WriteTxnMarkersResponse,
        )

        topics = [WritableTxnMarkerTopic(partition.topic, [partition.partition])]
        marker = WritableTxnMarker(producer_id, producer_epoch, False, topics, coordinator_epoch)
        request = WriteTxnMarkersRequest([marker])

        async def attempt() -> None:
            answer = await self._ask_leader(partition, request, WriteTxnMarkersResponse, MARKER_VERSIONS)
            for result in answer.markers:
                for topic in result.topics:
                    for part in topic.partitions:
                        refuse_unless_ok(part.error_code, f"the transaction of producer {producer_id} in {partition}")

        await self._check_there(partition)
        await self._cluster.retry(attempt)

    async def _check_there(self, partition: TopicPartition) -> None:
        """Told at once. Asked of a node it is trouble that may pass, and tried again."""
        topic = await self._cluster.topic(partition.topic)
        if not 0 <= partition.partition < len(topic.partitions):
            raise no_such_partition(topic, partition.partition)

    async def _ask_leader(
        self,
        partition: TopicPartition,
        request: Message,
        answer: type[Answer],
        versions: tuple[int, int] | None = None,
    ) -> Answer:
        led = self._cluster.leader_of(partition)
        if led is None:
            raise self._cluster.why_no_leader(partition)
        connection = await self._cluster.node_connection(led.leader)
        version = connection.version_for(type(request), versions)
        return await connection.request(request, answer, version=version)


def _active_producer(state: ProducerState) -> ActiveProducer:
    is_open = state.current_txn_start_offset >= 0
    return ActiveProducer(
        ProducerId(state.producer_id),
        state.producer_epoch,
        state.last_sequence,
        Millis(state.last_timestamp),
        state.coordinator_epoch,
        Offset(state.current_txn_start_offset) if is_open else None,
    )

"""A transactional producer against a scripted node: both flows, and every way in which a transaction can fail."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.errors import ClientError, ConnectionLost, ProducerFenced, TransactionAborted
from headrace.client.groups.group_offsets import GroupMetadata
from headrace.client.producing.producer import Acks, BatchingProducer, ProducerSettings
from headrace.client.producing.transactions import Outcome
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.batches.header import BatchHeader, read_header
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from headrace.wire.messages.end_txn import EndTxnResponse
from headrace.wire.messages.init_producer_id import InitProducerIdResponse
from tests.unit.client.scripted_node import (
    HANG_UP,
    SILENCE,
    TOPIC,
    ScriptedNode,
    partitions_added,
    refused,
    transactional_offsets,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.client.connections.cluster import Cluster
    from headrace.client.producing.batch import Receipt

QUICK = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=5.0)
SETTINGS = ProducerSettings(transactional_id="tx", linger_ms=0.0, transaction_timeout_ms=1234)
LINGERING = ProducerSettings(transactional_id="tx", linger_ms=3_600_000.0)
ZERO = TopicPartition(TOPIC, 0)
GROUP = GroupMetadata("g", 3, "m-1", None)


@pytest.fixture(params=[0, 2], ids=["announced", "implicit"])
async def node(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedNode]:
    running = ScriptedNode(partitions=2)
    running.features = {"transaction.version": request.param}
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def cluster(node: ScriptedNode) -> AsyncIterator[Cluster]:
    async with node.cluster(QUICK) as reached:
        yield reached


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[BatchingProducer]:
    async with BatchingProducer(cluster, SETTINGS) as made:
        yield made


def is_implicit(node: ScriptedNode) -> bool:
    return node.features["transaction.version"] >= 2


def headers(node: ScriptedNode, partition: int = 0) -> list[BatchHeader]:
    return [read_header(batch) for batch in node.logs[partition]]


def ends(node: ScriptedNode) -> list[tuple[int, bool]]:
    return [(request.producer_epoch, request.committed) for request in node.asked(ApiKey.END_TXN)]


def takes(node: ScriptedNode) -> list[tuple[int, int]]:
    return [(request.producer_id, request.producer_epoch) for request in node.asked(ApiKey.INIT_PRODUCER_ID)]


def initialised(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, code)


# The way through.


async def test_messages_and_offsets_are_committed_together(node: ScriptedNode, producer: BatchingProducer) -> None:
    async with producer.transaction():
        for partition in (0, 1):
            await producer.send(TOPIC, None, b"v", partition=partition)
        await producer.flush()
        await producer.send_offsets({ZERO: 7}, GROUP)
    assert takes(node) == [(-1, -1)]
    assert node.asked(ApiKey.INIT_PRODUCER_ID)[0].transaction_timeout_ms == 1234
    assert {(header.is_transactional, header.producer_id, header.base_sequence) for header in headers(node)} == {
        (True, 101, 0)
    }
    assert {request.transactional_id for request in node.asked(ApiKey.PRODUCE)} == {"tx"}
    (offsets,) = node.asked(ApiKey.TXN_OFFSET_COMMIT)
    assert (offsets.group_id, offsets.generation_id, offsets.member_id) == ("g", 3, "m-1")
    assert offsets.topics[0].partitions[0].committed_offset == 7
    assert ends(node) == [(0, True)]
    announced = sorted(
        index
        for request in node.asked(ApiKey.ADD_PARTITIONS_TO_TXN)
        for topic in request.v3_and_below_topics
        for index in topic.partitions
    )
    groups = [request.group_id for request in node.asked(ApiKey.ADD_OFFSETS_TO_TXN)]
    assert (announced, groups) == (([], []) if is_implicit(node) else ([0, 1], ["g"]))


async def test_the_next_transaction_is_numbered_as_its_flow_wants(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    for _ in range(3):
        async with producer.transaction():
            await producer.send(TOPIC, None, b"v", partition=0)
    numbers = [(header.producer_epoch, header.base_sequence) for header in headers(node)]
    assert numbers == ([(0, 0), (1, 0), (2, 0)] if is_implicit(node) else [(0, 0), (0, 1), (0, 2)])
    assert ends(node) == [(epoch, True) for epoch, _ in numbers]
    assert len(node.asked(ApiKey.ADD_PARTITIONS_TO_TXN)) == (0 if is_implicit(node) else 3)
    assert len(takes(node)) == 1


async def test_the_coordinator_hears_nothing_of_an_empty_transaction(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    async with producer.transaction():
        await producer.send_offsets({}, GROUP)
    await producer.begin_transaction()
    await producer.abort_transaction()
    assert ends(node) == []


async def test_a_block_that_raises_is_aborted(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, LINGERING) as producer:
        unsent: list[Receipt] = []

        async def fail_half_way() -> None:
            async with producer.transaction():
                await producer.send(TOPIC, None, b"sent", partition=0)
                await producer.flush()
                unsent.append(await producer.send(TOPIC, None, b"not sent", partition=0))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_half_way()
        with pytest.raises(TransactionAborted, match="was aborted"):
            await unsent[0]
        assert ends(node) == [(0, False)]
        async with producer.transaction():
            await producer.send(TOPIC, None, b"again", partition=0)
    assert len(headers(node)) == 2
    assert len(takes(node)) == 1  # nothing was in doubt


async def test_who_has_the_id_already_is_waited_for(node: ScriptedNode, producer: BatchingProducer) -> None:
    node.script[ApiKey.INIT_PRODUCER_ID] = [initialised(ErrorCode.CONCURRENT_TRANSACTIONS)] * 3
    await producer.begin_transaction()
    assert len(takes(node)) == 4


async def test_a_transaction_before_that_is_still_ending_is_waited_for(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    if is_implicit(node):
        node.script[ApiKey.PRODUCE] = [refused(ErrorCode.CONCURRENT_TRANSACTIONS)] * 2
    else:
        busy = lambda request: partitions_added(node, request, ErrorCode.CONCURRENT_TRANSACTIONS)  # noqa: E731
        node.script[ApiKey.ADD_PARTITIONS_TO_TXN] = [busy] * 2
    async with producer.transaction():
        await producer.send(TOPIC, None, b"v", partition=0)
    assert len(headers(node)) == 1
    assert ends(node) == [(0, True)]


async def test_a_lost_answer_to_a_commit_is_asked_for_again(node: ScriptedNode, producer: BatchingProducer) -> None:
    node.script[ApiKey.END_TXN] = [HANG_UP, EndTxnResponse(0, ErrorCode.CONCURRENT_TRANSACTIONS)]
    async with producer.transaction():
        await producer.send(TOPIC, None, b"v", partition=0)
    assert ends(node) == [(0, True)] * 3


# What goes wrong.


@pytest.mark.parametrize(
    "code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
)
async def test_a_lost_message_dooms_the_transaction_and_the_next_starts_afresh(
    node: ScriptedNode, producer: BatchingProducer, code: ErrorCode
) -> None:
    node.script[ApiKey.PRODUCE] = [refused(code)]
    await producer.begin_transaction()
    receipt = await producer.send(TOPIC, None, b"v", partition=0)
    with pytest.raises(Refusal):
        await receipt
    with pytest.raises(TransactionAborted, match="cannot be committed; abort it"):
        await producer.send(TOPIC, None, b"v", partition=0)
    with pytest.raises(TransactionAborted, match=code.name.lower().replace("_", " ")):
        await producer.commit_transaction()
    await producer.abort_transaction()
    assert ends(node) == []
    assert takes(node) == [(-1, -1), (101, 0)]
    async with producer.transaction():
        await producer.send(TOPIC, None, b"v", partition=0)
    assert [(header.producer_epoch, header.base_sequence) for header in headers(node)] == [(1, 0)]


async def test_offsets_that_nobody_waited_for_doom_the_transaction(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    """They may come late: after a commit without them, or after the abort."""
    node.script[ApiKey.TXN_OFFSET_COMMIT] = [SILENCE]
    await producer.begin_transaction()
    await producer.send(TOPIC, None, b"v", partition=0)
    sending = asyncio.create_task(producer.send_offsets({ZERO: 7}, GROUP))
    while not node.asked(ApiKey.TXN_OFFSET_COMMIT):
        await asyncio.sleep(0.001)
    sending.cancel()
    await asyncio.wait([sending])
    with pytest.raises(TransactionAborted, match="nobody waited"):
        await producer.commit_transaction()
    await producer.abort_transaction()
    assert ends(node) == []
    assert takes(node) == [(-1, -1), (101, 0)]


async def test_a_commit_that_finds_a_lost_message_aborts_by_itself(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    node.script[ApiKey.PRODUCE] = [refused(ErrorCode.MESSAGE_TOO_LARGE)]
    with pytest.raises(TransactionAborted):
        async with producer.transaction():
            await producer.send(TOPIC, None, b"v", partition=0)
    assert ends(node) == []
    await producer.begin_transaction()


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
)
@pytest.mark.parametrize("where", [ApiKey.PRODUCE, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT])
async def test_a_producer_whose_id_was_taken_is_fenced(
    node: ScriptedNode, producer: BatchingProducer, where: ApiKey, code: ErrorCode
) -> None:
    answers: dict[ApiKey, Any] = {
        ApiKey.PRODUCE: refused(code),
        ApiKey.END_TXN: EndTxnResponse(0, code),
        ApiKey.TXN_OFFSET_COMMIT: lambda request: transactional_offsets(node, request, code),
    }
    await producer.begin_transaction()
    node.script[where] = [answers[where]]
    node.script[ApiKey.INIT_PRODUCER_ID] = [initialised(ErrorCode.PRODUCER_FENCED)]
    await producer.send(TOPIC, None, b"v", partition=0)
    last_step = producer.commit_transaction()
    if where is ApiKey.TXN_OFFSET_COMMIT:
        last_step.close()
        last_step = producer.send_offsets({ZERO: 1}, GROUP)
    with pytest.raises(ProducerFenced, match="another producer has taken over the transactional id 'tx'"):
        await last_step
    for step in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(ProducerFenced):
            await step()
    with pytest.raises(ProducerFenced):
        await producer.send(TOPIC, None, b"v", partition=0)


@pytest.mark.parametrize(
    ("earlier", "fate"),
    [([], "nothing of its open transaction will be seen"), ([HANG_UP], "committed before that is not known")],
    ids=["the first answer", "after a lost answer"],
)
async def test_a_fenced_producer_claims_to_know_the_fate_of_its_commit_only_if_it_does(
    node: ScriptedNode, producer: BatchingProducer, earlier: list[object], fate: str
) -> None:
    await producer.begin_transaction()
    await producer.send(TOPIC, None, b"v", partition=0)
    node.script[ApiKey.END_TXN] = [*earlier, EndTxnResponse(0, ErrorCode.PRODUCER_FENCED)]
    node.script[ApiKey.INIT_PRODUCER_ID] = [initialised(ErrorCode.PRODUCER_FENCED)]
    with pytest.raises(ProducerFenced, match=fate):
        await producer.commit_transaction()
    with pytest.raises(ProducerFenced, match=fate):
        await producer.begin_transaction()


@pytest.mark.parametrize("where", [ApiKey.PRODUCE, ApiKey.END_TXN])
async def test_a_producer_that_was_merely_too_slow_can_go_on(
    node: ScriptedNode, producer: BatchingProducer, where: ApiKey
) -> None:
    node.script[where] = [
        refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        if where is ApiKey.PRODUCE
        else EndTxnResponse(0, ErrorCode.PRODUCER_FENCED)
    ]
    with pytest.raises(TransactionAborted):
        async with producer.transaction():
            await producer.send(TOPIC, None, b"v", partition=0)
    assert takes(node) == [(-1, -1), (101, 0)]
    async with producer.transaction():
        await producer.send(TOPIC, None, b"v", partition=0)
    assert headers(node)[-1].producer_epoch == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
)
async def test_offsets_of_partitions_that_went_to_another_doom_the_transaction(
    node: ScriptedNode, producer: BatchingProducer, code: ErrorCode
) -> None:
    node.script[ApiKey.TXN_OFFSET_COMMIT] = [lambda request: transactional_offsets(node, request, code)]
    await producer.begin_transaction()
    with pytest.raises(TransactionAborted, match="group 'g' cannot commit events-0") as doomed:
        await producer.send_offsets({ZERO: 1}, GROUP)
    assert isinstance(doomed.value.__cause__, Refusal)
    assert doomed.value.__cause__.code == code
    await producer.abort_transaction()


async def test_a_commit_of_unknown_outcome_can_only_be_repeated(node: ScriptedNode) -> None:
    impatient = ClusterSettings(retry_for_s=0.02, backoff_first_s=0.001, backoff_max_s=0.005)
    async with node.cluster(impatient) as cluster, BatchingProducer(cluster, SETTINGS) as producer:
        await producer.begin_transaction()
        await producer.send(TOPIC, None, b"v", partition=0)
        await producer.flush()
        node.script[ApiKey.END_TXN] = [HANG_UP] * 1000
        with pytest.raises(ConnectionLost):
            await producer.commit_transaction()
        with pytest.raises(ClientError, match="it may have been committed already, so it can only be committed again"):
            await producer.abort_transaction()
        node.script[ApiKey.END_TXN] = []
        await producer.commit_transaction()
        await producer.begin_transaction()


async def test_a_refusal_after_a_lost_answer_leaves_open_what_became_of_the_commit(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    """The attempt whose answer was lost may have been served."""
    node.script[ApiKey.END_TXN] = [HANG_UP, EndTxnResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR)]
    with pytest.raises(Refusal, match="unknown server error"):
        async with producer.transaction():
            await producer.send(TOPIC, None, b"v", partition=0)
    assert producer.transaction_outcome is Outcome.UNKNOWN
    await producer.commit_transaction()
    assert producer.transaction_outcome is Outcome.COMMITTED


# Whoever is cancelled.


async def send_in_transaction(producer: BatchingProducer) -> None:
    async with producer.transaction():
        await producer.send(TOPIC, None, b"v", partition=0)
        await producer.flush()


async def is_asked(node: ScriptedNode, api_key: ApiKey) -> None:
    while not node.asked(api_key):
        await asyncio.sleep(0.001)


async def test_a_cancel_waits_for_the_answer_to_a_commit(node: ScriptedNode, producer: BatchingProducer) -> None:
    """The first answer is lost: the second attempt is made by somebody who was cancelled already."""

    def cancel_and_hang_up(_: object) -> object:
        working.cancel()
        return HANG_UP

    node.script[ApiKey.END_TXN] = [cancel_and_hang_up]
    working = asyncio.create_task(send_in_transaction(producer))
    with pytest.raises(asyncio.CancelledError):
        await working
    assert producer.transaction_outcome is Outcome.COMMITTED
    assert ends(node) == [(0, True), (0, True)]
    async with producer.transaction():
        pass


async def test_whoever_is_cancelled_hears_that_the_commit_was_refused(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    def cancel_and_refuse(_: object) -> object:
        working.cancel()
        return EndTxnResponse(0, ErrorCode.INVALID_TXN_STATE)

    node.script[ApiKey.END_TXN] = [cancel_and_refuse]
    working = asyncio.create_task(send_in_transaction(producer))
    with pytest.raises(TransactionAborted):
        await working
    assert producer.transaction_outcome is Outcome.NOT_COMMITTED
    await producer.begin_transaction()


async def test_a_second_cancel_leaves_open_what_became_of_the_commit(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    node.script[ApiKey.END_TXN] = [SILENCE]
    working = asyncio.create_task(send_in_transaction(producer))
    await is_asked(node, ApiKey.END_TXN)
    working.cancel()
    await asyncio.sleep(0)
    assert not working.done()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert producer.transaction_outcome is Outcome.UNKNOWN
    await producer.commit_transaction()
    assert producer.transaction_outcome is Outcome.COMMITTED


async def test_a_cancel_before_the_commit_aborts(node: ScriptedNode, producer: BatchingProducer) -> None:
    """Also one that came with the last step of the block, and was not heard of in it."""

    async def work() -> None:
        async with producer.transaction():
            await producer.send(TOPIC, None, b"v", partition=0)
            await producer.flush()
            working.cancel()

    working = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await working
    assert ends(node) == [(0, False)]
    assert producer.transaction_outcome is Outcome.NOT_COMMITTED
    await producer.begin_transaction()


async def test_a_cancel_while_the_last_messages_are_sent_aborts(node: ScriptedNode) -> None:
    hasty = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=0.05)
    async with node.cluster(hasty) as cluster, BatchingProducer(cluster, SETTINGS) as producer:

        async def work() -> None:
            async with producer.transaction():
                await producer.send(TOPIC, None, b"v", partition=0)

        node.script[ApiKey.PRODUCE] = [SILENCE]
        working = asyncio.create_task(work())
        await is_asked(node, ApiKey.PRODUCE)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert producer.transaction_outcome is Outcome.NOT_COMMITTED
        assert (ends(node), takes(node)) == ([], [(-1, -1), (101, 0)])
        await producer.begin_transaction()


# How an abort ends.


async def test_an_abort_waits_for_what_is_on_its_way_and_then_asks_for_a_clean_slate(
    node: ScriptedNode,
) -> None:
    hasty = ClusterSettings(retry_for_s=5.0, backoff_first_s=0.001, backoff_max_s=0.01, request_timeout_s=0.05)
    async with node.cluster(hasty) as cluster, BatchingProducer(cluster, SETTINGS) as producer:
        await producer.begin_transaction()
        node.script[ApiKey.PRODUCE] = [SILENCE]
        receipt = await producer.send(TOPIC, None, b"v", partition=0)
        while not node.asked(ApiKey.PRODUCE):
            await asyncio.sleep(0.001)
        await producer.abort_transaction()
        with pytest.raises(ClientError):
            await receipt
        assert len(node.asked(ApiKey.PRODUCE)) == 1
        assert (ends(node), takes(node)) == ([], [(-1, -1), (101, 0)])


@pytest.mark.parametrize("node", [0], indirect=True, ids=["announced"])
async def test_the_partition_that_was_refused_is_named_by_its_error(
    node: ScriptedNode, producer: BatchingProducer
) -> None:
    codes = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    results = [AddPartitionsToTxnPartitionResult(index, code) for index, code in enumerate(codes)]
    node.script[ApiKey.ADD_PARTITIONS_TO_TXN] = [
        AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult(TOPIC, results)])
    ]
    await producer.begin_transaction()
    with pytest.raises(Refusal, match="topic authorization failed"):
        await (await producer.send(TOPIC, None, b"v", partition=0))


# How it is used.


async def test_closing_aborts_what_is_open(node: ScriptedNode, cluster: Cluster) -> None:
    async with BatchingProducer(cluster, LINGERING) as producer:
        await producer.begin_transaction()
        await producer.send(TOPIC, None, b"v", partition=0)
        await producer.flush()
        await producer.send(TOPIC, None, b"v", partition=0)
    assert ends(node) == [(0, False)]
    assert len(headers(node)) == 1
    with pytest.raises(ClientError, match="closed"):
        await producer.begin_transaction()


async def test_steps_out_of_order_are_told(producer: BatchingProducer) -> None:
    for step in (producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(ClientError, match="no transaction is open; begin one first"):
            await step()
    with pytest.raises(ClientError, match="no transaction is open; begin one first"):
        await producer.send(TOPIC, None, b"v")
    await producer.begin_transaction()
    with pytest.raises(ClientError, match="cannot begin a transaction of 'tx': a transaction is open"):
        await producer.begin_transaction()


async def test_a_producer_without_an_id_has_no_transactions(cluster: Cluster) -> None:
    async with BatchingProducer(cluster) as producer:
        with pytest.raises(ClientError, match="no transactional_id"):
            await producer.begin_transaction()


@pytest.mark.parametrize(
    "wrong",
    [
        {"transactional_id": "tx", "acks": Acks.LEADER},
        {"transactional_id": "tx", "is_idempotent": False},
        {"transactional_id": ""},
        {"transactional_id": "tx", "transaction_timeout_ms": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ProducerSettings(**wrong)

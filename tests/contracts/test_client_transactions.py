"""Our own client's transactions, and what their readers and operators see, against a real node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.groups import GroupAdmin
from headrace.client.admin.transactions import TransactionAdmin
from headrace.client.connections.cluster import ClusterSettings, system_cluster
from headrace.client.errors import ProducerFenced, TransactionAborted
from headrace.client.groups.group_consumer import GroupConsumer, GroupConsumerSettings
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.client.producing.transactions import ANNOUNCED, IMPLICIT
from headrace.client.reading.consumer import AssignedConsumer, ConsumerSettings
from headrace.client.reading.offsets import IsolationLevel, find_bounds
from headrace.metadata.configs.internal_topics import TRANSACTION_STATE
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.testing import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from headrace.client.connections.cluster import Cluster

SOURCE, TARGET = "source", "target"
PLACE = TopicPartition(TARGET, 0)
PATIENCE_S = 60.0
PROMPT = {"group.initial.rebalance.delay.ms": "0"}
SETTINGS = ClusterSettings(retry_for_s=PATIENCE_S, backoff_first_s=0.01, backoff_max_s=0.1)
COMMITTED = IsolationLevel.READ_COMMITTED


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(configs=PROMPT) as running:
        running.create_topic(SOURCE, partitions=2)
        running.create_topic(TARGET)
        yield running


@pytest.fixture
async def cluster(broker: Broker) -> AsyncIterator[Cluster]:
    async with system_cluster(broker.bootstrap_servers, SETTINGS) as reached:
        yield reached


@pytest.fixture(params=["announced", "implicit"])
async def producer(request: pytest.FixtureRequest, cluster: Cluster) -> AsyncIterator[BatchingProducer]:
    """By the older flow and by the newer one: the node serves both at any time."""
    async with transactional(cluster) as made:
        if request.param == "announced":
            await speak_the_older_flow(made)
        yield made


def transactional(cluster: Cluster, timeout_ms: int = 60_000, transactional_id: str = "tx") -> BatchingProducer:
    settings = ProducerSettings(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, linger_ms=0)
    return BatchingProducer(cluster, settings)


async def speak_the_older_flow(producer: BatchingProducer) -> None:
    await producer.begin_transaction()
    await producer.abort_transaction()
    assert producer._transactions is not None
    assert producer._transactions.flow is IMPLICIT
    producer._transactions.flow = ANNOUNCED


async def visible(cluster: Cluster, isolation: IsolationLevel = COMMITTED) -> list[bytes | None]:
    """All that such a reader of the target sees up to its end."""
    _, end = (await find_bounds(cluster, [PLACE], isolation))[PLACE]
    found: list[bytes | None] = []
    async with (
        AssignedConsumer(cluster, ConsumerSettings(isolation=isolation)) as consumer,
        asyncio.timeout(PATIENCE_S),
    ):
        await consumer.assign({PLACE: 0}, {PLACE: end})
        while not consumer.is_finished:
            for records in (await consumer.poll()).values():
                found += [record.value for record in records]
    return found


async def send(producer: BatchingProducer, *values: bytes) -> None:
    for value in values:
        await (await producer.send(TARGET, None, value))


async def test_readers_see_what_was_committed_and_nothing_else(cluster: Cluster, producer: BatchingProducer) -> None:
    async with producer.transaction():
        await send(producer, b"1", b"2")
    await producer.begin_transaction()
    await send(producer, b"never")
    await producer.abort_transaction()
    async with producer.transaction():
        await send(producer, b"3")
    assert await visible(cluster) == [b"1", b"2", b"3"]
    assert await visible(cluster, IsolationLevel.READ_UNCOMMITTED) == [b"1", b"2", b"never", b"3"]


async def test_an_open_transaction_ends_what_readers_see(cluster: Cluster, producer: BatchingProducer) -> None:
    async with producer.transaction():
        await send(producer, b"1")
    await producer.begin_transaction()
    await send(producer, b"open")
    async with BatchingProducer(cluster) as other:
        await send(other, b"behind")
    assert await visible(cluster) == [b"1"]
    await producer.commit_transaction()
    async with asyncio.timeout(PATIENCE_S):
        while await visible(cluster) != [b"1", b"open", b"behind"]:
            await asyncio.sleep(0.01)


async def test_a_successor_fences_the_one_before(cluster: Cluster, producer: BatchingProducer) -> None:
    await producer.begin_transaction()
    await send(producer, b"lost")
    async with transactional(cluster) as successor:
        async with successor.transaction():
            await send(successor, b"kept")
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()
        async with successor.transaction():
            await send(successor, b"kept too")
    assert await visible(cluster) == [b"kept", b"kept too"]


async def test_a_transaction_that_took_too_long_is_aborted_and_the_producer_goes_on(cluster: Cluster) -> None:
    admin = TransactionAdmin(cluster)
    async with transactional(cluster, timeout_ms=50) as producer:
        await producer.begin_transaction()
        await send(producer, b"too slow")
        async with asyncio.timeout(PATIENCE_S):
            while (await admin.describe("tx")).state != "CompleteAbort":
                await asyncio.sleep(0.01)
        with pytest.raises(TransactionAborted):
            await producer.commit_transaction()
        await producer.abort_transaction()
    async with transactional(cluster) as producer, producer.transaction():
        await send(producer, b"in time")
    assert await visible(cluster) == [b"in time"]


async def test_consume_transform_produce_is_exactly_once(cluster: Cluster, producer: BatchingProducer) -> None:
    """Every third step fails after its messages were sent; all are done again."""
    count = 60
    async with BatchingProducer(cluster) as source:
        for number in range(count):
            await source.send(SOURCE, None, b"%d" % number, partition=number % 2)
    settings = GroupConsumerSettings(isolation=COMMITTED)
    steps = 0
    async with GroupConsumer(cluster, "g", [SOURCE], settings) as consumer, asyncio.timeout(PATIENCE_S):
        while sum(consumer.assignment.values()) < count:
            taken = await consumer.poll(7)
            if not taken:
                continue
            steps += 1
            await producer.begin_transaction()
            for records in taken.values():
                for record in records:
                    await producer.send(TARGET, None, record.value)
            await producer.send_offsets(consumer.assignment, consumer.group_metadata)
            if steps % 3:
                await producer.commit_transaction()
            else:
                await producer.flush()
                await producer.abort_transaction()
                consumer.rewind()
    assert steps > 10
    assert sorted(int(value or b"") for value in await visible(cluster)) == list(range(count))
    offsets = await GroupAdmin(cluster).offsets("g")
    assert sum(place.offset for place in offsets.values()) == count


async def test_offsets_of_a_generation_that_is_over_are_not_taken(cluster: Cluster, producer: BatchingProducer) -> None:
    async with GroupConsumer(cluster, "g", [SOURCE]) as consumer, asyncio.timeout(PATIENCE_S):
        while not consumer.is_joined:
            await consumer.poll(wait_s=0.05)
        stale = consumer.group_metadata._replace(generation_id=consumer.group_metadata.generation_id - 1)
        await producer.begin_transaction()
        with pytest.raises(TransactionAborted, match="illegal generation"):
            await producer.send_offsets(consumer.assignment, stale)
        await producer.abort_transaction()


async def test_lag_for_readers_of_what_is_committed_ends_at_the_open_transaction(
    cluster: Cluster, producer: BatchingProducer
) -> None:
    groups = GroupAdmin(cluster)
    async with producer.transaction():
        await send(producer, b"1", b"2")
    await producer.begin_transaction()
    await send(producer, b"open")
    await groups.commit("g", {PLACE: 2})  # all but the marker of the first transaction
    (seen,) = await groups.lag("g", isolation=COMMITTED)
    (whole,) = await groups.lag("g")
    assert (seen.end, seen.lag, seen.lag_ms) == (3, 1, 0)
    assert (whole.end, whole.lag) == (4, 2)
    assert whole.lag_ms is not None
    await producer.abort_transaction()


# Operators.


async def test_transactions_are_listed_and_described(cluster: Cluster, producer: BatchingProducer) -> None:
    admin = TransactionAdmin(cluster)
    await producer.begin_transaction()
    await send(producer, b"v")
    (listing,) = await admin.list_transactions()
    assert (listing.transactional_id, listing.state, listing.coordinator) == ("tx", "Ongoing", 1)
    assert await admin.list_transactions(states=["CompleteCommit"]) == []
    assert await admin.list_transactions(producer_ids=[listing.producer_id + 1]) == []
    found = await admin.describe("tx")
    assert (found.state, found.timeout_ms, found.partitions) == ("Ongoing", 60_000, [PLACE])
    assert found.started_ms is not None
    (active,) = await admin.producers(PLACE)
    assert (active.producer_id, active.producer_epoch) == (found.producer_id, found.producer_epoch)
    assert active.transaction_start_offset == 0
    await producer.commit_transaction()
    async with asyncio.timeout(PATIENCE_S):
        while (await admin.producers(PLACE))[0].transaction_start_offset is not None:
            await asyncio.sleep(0.01)
    assert (await admin.describe("tx")).partitions == []


async def test_an_operator_can_abort_a_transaction_and_its_producer_is_fenced(
    cluster: Cluster, producer: BatchingProducer
) -> None:
    admin = TransactionAdmin(cluster)
    await producer.begin_transaction()
    await send(producer, b"lost")
    await admin.abort("tx")
    assert (await admin.describe("tx")).started_ms is None
    with pytest.raises(ProducerFenced):
        await producer.commit_transaction()
    assert await visible(cluster) == []


async def test_a_hanging_transaction_is_aborted_in_its_partition(broker: Broker, cluster: Cluster) -> None:
    admin = TransactionAdmin(cluster)
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        await send(producer, b"hanging")
        (active,) = await admin.producers(PLACE)
        marker = (PLACE, active.producer_id, active.producer_epoch, active.coordinator_epoch)
        with pytest.raises(Refusal) as refusal:
            await admin.abort_hanging(*marker)
        assert refusal.value.code == ErrorCode.INVALID_TXN_STATE  # its coordinator looks after it
        await asyncio.to_thread(broker.delete_topic, TRANSACTION_STATE)
        await admin.abort_hanging(*marker)
        (active,) = await admin.producers(PLACE)
        assert active.transaction_start_offset is None
        assert await visible(cluster) == []


async def test_what_is_not_there_is_told_at_once(cluster: Cluster) -> None:
    admin = TransactionAdmin(cluster)
    for question in (admin.describe("nobody"), admin.abort("nobody")):
        with pytest.raises(Refusal) as refusal:
            await question
        assert refusal.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    with pytest.raises(Refusal, match="has no partition 9"):
        await admin.producers(TopicPartition(TARGET, 9))
    with pytest.raises(Refusal, match="Nonsense"):
        await admin.list_transactions(states=["Nonsense"])
    assert await admin.list_transactions() == []

"""The sink's commit protocol against a live node, without Spark: drivers die, answers vanish, zombies come back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.admin import Admin
from headrace.client.admin.groups import GroupAdmin
from headrace.client.admin.transactions import TransactionAdmin
from headrace.client.connections.cluster import Cluster, system_cluster
from headrace.client.errors import ClientError, ProducerFenced
from headrace.client.reading.offsets import IsolationLevel, find_bounds
from headrace.model.names import TopicPartition
from headrace.testing import Broker
from headrace.wire.batches.header import read_header
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.produce import ProduceRequest, ProduceResponse
from headrace.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from headrace_spark.codec.encoder import EncodedBatch
from headrace_spark.sink.commit_messages import StagedBatch
from headrace_spark.sink.publishing import Publication, Publisher, StaleBatch
from headrace_spark.sink.sending import BatchSender, init_producer_id
from headrace_spark.sink.staging import _restored
from headrace_spark.sink.staging_names import former_offsets_partition, staging_topic
from headrace_spark.sink.tasks import INLINE_BYTES_MAX, leave_for_commit
from headrace_spark.sink.writers import OnceWriter, StreamWriter
from tests.unit.spark.faulty_line import Fate, FaultyNetwork
from tests.unit.spark.sink_inputs import committed_records, committed_values, options_for, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_spark.sink.commit_messages import TaskOutput

LARGE = 1000  # bytes of a value; a few hundred of these do not fit into a message
QUERY = "spark-sink-of-a-test"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.create_topic(name, partitions=3)
    return name


def values_of(label: str, count: int) -> list[bytes]:
    return [f"{label}-{number}".encode().ljust(LARGE) for number in range(count)]


async def output_of(broker: Broker, topic: str, values: list[bytes], task_index: int = 0) -> TaskOutput:
    options = options_for(broker.bootstrap_servers, topic)
    return await asyncio.to_thread(leave_for_commit, rows_of(values), options, f"{QUERY}-{topic}", task_index)


async def publish(cluster: Cluster, topic: str, version: int, *outputs: TaskOutput) -> bool:
    return await Publisher(cluster, Publication(f"{QUERY}-{topic}", version, outputs, is_strict=True)).publish()


async def seen(broker: Broker, topic: str) -> list[bytes]:
    return sorted(await asyncio.to_thread(committed_values, broker.bootstrap_servers, topic))


@pytest.mark.parametrize("count", [0, 3, 2000], ids=["empty", "inline", "staged"])
async def test_a_batch_is_seen_after_its_commit_and_only_once(broker: Broker, topic: str, count: int) -> None:
    values = values_of("a", count)
    output = await output_of(broker, topic, values)
    assert (output.staging is None) == (count * LARGE < INLINE_BYTES_MAX)
    assert await seen(broker, topic) == []
    async with system_cluster(broker.bootstrap_servers) as cluster:
        assert await publish(cluster, topic, 0, output)
        assert not await publish(cluster, topic, 0, output)
    assert await seen(broker, topic) == sorted(values)


async def test_a_staging_topic_can_go_between_two_batches_and_nothing_is_forgotten(broker: Broker, topic: str) -> None:
    staging = staging_topic(f"{QUERY}-{topic}")
    small, large = values_of("small", 3), values_of("large", 500)
    async with system_cluster(broker.bootstrap_servers) as cluster:
        assert await publish(cluster, topic, 0, await output_of(broker, topic, small))
        assert staging not in {it.name for it in await Admin(cluster).list_topics()}, "nothing was staged"
        output = await output_of(broker, topic, large)
        assert await publish(cluster, topic, 1, output)
        await Admin(cluster).delete_topic(staging)
        assert not await publish(cluster, topic, 1, output)
        with pytest.raises(StaleBatch):
            await publish(cluster, topic, 0, output)
        assert await publish(cluster, topic, 2, await output_of(broker, topic, large))
    assert await seen(broker, topic) == sorted(small + large + large)


async def test_what_a_version_before_remembers_in_the_staging_topic_counts(broker: Broker, topic: str) -> None:
    output = await output_of(broker, topic, values_of("a", 500))
    async with system_cluster(broker.bootstrap_servers) as cluster:
        await GroupAdmin(cluster).commit(f"{QUERY}-{topic}", {former_offsets_partition(f"{QUERY}-{topic}"): 5})
        assert not await publish(cluster, topic, 4, output)
        assert await publish(cluster, topic, 5, output)
        assert not await publish(cluster, topic, 5, output)


async def test_only_attempts_that_won_are_published(broker: Broker, topic: str) -> None:
    """Two attempts of one task and a third that died: all in one staging partition, their batches mixed."""
    winner, loser, died = values_of("winner", 3000), values_of("loser", 3000), values_of("died", 500)
    won, _, _ = await asyncio.gather(
        output_of(broker, topic, winner), output_of(broker, topic, loser), output_of(broker, topic, died)
    )
    async with system_cluster(broker.bootstrap_servers) as cluster:
        assert await publish(cluster, topic, 0, won)
    assert await seen(broker, topic) == sorted(winner)


async def test_tasks_of_one_batch_are_published_together(broker: Broker, topic: str) -> None:
    shares = [values_of(f"task {index}", count) for index, count in enumerate([900, 2, 0, 700, 1100, 800])]
    outputs = [await output_of(broker, topic, share, index) for index, share in enumerate(shares)]
    async with system_cluster(broker.bootstrap_servers) as cluster:
        assert await publish(cluster, topic, 7, *outputs)
    assert await seen(broker, topic) == sorted(value for share in shares for value in share)


async def test_staged_batches_are_deleted_once_they_are_published(broker: Broker, topic: str) -> None:
    output = await output_of(broker, topic, values_of("a", 1000))
    assert output.staging is not None
    async with system_cluster(broker.bootstrap_servers) as cluster:
        await publish(cluster, topic, 0, output)
        first, end = (await find_bounds(cluster, [output.staging]))[output.staging]
    assert first == end == sum(batch.record_count for batch in output.staged) > 0


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_ANSWER])
@pytest.mark.parametrize(
    "request_type", [EndTxnRequest, TxnOffsetCommitRequest, ProduceRequest], ids=["end", "offset", "produce"]
)
async def test_a_connection_that_breaks_costs_nothing(
    broker: Broker, topic: str, request_type: type, fate: Fate
) -> None:
    values = values_of("a", 1500)
    output = await output_of(broker, topic, values)
    network = FaultyNetwork()
    network.fates[request_type.API_KEY] = [fate, Fate.PASS, fate]
    async with network.cluster(broker.bootstrap_servers) as cluster:
        assert await publish(cluster, topic, 0, output)
    assert network.fates[request_type.API_KEY] in ([], [fate])
    assert await seen(broker, topic) == sorted(values)


@pytest.mark.parametrize("stuck", [TxnOffsetCommitRequest, EndTxnRequest], ids=["before_offset", "before_end"])
async def test_a_driver_that_died_before_its_commit_is_replaced(broker: Broker, topic: str, stuck: type) -> None:
    first = await output_of(broker, topic, values_of("first", 800))
    again = await output_of(broker, topic, values_of("first", 800))
    network = FaultyNetwork()
    network.fates[stuck.API_KEY] = [Fate.HOLD]
    async with network.cluster(broker.bootstrap_servers) as dead, system_cluster(broker.bootstrap_servers) as cluster:
        dying = asyncio.create_task(publish(dead, topic, 4, first))
        await network.is_held.wait()
        assert await publish(cluster, topic, 4, again)
        dying.cancel()
        with pytest.raises((asyncio.CancelledError, ProducerFenced)):
            await dying
    assert await seen(broker, topic) == sorted(values_of("first", 800))


async def test_a_driver_that_died_after_its_commit_is_not_repeated(broker: Broker, topic: str) -> None:
    values = values_of("a", 800)
    outputs = [await output_of(broker, topic, values) for _ in range(2)]
    network = FaultyNetwork()
    network.fates[EndTxnRequest.API_KEY] = [Fate.LOSE_ANSWER, Fate.HOLD]
    async with network.cluster(broker.bootstrap_servers) as dead, system_cluster(broker.bootstrap_servers) as cluster:
        dying = asyncio.create_task(publish(dead, topic, 0, outputs[0]))
        await network.is_held.wait()
        assert not await publish(cluster, topic, 0, outputs[1])
        dying.cancel()
        with pytest.raises((asyncio.CancelledError, ProducerFenced)):
            await dying
    assert await seen(broker, topic) == sorted(values)


async def test_a_zombie_is_told_that_it_was_replaced(broker: Broker, topic: str) -> None:
    values = values_of("a", 800)
    outputs = [await output_of(broker, topic, values) for _ in range(2)]
    network = FaultyNetwork()
    network.fates[EndTxnRequest.API_KEY] = [Fate.HOLD]
    async with network.cluster(broker.bootstrap_servers) as dead, system_cluster(broker.bootstrap_servers) as cluster:
        zombie = asyncio.create_task(publish(dead, topic, 0, outputs[0]))
        await network.is_held.wait()
        assert await publish(cluster, topic, 0, outputs[1])
        network.release()
        with pytest.raises(ProducerFenced, match="another driver has taken over"):
            await zombie
        assert await publish(cluster, topic, 1, await output_of(broker, topic, [b"next"]))
    assert await seen(broker, topic) == sorted([*values, b"next"])


async def test_a_zombie_that_comes_late_is_told_so_and_disturbs_nobody(broker: Broker, topic: str) -> None:
    old = await output_of(broker, topic, [b"once"])
    async with system_cluster(broker.bootstrap_servers) as cluster:
        for version in range(3):
            assert await publish(cluster, topic, version, await output_of(broker, topic, [b"%d" % version]))
        with pytest.raises(StaleBatch, match=r"batch 1 is to be written, but .* has published all up to 2"):
            await publish(cluster, topic, 1, old)
        assert await publish(cluster, topic, 3, await output_of(broker, topic, [b"3"]))
    assert await seen(broker, topic) == [b"0", b"1", b"2", b"3"]


async def test_a_zombie_that_comes_late_does_not_fence_the_driver_at_work(broker: Broker, topic: str) -> None:
    old = await output_of(broker, topic, [b"once"])
    network = FaultyNetwork()
    async with network.cluster(broker.bootstrap_servers) as living, system_cluster(broker.bootstrap_servers) as cluster:
        for version in range(2):
            assert await publish(living, topic, version, await output_of(broker, topic, [b"%d" % version]))
        network.fates[EndTxnRequest.API_KEY] = [Fate.HOLD]
        at_work = asyncio.create_task(publish(living, topic, 2, await output_of(broker, topic, [b"2"])))
        await network.is_held.wait()
        with pytest.raises(StaleBatch, match=r"batch 0 is to be written, but .* has published all up to 1"):
            await publish(cluster, topic, 0, old)
        assert not await publish(cluster, topic, 1, old)
        network.release()
        assert await at_work
    assert await seen(broker, topic) == [b"0", b"1", b"2"]


async def test_an_application_may_repeat_any_version(broker: Broker, topic: str) -> None:
    async with system_cluster(broker.bootstrap_servers) as cluster:
        outcomes = [
            await Publisher(cluster, Publication(f"{QUERY}-{topic}", version, (output,))).publish()
            for version in [3, 7, 3, 7, 0, 8]
            for output in [await output_of(broker, topic, [b"%d" % version])]
        ]
    assert outcomes == [True, True, False, False, False, True]
    assert await seen(broker, topic) == [b"3", b"7", b"8"]


def test_a_strict_application_repeats_its_last_version_alone(broker: Broker, topic: str) -> None:
    def write(version: int) -> None:
        given = {"txnAppId": "strict", "txnVersion": str(version), "txnStrict": "true"}
        options = options_for(broker.bootstrap_servers, topic, **given)
        output = leave_for_commit(rows_of([b"%d" % version]), options, options.application_id, 0)
        OnceWriter(options).commit([output])

    for version in [0, 1, 2, 2]:
        write(version)
    with pytest.raises(StaleBatch, match=r"batch 1 is to be written, but .* has published all up to 2"):
        write(1)
    assert sorted(committed_values(broker.bootstrap_servers, topic)) == [b"0", b"1", b"2"]


class _SenderWithABug(BatchSender):
    async def _request(self, *_: object) -> ProduceResponse:
        raise KeyError("a bug")


async def test_a_bug_on_the_way_to_the_log_is_not_taken_for_success(broker: Broker, topic: str) -> None:
    output = await output_of(broker, topic, [b"a"])
    (batch,) = output.inline
    async with system_cluster(broker.bootstrap_servers) as cluster:
        sender = _SenderWithABug(cluster, await init_producer_id(cluster))
        await sender.send(batch.target, EncodedBatch(bytearray(batch.records), batch.record_count))
        with pytest.raises(KeyError, match="a bug"):
            await sender.flush()
        await sender.close()


async def test_a_transaction_that_took_too_long_is_begun_again(broker: Broker, topic: str) -> None:
    output = await output_of(broker, topic, values_of("a", 300))
    network = FaultyNetwork()
    network.fates[TxnOffsetCommitRequest.API_KEY] = [Fate.HOLD]
    async with network.cluster(broker.bootstrap_servers) as cluster, system_cluster(broker.bootstrap_servers) as other:
        publisher = Publisher(cluster, Publication(f"{QUERY}-{topic}", 0, (output,)), timeout_ms=1000)
        publishing = asyncio.create_task(publisher.publish())
        await network.is_held.wait()
        while (await TransactionAdmin(other).describe(f"{QUERY}-{topic}")).state == "Ongoing":
            await asyncio.sleep(0.05)
        network.release()
        assert await publishing
    assert await seen(broker, topic) == sorted(values_of("a", 300))


async def test_staged_batches_that_are_gone_stop_the_commit(broker: Broker, topic: str) -> None:
    output = await output_of(broker, topic, values_of("a", 500))
    assert output.staging is not None
    async with system_cluster(broker.bootstrap_servers) as cluster:
        await Admin(cluster).delete_records({output.staging: -1})
        with pytest.raises(Exception, match="are gone; nothing of this batch was published"):
            await publish(cluster, topic, 0, output)
        assert await publish(cluster, topic, 0, await output_of(broker, topic, [b"again"]))
    assert await seen(broker, topic) == [b"again"]


async def test_a_staged_batch_that_is_not_where_it_was_left_stops_the_commit(broker: Broker, topic: str) -> None:
    """Those before and after it are there: only their number tells."""
    output = await output_of(broker, topic, values_of("a", 6000))
    first, second, *others = output.staged
    assert others
    moved = replace(output, staged=(first, second._replace(offset=second.offset + 1), *others))
    async with FaultyNetwork().cluster(broker.bootstrap_servers, retry_for_s=0.0) as cluster:
        with pytest.raises(ClientError, match=rf"has {len(output.staged) - 1} of the {len(output.staged)} batches"):
            await publish(cluster, topic, 0, moved)
        assert await seen(broker, topic) == []
        assert await publish(cluster, topic, 0, output)


async def test_a_staged_batch_that_is_damaged_is_not_sent_on(broker: Broker, topic: str) -> None:
    """It would get a new CRC on its way, and nobody could tell any more."""
    (inline,) = (await output_of(broker, topic, [b"whole"])).inline
    records = bytearray(inline.records)
    header = read_header(records)
    staged = StagedBatch(0, inline.record_count, len(records), header.max_timestamp, 0)
    assert _restored(memoryview(records), 0, header, staged).records == inline.records
    records[-2] ^= 1
    with pytest.raises(ClientError, match="the batch staged at offset 0 is damaged"):
        _restored(memoryview(records), 0, header, staged)


async def test_a_log_that_does_not_know_the_producer_gets_one_batch_first(broker: Broker, topic: str) -> None:
    """It might take the second for the first, if that one got lost."""
    (inline,) = (await output_of(broker, topic, [b"a"])).inline
    network = FaultyNetwork()
    network.fates[ProduceRequest.API_KEY] = [Fate.HOLD]
    async with network.cluster(broker.bootstrap_servers) as cluster:
        await cluster.topics({topic})
        sender = BatchSender(cluster, await init_producer_id(cluster))
        for _ in range(3):
            await sender.send(inline.target, EncodedBatch(bytearray(inline.records), inline.record_count))
        await network.is_held.wait()
        await cluster.refresh()  # a whole exchange: whatever was to leave has left
        assert network.sent.count(ProduceRequest.API_KEY) == 1
        network.release()
        await sender.flush()
        await sender.close()
    assert await seen(broker, topic) == [b"a"] * 3


async def test_a_batch_that_a_target_refuses_leaves_no_transaction_open(broker: Broker, topic: str) -> None:
    broker.create_topic(f"{topic}-small", configs={"max.message.bytes": "1000"})
    output = await output_of(broker, f"{topic}-small", values_of("a", 50))
    output = replace(output, inline=(*output.inline, (await output_of(broker, topic, [b"seen?"])).inline[0]))
    async with system_cluster(broker.bootstrap_servers) as cluster:
        with pytest.raises(Exception, match=r"kafka.batch.size below the topic's max.message.bytes"):
            await publish(cluster, topic, 0, output)
        names = [TopicPartition(topic, index) for index in range(3)]
        stable = await find_bounds(cluster, names, IsolationLevel.READ_COMMITTED)
        assert stable == await find_bounds(cluster, names)  # nobody waits for an open transaction
    assert await seen(broker, topic) == []


async def test_a_transaction_timeout_that_is_too_long_names_the_setting(topic: str, broker: Broker) -> None:
    output = await output_of(broker, topic, [b"a"])
    async with system_cluster(broker.bootstrap_servers) as cluster:
        publisher = Publisher(cluster, Publication(f"{QUERY}-{topic}", 0, (output,)), timeout_ms=2**31 - 1)
        with pytest.raises(Exception, match=r"transaction\.max\.timeout\.ms"):
            await publisher.publish()


async def test_an_abort_after_the_commit_takes_nothing_back(broker: Broker, topic: str) -> None:
    """Spark calls both when it fails between the two."""
    values = values_of("a", 400)
    output = await output_of(broker, topic, values)
    writer = StreamWriter(options_for(broker.bootstrap_servers, topic))
    await asyncio.to_thread(writer.commit, [output], 0)
    await asyncio.to_thread(writer.abort, [output], 0)
    assert await seen(broker, topic) == sorted(values)
    await asyncio.to_thread(writer.commit, [output], 0)
    assert await seen(broker, topic) == sorted(values)


def test_a_commit_without_the_output_of_a_task_writes_nothing(broker: Broker, topic: str) -> None:
    writer = StreamWriter(options_for(broker.bootstrap_servers, topic))
    with pytest.raises(RuntimeError, match="1 of 1 tasks left no output"):
        writer.commit([None], 0)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_commit_that_lacks_one_of_several_outputs_writes_nothing(broker: Broker, topic: str, place: int) -> None:
    options = options_for(broker.bootstrap_servers, topic, txnAppId=f"lacking-{place}", txnVersion="0")
    messages: list[TaskOutput | None] = [
        leave_for_commit(rows_of([b"%d" % index]), options, options.application_id, index) for index in range(2)
    ]
    messages.insert(place, None)
    streaming = StreamWriter(options_for(broker.bootstrap_servers, topic))
    for commit in (lambda: streaming.commit(messages, 0), lambda: OnceWriter(options).commit(messages)):
        with pytest.raises(RuntimeError, match="1 of 3 tasks left no output; nothing is written"):
            commit()
    assert committed_values(broker.bootstrap_servers, topic) == []


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_ANSWER])
async def test_clusters_that_want_partitions_announced_are_served(
    broker: Broker, topic: str, fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow of Kafka before 4.0: our client speaks it to whoever does not offer the newer one."""
    monkeypatch.setattr("headrace.client.producing.transactions.IMPLICIT_LEVEL", 99)
    values = values_of("a", 600)
    network = FaultyNetwork()
    network.fates = {EndTxnRequest.API_KEY: [fate], ProduceRequest.API_KEY: [Fate.PASS, fate]}
    async with network.cluster(broker.bootstrap_servers) as cluster:
        for version in range(2):
            assert await publish(cluster, topic, version, await output_of(broker, topic, values))
            assert not await publish(cluster, topic, version, await output_of(broker, topic, values))
    assert AddPartitionsToTxnRequest.API_KEY in network.sent
    assert await seen(broker, topic) == sorted(values * 2)


async def test_rows_of_a_task_keep_their_order_in_each_partition(broker: Broker, topic: str) -> None:
    output = await output_of(broker, topic, values_of("a", 6000))
    assert len({batch.target for batch in output.staged}) > 1
    async with system_cluster(broker.bootstrap_servers) as cluster:
        await publish(cluster, topic, 0, output)
    numbers: dict[int, list[int]] = {}
    for message in await asyncio.to_thread(committed_records, broker.bootstrap_servers, topic):
        numbers.setdefault(message.partition(), []).append(int(message.value().removeprefix(b"a-")))
    assert sum(len(found) for found in numbers.values()) == 6000
    assert all(found == sorted(found) for found in numbers.values())

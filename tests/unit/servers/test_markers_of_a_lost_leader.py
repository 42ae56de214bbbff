"""A marker counts as written only if it is committed under the leader that wrote it; and none waits for another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.coordinators.records import encode
from headrace.coordinators.transactions.coordinator import AddPartitions
from headrace.coordinators.transactions.effects import MarkerOrder
from headrace.coordinators.transactions.state import Status, Transaction, record_of
from headrace.metadata.configs.internal_topics import TRANSACTION_STATE
from headrace.model.errors import ErrorCode, Reason
from headrace.model.names import Epoch, Millis, NodeId, Offset, ProducerId, TopicPartition
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.servers.living_server import LivingServer, living_server, until

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.broker.partitions.partition import Partition

HERE, THERE = NodeId(1), NodeId(2)
SLOW, LOST = TopicPartition("slow", 0), TopicPartition("lost", 0)
WRITE_MARKERS = 1  # the version
ORDER = MarkerOrder("t", ProducerId(7), 0, True, (SLOW, LOST), 0, 0)


async def test_a_marker_that_another_leader_has_replaced_is_written_again(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        slow, lost = await partitions_with_another_replica(server)
        writing = asyncio.create_task(server.node.coordinators.markers._write_round(ORDER.partitions, ORDER))
        await until(lambda: lost.log.next_offset == 1)
        await follow_a_leader_without_the_marker(server, lost)
        assert lost.high_watermark == lost.log.next_offset == 1
        slow.agreed_in_sync([HERE], slow.partition_epoch + 1)
        assert await writing == [LOST]


async def test_a_marker_in_a_partition_that_moved_away_is_not_waited_for(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        slow, lost = await partitions_with_another_replica(server)
        writing = asyncio.create_task(server.node.coordinators.markers._write_round(ORDER.partitions, ORDER))
        await until(lambda: lost.log.next_offset == 1)
        served = server.node.topics.named(LOST.topic)
        assert served is not None
        served.partitions[LOST.partition] = None
        lost.retire(Reason(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it has moved to other nodes"))
        slow.agreed_in_sync([HERE], slow.partition_epoch + 1)
        async with asyncio.timeout(10):
            assert await writing == [LOST]


async def test_markers_for_what_was_deleted_are_not_waited_for(tmp_path: Path) -> None:
    """Or the transactional id could not be used for ever. A topic of the same name may have fewer partitions."""
    async with living_server(tmp_path) as server:
        await server.create_topic(SLOW.topic)
        gone = (TopicPartition("gone", 0), TopicPartition(SLOW.topic, 1))
        order = ORDER._replace(partitions=gone)
        assert await server.node.coordinators.markers._write_round(gone, order) == []


async def partitions_with_another_replica(server: LivingServer) -> tuple[Partition, Partition]:
    """Led here, and in sync with a node that never fetches: what is written waits."""
    for name in (SLOW, LOST):
        await server.create_topic(name.topic)
        partition = server.node.topics.partition(*name)
        partition.agreed_in_sync([HERE, THERE], partition.partition_epoch + 1)
    return server.node.topics.partition(*SLOW), server.node.topics.partition(*LOST)


async def follow_a_leader_without_the_marker(server: LivingServer, partition: Partition) -> None:
    epoch = Epoch(partition.replica.leader_epoch + 1)
    partition.follow(epoch, THERE, [HERE, THERE])
    await server.node.store.truncation.truncate(partition.log, 0, partition.follower_writer.was_cut)
    others = encode_batch([(1_700_000_000_000, None, b"another record", ())], base_offset=0, leader_epoch=epoch)
    partition.follower_writer.append(memoryview(others), Offset(1), Offset(0))
    await until(lambda: partition.log.flushed_offset == 1)
    partition.follower_writer.append(memoryview(b""), Offset(1), Offset(0))


async def test_markers_for_many_partitions_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        partitions = await partitions_with_another_replica(server)
        topics = [WritableTxnMarkerTopic(name.topic, [name.partition]) for name in (SLOW, LOST)]
        await server.create_topic(TRANSACTION_STATE)
        client = await server.connect(await server.listen_for_nodes())
        client.begin(WriteTxnMarkersRequest([WritableTxnMarker(7, 0, True, topics)]), WRITE_MARKERS)
        await until(lambda: all(partition.log.next_offset == 1 for partition in partitions))
        for partition in partitions:
            partition.agreed_in_sync([HERE], partition.partition_epoch + 1)
        assert await client.frame() is not None


async def test_markers_that_were_written_before_their_order_was_repeated_do_not_end_the_next_transaction(
    tmp_path: Path,
) -> None:
    """The order of a mind that was thrown away goes on, and its successor repeats it."""
    ending = Transaction(
        ProducerId(7), 0, 60_000, Status.PREPARE_COMMIT, Millis(0), partitions=frozenset({LOST}), started_ms=Millis(0)
    )
    async with living_server(tmp_path) as server:
        state, written = await partitions_with_another_replica(server)
        state.writer.append(encode_batch([(0, *encode(record_of("t", ending)), ())]))
        shard = server.node.coordinators._new_transaction_shard(state)
        running = asyncio.create_task(shard.run())
        await until(lambda: shard._mind is not None)
        shard.tell(lambda mind, now: mind.markers_written("t", ProducerId(7), 0, now))
        next_one = AddPartitions("t", ProducerId(7), 0, [LOST])
        begun = asyncio.create_task(shard.ask(lambda mind, token, now: mind.add_partitions(next_one, token, now)))
        await until(lambda: state.log.next_offset == 3)
        state.agreed_in_sync([HERE], state.partition_epoch + 1)
        assert await begun == {LOST: ErrorCode.NONE}
        assert written.log.next_offset == 0
        shard.close()
        running.cancel()

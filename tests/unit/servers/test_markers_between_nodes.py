"""What is asked of markers where nodes listen, and what clients are not even told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.metadata.configs.internal_topics import TRANSACTION_STATE
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Epoch, ProducerId, TopicPartition
from headrace.servers.kafka.apis import SERVED_TO_NODES
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.live_transactions import LiveTransactionsCoordinator, LiveTransactionsRequest
from headrace.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.unit.servers.living_server import LivingServer, living_server, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.servers.living_server import Client

PLACE = TopicPartition("events", 0)
PRODUCER = ProducerId(7)
FIRST = Epoch(0)


def hang(server: LivingServer) -> None:
    """A transaction of which no coordinator knows."""
    batch = encode_batch([(0, None, b"value", ())], producer_id=PRODUCER, producer_epoch=0, is_transactional=True)
    server.node.topics.partition(*PLACE).writer.append(batch)


async def order(client: Client, *, is_commit: bool, coordinator_epoch: int) -> ErrorCode:
    topics = [WritableTxnMarkerTopic(PLACE.topic, [PLACE.partition])]
    marker = WritableTxnMarker(PRODUCER, 0, is_commit, topics, coordinator_epoch)
    answer = await client.ask(WriteTxnMarkersRequest([marker]), 1)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def is_open(server: LivingServer) -> bool:
    producer = server.node.topics.partition(*PLACE).log.producers.get(PRODUCER)
    return producer is not None and producer.has_open_transaction


@pytest.mark.parametrize("epoch", [1, 2**31 - 1])
async def test_a_coordinator_that_no_election_has_made_waits_until_it_is_heard_of(tmp_path: Path, epoch: int) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(PLACE.topic)
        client = await server.connect(await server.listen_for_nodes())
        hang(server)
        unheard = await order(client, is_commit=True, coordinator_epoch=0)
        assert unheard == ErrorCode.COORDINATOR_NOT_AVAILABLE  # nobody has made their topic yet
        await server.create_topic(TRANSACTION_STATE, partitions=2)
        assert await order(client, is_commit=True, coordinator_epoch=epoch) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert is_open(server)
        assert await order(client, is_commit=True, coordinator_epoch=0) == ErrorCode.NONE
        assert not is_open(server)


async def test_an_operator_waits_until_every_coordinator_has_said_whether_it_knows_the_transaction(
    tmp_path: Path,
) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(PLACE.topic)
        await server.create_topic(TRANSACTION_STATE, partitions=2)
        hang(server)
        client = await server.connect()
        coordination = server.node.coordinators
        await until(lambda: all(shard._mind is not None for shard in coordination.transaction_shards()))
        silent = server.node.topics.partition(TRANSACTION_STATE, 1)
        coordination.left(silent)
        assert await order(client, is_commit=False, coordinator_epoch=0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert is_open(server)
        coordination.led(silent)
        await until(lambda: all(shard._mind is not None for shard in coordination.transaction_shards()))
        assert await order(client, is_commit=False, coordinator_epoch=0) == ErrorCode.NONE
        assert not is_open(server)


async def test_a_transaction_that_writes_while_coordinators_are_asked_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(PLACE.topic)
        await server.create_topic(TRANSACTION_STATE)
        hang(server)
        coordination = server.node.coordinators
        await until(lambda: all(shard._mind is not None for shard in coordination.transaction_shards()))
        ask = coordination.live_here

        async def ask_slowly(*asked: object) -> set[TopicPartition]:
            found = await ask(*asked)  # type: ignore[arg-type]
            hang(server)  # its producer is back
            return found

        monkeypatch.setattr(coordination, "live_here", ask_slowly)
        client = await server.connect()
        assert await order(client, is_commit=False, coordinator_epoch=0) == ErrorCode.INVALID_TXN_STATE
        assert is_open(server)


async def test_only_the_leader_of_that_epoch_answers_for_a_coordinator(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TRANSACTION_STATE)
        client = await server.connect(await server.listen_for_nodes())
        shards = server.node.coordinators.transaction_shards()
        await until(lambda: all(shard._mind is not None for shard in shards))

        async def asked(index: int, epoch: int) -> int:
            wanted = [LiveTransactionsCoordinator(index, epoch)]
            code: int = (await client.ask(LiveTransactionsRequest(PRODUCER, wanted), 0)).error_code
            return code

        assert await asked(0, FIRST) == ErrorCode.NONE
        assert await asked(0, FIRST + 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await asked(1, FIRST) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(Refusal):
            await server.node.coordinators.live_here(PRODUCER, {5: FIRST})


OF_KAFKAS_NODES = {4, 5, 6, 7, 52, 53, 54, 58, 59, 62, 63, 67, 70}
"""LeaderAndIsr, Vote, Envelope and the like: what Kafka's nodes and controllers ask each other."""


async def test_clients_do_not_hear_of_what_nodes_ask_each_other(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        told = {served.api_key for served in (await client.ask(ApiVersionsRequest("test", "1"), 3)).api_keys}
        assert not told & set(SERVED_TO_NODES)
        assert not told & OF_KAFKAS_NODES
        for key in (*SERVED_TO_NODES, *OF_KAFKAS_NODES):
            assert await is_closed_upon(server, key), key


async def is_closed_upon(server: LivingServer, key: int) -> bool:
    client = await server.connect()
    body = key.to_bytes(2) + bytes(6) + b"\xff\xff" + bytes(60)
    client.writer.write(len(body).to_bytes(4) + body)
    return await client.frame() is None

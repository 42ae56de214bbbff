"""What Metadata, DescribeTopicPartitions and DeleteRecords say of topics."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.names import NO_NODE
from headrace.servers.kafka.handlers.topics import metadata
from headrace.storage.files.checkpoints import START_OFFSETS, read_offsets
from headrace.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.servers.living_server import SOON_S, living_server, produce, until

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.wire.primitives import Reader

TOPIC = "events"
METADATA, DESCRIBE, PRODUCE, DELETE_RECORDS, LIST_OFFSETS = 9, 0, 9, 2, 7
ASK = MetadataRequest([MetadataRequestTopic(name=TOPIC)])


async def test_a_leader_that_cannot_serve_any_more_is_not_named_from_memory(tmp_path: Path) -> None:
    """The topic is the same; it is this node that is not well, or another that is away."""
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()

        async def leader() -> tuple[int, int]:
            (partition,) = (await client.ask(ASK, METADATA)).topics[0].partitions
            return partition.leader_id, partition.error_code

        assert await leader() == (server.node.node_id, ErrorCode.NONE)
        served = server.node.topics.named(TOPIC)
        assert served is not None
        served.troubles[0] = "its log is damaged"
        assert await leader() == (NO_NODE, ErrorCode.LEADER_NOT_AVAILABLE)
        del served.troubles[0]
        assert await leader() == (server.node.node_id, ErrorCode.NONE)


async def test_a_topic_is_described_once_however_often_it_is_named(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        answer = await client.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)] * 1000), METADATA)
        assert [topic.name for topic in answer.topics] == [TOPIC]


async def test_answers_about_very_many_partitions_wait_for_each_other_and_nobody_else_does(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        await server.create_topic("wide", partitions=1200)
        clients = [await server.connect() for _ in range(3)]
        asks = [MetadataRequest(None), MetadataRequest([MetadataRequestTopic(name="wide")]), ASK]
        line = server.server.large_answers
        async with line.turn("somebody"), line.turn("somebody else"):
            for client, ask in zip(clients, asks, strict=True):
                client.begin(ask, METADATA)
            assert await clients[2].frame() is not None
            await until(lambda: len(line) == 2, SOON_S)
        for client in clients[:2]:
            assert await client.frame() is not None


async def test_a_name_that_is_none_comes_back_cut(tmp_path: Path) -> None:
    """It may have 32 KB, and there may be fifty thousand of them."""
    async with living_server(tmp_path, auto_create_topics_enable="false") as server:
        client = await server.connect()
        answer = await client.ask(MetadataRequest([MetadataRequestTopic(name="n" * 30_000)]), METADATA)
        assert [(topic.error_code, topic.name) for topic in answer.topics] == [
            (ErrorCode.INVALID_TOPIC_EXCEPTION, "n" * 249)
        ]


async def test_topics_are_made_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "CREATED_AT_ONCE", 2)
    names = ["a", "b", "c"]
    async with living_server(tmp_path) as server:
        client = await server.connect()
        ask = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
        codes = [topic.error_code for topic in (await client.ask(ask, METADATA)).topics]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        codes = [topic.error_code for topic in (await client.ask(ask, METADATA)).topics]
        assert codes == [ErrorCode.NONE] * 3


async def test_a_large_request_is_read_beside_the_loop_and_in_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = MetadataRequest.decode
    threads: list[bool] = []

    def noting(reader: Reader, version: int) -> MetadataRequest:
        threads.append(threading.current_thread() is threading.main_thread())
        return decode(reader, version)

    monkeypatch.setattr(MetadataRequest, "decode", noting)
    async with living_server(tmp_path, auto_create_topics_enable="false") as server:
        client = await server.connect()
        many = [MetadataRequestTopic(name=f"topic-{number:05}") for number in range(20_000)]
        client.begin(MetadataRequest(many), METADATA)
        client.begin(MetadataRequest([]), METADATA)
        first, second = await client.frame(), await client.frame()
        assert first is not None
        assert second is not None
        assert (first[:4], second[:4]) == (b"\0\0\0\1", b"\0\0\0\2")
        assert len(first) > 20_000 * 11 > len(second)
        assert threads == [False, True]


async def test_a_large_request_that_is_malformed_costs_its_connection(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client, other = await server.connect(), await server.connect()
        client.begin(MetadataRequest([MetadataRequestTopic(name="t")] * 60_000), METADATA)
        assert await client.frame() is None
        assert await other.ask(ASK, METADATA) is not None


async def test_pages_of_partitions_leave_none_out_and_repeat_none(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic("a", partitions=3)
        await server.create_topic("b", partitions=5)
        client = await server.connect()
        found: list[tuple[str, int]] = []
        cursor: Cursor | None = None
        for _ in range(10):
            wanted = [TopicRequest("a"), TopicRequest("b")]
            page = await client.ask(DescribeTopicPartitionsRequest(wanted, 2, cursor), DESCRIBE)
            part = [(topic.name, it.partition_index) for topic in page.topics for it in topic.partitions]
            assert len(part) <= 2
            found += part
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [("a", index) for index in range(3)] + [("b", index) for index in range(5)]


async def test_deleted_records_are_gone_for_good_when_that_is_answered(tmp_path: Path) -> None:
    """A power cut right after must not bring them back."""
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        for _ in range(3):
            await client.ask(produce(TOPIC), PRODUCE)
        request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 2)])], 10_000)
        answer = await client.ask(request, DELETE_RECORDS)
        stored = read_offsets(server.node.world.disk, START_OFFSETS)
        (result,) = answer.topics[0].partitions
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)
        assert stored[server.node.topics.partition(TOPIC, 0).log_id] == 2


@pytest.mark.parametrize(("before", "start"), [(3, 3), (-1, 3), (2, 2)])
async def test_what_was_acknowledged_a_moment_ago_can_be_deleted(tmp_path: Path, before: int, start: int) -> None:
    """With acks=1 that is before it is committed."""
    async with living_server(tmp_path, headrace_durability="flushed") as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        for _ in range(3):
            await client.ask(produce(TOPIC), PRODUCE)
        partition = DeleteRecordsPartition(0, before)
        answer = await client.ask(
            DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [partition, partition])], 10_000), DELETE_RECORDS
        )
        assert {(result.error_code, result.low_watermark) for result in answer.topics[0].partitions} == {
            (ErrorCode.NONE, start)
        }


@pytest.mark.parametrize(("timestamp", "found"), [(-1, 1), (-3, 0), (1, 0)])
async def test_what_was_acknowledged_a_moment_ago_can_be_found(tmp_path: Path, timestamp: int, found: int) -> None:
    """The end of the log, its latest time, or any time: an answer of "nowhere" would be a surprise."""
    async with living_server(tmp_path, headrace_durability="flushed") as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        await client.ask(produce(TOPIC), PRODUCE)
        wanted = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, timestamp)])
        answer = await client.ask(ListOffsetsRequest(-1, 0, [wanted]), LIST_OFFSETS)
        assert [(part.error_code, part.offset) for part in answer.topics[0].partitions] == [(ErrorCode.NONE, found)]

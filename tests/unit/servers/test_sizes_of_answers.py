"""No answer is many times as large as its request only because that repeats itself, or names many large things."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.servers.kafka.connections import connection, slow_requests
from headrace.servers.kafka.handlers.replicas import elect_leaders
from headrace.servers.kafka.limits import answer_budget
from headrace.servers.kafka.limits.answer_budget import ANSWER_BYTES_MAX, AnswerBudget
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages import add_partitions_to_txn, consumer_group_heartbeat, describe_producers, describe_quorum
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.elect_leaders import PartitionResult
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.servers.living_server import living_server

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.wire.api import Message
    from tests.unit.servers.living_server import Client

TOPIC = "events"
TIMES = 1000
LONG = "x" * 30_000
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE

ONE_ANSWER: dict[str, tuple[Message, int, str]] = {
    "DescribeGroups": (DescribeGroupsRequest(["g"] * TIMES), 5, "groups"),
    "ConsumerGroupDescribe": (ConsumerGroupDescribeRequest(["g"] * TIMES), 0, "groups"),
    "DeleteGroups": (DeleteGroupsRequest(["g"] * TIMES), 2, "results"),
    "FindCoordinator": (FindCoordinatorRequest(coordinator_keys=["g"] * TIMES), 4, "coordinators"),
    "DescribeTransactions": (DescribeTransactionsRequest(["t"] * TIMES), 0, "transaction_states"),
    "OffsetFetch": (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g")] * TIMES), 8, "groups"),
    "DescribeConfigs": (DescribeConfigsRequest([DescribeConfigsResource(2, TOPIC, None)] * TIMES), 4, "results"),
}


@pytest.mark.parametrize("name", ONE_ANSWER)
async def test_what_is_named_a_thousand_times_is_told_once(tmp_path: Path, name: str) -> None:
    message, version, field = ONE_ANSWER[name]
    async with living_server(tmp_path) as server:
        client = await server.connect()
        await client.ask(FindCoordinatorRequest(key="g"), 3)
        assert len(getattr(await client.ask(message, version), field)) == 1


async def test_a_topic_is_described_once_whatever_names_stand_beside_its_id(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        topic = server.node.image.topic_named(TOPIC)
        assert topic is not None
        client = await server.connect()
        wanted = [MetadataRequestTopic(topic.topic_id, f"name-{number}") for number in range(TIMES)]
        answer = await client.ask(MetadataRequest(wanted), 12)
        assert [found.name for found in answer.topics] == [TOPIC]


PARTITIONS = [0, 1] * TIMES
ONE_ANSWER_A_PARTITION: dict[str, tuple[Message, int]] = {
    "OffsetFetch": (
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics(TOPIC, partition_indexes=PARTITIONS)] * 2)
            ]
        ),
        8,
    ),
    "OffsetFetch of one group": (OffsetFetchRequest("g", [OffsetFetchRequestTopic(TOPIC, PARTITIONS)] * 2), 7),
    "DescribeProducers": (
        describe_producers.DescribeProducersRequest([describe_producers.TopicRequest(TOPIC, PARTITIONS)] * 2),
        0,
    ),
    "DescribeLogDirs": (DescribeLogDirsRequest([DescribableLogDirTopic(TOPIC, PARTITIONS)] * 2), 4),
    "DescribeQuorum": (
        describe_quorum.DescribeQuorumRequest(
            [describe_quorum.TopicData(TOPIC, [describe_quorum.PartitionData(index) for index in PARTITIONS])] * 2
        ),
        2,
    ),
}


@pytest.mark.parametrize("name", ONE_ANSWER_A_PARTITION)
async def test_a_partition_that_is_named_a_thousand_times_is_told_of_once(tmp_path: Path, name: str) -> None:
    message, version = ONE_ANSWER_A_PARTITION[name]
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC, partitions=2)
        client = await server.connect()
        await client.ask(FindCoordinatorRequest(key="g"), 3)
        answer = await client.ask(message, version)
        for field in ("groups", "results"):
            answer = getattr(answer, field)[0] if getattr(answer, field, None) else answer
        (topic,) = answer.topics
        assert len(topic.partitions) == 2


NAMED_ONCE: dict[str, Message] = {
    "DescribeProducers": describe_producers.DescribeProducersRequest(
        [describe_producers.TopicRequest(LONG, list(range(TIMES)))]
    ),
    "DescribeQuorum": describe_quorum.DescribeQuorumRequest(
        [describe_quorum.TopicData(LONG, [describe_quorum.PartitionData(index) for index in range(TIMES)])]
    ),
}


@pytest.mark.parametrize("name", NAMED_ONCE)
async def test_a_long_name_is_not_repeated_for_each_of_its_partitions(tmp_path: Path, name: str) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        client.begin(NAMED_ONCE[name], 0)
        frame = await client.frame()
        assert frame is not None
        assert len(frame) < TIMES * len(LONG) / 10


async def test_a_time_is_not_looked_for_twice_in_a_partition(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC, partitions=2)
        client = await server.connect()
        wanted = [ListOffsetsPartition(index, timestamp=5) for index in (0, 1, 0)]
        answer = await client.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, wanted)]), 7)
        codes = [(part.partition_index, part.error_code) for part in answer.topics[0].partitions]
        assert codes == [(0, ErrorCode.INVALID_REQUEST), (1, ErrorCode.NONE), (0, ErrorCode.INVALID_REQUEST)]


def test_an_election_of_many_topics_is_answered_in_one_pass() -> None:
    class Name(str):
        __slots__ = ()
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other) is True

    names = [TopicPartition(Name(f"t{number}"), 0) for number in range(TIMES)]
    results = {name: PartitionResult(0, ErrorCode.NONE, None) for name in names}
    Name.compared = 0
    assert len(elect_leaders._answer(results).replica_election_results) == TIMES
    assert Name.compared < 10 * TIMES


def test_the_first_thing_fits_and_nothing_is_taken_after_one_that_does_not() -> None:
    budget = AnswerBudget()
    budget.take(2 * ANSWER_BYTES_MAX)
    with pytest.raises(Refusal, match="more than 32 MiB") as refused:
        budget.take(1)
    assert refused.value.code == TOO_LARGE
    with pytest.raises(Refusal):
        budget.check()


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_budget, "ANSWER_BYTES_MAX", 1000)


async def _make_classic_groups(client: Client) -> Message:
    for group in "abc":
        protocols = [JoinGroupRequestProtocol("range", b"m" * 300)]
        joined = await client.ask(JoinGroupRequest(group, 30_000, 30_000, "", None, "consumer", protocols), 2)
        assigned = [SyncGroupRequestAssignment(joined.member_id, b"a" * 300)]
        request = SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=assigned)
        assert (await client.ask(request, 1)).error_code == ErrorCode.NONE
    return DescribeGroupsRequest(["a", "b", "c"])


async def _make_consumer_groups(client: Client) -> Message:
    for group in "abc":
        heartbeat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=[letter * 200 for letter in "tuv"],
            topic_partitions=[],
        )
        assert (await client.ask(heartbeat, 0)).error_code == ErrorCode.NONE
    return ConsumerGroupDescribeRequest(["a", "b", "c"])


async def _commit_offsets(client: Client) -> Message:
    for group in "abc":
        parts = [OffsetCommitRequestPartition(0, 1, committed_metadata="m" * 600)]
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(TOPIC, partitions=parts)])
        answer = await client.ask(request, 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None) for group in "abc"])


async def _begin_transactions(client: Client) -> Message:
    await client.ask(FindCoordinatorRequest(key="a", key_type=1), 3)
    for name in "abc":
        made = await client.ask(InitProducerIdRequest(name, 60_000), 4)
        topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, list(range(200)))]
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            [], name, made.producer_id, made.producer_epoch, topics
        )
        await client.ask(request, 3)
    return DescribeTransactionsRequest(["a", "b", "c"])


MANY_LARGE = {
    "DescribeGroups": (_make_classic_groups, 6, "groups"),
    "ConsumerGroupDescribe": (_make_consumer_groups, 0, "groups"),
    "OffsetFetch": (_commit_offsets, 8, "groups"),
    "DescribeTransactions": (_begin_transactions, 0, "transaction_states"),
}


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("name", MANY_LARGE)
async def test_what_would_make_an_answer_too_large_is_refused_by_itself(tmp_path: Path, name: str) -> None:
    prepare, version, field = MANY_LARGE[name]
    async with living_server(tmp_path, group_initial_rebalance_delay_ms="0") as server:
        await server.create_topic(TOPIC, partitions=200)
        client = await server.connect()
        await client.ask(FindCoordinatorRequest(key="a"), 3)
        answers = getattr(await client.ask(await prepare(client), version), field)
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE, TOO_LARGE, TOO_LARGE]
        if hasattr(answers[-1], "error_message"):
            assert "ask for fewer" in answers[-1].error_message


@pytest.mark.usefixtures("small_answers")
async def test_settings_of_many_topics_are_told_until_the_answer_is_full(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        for name in "abc":
            await server.create_topic(name)
        client = await server.connect()
        answer = await client.ask(DescribeConfigsRequest([DescribeConfigsResource(2, name, None) for name in "abc"]), 4)
        assert [result.error_code for result in answer.results] == [ErrorCode.NONE, TOO_LARGE, TOO_LARGE]


@pytest.mark.usefixtures("small_answers")
async def test_producers_of_many_partitions_are_told_until_the_answer_is_full(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC, partitions=3)
        client = await server.connect()
        for producer_id in range(20):
            batch = encode_batch([(0, None, b"", ())], producer_id=producer_id, producer_epoch=0, base_sequence=0)
            parts = [PartitionProduceData(index, bytes(batch)) for index in range(3)]
            await client.ask(ProduceRequest(None, 1, 10_000, [TopicProduceData(TOPIC, partition_data=parts)]), 9)
        request = describe_producers.DescribeProducersRequest([describe_producers.TopicRequest(TOPIC, [0, 1, 2])])
        (topic,) = (await client.ask(request, 0)).topics
        assert [part.error_code for part in topic.partitions] == [ErrorCode.NONE, TOO_LARGE, TOO_LARGE]
        assert len(topic.partitions[0].active_producers) == 20


async def test_a_large_answer_is_encoded_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    encode = connection.encode_response

    def noting(*arguments: Any) -> bytes:
        threads.append(threading.current_thread() is threading.main_thread())
        return encode(*arguments)

    for module in (connection, slow_requests):
        monkeypatch.setattr(module, "encode_response", noting)
    async with living_server(tmp_path) as server:
        client = await server.connect()
        await client.ask(DescribeGroupsRequest(["g"]), 5)
        await client.ask(DeleteGroupsRequest(["g"]), 2)
        assert threads == [False, True]

"""What the gate takes out of requests and answers, and puts into them: see `servers/kafka/gate.py`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.access.audit_file import AUDIT_FILE
from headrace.model.errors import ErrorCode
from headrace.runtime.tasks import Breather
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.unit.servers.ruled_server import (
    ALL,
    ALTER,
    CLUSTER,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    rule,
    ruled_server,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.unit.servers.living_server import Client
    from tests.unit.servers.ruled_server import RuledServer

T = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MAY = sum(1 << operation for operation in (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, 10, 11))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RuledServer]:
    async with ruled_server(tmp_path) as running:
        for name in ("orders", "orders-eu", "secrets"):
            await running.living.create_topic(name)
        yield running
        assert not running.node.failed.done()


@pytest.fixture
async def alice(server: RuledServer) -> Client:
    """She may look at what begins with `orders`."""
    await server.allow(rule("alice", DESCRIBE, TOPIC, "orders", PREFIXED))
    return await server.connect("alice")


@pytest.fixture
async def root(server: RuledServer) -> Client:
    client = await server.connect("root")
    for kind in (0, 1):  # the coordinators of groups and transactions
        assert not (await client.ask(FindCoordinatorRequest("any", kind), 3)).error_code
    return client


def named(*names: str, creating: bool = False) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=creating)


def told(answer: Any) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in answer.topics]


async def commit(root: Client, group: str, *topics: str) -> None:
    parts = [OffsetCommitRequestPartition(0, 1)]
    wanted = [OffsetCommitRequestTopic(topic, partitions=parts) for topic in topics]
    answer = await root.ask(OffsetCommitRequest(group, topics=wanted), 8)
    assert not any(part.error_code for topic in answer.topics for part in topic.partitions), answer


# ---- topics


@pytest.mark.parametrize("version", range(14))
async def test_topics_that_somebody_may_not_see_are_left_out_where_all_are_asked_for(alice, version):
    answer = await alice.ask(MetadataRequest(None if version else []), version)
    assert [topic.name for topic in answer.topics] == ["orders", "orders-eu"]
    assert answer.brokers


@pytest.mark.parametrize("version", range(14))
async def test_refusals_stand_where_the_request_has_them_and_do_not_tell_what_is_there(alice, version):
    answer = await alice.ask(named("secrets", "orders", "nowhere", "orders-eu", creating=version < 4), version)
    assert told(answer) == [("secrets", T), ("orders", 0), ("nowhere", T), ("orders-eu", 0)]
    assert not any(topic.partitions for topic in answer.topics if topic.error_code)


@pytest.mark.parametrize("version", range(14))
async def test_nothing_that_was_asked_for_may_be_seen(alice, version):
    """An empty list would stand for all topics in version 0."""
    assert told(await alice.ask(named("secrets", creating=version < 4), version)) == [("secrets", T)]


async def test_an_id_is_not_told_from_a_name_that_somebody_may_not_see(server, alice):
    hidden = server.node.image.topic_named("secrets").topic_id
    wanted = [MetadataRequestTopic(hidden, None), MetadataRequestTopic(b"\x42" * 16, None)]
    answer = await alice.ask(MetadataRequest(wanted, allow_auto_topic_creation=False), 12)
    assert told(answer) == [(None, T), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    answer = await alice.ask(DeleteTopicsRequest([DeleteTopicState(None, hidden), DeleteTopicState("secrets")]), 6)
    assert [(it.name, it.error_code) for it in answer.responses] == [(None, T), ("secrets", T)]
    assert "secrets" not in (answer.responses[0].error_message or "")


async def test_pages_of_topics_count_and_name_only_what_may_be_seen(server, alice):
    for name in ("aaa", "orders-fr", "zzz"):
        await server.living.create_topic(name)
    found, cursor, rounds = [], None, 0
    while rounds == 0 or cursor is not None:
        request = DescribeTopicPartitionsRequest([], response_partition_limit=1, cursor=cursor)
        answer = await alice.ask(request, 0)
        found += [topic.name for topic in answer.topics]
        cursor, rounds = answer.next_cursor, rounds + 1
        assert cursor is None or cursor.topic_name.startswith("orders")
    assert found == ["orders", "orders-eu", "orders-fr"]
    nobody = await server.connect("nobody")
    answer = await nobody.ask(DescribeTopicPartitionsRequest([], response_partition_limit=1), 0)
    assert (answer.topics, answer.next_cursor) == ([], None)


async def test_a_topic_is_created_by_its_mention_only_for_those_who_may_create_it(server, alice):
    assert told(await alice.ask(named("orders-new", creating=True), 9)) == [("orders-new", T)]
    await server.allow(rule("alice", CREATE, TOPIC, "orders-n", PREFIXED))
    assert told(await alice.ask(named("orders-new", creating=True), 9)) == [("orders-new", 0)]
    bob = await server.connect("bob")
    await server.allow(rule("bob", CREATE, CLUSTER))
    assert told(await bob.ask(named("unseen", creating=True), 9)) == [("unseen", T)]  # who creates must see it, too
    await server.allow(rule("bob", DESCRIBE, TOPIC))
    assert told(await bob.ask(named("seen", creating=True), 9)) == [("seen", 0)]
    assert server.node.image.topic_named("unseen") is None


async def test_who_creates_a_topic_may_still_not_look_at_its_settings(server, alice):
    await server.allow(rule("alice", CREATE, CLUSTER))
    wanted = [CreatableTopic(name, 1, 1) for name in ("made", "orders-made")]
    hidden, _ = (await alice.ask(CreateTopicsRequest(wanted), 7)).topics
    assert (hidden.error_code, hidden.topic_config_error_code) == (0, T)
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, None)
    await server.allow(rule("alice", DESCRIBE_CONFIGS, TOPIC))
    (shown,) = (await alice.ask(CreateTopicsRequest([CreatableTopic("made-2", 1, 1)]), 7)).topics
    assert (shown.topic_config_error_code, shown.num_partitions, bool(shown.configs)) == (0, 1, True)


async def test_so_many_names_that_they_take_several_turns_are_judged_one_by_one(server, alice):
    names = [f"{'orders' if number % 3 else 'hidden'}-{number}" for number in range(2000)]
    places = [ListOffsetsPartition(0, -1, -1)]
    answer = await alice.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, places) for name in names]), 7)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(topic.name, topic.partitions[0].error_code) for topic in answer.topics] == [
        (name, missing if name.startswith("orders") else T) for name in names
    ]


@pytest.mark.parametrize(
    ("request_for", "version"),
    [
        (lambda names: ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name) for name in names]), 7),
        (lambda names: OffsetFetchRequest(groups=[OffsetFetchRequestGroup("hers", topics=fetched(names))]), 8),
        (lambda names: ConsumerGroupHeartbeatRequest("hers", "a-member", subscribed_topic_names=names), 0),
        (lambda _: DescribeTopicPartitionsRequest([]), 0),
        (lambda _: MetadataRequest(None), 9),
    ],
)
async def test_whoever_names_very_much_does_not_hold_up_the_others(server, alice, monkeypatch, request_for, version):
    """Each name is a step after which others may go on, wherever in a request or an answer it stands."""
    for number in range(150):
        await server.living.create_topic(f"many-{number}")
    await server.allow(rule("alice", READ, GROUP, "hers"), rule("alice", DESCRIBE, TOPIC, "many", PREFIXED))
    steps = 0
    breathe = Breather.breathe

    async def counted(breather: Breather) -> None:
        nonlocal steps
        steps += 1
        await breathe(breather)

    monkeypatch.setattr("headrace.servers.kafka.gate.Breather.breathe", counted)
    await alice.ask(request_for([f"many-{number}" for number in range(150)]), version)
    assert steps >= 150


def fetched(names: list[str]) -> list[OffsetFetchRequestTopics]:
    return [OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in names]


async def test_who_may_do_what_is_said_as_the_rules_have_it(server, alice, root):
    request = named("orders", "secrets")
    request.include_topic_authorized_operations = request.include_cluster_authorized_operations = True
    await server.allow(rule("alice", WRITE, TOPIC, "orders"), rule("alice", ALTER, CLUSTER))
    await server.allow(rule("alice", ALL, GROUP, "hers"), rule("alice", DELETE, GROUP, "hers", permission=DENY))
    answer = await alice.ask(request, 8)
    assert [topic.topic_authorized_operations for topic in answer.topics] == [1 << WRITE | 1 << DESCRIBE, -(2**31)]
    assert answer.cluster_authorized_operations == 1 << ALTER | 1 << DESCRIBE
    assert {topic.topic_authorized_operations for topic in (await root.ask(request, 8)).topics} == {MAY}
    answer = await alice.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert answer.cluster_authorized_operations == 1 << ALTER | 1 << DESCRIBE
    bob = await server.connect("bob")
    answer = await bob.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert answer.cluster_authorized_operations == 0
    await commit(root, "hers", "orders")
    answer = await alice.ask(DescribeGroupsRequest(["hers", "his"], include_authorized_operations=True), 5)
    assert answer.groups[0].authorized_operations == 1 << READ | 1 << DESCRIBE | 1 << 10 | 1 << 11
    assert answer.groups[1].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


# ---- groups and transactions


async def test_groups_and_transactions_that_somebody_may_not_see_are_left_out(server, alice, root):
    for group in ("hers", "his"):
        await commit(root, group, "orders")
        assert not (await root.ask(InitProducerIdRequest(group, 1000), 4)).error_code
    await server.allow(rule("alice", READ, GROUP, "hers"), rule("alice", WRITE, TRANSACTION, "hers"))
    assert [it.group_id for it in (await alice.ask(ListGroupsRequest(), 4)).groups] == ["hers"]
    listed = await alice.ask(ListTransactionsRequest(), 1)
    assert [it.transactional_id for it in listed.transaction_states] == ["hers"]
    await server.allow(rule("alice", DESCRIBE, CLUSTER))
    assert [it.group_id for it in (await alice.ask(ListGroupsRequest(), 4)).groups] == ["hers", "his"]


@pytest.mark.parametrize("version", range(2, 11))
async def test_offsets_of_topics_that_somebody_may_not_see_are_left_out(server, alice, root, version):
    await commit(root, "hers", "orders", "secrets")
    await commit(root, "his", "orders")
    await server.allow(rule("alice", READ, GROUP, "hers"))
    if version < 8:
        (topic,) = (await alice.ask(OffsetFetchRequest("hers", None), version)).topics
        assert topic.name == "orders"
        answer = await alice.ask(OffsetFetchRequest("his", None), version)
        assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
        return
    wanted = [OffsetFetchRequestGroup(name, topics=None) for name in ("his", "hers")]
    his, hers = (await alice.ask(OffsetFetchRequest(groups=wanted), version)).groups
    assert (his.group_id, his.error_code, his.topics) == ("his", ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
    assert (hers.error_code, len(hers.topics)) == (0, 1)
    assert [part.committed_offset for part in hers.topics[0].partitions] == [1]


async def test_a_regex_tells_nothing_of_topics_that_its_member_may_not_see(server, alice, root):
    await commit(root, "his", "orders")
    await server.allow(rule("alice", READ, GROUP, "hers"))
    joining = ConsumerGroupHeartbeatRequest(
        "hers", "a-member", rebalance_timeout_ms=1000, subscribed_topic_regex=".*", topic_partitions=[]
    )
    answer = await alice.ask(joining, 1)
    assert not answer.error_code
    shown = {server.node.view.image.topic_named(name).topic_id for name in ("orders", "orders-eu")}
    assert {topic.topic_id for topic in answer.assignment.topic_partitions} == shown


async def test_members_of_a_group_are_shown_to_those_who_may_see_all_that_it_reads(server, alice, root):
    joining = ConsumerGroupHeartbeatRequest(
        "hers", "a-member", rebalance_timeout_ms=1000, subscribed_topic_names=["orders", "secrets"], topic_partitions=[]
    )
    await server.allow(rule("alice", READ, GROUP, "hers"))
    assert (await alice.ask(joining, 0)).error_code == T
    assert not (await root.ask(joining, 0)).error_code
    (group,) = (await root.ask(ConsumerGroupDescribeRequest(["hers"]), 0)).groups
    assert len(group.members) == 1
    (group,) = (await alice.ask(ConsumerGroupDescribeRequest(["hers"]), 0)).groups
    assert (group.error_code, group.members) == (T, [])
    await server.allow(rule("alice", DESCRIBE, TOPIC, "secrets"))
    (group,) = (await alice.ask(ConsumerGroupDescribeRequest(["hers"]), 0)).groups
    assert (group.error_code, len(group.members)) == (0, 1)


@pytest.mark.parametrize(("kind", "operation"), [(CLUSTER, IDEMPOTENT_WRITE), (TOPIC, WRITE), (TOPIC, READ)])
async def test_a_producer_gets_a_number_if_there_is_something_that_it_may_write(server, alice, kind, operation):
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (await alice.ask(InitProducerIdRequest(None, 1000), 4)).error_code == refused
    await server.allow(rule("alice", operation, kind))
    assert (await alice.ask(InitProducerIdRequest(None, 1000), 4)).error_code == (refused if operation == READ else 0)


# ---- everybody, and nobody


async def test_where_nothing_is_said_of_a_topic_everybody_may_use_it_if_an_operator_says_so(tmp_path):
    async with ruled_server(tmp_path, allow_everyone_if_no_acl_found="true") as server:
        await server.living.create_topic("open")
        await server.living.create_topic("closed")
        await server.allow(rule("alice", READ, TOPIC, "closed"))
        bob = await server.connect("bob")
        assert told(await bob.ask(named("open", "closed"), 9)) == [("open", 0), ("closed", T)]


async def test_refusals_are_noted_and_what_was_allowed_is_not(server, alice, tmp_path):
    await alice.ask(named("orders", "secrets"), 9)
    for _ in range(100):
        await alice.ask(named("secrets"), 9)
    await alice.ask(MetadataRequest(None), 9)
    await alice.ask(FindCoordinatorRequest("his"), 3)
    await server.node.audit.close()
    lines = [json.loads(line) for line in (tmp_path / AUDIT_FILE).read_text().splitlines()]
    noted = [(it["action"], it["resource"], it["outcome"], it["principal"], it.get("repeated")) for it in lines]
    assert noted == [
        ("Metadata", "topic 'secrets'", "refused", "User:alice", None),
        ("FindCoordinator", "group 'his'", "refused", "User:alice", None),
        ("Metadata", "topic 'secrets'", "refused", "User:alice", 100),
    ]

"""Coordinators come and go with the leadership of their logs. What they owe their clients does not go with them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.broker.coordination.internal_topics import create_missing
from headrace.broker.coordination.markers import COMMIT_ELSEWHERE_S_MAX
from headrace.broker.membership.peers import ANSWER_S
from headrace.client.admin.admin import Admin
from headrace.client.admin.transactions import TransactionAdmin
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.coordinators.transactions.coordinator import AddPartitions
from headrace.coordinators.transactions.effects import MarkerOrder
from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.topic_commands import NewTopic, TopicReference, create_topics, delete_topics
from headrace.metadata.configs.internal_topics import TRANSACTION_STATE
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, NodeId, ProducerId, TopicPartition
from headrace.simulation.environment.universe import Universe, run
from headrace.wire.batches.header import HEADER_SIZE
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.simulation.coordinator_scenes import (
    CALLER,
    GROUP,
    ID,
    LIMIT_S,
    LOOK_S,
    NEVER,
    SLOW,
    ask_node,
    commit,
    commit_as_client,
    commit_of,
    committed_offset,
    coordinator_of_group,
    create_topic,
    leads_elsewhere,
    loaded_groups,
    loaded_transactions,
    play_alone,
    with_coordinator,
)
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.node import Node
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster


def test_nobody_waits_for_a_commit_in_a_partition_that_is_led_elsewhere() -> None:
    """It would wait for what a follower never commits, and before all who wait when this node leads again."""

    async def act(process: NodeProcess, node: Node) -> tuple[ErrorCode, int]:
        shard = await loaded_transactions(node)
        name = shard.partition.name
        begun = await shard.ask(
            lambda mind, token, now: mind.init_producer_id(
                InitProducerIdRequest(ID, 60_000), CALLER, token, now, ProducerId(7)
            )
        )
        asked = AddPartitions(ID, begun.producer_id, begun.producer_epoch, (TopicPartition("t", 0),), 0, False)
        await shard.ask(lambda mind, token, now: mind.add_partitions(asked, token, now))
        process.host.threads.slowness["flush"] = NEVER
        end = EndTxnRequest(ID, begun.producer_id, begun.producer_epoch, True)
        ending = asyncio.create_task(
            shard.ask(lambda mind, token, now: mind.end(end, CALLER, token, now, ProducerId(8)))
        )
        await asyncio.sleep(LOOK_S)
        assert len(shard.partition.waiters) == 1
        leads_elsewhere(node, name)
        try:
            await ending
        except Refusal as refusal:
            return refusal.code, len(shard.partition.waiters)
        raise AssertionError("it was told that the transaction has ended")

    assert play_alone(act) == (ErrorCode.NOT_COORDINATOR, 0)


async def offset_fetch_meets(process: NodeProcess, node: Node, trouble: Callable[[TopicPartition], None]) -> int:
    """Its error if a commit that it may have seen is not committed, and then something happens."""
    shard = await loaded_groups(node)
    await create_topic(node, "t")
    process.host.threads.slowness["flush"] = NEVER
    committing = asyncio.create_task(
        shard.ask(lambda mind, token, now: mind.commit_offsets(commit_of(5), CALLER, token, now))
    )
    await asyncio.sleep(LOOK_S)
    wanted = OffsetFetchRequestTopics("t", partition_indexes=[0])
    message = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=[wanted])])
    fetching = asyncio.create_task(ask_node(process, message, OffsetFetchResponse))
    await asyncio.sleep(LOOK_S)
    trouble(shard.partition.name)
    await asyncio.gather(committing, return_exceptions=True)
    return (await fetching).groups[0].error_code


def test_an_offset_fetch_that_meets_the_next_leader_looks_for_it() -> None:
    async def act(process: NodeProcess, node: Node) -> int:
        return await offset_fetch_meets(process, node, lambda name: leads_elsewhere(node, name))

    assert play_alone(act) == ErrorCode.NOT_COORDINATOR


def test_an_offset_fetch_that_waits_in_vain_hears_what_every_consumer_tries_again() -> None:
    async def act(process: NodeProcess, node: Node) -> int:
        return await offset_fetch_meets(process, node, lambda _: None)

    assert play_alone(act) == ErrorCode.NOT_COORDINATOR


def test_two_nodes_that_take_each_other_for_the_coordinator_do_not_ask_in_a_circle() -> None:
    async def play(universe: Universe) -> tuple[ErrorCode, float]:
        cluster = await ready_cluster(universe, node_count=2)
        one, other = cluster.nodes
        return tuple(await one.host.start(ask_while_they_disagree(universe, one, other), "node"))

    code, took_s = run(play, seed=1, limit_s=LIMIT_S)
    assert code is ErrorCode.NOT_COORDINATOR
    assert took_s < ANSWER_S, "somebody had to give up first"


async def ask_while_they_disagree(universe: Universe, one: NodeProcess, other: NodeProcess) -> tuple[ErrorCode, float]:
    assert one.node is not None
    assert other.node is not None
    await one.node.coordinators.prepare(TRANSACTION_STATE)
    await create_missing(one.node.commands, one.node.view, ["t"])
    while other.node.image.topic_named("t") is None:
        await asyncio.sleep(LOOK_S)
    coordinator, another = one.node, other.node
    if coordinator.coordinators._coordinator_elsewhere(ID) is not None:
        coordinator, another = another, coordinator
    coordinator.quorum.image = with_coordinator(coordinator, another.node_id)
    began_s = universe.loop.time()
    place = TopicPartition("t", 0)
    codes = await coordinator.coordinators.add_to_transaction(ID, ProducerId(7), 0, [place])
    return codes[place], universe.loop.time() - began_s


def test_a_coordinator_that_cannot_be_loaded_is_elsewhere_soon() -> None:
    """Its log has rotted on one node; the others have it whole."""

    async def play(universe: Universe) -> int:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", commit_as_client(cluster))
        coordinator = coordinator_of_group(cluster)
        await coordinator.host.start(rot_and_load(coordinator), "client")
        while (another := coordinator_of_group(cluster)) is coordinator:
            await asyncio.sleep(LOOK_S)
        assert another.node is not None
        await another.host.start(loaded_groups(another.node), "client")
        return int(await another.host.start(committed_offset(another), "client"))

    assert run(play, seed=1, limit_s=LIMIT_S) == 5


async def rot_and_load(process: NodeProcess) -> None:
    assert process.node is not None
    shard = await loaded_groups(process.node)
    (span,) = shard.partition.log.spans.since(closed_only=False)
    process.host.device.flip_bit(span.path, HEADER_SIZE, 6)  # the length of the first record
    shard._start_anew(Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "as if a write had failed"))


def test_who_leads_again_is_no_longer_in_the_trouble_of_its_last_term() -> None:
    async def act(process: NodeProcess, node: Node) -> list[bool]:
        partition = (await loaded_groups(node)).partition
        place = (partition.log_id.topic_id, partition.index)
        node.coordinators._unreadable(partition, "as if it could not be loaded")
        troubles = [node.topics.is_offline(*place)]
        node.coordinators.led(partition)
        return [*troubles, node.topics.is_offline(*place)]

    assert play_alone(act) == [True, False]


async def find_coordinator(process: NodeProcess) -> tuple[int, int]:
    """Its error, and who it is."""
    message = FindCoordinatorRequest(coordinator_keys=[GROUP])
    (found,) = (await ask_node(process, message, FindCoordinatorResponse)).coordinators
    return found.error_code, found.node_id


def test_nobody_is_sent_to_a_coordinator_that_seems_to_be_gone() -> None:
    async def play(universe: Universe) -> tuple[int, int]:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", commit_as_client(cluster))
        coordinator = coordinator_of_group(cluster)
        asked = next(process for process in cluster.nodes if process is not coordinator)
        assert asked.node is not None
        assert await asked.host.start(find_coordinator(asked), "client") == (ErrorCode.NONE, coordinator.node_id)
        asked.node.peers._doubted_s[coordinator.node_id] = asked.host.world.clock.monotonic_s()
        return tuple(await asked.host.start(find_coordinator(asked), "client"))

    assert run(play, seed=1, limit_s=LIMIT_S) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_NODE)


def test_nobody_is_sent_to_a_coordinator_that_cannot_be_loaded() -> None:
    async def act(process: NodeProcess, node: Node) -> tuple[tuple[int, int], ErrorCode]:
        partition = (await loaded_groups(node)).partition
        node.coordinators._unreadable(partition, "as if it could not be loaded")
        with pytest.raises(Refusal) as caught:
            node.coordinators.groups_of(GROUP)
        return await find_coordinator(process), caught.value.code

    assert play_alone(act) == ((ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_NODE), ErrorCode.NOT_COORDINATOR)


def test_who_was_elected_and_has_not_followed_yet_says_that_it_loads() -> None:
    async def act(process: NodeProcess, node: Node) -> ErrorCode:
        node.coordinators.left((await loaded_groups(node)).partition)
        with pytest.raises(Refusal) as caught:
            node.coordinators.groups_of(GROUP)
        return caught.value.code

    assert play_alone(act) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_listing_goes_on_although_a_coordinator_moves_meanwhile() -> None:
    async def act(process: NodeProcess, node: Node) -> tuple[int, list[str], int, int]:
        transactions, groups = await loaded_transactions(node), await loaded_groups(node)
        await create_topic(node, "t")
        process.host.threads.slowness["flush"] = SLOW
        begin = InitProducerIdRequest(ID, 60_000)
        beginning = asyncio.create_task(
            transactions.ask(lambda mind, token, now: mind.init_producer_id(begin, CALLER, token, now, ProducerId(7)))
        )
        committing = asyncio.create_task(commit(process, 5))
        await asyncio.sleep(LOOK_S)
        listing = asyncio.create_task(ask_node(process, ListGroupsRequest(), ListGroupsResponse))
        listing_others = asyncio.create_task(ask_node(process, ListTransactionsRequest(), ListTransactionsResponse))
        await asyncio.sleep(LOOK_S)
        for coordinators, first in (
            (node.coordinators.group_shards(), groups.partition),
            (node.coordinators.transaction_shards(), transactions.partition),
        ):
            partitions = [shard.partition for shard in coordinators]
            leads_elsewhere(node, partitions[partitions.index(first) + 1].name)
        await asyncio.gather(beginning, committing)
        listed, others = await listing, await listing_others
        names = [group.group_id for group in listed.groups]
        return listed.error_code, names, others.error_code, len(others.transaction_states)

    assert play_alone(act) == (ErrorCode.NONE, [GROUP], ErrorCode.NONE, 1)


def test_a_transaction_ends_although_its_topic_was_made_anew_with_fewer_partitions() -> None:
    """There is no partition left that could take the marker, and a topic of that name for ever."""

    async def act(process: NodeProcess, node: Node) -> ErrorCode:
        shard = await loaded_transactions(node)
        await create_topic(node, "t", partitions=2)
        begin = InitProducerIdRequest(ID, 60_000)
        begun = await shard.ask(
            lambda mind, token, now: mind.init_producer_id(begin, CALLER, token, now, ProducerId(7))
        )
        last = TopicPartition("t", 1)
        codes = await node.coordinators.add_to_transaction(ID, begun.producer_id, begun.producer_epoch, [last])
        assert codes == {last: ErrorCode.NONE}
        await node.commands.submit(lambda image: delete_topics(image, [TopicReference("t")], node.view.configs))
        await create_topic(node, "t", partitions=1)
        end = EndTxnRequest(ID, begun.producer_id, begun.producer_epoch, True)
        await shard.ask(lambda mind, token, now: mind.end(end, CALLER, token, now, ProducerId(8)))
        await asyncio.sleep(1.0)  # in which the coordinator looks again several times
        again = await shard.ask(
            lambda mind, token, now: mind.init_producer_id(begin, CALLER, token, now, ProducerId(9))
        )
        return ErrorCode(again.error_code)

    assert play_alone(act) is ErrorCode.NONE


def test_markers_that_are_late_on_several_nodes_are_answered_before_anybody_gives_up() -> None:
    """Whoever gives up closes the connection, and with it all orders that wait behind."""

    async def play(universe: Universe) -> tuple[list[TopicPartition], float]:
        cluster = await ready_cluster(universe, configs={"replica.lag.time.max.ms": "60000"})
        coordinator, leaders = controller_and_others(cluster)
        return tuple(await coordinator.host.start(write_late_markers(universe, coordinator, leaders), "node"))

    late, took_s = run(play, seed=1, limit_s=LIMIT_S)
    assert late == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert COMMIT_ELSEWHERE_S_MAX <= took_s < ANSWER_S


async def write_late_markers(
    universe: Universe, coordinator: NodeProcess, leaders: list[NodeProcess]
) -> tuple[list[TopicPartition], float]:
    """To two partitions that other nodes lead and follow; as followers they have stopped to fetch."""
    node = coordinator.node
    assert node is not None
    first, second = (process.node_id for process in leaders)
    await node.coordinators.prepare(TRANSACTION_STATE)
    topic = NewTopic("t", assignments=(ManualAssignment(0, (first, second)), ManualAssignment(1, (second, first))))
    await node.commands.submit(
        lambda image: create_topics(image, [topic], node.view.configs, node.commands.new_topic_id)
    )
    for process, followed in zip(leaders, (1, 0), strict=True):
        assert process.node is not None
        while (partition := process.node.topics.find("t", followed)) is None:
            await asyncio.sleep(LOOK_S)
        process.node.fetchers.leave(partition)
    await asyncio.sleep(1.0)  # what they have asked for until then is answered
    names = (TopicPartition("t", 0), TopicPartition("t", 1))
    order = MarkerOrder(ID, ProducerId(7), 0, True, names, 0, 0)
    began_s = universe.loop.time()
    late = await node.coordinators.markers._write_round(names, order)
    return late, universe.loop.time() - began_s


def test_an_operator_frees_a_partition_only_from_a_transaction_that_no_node_looks_after() -> None:
    """The partition's leader asks the nodes that coordinate, and those are others."""

    async def play(universe: Universe) -> tuple[ErrorCode, bool, bool]:
        cluster = await ready_cluster(universe)
        controller, _ = controller_and_others(cluster)
        assert controller.node is not None
        await controller.host.start(lead_where_nobody_coordinates(controller.node), "node")
        return tuple(await cluster.run_on("client", free_a_partition(cluster)))

    code, was_open, is_open = run(play, seed=1, limit_s=LIMIT_S)
    assert (code, was_open, is_open) == (ErrorCode.INVALID_TXN_STATE, True, False)


async def lead_where_nobody_coordinates(node: Node) -> None:
    await node.coordinators.prepare(TRANSACTION_STATE)
    coordinator = node.coordinators._coordinator_elsewhere(ID) or node.node_id
    leader = next(node_id for node_id in (NodeId(1), NodeId(2)) if node_id != coordinator)
    topic = NewTopic("t", assignments=(ManualAssignment(0, (leader,)),))
    await node.commands.submit(
        lambda image: create_topics(image, [topic], node.view.configs, node.commands.new_topic_id)
    )


async def free_a_partition(cluster: SimulatedCluster) -> tuple[ErrorCode, bool, bool]:
    """What is said of a transaction that is alive, and whether it is open then; and after its coordinator is gone."""
    place = TopicPartition("t", 0)
    async with cluster.client("client") as client:
        producer = BatchingProducer(client, ProducerSettings(transactional_id=ID))
        await producer.begin_transaction()
        await producer.send(place.topic, None, b"value")
        await producer.flush()
        admin = TransactionAdmin(client)
        (found,) = await admin.producers(place)
        marker = (place, found.producer_id, found.producer_epoch, 0)
        with pytest.raises(Refusal) as refusal:
            await admin.abort_hanging(*marker)
        (before,) = await admin.producers(place)
        await Admin(client).delete_topic(TRANSACTION_STATE)
        await admin.abort_hanging(*marker)
        (after,) = await admin.producers(place)
    is_open = [found.transaction_start_offset is not None for found in (before, after)]
    return refusal.value.code, is_open[0], is_open[1]

"""Whoever makes a deleted topic again must not find offsets of the old one, nor lose those of the new one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.metadata.commands.topic_commands import NewTopic, TopicReference, create_topics, delete_topics
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ProducerId
from headrace.simulation.environment.universe import Universe, run
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.simulation.coordinator_scenes import (
    ANOTHER,
    CALLER,
    GROUP,
    ID,
    LIMIT_S,
    SLOW,
    ask_node,
    commit,
    commit_of,
    committed_offset,
    create_topic,
    loaded_groups,
    loaded_transactions,
    play_alone,
    with_coordinator,
)
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.simulation.cluster import NodeProcess

MANY = 1_000  # offsets
BATCH_BYTES_MAX = 20_000  # less than what it takes to forget them


async def delete_topic(node: Node) -> None:
    """Without waiting until its logs are gone."""
    await node.quorum.submit(lambda image: delete_topics(image, [TopicReference("t")], node.view.configs))


def test_what_is_committed_for_a_topic_that_was_made_again_outlives_the_end_of_the_old_one() -> None:
    """To remove the old one's log takes its time, in which the new one is known."""

    async def act(process: NodeProcess, node: Node) -> tuple[int, int]:
        await loaded_groups(node)
        await create_topic(node, "t")
        await commit(process, 5)
        process.host.threads.slowness["general"] = SLOW
        await delete_topic(node)
        forgotten = await committed_offset(process)
        again = [NewTopic("t", 1, 1)]
        await node.quorum.submit(
            lambda image: create_topics(image, again, node.view.configs, node.commands.new_topic_id)
        )
        await commit(process, 7)
        process.host.threads.slowness["general"] = 1.0
        await node.reconciler.caught_up()
        return forgotten, await committed_offset(process)

    assert play_alone(act) == (-1, 7)


def test_a_deletion_that_meets_a_loading_coordinator_is_not_lost() -> None:
    async def act(process: NodeProcess, node: Node) -> int:
        shard = await loaded_groups(node)
        await create_topic(node, "t")
        await commit(process, 5)
        shard._start_anew(Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "as if a write had failed"))
        await delete_topic(node)
        await create_topic(node, "t")
        await loaded_groups(node)
        return await committed_offset(process)

    assert play_alone(act) == -1


def test_a_deletion_that_cannot_be_written_is_tried_again() -> None:
    async def act(process: NodeProcess, node: Node) -> int:
        shard = await loaded_groups(node)
        await create_topic(node, "t")
        await commit(process, 5)
        shard.partition.set_leased(False)
        await delete_topic(node)
        await create_topic(node, "t")
        shard.partition.set_leased(True)
        await loaded_groups(node)
        return await committed_offset(process)

    assert play_alone(act) == -1


def test_offsets_of_a_deleted_topic_fit_into_the_log_however_many_they_are() -> None:
    async def act(process: NodeProcess, node: Node) -> int:
        shard = await loaded_groups(node)
        await create_topic(node, "t")
        places = [OffsetCommitRequestPartition(index, 5) for index in range(MANY)]
        request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("t", partitions=places)])
        await shard.ask(lambda mind, token, now: mind.commit_offsets(request, CALLER, token, now))
        shard.partition._rules.max_message_bytes = BATCH_BYTES_MAX
        await delete_topic(node)
        return len(shard.mind()._offsets.places(GROUP))  # the mind is the same: nothing was refused

    assert play_alone(act) == 0


def test_offsets_of_a_topic_that_went_before_anybody_led_go_at_the_next_load() -> None:
    """Whoever led then had no time to write it, or it was not committed."""

    async def play(universe: Universe) -> list[int]:
        cluster = await ready_cluster(universe, node_count=1)
        (process,) = cluster.nodes
        found = []
        await process.host.start(commit_for_unknown_topic(process), "client")
        found.append(await process.host.start(committed_offset(process), "client"))
        process.ask_to_stop()
        await process.host.is_down.wait()
        process.launch()
        await cluster.wait_ready()
        assert process.node is not None
        await process.host.start(loaded_groups(process.node), "client")
        found.append(await process.host.start(committed_offset(process), "client"))
        return found

    assert run(play, seed=1, limit_s=LIMIT_S) == [5, -1]


async def commit_for_unknown_topic(process: NodeProcess) -> None:
    assert process.node is not None
    shard = await loaded_groups(process.node)
    await shard.ask(lambda mind, token, now: mind.commit_offsets(commit_of(5), CALLER, token, now))


def test_who_knows_of_the_next_leader_takes_nothing_any_more_although_it_has_not_followed_yet() -> None:
    """It may know of topics as well that the next leader has not heard of, and would forget the offsets of."""

    async def act(process: NodeProcess, node: Node) -> list[ErrorCode]:
        shard = await loaded_transactions(node)
        image, codes = node.image, []
        for leader, epochs in ((ANOTHER, 1), (node.node_id, 1)):
            node.quorum.image = with_coordinator(node, leader, epochs)
            with pytest.raises(Refusal) as caught:
                node.coordinators.transactions_of(ID)
            codes.append(caught.value.code)
            node.quorum.image = image
        assert node.coordinators.transactions_of(ID) is shard
        return codes

    assert play_alone(act) == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def test_no_offset_is_taken_for_a_topic_that_went_while_the_transaction_was_asked() -> None:
    async def act(process: NodeProcess, node: Node) -> tuple[int, int]:
        transactions, groups = await loaded_transactions(node), await loaded_groups(node)
        await create_topic(node, "t")
        begin = InitProducerIdRequest(ID, 60_000)
        begun = await transactions.ask(
            lambda mind, token, now: mind.init_producer_id(begin, CALLER, token, now, ProducerId(7))
        )
        process.host.threads.slowness["flush"] = SLOW
        deleting = asyncio.create_task(delete_topic(node))
        topic = TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 5)])
        message = TxnOffsetCommitRequest(ID, GROUP, begun.producer_id, begun.producer_epoch, topics=[topic])
        answer = await ask_node(process, message, TxnOffsetCommitResponse)
        await deleting
        return answer.topics[0].partitions[0].error_code, len(groups.mind()._offsets.places(GROUP))

    assert play_alone(act) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)

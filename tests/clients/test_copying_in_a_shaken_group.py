"""`consume --to-topic` while its member is thrown out of the group again and again: still exactly once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.cli.messages.consume import Membership
from headrace.cli.messages.copying import copy_in_group
from headrace.cli.messages.deduplication import RepeatFilter
from headrace.cli.messages.partition_reading import Printing, Reading, Tally, read_partitions
from headrace.cli.terminal.delivery import Delivery
from headrace.client.admin.groups import GroupAdmin
from headrace.client.connections.cluster import system_cluster
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.producing.producer import BatchingProducer
from headrace.client.reading.offsets import Edge, IsolationLevel
from headrace.testing import Broker
from headrace.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    import pytest

    from headrace.client.connections.cluster import Cluster

GROUP = "copiers"
COUNT = 300
KICKS = 4


def reading(topic: str) -> Reading:
    return Reading(topic, (), Edge.EARLIEST, False, 5, False, None, IsolationLevel.READ_COMMITTED)


async def throw_out_everybody(cluster: Cluster) -> int:
    """As an operator would who thinks that they are dead. Returns how many there were."""
    members = (await GroupAdmin(cluster).describe(GROUP)).members
    coordinator = Coordinator(cluster, CoordinatorKind.GROUP, GROUP)
    gone = [MemberIdentity(member.member_id) for member in members]
    await coordinator.ask(LeaveGroupRequest(GROUP, members=gone), LeaveGroupResponse, lambda _: None)
    return len(gone)


async def test_nothing_is_lost_or_repeated(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    configs = {"group.initial.rebalance.delay.ms": "0"}
    async with Broker(configs=configs) as broker, system_cluster(broker.bootstrap_servers) as cluster:
        for topic in ("orders", "copies"):
            broker.create_topic(topic, partitions=2)
        async with BatchingProducer(cluster) as producer:
            for number in range(COUNT):
                text = b"%d" % number
                await producer.send("orders", text, text, headers=(("id", text),))
        membership = Membership(GROUP, Delivery.EXACTLY_ONCE, None, "copies", "copier")
        tally = Tally(None, RepeatFilter("id"))
        copying = asyncio.ensure_future(copy_in_group(cluster, reading("orders"), membership, tally))
        for kick in range(KICKS):
            while tally.count < (kick + 1) * COUNT // (KICKS + 2):
                await asyncio.sleep(0.01)
            assert await throw_out_everybody(cluster) == 1
        await copying
        assert tally.summary("copied") == f"copied {COUNT} messages, dropped 0 repeats"
        assert capfdbinary.readouterr().err.count(b"a transaction was aborted") == KICKS
        await read_partitions(
            cluster, reading("copies"), Printing(lambda _, record: record.value + b"\n", Tally(None, None))
        )
        assert sorted(map(int, capfdbinary.readouterr().out.split())) == list(range(COUNT))

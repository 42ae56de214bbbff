"""Groups and transactions in a run: who takes part, and what must be true of them in the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS, is_internal
from headrace.model.names import TopicPartition
from headrace.simulation.checks.invariants import read_all_committed
from headrace.simulation.checks.reloading import describe_all, names_of_members
from headrace.simulation.history.history import Kind
from headrace.simulation.workloads.announced_transactions import produce_announced
from headrace.simulation.workloads.classic_groups import ClassicGroup, audit_offsets, check_offsets
from headrace.simulation.workloads.client_processes import ClientProcess
from headrace.simulation.workloads.consume_transform_produce import GROUP as TRANSFORMERS
from headrace.simulation.workloads.consume_transform_produce import Transformation
from headrace.simulation.workloads.modern_groups import NODE_CONFIGS as MODERN_CONFIGS
from headrace.simulation.workloads.modern_groups import ModernGroup
from headrace.simulation.workloads.produce_and_consume import consume_committed
from headrace.simulation.workloads.transactions import TransactionalClient, leave_open, wait_closed
from headrace.wire.partitioning import partition_for_coordinated

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.client.connections.cluster import Cluster
    from headrace.simulation.checks.reloading import Picture
    from headrace.simulation.history.history import Figures, Reading
    from headrace.simulation.workloads.context import WorkloadContext
    from headrace.simulation.workloads.group_processes import ProcessGroup

CLASSIC, MODERN = "classic groups", "modern groups"
TRANSACTIONS, ANNOUNCED = "transactions", "announced transactions"
TRANSFORMATION = "transformation"
LEAVER: Final = "leaver"
LEFT_OPEN_MS: Final = 600_000  # longer than what is left of the run
WORKLOADS: Final = (CLASSIC, MODERN, TRANSACTIONS, ANNOUNCED, TRANSFORMATION)

# Few partitions and short sessions: much happens in little time, and everybody meets everybody.
NODE_CONFIGS: Final = {
    **MODERN_CONFIGS,
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


class GroupsAndTransactions:
    """Everybody who takes part. The methods are in the order in which a run calls them."""

    def __init__(self, context: WorkloadContext, workloads: Collection[str]) -> None:
        """To be made before the run's topics are created: it may add some."""
        self._context = context
        self._chance = context.random("coordination")
        self._transformation = Transformation(context) if TRANSFORMATION in workloads else None
        self._classic: list[ClassicGroup] = []
        if CLASSIC in workloads:
            count = self._chance.choice((1, 1, 2))
            self._classic = [ClassicGroup(context, f"readers-{number}") for number in range(count)]
        self._modern = [ModernGroup(context, "moderns")] if MODERN in workloads else []
        self._payers = self._draw_payers() if TRANSACTIONS in workloads else []
        self._is_announced = ANNOUNCED in workloads
        self._before: Picture = {}
        self._written_before: dict[TopicPartition, int] = {}

    def _draw_payers(self) -> list[ClientProcess]:
        """Several producers, some of which share an id and take it from each other."""
        payers = []
        for number in range(self._chance.randint(2, 5)):
            name = f"payer-{number}"
            client = TransactionalClient(self._context, name, self._chance.choice(("payments", f"payments-{number}")))
            payers.append(ClientProcess(self._context, name, client.run))
            payers[-1].on_death = client.died
        return payers

    @property
    def _groups(self) -> list[ProcessGroup]:
        return [*self._classic, *self._modern]

    @property
    def _has_transactions(self) -> bool:
        return bool(self._payers) or self._is_announced or self._transformation is not None

    @property
    def _group_ids(self) -> list[str]:
        groups = [group.group_id for group in self._groups]
        return groups if self._transformation is None else [*groups, TRANSFORMERS]

    def start(self) -> list[asyncio.Task[None]]:
        """What goes on until the run is over."""
        context, create_task = self._context, asyncio.get_running_loop().create_task
        tasks = [create_task(group.run()) for group in self._groups]
        tasks += [create_task(payer.live()) for payer in self._payers]
        if self._transformation is not None:
            tasks.append(create_task(self._transformation.run()))
            tasks.append(context.cluster.run_on("feeder", self._transformation.feed("feeder")))
        if self._is_announced:
            tasks.append(context.cluster.run_on("announcer", produce_announced(context, "announcer")))
        if self._group_ids:
            tasks.append(context.cluster.run_on("auditor", audit_offsets(context, "auditor", self._group_ids)))
        return tasks

    def start_readers(self) -> list[asyncio.Task[None]]:
        if not self._has_transactions:
            return []
        return [self._context.cluster.run_on("believer", consume_committed(self._context, "believer"))]

    async def settle(self) -> None:
        """Nothing goes wrong any more: groups share everything out, and producers are done."""
        for payer in self._payers:
            await payer.leave()
        for group in self._groups:
            await group.settle()

    async def finish(self, cluster: Cluster) -> None:
        """No transaction hangs, and nothing is left to be transformed."""
        await wait_closed(self._context, cluster)
        if self._transformation is not None:
            await self._transformation.finish(cluster)

    async def end(self) -> None:
        for group in self._groups:
            await group.end()
        if self._payers and self._chance.random() < 0.5:
            await self._context.cluster.run_on(LEAVER, leave_open(self._context, LEAVER, LEAVER, LEFT_OPEN_MS))

    async def note_state(self, cluster: Cluster) -> None:
        """What the coordinators know, at the last moment before they go down.

        Dead members' sessions end all the while. Whatever changes is written down by its coordinator, so as long as it
        writes, the picture is of no single moment, and is taken again.
        """
        while self._written_before != (written := self._written_by_coordinators()):
            self._written_before = written
            self._before = await self._describe(cluster)

    async def check_state(self, cluster: Cluster) -> None:
        """They know the same when they are loaded anew. To be called soon: sessions end again."""
        after = await self._describe(cluster)
        moved_on = self._members_that_moved_on()
        for name, before in self._before.items():
            if name not in moved_on and after.get(name) != before:
                detail = f"{name}\n  before: {before}\n  after:  {after.get(name)}"
                self._context.history.report(Kind.FORGOTTEN, None, -1, detail)

    async def check(self, cluster: Cluster, readings: list[Reading], figures: Figures) -> None:
        """`readings` are all partitions."""
        context = self._context
        by_partition = {reading.partition: reading for reading in readings}
        for group_id in self._group_ids:
            offsets = await check_offsets(context, cluster, group_id)
            group = next((each for each in self._classic if each.group_id == group_id), None)
            if group is not None:
                group.check_read(offsets, by_partition)
        committed = await read_all_committed(cluster, readings, context.history)
        context.transactions.check(committed, figures)
        if self._transformation is not None:
            self._transformation.check(committed, figures)
        context.groups.count(figures)

    def _members_that_moved_on(self) -> set[str]:
        """Of which groups the coordinator has written something since it was loaded anew: nodes that wait for
        each other take longer to be ready than the shortest session lasts, and whoever writes down that dead members
        are gone has not forgotten them."""
        written = self._written_by_coordinators()
        count = int(NODE_CONFIGS["offsets.topic.num.partitions"])
        moved_on: set[str] = set()
        for group_id in self._group_ids:
            keeper = TopicPartition(CONSUMER_OFFSETS, partition_for_coordinated(group_id, count))
            if written.get(keeper) != self._written_before.get(keeper):
                moved_on |= names_of_members(group_id)
        return moved_on

    def _written_by_coordinators(self) -> dict[TopicPartition, int]:
        """Where their logs end, as seen from inside the nodes."""
        ends: dict[TopicPartition, int] = {}
        for process in self._context.cluster.nodes:
            assert process.present is not None, "nothing goes wrong any more"
            for topic in process.present.topics:
                for partition in topic.partitions:
                    if partition is not None and is_internal(partition.name.topic):
                        ends[partition.name] = max(ends.get(partition.name, 0), partition.log.next_offset)
        return ends

    async def _describe(self, cluster: Cluster) -> Picture:
        return await describe_all(cluster, self._group_ids, self._context.transactions.transactional_ids)

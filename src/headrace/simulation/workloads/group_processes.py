"""A group of client processes that share topics, whatever the protocol: how it lives, settles and ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from headrace.simulation.history.history import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace.model.names import TopicPartition
    from headrace.simulation.workloads.client_processes import ClientProcess
    from headrace.simulation.workloads.context import WorkloadContext

SETTLED_WITHIN_S: Final = 40.0  # after the last fault: sessions end, and those who are left share everything out
TOPICS_MAX: Final = 2


class Member(Protocol):
    process: ClientProcess

    @property
    def owned(self) -> Collection[TopicPartition]:
        """What it knows to be its own, now that nobody is about to take it."""
        ...


class ProcessGroup:
    """`run` it until the run is over, `settle` it then, and `end` it before the last crash."""

    def __init__(self, context: WorkloadContext, group_id: str) -> None:
        self.group_id = group_id
        self.context = context
        self.chance = context.random(group_id)
        topics = [topic for topic in context.topics if not topic.is_reserved]
        self.topics = self.chance.sample(topics, self.chance.randint(1, min(TOPICS_MAX, len(topics))))
        self.members: Sequence[Member] = ()
        self._leaves_in_good_order = self.chance.random() < 0.3

    async def run(self) -> None:
        lives = [asyncio.get_running_loop().create_task(member.process.live()) for member in self.members]
        for life in lives:
            await life

    async def settle(self) -> None:
        """With those members who are left, every partition finds an owner."""
        alive = [member for member in self.members if member.process.is_running]
        if not alive:
            alive = [self.members[0]]
            alive[0].process.launch()
        deadline_s = self.context.now_s + SETTLED_WITHIN_S
        wanted = sorted(partition for topic in self.topics for partition in topic.partitions)
        while (owned := sorted(partition for member in alive for partition in member.owned)) != wanted:
            if self.context.now_s > deadline_s:
                for partition in wanted:
                    if partition not in owned:
                        detail = f"{self.group_id}, {SETTLED_WITHIN_S:g} s after the last fault"
                        self.context.history.report(Kind.ORPHANED, partition, -1, detail)
                return
            await asyncio.sleep(0.2)

    async def end(self) -> None:
        """All leave; or they die at one stroke, and the coordinator still counts on them when it goes down."""
        for member in self.members:
            if self._leaves_in_good_order:
                await member.process.leave()
            member.process.kill()

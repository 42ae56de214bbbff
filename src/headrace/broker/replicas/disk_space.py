"""What this node does about partitions that it has no room for: retention looks at once for what can go, another node
leads, if one can, and nobody waits for a copy that cannot follow.

The copy stays. It follows, and is in sync again once there is space for what it lacks.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace.runtime.tasks import rest

if TYPE_CHECKING:
    from headrace.broker.metadata.quorum import Quorum
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.replicas.giving_up import GivingUp
    from headrace.model.names import LogId, NodeId

log = logging.getLogger(__name__)

REST_S: Final = 1.0  # if nobody else can lead now, each refused write would ask again


class FullDisk:
    """What has found no room, and was not looked at yet. Whoever writes or opens tells it."""

    def __init__(self) -> None:
        self._without_room: dict[LogId, Partition] = {}
        self._unopened: dict[LogId, None] = {}
        self._news = asyncio.Event()
        self._is_full = asyncio.Event()

    def write_refused(self, partition: Partition) -> None:
        """For lack of space: everything else ends the node. It leads, or follows."""
        self._is_full.set()
        if len(partition.replica.replicas) > 1:
            self._without_room[partition.log_id] = partition
            self._news.set()

    def open_refused(self, log_id: LogId) -> None:
        """For lack of space, too. Nothing of it is served as long as this node leads."""
        self._is_full.set()
        self._unopened[log_id] = None
        self._news.set()

    async def rest(self, period_s: float) -> None:
        """Until retention has to look again: when that is due, or something has found no room."""
        await rest(min(period_s, REST_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, period_s - REST_S)):
                await self._is_full.wait()
        self._is_full.clear()

    async def news(self) -> tuple[list[Partition], list[LogId]]:
        """Wait for some: partitions that cannot grow, and logs that could not be opened."""
        await self._news.wait()
        self._news.clear()
        found, self._without_room = self._without_room, {}
        unopened, self._unopened = self._unopened, {}
        return list(found.values()), list(unopened)


class HandingOver:
    """Lets others lead what this node has no room for."""

    def __init__(
        self, node_id: NodeId, full_disk: FullDisk, topics: TopicTable, quorum: Quorum, giving_up: GivingUp
    ) -> None:
        self._node_id = node_id
        self._full_disk = full_disk
        self._topics = topics
        self._quorum = quorum
        self._giving_up = giving_up

    async def run(self) -> None:
        while True:
            partitions, unopened = await self._full_disk.news()
            for partition in partitions:
                await self._hand_over(partition)
            for log_id in unopened:
                await self._hand_over_unopened(log_id)
            await asyncio.sleep(REST_S)

    async def _hand_over(self, partition: Partition) -> None:
        if self._topics.by_log_id(partition.log_id) is not partition:
            return
        if not partition.replica.is_leader:
            state = self._quorum.image.partition(*partition.log_id)
            if state is not None and self._node_id in state.isr:
                await self._leave(partition.log_id, str(partition.name), "nobody waits for its copy here")
        elif len(partition.replica.in_sync) > 1:  # who is only eligible could take over, but would do it without us
            await self._leave(partition.log_id, str(partition.name), "another node leads it now")

    async def _hand_over_unopened(self, log_id: LogId) -> None:
        state = self._quorum.image.partition(*log_id)
        is_led_here = state is not None and state.leader == self._node_id
        if is_led_here and self._topics.by_log_id(log_id) is None:
            await self._leave(log_id, str(log_id), "another node leads it now")

    async def _leave(self, log_id: LogId, name: str, what_follows: str) -> None:
        try:
            await self._giving_up.leave_in_sync_set(log_id, is_lost=False)
        except (ClientError, Refusal) as trouble:
            log.debug("%s: there is no room, and that cannot be helped now: %s", name, trouble)
        else:
            log.warning("%s: there is no room for more, so %s", name, what_follows)

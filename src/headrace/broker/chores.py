"""What a node does every now and then: checkpoints, retention, and forgetting what nobody waits for any more."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from headrace.broker.partitions.deletion import delete_expired
from headrace.runtime.tasks import Breather, rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.replicas.disk_space import FullDisk
    from headrace.runtime.clock import Clock
    from headrace.runtime.tasks import TaskScope
    from headrace.storage.store.log_store import LogStore

log = logging.getLogger(__name__)

CHECKPOINT_S: Final = 30.0  # how much a start after a crash has to verify
EXPIRE_WAITERS_S: Final = 1.0
EXPIRE_PRODUCERS_S: Final = 600.0


async def every(period_s: Callable[[], float], chore: Callable[[], object]) -> None:
    while True:
        await rest(period_s())
        outcome = chore()
        if asyncio.iscoroutine(outcome):
            await outcome


class Chores:
    """Those that walk over all partitions, in slices."""

    def __init__(
        self, topics: TopicTable, store: LogStore, full_disk: FullDisk, clock: Clock, view: MetadataView
    ) -> None:
        self._topics = topics
        self._store = store
        self._full_disk = full_disk
        self._clock = clock
        self._view = view

    def start(self, tasks: TaskScope) -> None:
        tasks.start(every(lambda: CHECKPOINT_S, self._store.checkpoints.write), "checkpoints")
        tasks.start(self._keep_retention(), "retention")
        tasks.start(every(lambda: EXPIRE_WAITERS_S, self._expire_waiters), "late acks")
        tasks.start(every(lambda: EXPIRE_PRODUCERS_S, self._expire_producers), "quiet producers")

    async def _keep_retention(self) -> None:
        while True:
            await self._full_disk.rest(self._view.settings.log_retention_check_interval_ms / 1000)
            await self._delete_expired()

    async def _delete_expired(self) -> None:
        breather = Breather(self._clock)
        for partition in self._topics.partitions():
            await breather.breathe()
            removed = delete_expired(partition, self._clock.wall_ms())
            if removed:
                log.info("%s: retention removed %d segments up to offset %d", partition.name, *removed)
        await self._store.checkpoints.remove_garbage()

    async def _expire_waiters(self) -> None:
        breather = Breather(self._clock)
        for partition in self._topics.partitions():
            await breather.breathe()
            partition.expire_waiters(self._clock.monotonic_s())

    async def _expire_producers(self) -> None:
        breather = Breather(self._clock)
        now_ms = self._clock.wall_ms()
        expiration_ms = self._view.settings.producer_id_expiration_ms
        for partition in self._topics.partitions():
            await breather.breathe()
            partition.log.producers.expire(now_ms, expiration_ms)
            partition.writer.forget_old_refusals()

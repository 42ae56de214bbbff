"""Where a node notes who did what: a queue, a file of its own, and the topic `__audit`.

Whoever notes something never waits, and a queue that is full costs the event and not the memory. The file comes first
and needs nobody else; what the topic cannot take is in the file. What is lost on either way is counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.access.folding import Folding, is_folded
from headrace.broker.access.audit_file import AuditFile
from headrace.broker.access.audit_lines import Noted, line_of
from headrace.broker.access.audit_topic import AuditRecord
from headrace.runtime.tasks import outlast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.access.audit import AuditEvent
    from headrace.access.folding import Folded
    from headrace.broker.access.audit_topic import AuditTopic
    from headrace.broker.partitions.counters import AuditCounters
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.model.names import NodeId
    from headrace.runtime.tasks import TaskScope
    from headrace.runtime.world import World

log = logging.getLogger(__name__)

QUEUE_MAX: Final = 10_000  # events; some 3 MB, and 20 MB if each says as much as it may
WRITTEN_AT_ONCE: Final = 500
FOLD_S: Final = 5.0  # how often it is looked whether something has been repeated long enough
TEXT_MAX: Final = 1000  # characters of a resource or a detail
NAME_MAX: Final = 256  # of a client id, which may have 32 KiB
LANE: Final = "audit"


class Audit:
    """An `AuditSink`."""

    def __init__(
        self,
        node_id: NodeId,
        world: World,
        settings: NodeSettings,
        counters: AuditCounters,
        topic: AuditTopic,
        *,
        is_on: bool,
    ) -> None:
        self.is_on = is_on
        self._node_id = node_id
        self._world = world
        self._counters = counters
        self._file = AuditFile(world.disk, settings.audit_file_max_bytes, settings.audit_files)
        self.topic = topic
        self._has_topic = settings.audit_topic_enable
        self._folding = Folding()
        self._queue: deque[Noted] = deque()
        self._wake = asyncio.Event()
        self._sequence = 0
        self._lost_before = 0
        self._is_failing = False

    def note(self, event: AuditEvent) -> None:
        """Takes microseconds, and never waits: what does not fit is counted."""
        if not self.is_on:
            return
        event = _trimmed(event)
        if is_folded(event) and not self._folding.is_news(event, self._world.clock.monotonic_s()):
            self._counters.folded += 1
            return
        self._keep(event)

    def _keep(self, event: AuditEvent, repeated: int = 0) -> None:
        self._sequence += 1
        if len(self._queue) >= QUEUE_MAX:
            self._counters.not_kept += 1
            return
        self._queue.append(Noted(event, self._world.clock.wall_ms(), self._node_id, self._sequence, repeated))
        self._wake.set()

    # ---- life

    def start(self, tasks: TaskScope) -> None:
        if self.is_on:
            tasks.start(self._run(), "audit")
            tasks.start(self._fold(), "repeated entries of the audit")
            if self._has_topic:
                tasks.start(self.topic.run(), "audit topic")

    async def close(self) -> None:
        """Write what is left. Whoever has been started is to be stopped before."""
        if not self.is_on:
            return
        self._keep_folded(self._folding.close())
        while self._queue:
            await self._write(self._taken())
        self._file.close()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._write(self._taken())

    async def _fold(self) -> None:
        while True:
            await asyncio.sleep(FOLD_S)
            self._keep_folded(self._folding.due(self._world.clock.monotonic_s()))
            self._say_what_was_lost()

    def _keep_folded(self, folded: Sequence[Folded]) -> None:
        for event, times in folded:
            self._keep(event, times)

    def _taken(self) -> list[Noted]:
        return [self._queue.popleft() for _ in range(min(len(self._queue), WRITTEN_AT_ONCE))]

    # ---- ways out

    async def _write(self, noted: list[Noted]) -> None:
        lines = [line_of(it) for it in noted]
        self._note_outcome(
            len(lines), await outlast(self._world.threads.run(partial(self._file.try_to_write, lines), lane=LANE))
        )
        if self._has_topic:
            self.topic.offer(
                AuditRecord(it.wall_ms, str(it.event.identity.principal).encode("utf-8", "replace"), line)
                for it, line in zip(noted, lines, strict=True)
            )

    def _note_outcome(self, lines: int, trouble: str) -> None:
        if trouble:
            self._counters.not_written += lines
            if not self._is_failing:
                log.error("the audit cannot be written to %s: %s", self._file.path, trouble)
        else:
            self._counters.written += lines
            if self._is_failing:
                log.info("the audit is written again; %d lines are missing so far", self._counters.not_written)
        self._is_failing = bool(trouble)

    def _say_what_was_lost(self) -> None:
        lost = self._counters.not_kept
        if lost > self._lost_before:
            log.error("%d events came faster than the audit could be written, and are lost", lost - self._lost_before)
        self._lost_before = lost


def _trimmed(event: AuditEvent) -> AuditEvent:
    """Names that clients make up are as long as they like."""
    name = event.identity.principal.name
    if max(len(event.resource), len(event.detail)) <= TEXT_MAX and max(len(event.client_id), len(name)) <= NAME_MAX:
        return event
    principal = event.identity.principal._replace(name=name[:NAME_MAX])
    return replace(
        event,
        identity=event.identity._replace(principal=principal),
        resource=event.resource[:TEXT_MAX],
        detail=event.detail[:TEXT_MAX],
        client_id=event.client_id[:NAME_MAX],
    )

"""What is known of damage on this node's disk: whoever reads bytes that make no sense says so here."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace.model.names import Epoch, Offset
from headrace.wire.messages.scrub_logs import ScrubLogsRequest, ScrubLogsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from headrace.broker.membership.peers import Peers
    from headrace.broker.partitions.counters import Counters
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.model.names import LogId, NodeId
    from headrace.runtime.clock import Clock
    from headrace.runtime.tasks import TaskScope
    from headrace.storage.files.damage import DamagedLog, DamagedRange

log = logging.getLogger(__name__)

TELL_S: Final = 5.0  # between two requests to a leader to look at the same partition
MET_S: Final = 2.0  # between two scrubs that readers of the same partition ask for
LANE: Final = "damage"


class DamageReports:
    def __init__(self, topics: TopicTable, counters: Counters, peers: Peers, clock: Clock, tasks: TaskScope) -> None:
        self._topics = topics
        self._counters = counters
        self._peers = peers
        self._clock = clock
        self._tasks = tasks
        self.damaged: dict[LogId, Partition] = {}
        self.last_epochs: dict[LogId, Epoch] = {}
        """The latest epoch in which this node may have fetched as a follower with the damaged copy."""
        self.not_opened: Mapping[LogId, DamagedLog] = {}
        """What could not be opened at the start, and is not fetched again yet: whoever opens logs keeps it."""
        self.news = asyncio.Event()
        self.on_found: Callable[[Partition], None] = lambda _: None
        """Hears of a copy that is damaged: nobody may take it for one that keeps up."""
        self.check: Callable[[str, int, int], None] = lambda *_: None
        """Has a partition of a topic looked at, from an offset on if it is known."""
        self._bad_fetches: dict[LogId, tuple[Offset, float]] = {}
        """Where a fetch brought bad bytes, and when the leader was last told."""
        self._met_s: dict[LogId, float] = {}
        """When a reader met damage, of those for which that was a moment ago."""

    @property
    def damaged_count(self) -> int:
        return len(self.damaged) + len(self.not_opened)

    def found(self, partition: Partition, ranges: Sequence[DamagedRange]) -> None:
        """These bytes were read, and are not what was written. From now on nobody gets them."""
        if self._topics.by_log_id(partition.log_id) is not partition:
            return  # deleted, moved away or begun anew meanwhile
        for one in ranges:
            if partition.log.damage.add(one):
                self._counters.damage_found += 1
                log.warning("%s: %s; this is no longer served, and nothing is cut", partition.name, one)
        if self.damaged.get(partition.log_id) is not partition:  # it may be the successor of a damaged one
            self.damaged[partition.log_id] = partition
            self.on_found(partition)
            self.last_epochs[partition.log_id] = partition.replica.leader_epoch
        self.news.set()

    def unopened(self) -> None:
        """A log is gone, or could not be opened: at the start, or later, if there was no room for it at first."""
        self._counters.damage_found += 1
        self.news.set()

    def begun_anew(self) -> None:
        """Such a log, or a damaged one, is fetched again."""
        self._counters.replicas_given_up += 1

    def look(self) -> None:
        """A log was begun anew, and its old copy is kept beside its successor for a while."""
        self.news.set()

    def forget(self, partition: Partition) -> bool:
        """It is not there any more. False if its successor is damaged as well, and known here by now."""
        log_id = partition.log_id
        if self.damaged.get(log_id) is not partition:
            return False
        del self.damaged[log_id]
        del self.last_epochs[log_id]
        return True

    def met(self, partition: Partition, offset: int) -> None:
        """A reader met bytes that make no sense, at this offset if it is known. A scrub tells what is damaged."""
        now_s, log_id = self._clock.monotonic_s(), partition.log_id
        if log_id not in self.damaged and log_id not in self._met_lately(now_s):
            self._met_s[log_id] = now_s
            self.check(partition.name.topic, partition.index, offset)

    def _met_lately(self, now_s: float) -> Collection[LogId]:
        """A scrub may find nothing, as after an error that does not come again: who meets it once more has it look
        again, but not without a rest."""
        self._met_s = {log_id: met_s for log_id, met_s in self._met_s.items() if now_s - met_s < MET_S}
        return self._met_s

    def bad_fetch(self, partition: Partition, leader: NodeId) -> None:
        """As a follower: what the leader sent is damaged. If it is so again, it is the leader's file, not the way."""
        now_s, offset = self._clock.monotonic_s(), Offset(partition.log.next_offset)
        known = self._bad_fetches.get(partition.log_id)
        if known is None or known[0] != offset:
            self._bad_fetches[partition.log_id] = (offset, now_s - TELL_S)
        elif now_s - known[1] >= TELL_S:
            self._bad_fetches[partition.log_id] = (offset, now_s)
            self._tasks.start_if_open(self._tell(partition, leader, offset), "tell a leader of its damage")

    async def _tell(self, partition: Partition, leader: NodeId, offset: Offset) -> None:
        request = ScrubLogsRequest(topic=partition.name.topic, partition=partition.index, offset=offset)
        try:
            await self._peers.ask(leader, request, ScrubLogsResponse, lane=LANE)
        except (ClientError, Refusal) as trouble:
            log.debug("%s: node %d was not told of its damage: %s", partition.name, leader, trouble)

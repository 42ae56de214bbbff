"""What this node does about its damaged replicas: it gives them up, and fetches them again from those who are whole.

First the cluster agrees to count on this copy no longer, then it is thrown away; never the other way round. The last
copy that may be elected is kept as it is: it serves what is whole, refuses what is not, and waits for another.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from headrace.broker.replicas.giving_up import leave_in_sync_set
from headrace.client.errors import ClientError
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Epoch, Offset
from headrace.storage.files.damage import DamagedLog, MissingLog
from headrace.wire.messages.scrub_logs import ScrubLogsRequest, ScrubLogsResponse

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace.broker.node import Node
    from headrace.broker.partitions.partition import Partition
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.model.names import LogId, NodeId
    from headrace.storage.files.damage import DamagedRange
    from headrace.storage.log.repairs import Errand

log = logging.getLogger(__name__)

LOOK_S: Final = 0.25
TELL_S: Final = 5.0  # between two requests to a leader to look at the same partition
MET_S: Final = 2.0  # between two scrubs that readers of the same partition ask for
LANE: Final = "damage"
ERRANDS: Final = "errands"


class DamageCare:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._damaged: dict[LogId, Partition] = {}
        self._last_epochs: dict[LogId, Epoch] = {}
        """The latest epoch in which this node may have fetched as a follower with the damaged copy."""
        self._kept_as_last: set[LogId] = set()
        """Those of which the operator was told that there is no other copy."""
        self._bad_fetches: dict[LogId, tuple[Offset, float]] = {}
        """Where a fetch brought bad bytes, and when the leader was last told."""
        self._met_s: dict[LogId, float] = {}
        """When a reader met damage, of those for which that was a moment ago."""
        self._errands: set[tuple[LogId, str]] = set()
        """Under way: no more than there are segments that somebody reads."""
        self._news = asyncio.Event()

    @property
    def damaged_count(self) -> int:
        return len(self._damaged) + len(self._node.damaged_at_start)

    # ---- who finds something

    def found(self, partition: Partition, ranges: Sequence[DamagedRange]) -> None:
        """These bytes were read, and are not what was written. From now on nobody gets them."""
        if self._node.topics.by_log_id(partition.log_id) is not partition:
            return  # deleted, moved away or begun anew meanwhile
        for one in ranges:
            if partition.log.damage.add(one):
                self._node.counters.damage_found += 1
                log.warning("%s: %s; this is no longer served, and nothing is cut", partition.name, one)
        if self._damaged.get(partition.log_id) is not partition:  # it may be the successor of a damaged one
            self._damaged[partition.log_id] = partition
            self._node.stop_following(partition)
            self._last_epochs[partition.log_id] = partition.replica.leader_epoch
        self._news.set()

    def unopened(self) -> None:
        """A log could not be opened: at the start, or later, if there was no room for it at first."""
        self._node.counters.damage_found += 1
        self._news.set()

    def begun_anew(self) -> None:
        """Such a log is fetched again."""
        self._node.counters.replicas_given_up += 1

    def look(self) -> None:
        """A log was begun anew, and its old copy is kept for a while."""
        self._news.set()

    def met(self, partition: Partition, offset: int) -> None:
        """A reader met bytes that make no sense, at this offset if it is known. A scrub tells what is damaged."""
        now_s, log_id = self._node.world.clock.monotonic_s(), partition.log_id
        if log_id not in self._damaged and log_id not in self._met_lately(now_s):
            self._met_s[log_id] = now_s
            self._node.scrub.begin(partition.name.topic, partition.index, offset)

    def _met_lately(self, now_s: float) -> Collection[LogId]:
        """A scrub may find nothing, as after an error that does not come again: who meets it once more has it look
        again, but not without a rest."""
        self._met_s = {log_id: met_s for log_id, met_s in self._met_s.items() if now_s - met_s < MET_S}
        return self._met_s

    def bad_fetch(self, partition: Partition, leader: NodeId) -> None:
        """As a follower: what the leader sent is damaged. If it is so again, it is the leader's file, not the way."""
        now_s, offset = self._node.world.clock.monotonic_s(), Offset(partition.log.next_offset)
        known = self._bad_fetches.get(partition.log_id)
        if known is None or known[0] != offset:
            self._bad_fetches[partition.log_id] = (offset, now_s - TELL_S)
        elif now_s - known[1] >= TELL_S:
            self._bad_fetches[partition.log_id] = (offset, now_s)
            self._node.start_chore(self._tell(partition, leader, offset), "tell a leader of its damage")

    async def _tell(self, partition: Partition, leader: NodeId, offset: Offset) -> None:
        request = ScrubLogsRequest(topic=partition.name.topic, partition=partition.index, offset=offset)
        try:
            await self._node.assembly.peers.ask(leader, request, ScrubLogsResponse, lane=LANE)
        except (ClientError, Refusal) as trouble:
            log.debug("%s: node %d was not told of its damage: %s", partition.name, leader, trouble)

    # ---- what a log needs, and is no damage

    def run_errand(self, partition: Partition, errand: Errand) -> None:
        """Beside the loop. Readers ask for the same again and again until it is done."""
        key = (partition.log_id, errand.what)
        if key not in self._errands:
            self._errands.add(key)
            self._node.start_chore(self._run_errand(partition, errand), errand.what)

    async def _run_errand(self, partition: Partition, errand: Errand) -> None:
        try:
            await self._node.world.threads.run(errand.run, lane=ERRANDS)
        except DamagedLog as damage:
            partition.met(damage)
        except OSError as error:  # the file is gone by now, or there is no descriptor: whoever needs it asks again
            log.debug("%s: cannot %s: %s", partition.name, errand.what, error)
        finally:
            self._errands.discard((partition.log_id, errand.what))
            errand.finish()
        partition.look_again()

    # ---- what is done about it

    async def run(self) -> None:
        while True:
            if self._damaged or self._node.store.set_aside_damaged or self._node.damaged_at_start:
                await asyncio.sleep(LOOK_S)
            else:
                await self._news.wait()
            self._news.clear()
            for partition in list(self._damaged.values()):
                await self._look_after(partition)
            for log_id in self._unopened_counted_on():
                await self._give_up_unopened(log_id)
            await self._drop_replaced()

    async def _look_after(self, partition: Partition) -> None:
        node, log_id = self._node, partition.log_id
        state = node.image.partition(*log_id)
        if state is None or node.topics.by_log_id(log_id) is not partition:
            self._forget(partition)
        elif self._is_given_up(log_id, state):
            await node.fetch_again(partition)
            if node.topics.by_log_id(log_id) is not partition:
                node.counters.replicas_given_up += 1
                self._forget(partition)
        else:
            await self._give_up(partition, state)

    def _is_given_up(self, log_id: LogId, state: PartitionState) -> bool:
        """Nobody counts on this copy, and nothing that it ever told a leader can be taken for the word of the next."""
        return (
            state.leader not in {NO_NODE, self._node.node_id}
            and self._node.node_id not in {*state.isr, *state.eligible}
            and state.leader_epoch > self._last_epochs[log_id]
        )

    async def _give_up(self, partition: Partition, state: PartitionState) -> None:
        log_id = partition.log_id
        if partition.replica.is_leader:
            self._last_epochs[log_id] = partition.replica.leader_epoch
        is_last = state.isr == (self._node.node_id,)
        if is_last and not state.eligible:
            self._say_last(partition)
            return
        try:
            await leave_in_sync_set(self._node, log_id, is_lost=True)
        except (ClientError, Refusal) as trouble:
            log.debug("%s cannot be given up now: %s", partition.name, trouble)
            if is_last:
                self._say_last(partition)

    async def give_up_before_entry(self) -> None:
        """Logs that are missing, before this node is let in: it may be elected in that moment, and an empty log would
        take the place of those that others hold whole. A damaged one holds something, and is given up only to somebody
        who is there."""
        while missing := [log_id for log_id in self._unopened_counted_on() if self._is_missing(log_id)]:
            for log_id in missing:
                if not await self._give_up_unopened(log_id):
                    return
            await asyncio.sleep(LOOK_S)

    def _unopened_counted_on(self) -> list[LogId]:
        """Logs that could not be opened: as long as this node may be elected, they are not fetched again. The last who
        may be elected stays: nobody else has more."""
        node, found = self._node, []
        for log_id in node.damaged_at_start:
            state = node.image.partition(*log_id)
            electable = set() if state is None else {*state.isr, *state.eligible}
            if node.node_id in electable and len(electable) > 1:
                found.append(log_id)
        return found

    def _is_missing(self, log_id: LogId) -> bool:
        return isinstance(self._node.damaged_at_start.get(log_id), MissingLog)

    async def _give_up_unopened(self, log_id: LogId) -> bool:
        """False if there is no use in trying again: another life of this node has begun."""
        try:
            await leave_in_sync_set(self._node, log_id, is_lost=True, serves_nothing=self._is_missing(log_id))
        except (ClientError, Refusal) as trouble:
            log.debug("%s cannot be given up now: %s", log_id, trouble)
            return not isinstance(trouble, Refusal) or trouble.code is not ErrorCode.STALE_BROKER_EPOCH
        return True

    def _say_last(self, partition: Partition) -> None:
        if partition.log_id in self._kept_as_last:
            return
        self._kept_as_last.add(partition.log_id)
        log.error(
            "%s: the only copy in sync is damaged. %s. Nothing was cut: the damaged offsets are refused, all others "
            "are served. It is fetched again once another replica is in sync; if there is none, restore a backup",
            partition.name,
            "; ".join(map(str, partition.log.damage.ranges)),
        )

    def _forget(self, partition: Partition) -> None:
        log_id = partition.log_id
        if self._damaged.get(log_id) is partition:  # otherwise its successor is damaged as well, and known here by now
            del self._damaged[log_id]
            del self._last_epochs[log_id]
            self._kept_as_last.discard(log_id)

    async def _drop_replaced(self) -> None:
        """A damaged copy was kept beside its successor until that is in sync."""
        node = self._node
        for log_id in list(node.store.set_aside_damaged):
            state = node.image.partition(*log_id)
            is_whole = state is not None and node.node_id in state.isr and log_id not in self._damaged
            if is_whole or state is None or node.node_id not in state.replicas:
                log.info("%s is whole again; its old copy is removed", log_id)
                await node.store.drop_damaged(log_id)

"""Keeps what this node serves in step with the committed image: opens, changes and closes partitions.

Changes are followed one after the other, in slices that leave the loop to others; `caught_up` waits until everything
that was committed before the call is served.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.metadata.image.cluster_image import Changes, changed_partitions, changes, deleted_topics, difference
from headrace.model.errors import ErrorCode, Reason, Refusal
from headrace.model.names import LogId, Offset
from headrace.runtime.tasks import Breather

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import ServedTopic, TopicTable
    from headrace.broker.replicas.fetchers import ReplicaFetchers
    from headrace.broker.replicas.opening import LogOpening
    from headrace.metadata.image.cluster_image import ClusterImage, Topic
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.metadata.image.records import MetadataRecord
    from headrace.model.names import Epoch, TopicId
    from headrace.storage.store.log_store import LogStore

log = logging.getLogger(__name__)

OPENED_AT_ONCE = 500  # logs, before those are served: to find out which takes 5 ms


class Watcher(Protocol):
    """Who wants to know what this node serves."""

    def led(self, partition: Partition) -> None:
        """This node leads it, in a new epoch."""
        ...

    def left(self, partition: Partition) -> None:
        """It is led by another node, or deleted."""
        ...

    def topics_deleted(self, names: Sequence[str]) -> None:
        """The image has lost these topics in this turn. Whatever has such a name in a later turn is another topic."""
        ...

    def topics_changed(self) -> None:
        """Topics came, grew or went, and this node serves what it has of them."""
        ...

    def settings_changed(self) -> None: ...


class _Anew(NamedTuple):
    """A replica that is to be thrown away and begun where its leader's log begins."""

    partition: Partition
    offset: Offset
    leader_epoch: Epoch
    """In which that was found out. Under another leader the replica may have found its way, and be counted on."""
    is_damaged: bool = False


class _Jump(NamedTuple):
    before: ClusterImage
    after: ClusterImage


class Reconciler:
    def __init__(
        self,
        view: MetadataView,
        topics: TopicTable,
        store: LogStore,
        opening: LogOpening,
        fetchers: ReplicaFetchers,
        watcher: Watcher,
    ) -> None:
        self._view = view
        self._topics = topics
        self._store = store
        self._opening = opening
        self._fetchers = fetchers
        self._watcher = watcher
        self._queue: asyncio.Queue[Changes | _Jump | _Anew | asyncio.Future[None]] = asyncio.Queue()
        self._breather = Breather(store.world.clock)
        self._unfollowed: dict[LogId, Partition] = {}
        """Replicas that should have begun anew, and did not. Their leader has to say so again."""

    def committed(self, before: ClusterImage, records: Sequence[MetadataRecord]) -> None:
        """To be called in the turn in which the image changes: `before` is what it was."""
        change = changes(records)
        self._queue.put_nowait(change)
        self._tell_of_deleted(before, change.deleted_topics)

    def jumped(self, before: ClusterImage, after: ClusterImage) -> None:
        """A snapshot took the place of records that were never seen here. What they are is found out in slices."""
        self._queue.put_nowait(_Jump(before, after))
        self._tell_of_deleted(before, deleted_topics(before, after))

    def _tell_of_deleted(self, before: ClusterImage, topic_ids: Sequence[TopicId]) -> None:
        deleted = [before.topic(topic_id) for topic_id in topic_ids]
        if deleted:
            self._watcher.topics_deleted([topic.name for topic in deleted if topic is not None])

    def caught_up(self) -> asyncio.Future[None]:
        """Done once everything is served that was committed before this call."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(done)
        return done

    def try_again(self) -> None:
        """Open what found no space the last time. Call it every now and then."""
        waiting, self._opening.without_room = self._opening.without_room, {}
        for log_id, served in waiting.items():
            if log_id not in self._opening.damaged_at_start:  # those are not opened, but fetched again
                served.troubles.pop(log_id.partition, None)
        if waiting:
            self._queue.put_nowait(Changes(partitions=tuple(waiting), deleted_topics=(), configs=(), nodes=()))
        unfollowed, self._unfollowed = self._unfollowed, {}
        for log_id, partition in unfollowed.items():
            is_ours = self._topics.by_log_id(log_id) is partition and not partition.log.damage
            if is_ours and partition.replica.leader != self._view.node_id:
                self._fetchers.follow(partition, partition.replica.leader)

    def begin_anew(self, partition: Partition, offset: Offset) -> None:
        """Its log has nothing in common with its leader's any more, which begins there."""
        self._queue.put_nowait(_Anew(partition, offset, partition.replica.leader_epoch))

    async def fetch_again(self, partition: Partition) -> None:
        """Its copy is damaged, and nobody counts on it any more. Where the new one begins, the leader will tell."""
        self._queue.put_nowait(_Anew(partition, Offset(0), partition.replica.leader_epoch, is_damaged=True))
        await self.caught_up()

    async def run(self) -> None:
        while True:
            item = await self._queue.get()
            if isinstance(item, asyncio.Future):
                if not item.done():
                    item.set_result(None)
            elif isinstance(item, _Anew):
                await self._begin_anew(item)
            elif isinstance(item, _Jump):
                await self._follow(await self._changes_of(item))
            else:
                await self._follow(item)

    async def _changes_of(self, jump: _Jump) -> Changes:
        found = difference(*jump)
        partitions: list[LogId] = []
        for topic in jump.after.sorted_topics():
            await self._breather.breathe()
            partitions += changed_partitions(jump.before, topic)
        return replace(found, partitions=tuple(partitions))

    async def load(self, deleted_topics: Set[TopicId]) -> None:
        """At start: serve everything in the image. Data of deleted topics goes; what nobody knows is set aside."""
        image = self._view.image
        for log_id in self._store.log_ids():
            if image.partition(*log_id) is not None:
                continue  # also if our log says that it was deleted: that need not be agreed on
            if log_id.topic_id in deleted_topics:
                log.info("removing %s, which belongs to a deleted topic", log_id)
                await self._store.delete(log_id)
            else:
                place = await self._store.set_aside(log_id)
                log.warning("no topic is known for %s; its data is kept in %s and not served", log_id, place)
        for look in (
            self._opening.note_missing,
            self._opening.tell_of_lost,
        ):  # each goes over all partitions, a microsecond for each
            await asyncio.sleep(0)
            look(image)
        await asyncio.sleep(0)
        await self._serve_all([LogId(topic.topic_id, state.partition) for topic, state in partitions_of(image)])

    async def _follow(self, change: Changes) -> None:
        for topic_id in change.deleted_topics:
            await self._drop(topic_id)
        await self._serve_all(change.partitions)
        self._configure(change.configs)
        if change.partitions or change.deleted_topics:
            self._watcher.topics_changed()

    async def _serve_all(self, log_ids: Sequence[LogId]) -> None:
        """As the image has them, which may change meanwhile: then they come again."""
        for first in range(0, len(log_ids), OPENED_AT_ONCE):
            some = log_ids[first : first + OPENED_AT_ONCE]
            await self._opening.prepare(some)
            image = self._view.image
            for log_id in some:
                topic, state = image.topic(log_id.topic_id), image.partition(*log_id)
                if topic is not None and state is not None:
                    await self._serve(topic, state)
                elif self._store.holds_unused(log_id):
                    await self._store.delete(log_id)  # the topic was deleted while its log was made

    async def _begin_anew(self, wish: _Anew) -> None:
        old, log_id = wish.partition, wish.partition.log_id
        topic, state = self._view.image.topic(log_id.topic_id), self._view.image.partition(*log_id)
        served = self._topics.topic(log_id.topic_id)
        if topic is None or state is None or served is None or served.partitions[old.index] is not old:
            return  # deleted, or moved away meanwhile
        if wish.is_damaged and not self._opening.others_have(state):
            return
        if not wish.is_damaged and not old.replica.leader_epoch == state.leader_epoch == wish.leader_epoch:
            self._try_later(wish)
            return
        self._fetchers.leave(old)
        served.partitions[old.index] = None
        old.retire(Reason(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{old.name} begins anew"))
        await self._fetchers.cut_done(log_id)
        try:
            # If this node is counted on, what it throws away may be all that there is: a human may want to look at it.
            is_kept = wish.is_damaged or self._view.is_counted_on(state)
            partition = await self._opening.empty(topic, state, wish.offset, is_kept=is_kept)
        except Refusal as refusal:
            log.warning("%s cannot begin anew yet: %s", old.name, refusal.message)
            if old.log.is_closed:  # it is gone, and there was no room for the new one
                served.troubles[old.index] = refusal.message
                self._opening.wait_for_room(log_id, served)
            else:
                served.partitions[old.index] = old
                self._try_later(wish)
            return
        served.partitions[old.index] = partition
        self._opening.forget_trouble(log_id, served)
        self._take_role(partition, state)

    def _try_later(self, wish: _Anew) -> None:
        """Whoever found damage asks again by itself. A leader cannot: nobody asks it any more."""
        if not wish.is_damaged:
            self._unfollowed[wish.partition.log_id] = wish.partition

    async def _serve(self, topic: Topic, state: PartitionState) -> None:
        await self._breather.breathe()
        served = self._opening.served(topic)
        while len(served.partitions) <= state.partition:
            served.partitions.append(None)
        partition = served.partitions[state.partition]
        if self._view.node_id not in state.replicas:
            log_id = LogId(topic.topic_id, state.partition)
            self._opening.forget_trouble(log_id, served)
            if partition is not None:
                await self._give_up(served, partition)
            elif self._store.holds_unused(log_id):
                log.info("%s-%d has moved to other nodes; its log here goes", topic.name, state.partition)
                await self._store.delete(log_id)
            return
        if partition is None:
            self._opening.accept_loss(topic, state, served)
        if partition is None and state.partition not in served.troubles:
            partition = await self._opening.open(topic, state, served)
        elif partition is None and self._opening.others_have(state):
            partition = await self._opening.open_damaged(topic, state, served)
        if partition is not None:
            served.partitions[state.partition] = partition
            await self._fetchers.cut_done(partition.log_id)
            self._take_role(partition, state)

    def _take_role(self, partition: Partition, state: PartitionState) -> None:
        replica = partition.replica
        partition.was_in_sync |= state.has_leader and self._view.node_id in state.isr
        if state.leader != self._view.node_id:
            if state.leader_epoch > replica.leader_epoch or state.leader != replica.leader:
                self._watcher.left(partition)  # first: who is told to ask elsewhere must not begin to wait here again
                partition.follow(state.leader_epoch, state.leader, state.replicas)
                if partition.log.damage:
                    self._fetchers.leave(partition)  # nobody may count on it; it is given up and begun anew
                else:
                    self._fetchers.follow(partition, state.leader)
        elif state.leader_epoch > replica.leader_epoch:
            self._fetchers.leave(partition)
            partition.lead(state.leader_epoch, state.isr, state.replicas, state.partition_epoch, state.eligible)
            self._watcher.led(partition)
        elif state.partition_epoch > partition.partition_epoch:  # else it is known, and a newer wish may be under way
            partition.agreed_in_sync(state.isr, state.partition_epoch, state.eligible)

    async def _give_up(self, served: ServedTopic, partition: Partition) -> None:
        """Its replicas have moved: others have it, and this node's copy goes."""
        log.info("%s is no longer kept here", partition.name)
        served.partitions[partition.index] = None
        self._watcher.left(partition)
        self._fetchers.leave(partition)
        partition.retire(Reason(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.name} has moved to other nodes"))
        await self._fetchers.cut_done(partition.log_id)
        await self._store.delete(partition.log_id)

    async def _drop(self, topic_id: TopicId) -> None:
        served = self._topics.remove(topic_id)
        if served is None:
            return
        for index, partition in enumerate(served.partitions):
            await self._breather.breathe()
            if partition is not None:
                self._watcher.left(partition)
                self._fetchers.leave(partition)
                partition.retire(Reason(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {served.name!r} was deleted"))
                await self._fetchers.cut_done(partition.log_id)
            self._opening.damaged_at_start.pop(LogId(topic_id, index), None)
            await self._store.delete(LogId(topic_id, index))

    def _configure(self, resources: Sequence[ConfigResource]) -> None:
        if any(resource.kind is ResourceKind.BROKER for resource in resources):
            self._watcher.settings_changed()
            names = [topic.name for topic in self._topics]
        else:
            names = [resource.name for resource in resources if resource.kind is ResourceKind.TOPIC]
        for name in names:
            topic = self._topics.named(name)
            if topic is None:
                continue
            settings = self._view.topic_settings(name)
            for partition in topic.partitions:
                if partition is not None:
                    partition.configure(settings)

"""Keeps what this node serves in step with the committed image: opens, changes and closes partitions.

Changes are followed one after the other, in slices that leave the loop to others; `caught_up` waits until everything
that was committed before the call is served.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.broker.partitions.log_settings import log_settings
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.topic_table import ServedTopic
from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.metadata.image.cluster_image import Changes, changed_partitions, changes, deleted_topics, difference
from headrace.metadata.image.effective_configs import topic_settings
from headrace.model.errors import ErrorCode, Reason, Refusal
from headrace.model.names import NO_NODE, LogId, Offset, TopicPartition
from headrace.replication.replica import Replica
from headrace.runtime.tasks import Breather
from headrace.storage.files.damage import DamagedLog, MissingLog
from headrace.storage.files.layout import directory_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set

    from headrace.broker.partitions.appending import AppendStage
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.replicas.fetchers import Followers
    from headrace.metadata.configs.settings import TopicSettings
    from headrace.metadata.image.cluster_image import ClusterImage, Topic
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.metadata.image.effective_configs import NodeConfigs
    from headrace.metadata.image.records import MetadataRecord
    from headrace.model.names import Epoch, NodeId, TopicId
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.log.repairs import Errand
    from headrace.storage.store.log_store import LogStore

log = logging.getLogger(__name__)

OPENED_AT_ONCE = 500  # logs, before those are served: to find out which takes 5 ms
NAMES_TOLD_MAX = 5  # on one line of the log; `headrace cluster status` has the others


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


class Care(Protocol):
    """Who looks after replicas that are damaged, or gone."""

    def met(self, partition: Partition, offset: int) -> None:
        """Somebody met bytes that make no sense, at this offset."""
        ...

    def run_errand(self, partition: Partition, errand: Errand) -> None:
        """Its log needs something done beside the loop."""
        ...

    def unopened(self) -> None:
        """A log is gone, or could not be opened. If it is counted on it stands in `damaged_at_start`."""
        ...

    def begun_anew(self) -> None:
        """A log that was unopened begins anew, to be fetched again."""
        ...

    def look(self) -> None:
        """An old copy is kept beside its successor."""
        ...


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


class Following:
    def __init__(
        self,
        node_id: NodeId,
        configs: NodeConfigs,
        topics: TopicTable,
        store: LogStore,
        stage: AppendStage,
        image: Callable[[], ClusterImage],
        watcher: Watcher,
        followers: Followers,
        is_leased: Callable[[], bool],
        care: Care,
        on_no_room: Callable[[LogId], None],
    ) -> None:
        """`on_no_room` hears that a log could not be opened or made, which is tried again every now and then."""
        self._node_id = node_id
        self._configs = configs
        self._topics = topics
        self._store = store
        self._stage = stage
        self._image = image
        self._watcher = watcher
        self._followers = followers
        self._is_leased = is_leased
        self._care = care
        self._on_no_room = on_no_room
        self.damaged_at_start: dict[LogId, DamagedLog] = {}
        """What could not be opened, and nobody else could give us yet."""
        self._followers.begin_anew = lambda partition, offset: self._queue.put_nowait(
            _Anew(partition, offset, partition.replica.leader_epoch)
        )
        self._queue: asyncio.Queue[Changes | _Jump | _Anew | asyncio.Future[None]] = asyncio.Queue()
        self._breather = Breather(store.world.clock)
        self._without_room: dict[LogId, ServedTopic] = {}
        """Partitions that a full disk had no space for."""
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
        waiting, self._without_room = self._without_room, {}
        for log_id, served in waiting.items():
            if log_id not in self.damaged_at_start:  # those are not opened, but fetched again
                served.troubles.pop(log_id.partition, None)
        if waiting:
            self._queue.put_nowait(Changes(partitions=tuple(waiting), deleted_topics=(), configs=(), nodes=()))
        unfollowed, self._unfollowed = self._unfollowed, {}
        for log_id, partition in unfollowed.items():
            is_ours = self._topics.by_log_id(log_id) is partition and not partition.log.damage
            if is_ours and partition.replica.leader != self._node_id:
                self._followers.follow(partition, partition.replica.leader)

    def _wait_for_room(self, log_id: LogId, served: ServedTopic) -> None:
        self._without_room[log_id] = served
        self._on_no_room(log_id)

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
        image = self._image()
        for log_id in self._store.log_ids():
            if image.partition(*log_id) is not None:
                continue  # also if our log says that it was deleted: that need not be agreed on
            if log_id.topic_id in deleted_topics:
                log.info("removing %s, which belongs to a deleted topic", log_id)
                await self._store.delete(log_id)
            else:
                place = await self._store.set_aside(log_id)
                log.warning("no topic is known for %s; its data is kept in %s and not served", log_id, place)
        for look in (self._note_missing, self._tell_of_lost):  # each goes over all partitions, a microsecond for each
            await asyncio.sleep(0)
            look(image)
        await asyncio.sleep(0)
        await self._serve_all([LogId(topic.topic_id, state.partition) for topic, state in partitions_of(image)])

    def _note_missing(self, image: ClusterImage) -> None:
        """What is counted on was here in an earlier life. If it is gone now it is given up like a damaged log, for an
        empty one in its place might be elected. What is not is simply fetched again; if it was here, that is said."""
        on_disk = set(self._store.log_ids())
        for topic, state in partitions_of(image):
            log_id = LogId(topic.topic_id, state.partition)
            if self._node_id not in state.replicas or log_id in on_disk:
                continue
            safe_offset = self._store.safe_offset(log_id)
            if self._is_counted_on(state):
                missing = MissingLog(directory_of(log_id), safe_offset)
                self._cannot_open(log_id, missing)
                self._served(topic).troubles[state.partition] = str(missing)
                log.warning("%s-%d: %s", topic.name, state.partition, missing.finding)
            elif safe_offset:
                self._care.unopened()
                self._care.begun_anew()
                log.warning(
                    "%s-%d: %s is missing; it is fetched again", topic.name, state.partition, directory_of(log_id)
                )

    def _tell_of_lost(self, image: ClusterImage) -> None:
        """This disk is a new one, and nobody else has what was on the old one. It is said once: from now on there are
        empty logs in their place."""
        on_disk = set(self._store.log_ids())
        lost = [
            f"{topic.name}-{state.partition}"
            for topic, state in partitions_of(image)
            if state.is_lost
            and self._node_id in state.replicas
            and self._node_id not in state.adding
            and LogId(topic.topic_id, state.partition) not in on_disk
        ]
        if lost:
            log.warning(
                "no copy is left of %d partitions of this node: the only one in sync was on a disk that was replaced "
                "(%s%s). Nobody leads them until `headrace cluster elect-leaders --unclean` lets them go on without "
                "their records",
                len(lost),
                ", ".join(lost[:NAMES_TOLD_MAX]),
                ", …" if len(lost) > NAMES_TOLD_MAX else "",
            )

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
            await self._prepare(some)
            image = self._image()
            for log_id in some:
                topic, state = image.topic(log_id.topic_id), image.partition(*log_id)
                if topic is not None and state is not None:
                    await self._serve(topic, state)
                elif self._store.holds_unused(log_id):
                    await self._store.delete(log_id)  # the topic was deleted while its log was made

    async def _begin_anew(self, wish: _Anew) -> None:
        old, log_id = wish.partition, wish.partition.log_id
        topic, state = self._image().topic(log_id.topic_id), self._image().partition(*log_id)
        served = self._topics.topic(log_id.topic_id)
        if topic is None or state is None or served is None or served.partitions[old.index] is not old:
            return  # deleted, or moved away meanwhile
        if wish.is_damaged and not self._others_have(state):
            return
        if not wish.is_damaged and not old.replica.leader_epoch == state.leader_epoch == wish.leader_epoch:
            self._try_later(wish)
            return
        self._followers.leave(old)
        served.partitions[old.index] = None
        old.retire(Reason(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{old.name} begins anew"))
        await self._followers.cut_done(log_id)
        try:
            # If this node is counted on, what it throws away may be all that there is: a human may want to look at it.
            is_kept = wish.is_damaged or self._is_counted_on(state)
            partition = await self._empty(topic, state, wish.offset, is_kept=is_kept)
        except Refusal as refusal:
            log.warning("%s cannot begin anew yet: %s", old.name, refusal.message)
            if old.log.is_closed:  # it is gone, and there was no room for the new one
                served.troubles[old.index] = refusal.message
                self._wait_for_room(log_id, served)
            else:
                served.partitions[old.index] = old
                self._try_later(wish)
            return
        served.partitions[old.index] = partition
        self._forget_trouble(log_id, served)
        self._take_role(partition, state)

    def _try_later(self, wish: _Anew) -> None:
        """Whoever found damage asks again by itself. A leader cannot: nobody asks it any more."""
        if not wish.is_damaged:
            self._unfollowed[wish.partition.log_id] = wish.partition

    def _others_have(self, state: PartitionState) -> bool:
        """Whether our copy can be fetched anew: nobody counts on it, and another node leads."""
        return state.leader not in {NO_NODE, self._node_id} and not self._is_counted_on(state)

    def _is_counted_on(self, state: PartitionState) -> bool:
        """Whether this node may be elected: then it must have all that was ever committed."""
        return self._node_id in {*state.isr, *state.eligible}

    async def _empty(self, topic: Topic, state: PartitionState, offset: Offset, *, is_kept: bool) -> Partition:
        """A new, empty copy in place of the one that is there, which may be kept beside it for a while."""
        log_id, name = LogId(topic.topic_id, state.partition), TopicPartition(topic.name, state.partition)
        settings = self._settings(topic.name)
        partition_log = await self._store.begin_anew(log_id, name, log_settings(settings), offset, is_kept=is_kept)
        if is_kept:
            kept = "is kept until the new one is in sync" if log_id in self._store.set_aside_damaged else "is gone"
            log.warning("%s is fetched again from node %d; the old copy %s", name, state.leader, kept)
            self._care.look()
        return self._new_partition(name, partition_log, settings)

    async def _prepare(self, log_ids: Iterable[LogId]) -> None:
        """Open or create the logs that this node needs, many at a time."""
        image = self._image()
        wanted = {}
        for log_id in log_ids:
            topic = image.topic(log_id.topic_id)
            state = image.partition(*log_id)
            if topic is None or state is None or self._node_id not in state.replicas:
                continue
            if self._topics.by_log_id(log_id) is None and not self._is_in_trouble(log_id):
                name = TopicPartition(topic.name, log_id.partition)
                wanted[log_id] = (name, log_settings(self._settings(topic.name)))
                if len(state.replicas) > 1:
                    self._store.others_have(log_id)
        await self._store.prepare(wanted)

    def _is_in_trouble(self, log_id: LogId) -> bool:
        served = self._topics.topic(log_id.topic_id)
        return served is not None and log_id.partition in served.troubles

    async def _serve(self, topic: Topic, state: PartitionState) -> None:
        await self._breather.breathe()
        served = self._served(topic)
        while len(served.partitions) <= state.partition:
            served.partitions.append(None)
        partition = served.partitions[state.partition]
        if self._node_id not in state.replicas:
            log_id = LogId(topic.topic_id, state.partition)
            self._forget_trouble(log_id, served)
            if partition is not None:
                await self._give_up(served, partition)
            elif self._store.holds_unused(log_id):
                log.info("%s-%d has moved to other nodes; its log here goes", topic.name, state.partition)
                await self._store.delete(log_id)
            return
        if partition is None:
            self._accept_loss(topic, state, served)
        if partition is None and state.partition not in served.troubles:
            partition = await self._open(topic, state, served)
        elif partition is None and self._others_have(state):
            partition = await self._open_damaged(topic, state, served)
        if partition is not None:
            served.partitions[state.partition] = partition
            await self._followers.cut_done(partition.log_id)
            self._take_role(partition, state)

    def _served(self, topic: Topic) -> ServedTopic:
        served = self._topics.topic(topic.topic_id)
        if served is None:
            served = ServedTopic(topic.topic_id, topic.name)
            self._topics.add(served)
        return served

    def _accept_loss(self, topic: Topic, state: PartitionState, served: ServedTopic) -> None:
        """A missing log that nobody else could be elected for is begun again, empty. If all replicas miss it, because
        the whole cluster went down while it was made, all but the last one have given it up by then."""
        log_id = LogId(topic.topic_id, state.partition)
        missing = self.damaged_at_start.get(log_id)
        if not isinstance(missing, MissingLog) or {*state.isr, *state.eligible} != {self._node_id}:
            return
        name = TopicPartition(topic.name, state.partition)
        if missing.offset:
            log.error(
                "%s: %s is gone, and no other node can be elected. It was safe below offset %d, and is lost: the "
                "partition begins empty",
                name,
                missing.path,
                missing.offset,
            )
        else:  # a crash may have come before it was on the disk
            log.warning("%s: nothing is known to have been in %s; the partition begins empty", name, missing.path)
        self._forget_trouble(log_id, served)

    async def _open(self, topic: Topic, state: PartitionState, served: ServedTopic) -> Partition | None:
        log_id = LogId(topic.topic_id, state.partition)
        name = TopicPartition(topic.name, state.partition)
        settings = self._settings(topic.name)
        try:
            partition_log = await self._store.open_or_create(log_id, name, log_settings(settings))
        except DamagedLog as damage:
            self._cannot_open(log_id, damage)
            if self._others_have(state):
                return await self._open_damaged(topic, state, served)
            served.troubles[state.partition] = str(damage)
            if {*state.isr, *state.eligible} - {self._node_id}:
                log.warning("%s is damaged; it is fetched again once nobody counts on this copy any more", name)
            else:
                log.error("%s is offline: %s", name, damage)  # noqa: TRY400 - the sentence says it all
            return None
        except Refusal as refusal:
            served.troubles[state.partition] = refusal.message
            self._wait_for_room(log_id, served)
            log.warning("%s is offline for now: %s", name, refusal.message)
            return None
        return self._new_partition(name, partition_log, settings)

    async def _open_damaged(self, topic: Topic, state: PartitionState, served: ServedTopic) -> Partition | None:
        """A log that cannot be opened is fetched again. In its present life this node has told no leader of it."""
        log_id = LogId(topic.topic_id, state.partition)
        damage = self.damaged_at_start.get(log_id)
        if damage is None:
            return None  # another trouble
        log.warning("%s-%d: %s", topic.name, state.partition, damage.finding)
        try:
            partition = await self._empty(topic, state, Offset(0), is_kept=True)
        except Refusal as refusal:
            served.troubles[state.partition] = refusal.message
            self._wait_for_room(log_id, served)
            log.warning("%s-%d is offline for now: %s", topic.name, state.partition, refusal.message)
            return None
        self._forget_trouble(log_id, served)
        self._care.begun_anew()
        return partition

    def _cannot_open(self, log_id: LogId, damage: DamagedLog) -> None:
        self.damaged_at_start[log_id] = damage
        self._care.unopened()

    def _forget_trouble(self, log_id: LogId, served: ServedTopic) -> None:
        """It befell a copy that is not there any more, or was never served."""
        self.damaged_at_start.pop(log_id, None)
        served.troubles.pop(log_id.partition, None)

    def _new_partition(self, name: TopicPartition, partition_log: PartitionLog, settings: TopicSettings) -> Partition:
        replica = Replica(
            self._node_id,
            log_start=Offset(partition_log.start_offset),
            written=Offset(partition_log.next_offset),
            flushed=Offset(partition_log.flushed_offset),
            high_watermark=Offset(partition_log.start_offset),
        )
        partition = Partition(
            name,
            partition_log,
            replica,
            stage=self._stage,
            flusher=self._store.flusher,
            clock=self._store.world.clock,
        )
        partition.on_damage = self._care.met
        partition_log.have_run(partial(self._care.run_errand, partition))
        partition.configure(settings)
        partition.set_leased(self._is_leased())
        return partition

    def _take_role(self, partition: Partition, state: PartitionState) -> None:
        replica = partition.replica
        partition.was_in_sync |= state.has_leader and self._node_id in state.isr
        if state.leader != self._node_id:
            if state.leader_epoch > replica.leader_epoch or state.leader != replica.leader:
                self._watcher.left(partition)  # first: who is told to ask elsewhere must not begin to wait here again
                partition.follow(state.leader_epoch, state.leader, state.replicas)
                if partition.log.damage:
                    self._followers.leave(partition)  # nobody may count on it; it is given up and begun anew
                else:
                    self._followers.follow(partition, state.leader)
        elif state.leader_epoch > replica.leader_epoch:
            self._followers.leave(partition)
            partition.lead(state.leader_epoch, state.isr, state.replicas, state.partition_epoch, state.eligible)
            self._watcher.led(partition)
        elif state.partition_epoch > partition.partition_epoch:  # else it is known, and a newer wish may be under way
            partition.agreed_in_sync(state.isr, state.partition_epoch, state.eligible)

    async def _give_up(self, served: ServedTopic, partition: Partition) -> None:
        """Its replicas have moved: others have it, and this node's copy goes."""
        log.info("%s is no longer kept here", partition.name)
        served.partitions[partition.index] = None
        self._watcher.left(partition)
        self._followers.leave(partition)
        partition.retire(Reason(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.name} has moved to other nodes"))
        await self._followers.cut_done(partition.log_id)
        await self._store.delete(partition.log_id)

    async def _drop(self, topic_id: TopicId) -> None:
        served = self._topics.remove(topic_id)
        if served is None:
            return
        for index, partition in enumerate(served.partitions):
            await self._breather.breathe()
            if partition is not None:
                self._watcher.left(partition)
                self._followers.leave(partition)
                partition.retire(Reason(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {served.name!r} was deleted"))
                await self._followers.cut_done(partition.log_id)
            self.damaged_at_start.pop(LogId(topic_id, index), None)
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
            settings = self._settings(name)
            for partition in topic.partitions:
                if partition is not None:
                    partition.configure(settings)

    def _settings(self, topic_name: str) -> TopicSettings:
        return topic_settings(self._image(), topic_name, self._configs)

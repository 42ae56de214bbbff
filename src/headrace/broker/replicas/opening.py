"""Opens, makes and replaces the logs that a node keeps, and remembers which of them it cannot open."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.broker.partitions.log_settings import log_settings
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.topic_table import ServedTopic
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.model.errors import Refusal
from headrace.model.names import NO_NODE, LogId, Offset, TopicPartition
from headrace.replication.replica import Replica
from headrace.storage.files.damage import DamagedLog, MissingLog
from headrace.storage.files.layout import directory_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.broker.health import Health
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.partitions.writing import AppendStage
    from headrace.broker.replicas.damage_reports import DamageReports
    from headrace.broker.replicas.disk_space import FullDisk
    from headrace.broker.replicas.log_repairs import LogRepairs
    from headrace.metadata.configs.settings import TopicSettings
    from headrace.metadata.image.cluster_image import ClusterImage, Topic
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.store.log_store import LogStore

log = logging.getLogger(__name__)

NAMES_TOLD_MAX: Final = 5  # on one line of the log; `headrace cluster status` has the others


class PartitionFactory:
    """Joins a log that is open with a replica's mind, and with those who hear of its troubles."""

    def __init__(
        self,
        view: MetadataView,
        store: LogStore,
        stage: AppendStage,
        health: Health,
        reports: DamageReports,
        repairs: LogRepairs,
    ) -> None:
        self._view = view
        self._store = store
        self._stage = stage
        self._health = health
        self._reports = reports
        self._repairs = repairs

    def partition(self, name: TopicPartition, partition_log: PartitionLog, settings: TopicSettings) -> Partition:
        replica = Replica(
            self._view.node_id,
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
        partition.on_damage = self._reports.met
        partition_log.repair_beside(partial(self._repairs.begin, partition))
        partition.configure(settings)
        partition.set_leased(self._health.may_lead)
        return partition


class LogOpening:
    def __init__(
        self,
        view: MetadataView,
        topics: TopicTable,
        store: LogStore,
        factory: PartitionFactory,
        reports: DamageReports,
        full_disk: FullDisk,
    ) -> None:
        self._view = view
        self._topics = topics
        self._store = store
        self._factory = factory
        self._reports = reports
        self._full_disk = full_disk
        self.damaged_at_start: dict[LogId, DamagedLog] = {}
        """What could not be opened, and nobody else could give us yet."""
        self.without_room: dict[LogId, ServedTopic] = {}
        """Partitions that a full disk had no space for."""

    async def prepare(self, log_ids: Iterable[LogId]) -> None:
        """Open or create the logs that this node needs, many at a time."""
        image = self._view.image
        wanted = {}
        for log_id in log_ids:
            topic = image.topic(log_id.topic_id)
            state = image.partition(*log_id)
            if topic is None or state is None or self._view.node_id not in state.replicas:
                continue
            if self._topics.by_log_id(log_id) is None and not self._is_in_trouble(log_id):
                name = TopicPartition(topic.name, log_id.partition)
                wanted[log_id] = (name, log_settings(self._view.topic_settings(topic.name)))
                if len(state.replicas) > 1:
                    self._store.others_have(log_id)
        await self._store.prepare(wanted)

    def _is_in_trouble(self, log_id: LogId) -> bool:
        served = self._topics.topic(log_id.topic_id)
        return served is not None and log_id.partition in served.troubles

    def served(self, topic: Topic) -> ServedTopic:
        served = self._topics.topic(topic.topic_id)
        if served is None:
            served = ServedTopic(topic.topic_id, topic.name)
            self._topics.add(served)
        return served

    def note_missing(self, image: ClusterImage) -> None:
        """What is counted on was here in an earlier life. If it is gone now it is given up like a damaged log, for an
        empty one in its place might be elected. What is not is simply fetched again; if it was here, that is said."""
        on_disk = set(self._store.log_ids())
        for topic, state in partitions_of(image):
            log_id = LogId(topic.topic_id, state.partition)
            if self._view.node_id not in state.replicas or log_id in on_disk:
                continue
            safe_offset = self._store.checkpoints.safe_offset(log_id)
            if self._view.is_counted_on(state):
                missing = MissingLog(directory_of(log_id), safe_offset)
                self._cannot_open(log_id, missing)
                self.served(topic).troubles[state.partition] = str(missing)
                log.warning("%s-%d: %s", topic.name, state.partition, missing.finding)
            elif safe_offset:
                self._reports.unopened()
                self._reports.begun_anew()
                log.warning(
                    "%s-%d: %s is missing; it is fetched again", topic.name, state.partition, directory_of(log_id)
                )

    def tell_of_lost(self, image: ClusterImage) -> None:
        """This disk is a new one, and nobody else has what was on the old one. It is said once: from now on there are
        empty logs in their place."""
        on_disk = set(self._store.log_ids())
        lost = [
            f"{topic.name}-{state.partition}"
            for topic, state in partitions_of(image)
            if state.is_lost
            and self._view.node_id in state.replicas
            and self._view.node_id not in state.adding
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

    def accept_loss(self, topic: Topic, state: PartitionState, served: ServedTopic) -> None:
        """A missing log that nobody else could be elected for is begun again, empty. If all replicas miss it, because
        the whole cluster went down while it was made, all but the last one have given it up by then."""
        log_id = LogId(topic.topic_id, state.partition)
        missing = self.damaged_at_start.get(log_id)
        if not isinstance(missing, MissingLog) or {*state.isr, *state.eligible} != {self._view.node_id}:
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
        self.forget_trouble(log_id, served)

    async def open(self, topic: Topic, state: PartitionState, served: ServedTopic) -> Partition | None:
        log_id = LogId(topic.topic_id, state.partition)
        name = TopicPartition(topic.name, state.partition)
        settings = self._view.topic_settings(topic.name)
        try:
            partition_log = await self._store.open_or_create(log_id, name, log_settings(settings))
        except DamagedLog as damage:
            self._cannot_open(log_id, damage)
            if self.others_have(state):
                return await self.open_damaged(topic, state, served)
            served.troubles[state.partition] = str(damage)
            if {*state.isr, *state.eligible} - {self._view.node_id}:
                log.warning("%s is damaged; it is fetched again once nobody counts on this copy any more", name)
            else:
                log.error("%s is offline: %s", name, damage)  # noqa: TRY400 - the sentence says it all
            return None
        except Refusal as refusal:
            served.troubles[state.partition] = refusal.message
            self.wait_for_room(log_id, served)
            log.warning("%s is offline for now: %s", name, refusal.message)
            return None
        return self._factory.partition(name, partition_log, settings)

    async def open_damaged(self, topic: Topic, state: PartitionState, served: ServedTopic) -> Partition | None:
        """A log that cannot be opened is fetched again. In its present life this node has told no leader of it."""
        log_id = LogId(topic.topic_id, state.partition)
        damage = self.damaged_at_start.get(log_id)
        if damage is None:
            return None  # another trouble
        log.warning("%s-%d: %s", topic.name, state.partition, damage.finding)
        try:
            partition = await self.empty(topic, state, Offset(0), is_kept=True)
        except Refusal as refusal:
            served.troubles[state.partition] = refusal.message
            self.wait_for_room(log_id, served)
            log.warning("%s-%d is offline for now: %s", topic.name, state.partition, refusal.message)
            return None
        self.forget_trouble(log_id, served)
        self._reports.begun_anew()
        return partition

    async def empty(self, topic: Topic, state: PartitionState, offset: Offset, *, is_kept: bool) -> Partition:
        """A new, empty copy in place of the one that is there, which may be kept beside it for a while."""
        log_id, name = LogId(topic.topic_id, state.partition), TopicPartition(topic.name, state.partition)
        settings = self._view.topic_settings(topic.name)
        partition_log = await self._store.begin_anew(log_id, name, log_settings(settings), offset, is_kept=is_kept)
        if is_kept:
            kept = "is kept until the new one is in sync" if log_id in self._store.set_aside_damaged else "is gone"
            log.warning("%s is fetched again from node %d; the old copy %s", name, state.leader, kept)
            self._reports.look()
        return self._factory.partition(name, partition_log, settings)

    def others_have(self, state: PartitionState) -> bool:
        """Whether our copy can be fetched anew: nobody counts on it, and another node leads."""
        return state.leader not in {NO_NODE, self._view.node_id} and not self._view.is_counted_on(state)

    def _cannot_open(self, log_id: LogId, damage: DamagedLog) -> None:
        self.damaged_at_start[log_id] = damage
        self._reports.unopened()

    def forget_trouble(self, log_id: LogId, served: ServedTopic) -> None:
        """It befell a copy that is not there any more, or was never served."""
        self.damaged_at_start.pop(log_id, None)
        served.troubles.pop(log_id.partition, None)

    def wait_for_room(self, log_id: LogId, served: ServedTopic) -> None:
        self.without_room[log_id] = served
        self._full_disk.open_refused(log_id)

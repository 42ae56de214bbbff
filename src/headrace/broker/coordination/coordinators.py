"""This node's coordinators: a shard for each partition of `__consumer_offsets` and `__transaction_state` it leads."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from headrace.broker.coordination.image_topics import ImageTopics
from headrace.broker.coordination.internal_topics import create_missing
from headrace.broker.coordination.markers import MarkerWriter
from headrace.broker.coordination.remote import ask_to_add
from headrace.broker.coordination.settings import group_settings, transaction_settings
from headrace.broker.coordination.shard import MindT, Shard
from headrace.coordinators.groups.coordinator import GroupCoordinator
from headrace.coordinators.groups.settings import OwnTimes
from headrace.coordinators.records import GROUP_KINDS, TRANSACTION_KINDS
from headrace.coordinators.transactions.coordinator import AddPartitions, TransactionCoordinator
from headrace.coordinators.transactions.effects import TransactionEffects
from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.metadata.image.effective_configs import own_group_times
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ID_BYTES_MAX, NO_EPOCH, NO_NODE, NodeId, TopicPartition
from headrace.runtime.tasks import TaskScope
from headrace.storage.files.damage import RESTORE_OR_REMOVE
from headrace.wire.partitioning import partition_for_coordinated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.broker.failure import Failure
    from headrace.broker.membership.commands import Commands
    from headrace.broker.membership.peers import Peers
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.replicas.damage_reports import DamageReports
    from headrace.coordinators.effects import Effects
    from headrace.model.names import Epoch, ProducerId
    from headrace.runtime.world import World

log = logging.getLogger(__name__)

GroupShard = Shard[GroupCoordinator]
TransactionShard = Shard[TransactionCoordinator]

EVERYWHERE: Final = -1  # in the log: it is not known where the damage is
MARKERS_WAIT_S: Final = 0.003
MARKERS_WAIT_S_MAX: Final = 0.1


class Coordinators:
    def __init__(
        self,
        view: MetadataView,
        topics: TopicTable,
        peers: Peers,
        commands: Commands,
        world: World,
        failure: Failure,
        reports: DamageReports,
    ) -> None:
        self._view = view
        self._topics = topics
        self._peers = peers
        self._commands = commands
        self._world = world
        self._failure = failure
        self._reports = reports
        self._group_shards: dict[int, GroupShard] = {}
        self._transaction_shards: dict[int, TransactionShard] = {}
        self._tasks = TaskScope(failure.task_failed)
        self._loads: dict[Partition, asyncio.Task[None]] = {}
        self._load_turn = asyncio.Lock()
        self.markers = MarkerWriter(view, topics, peers, self, world.clock, self._tasks)

    async def close(self) -> None:
        for partition in list(self._loads):
            self.left(partition)
        await self._tasks.close()

    # ---- who coordinates what

    def groups_of(self, group_id: str) -> GroupShard:
        """The shard of a group. Raises Refusal if it is not here."""
        return self._shard(self._group_shards, CONSUMER_OFFSETS, group_id)

    def transactions_of(self, transactional_id: str) -> TransactionShard:
        return self._shard(self._transaction_shards, TRANSACTION_STATE, transactional_id)

    def group_shards(self) -> list[GroupShard]:
        return list(self._group_shards.values())

    def transaction_shards(self) -> list[TransactionShard]:
        return list(self._transaction_shards.values())

    def group_shard_at(self, partition: Partition) -> GroupShard | None:
        """The shard whose log this partition is."""
        shard = self._group_shards.get(partition.index)
        return shard if shard is not None and shard.partition is partition else None

    def offsets_partition(self, group_id: str) -> TopicPartition:
        return TopicPartition(CONSUMER_OFFSETS, self._place(CONSUMER_OFFSETS, group_id))

    async def prepare(self, topic: str) -> None:
        """Create an internal topic on its first use, and wait until its coordinators are there. Raises Refusal."""
        if self._view.image.topic_named(topic) is None:
            log.info("creating %s", topic)
            refusal = (await create_missing(self._commands, self._view, [topic])).get(topic)
            if refusal is not None:
                raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} cannot be created: {refusal.message}")

    def _place(self, topic_name: str, key: str) -> int:
        if len(key.encode()) > ID_BYTES_MAX:
            code = ErrorCode.INVALID_GROUP_ID if topic_name == CONSUMER_OFFSETS else ErrorCode.INVALID_REQUEST
            raise Refusal(code, f"an id may have {ID_BYTES_MAX} bytes, this one has {len(key.encode())}")
        topic = self._view.image.topic_named(topic_name)
        if topic is None:
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"there is no {topic_name} yet; ask for the coordinator first")
        return partition_for_coordinated(key, topic.partition_count)

    def _shard(self, shards: dict[int, Shard[MindT]], topic_name: str, key: str) -> Shard[MindT]:
        index = self._place(topic_name, key)
        shard = shards.get(index)
        if shard is not None and self._is_agreed(shard):
            return shard
        if self._is_to_come(topic_name, index):  # clients that ask but once wait for a load, and for nothing else
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{topic_name}-{index} was elected here just now")
        raise Refusal(ErrorCode.NOT_COORDINATOR, f"this node does not coordinate {key!r}")

    def _is_to_come(self, topic_name: str, index: int) -> bool:
        """The image says that this node leads, and its partitions will follow it."""
        topic = self._view.image.topic_named(topic_name)
        if topic is None or self._topics.is_offline(topic.topic_id, index):
            return False
        return topic.partitions[index].leader == self._view.node_id

    def _is_agreed(self, shard: Shard[MindT]) -> bool:
        """The image says as well that this node leads the shard's log, in the same epoch.

        If it names another leader, and partitions have not followed it yet, it may hold topics that the other has not
        heard of either. An offset that is committed for one of those may be in the log that the other loads; and that
        forgets the offsets of topics that it does not know (`forget_unknown_topics`). As it is, each leader checks what
        is committed against an image without the record that elects the next, and that one's own image has it.
        Who starts again writes nothing before it has a lease, and gets none before it has read all that was agreed on
        when it came back.
        """
        state = self._view.image.partition(*shard.partition.log_id)
        if state is None or state.leader != self._view.node_id:
            return False
        return state.leader_epoch == shard.partition.replica.leader_epoch

    async def add_to_transaction(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        transaction_version: int = 0,
        verify_only: bool = False,
    ) -> dict[TopicPartition, ErrorCode]:
        """Make partitions part of an open transaction, or only see whether they are, wherever its coordinator is. An
        outcome for each."""
        asked = AddPartitions(
            transactional_id, producer_id, producer_epoch, tuple(partitions), transaction_version, verify_only
        )
        elsewhere = self._coordinator_elsewhere(transactional_id)
        return await (self.add_here(asked) if elsewhere is None else ask_to_add(self._peers, elsewhere, asked))

    async def add_here(self, asked: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """As the coordinator. Whoever is asked for it and is none says so: nodes that do not agree yet on who it is
        would send a question round in a circle, before all that come after it on the same connections.

        While the markers of the last transaction are being written it waits a little: the client would come back for
        the same only after a pause of its own, which is longer.
        """
        clock = self._world.clock
        deadline_s = clock.monotonic_s() + MARKERS_WAIT_S_MAX
        while True:
            try:
                codes: dict[TopicPartition, ErrorCode] = await self.transactions_of(asked.transactional_id).ask(
                    lambda mind, token, now: mind.add_partitions(asked, token, now)
                )
            except Refusal as refusal:
                return dict.fromkeys(asked.partitions, refusal.code)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values() or clock.monotonic_s() >= deadline_s:
                return codes
            await asyncio.sleep(MARKERS_WAIT_S)

    async def live_here(self, producer_id: ProducerId, epochs: Mapping[int, Epoch]) -> set[TopicPartition]:
        """Where a producer's transactions are open or ending, as these coordinators know. Raises Refusal if one of them
        is not here, in this epoch."""
        found: set[TopicPartition] = set()
        for index, epoch in epochs.items():
            shard = self._transaction_shards.get(index)
            if shard is None or not self._is_agreed(shard) or shard.partition.replica.leader_epoch != epoch:
                raise Refusal(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{TRANSACTION_STATE}-{index} is not led here in epoch {epoch}"
                )
            found |= await shard.look(lambda mind: mind.live_partitions(producer_id))
        return found

    def check_coordinator_epoch(self, epoch: int) -> None:
        """Refuse a marker of a coordinator that no election has made yet, as far as this node has heard.

        Whoever believed it would refuse all markers of the real one. The asker comes again: this node may have to
        catch up.
        """
        topic = self._view.image.topic_named(TRANSACTION_STATE)
        states = () if topic is None else topic.partitions.values()
        if epoch > max((state.leader_epoch for state in states), default=NO_EPOCH):
            raise Refusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no partition of {TRANSACTION_STATE} is led in epoch {epoch} yet"
            )

    def _coordinator_elsewhere(self, transactional_id: str) -> NodeId | None:
        """The node that coordinates it, if that is another one."""
        topic = self._view.image.topic_named(TRANSACTION_STATE)
        if topic is None:
            return None
        leader = topic.partitions[partition_for_coordinated(transactional_id, topic.partition_count)].leader
        return None if leader in {NO_NODE, self._view.node_id} else leader

    # ---- what the node tells

    def led(self, partition: Partition) -> None:
        """This node leads a partition now. Those of internal topics come with a coordinator."""
        self.left(partition)
        served = self._topics.topic(partition.log_id.topic_id)
        if served is not None:
            served.troubles.pop(partition.index, None)  # whether it can be loaded now remains to be seen
        if partition.name.topic == CONSUMER_OFFSETS:
            group_shard = self._new_group_shard(partition)
            group_shard.insist(lambda mind, now: mind.forget_unknown_topics(now))
            self._group_shards[partition.index] = group_shard
            self._loads[partition] = self._tasks.start(group_shard.run(), f"coordinate {partition.name}")
        elif partition.name.topic == TRANSACTION_STATE:
            shard = self._new_transaction_shard(partition)
            self._transaction_shards[partition.index] = shard
            self._loads[partition] = self._tasks.start(shard.run(), f"coordinate {partition.name}")

    def left(self, partition: Partition) -> None:
        task = self._loads.pop(partition, None)
        if task is None:
            return
        task.cancel()
        is_group = partition.name.topic == CONSUMER_OFFSETS
        shard = (self._group_shards if is_group else self._transaction_shards).pop(partition.index)
        shard.close()

    def _unreadable(self, partition: Partition, problem: str) -> None:
        """Nobody can coordinate from this log. It counts as offline, and the others do their work. If its bytes are
        damaged, another replica is to lead."""
        trouble = f"its groups or transactions cannot be loaded: {problem}. {RESTORE_OR_REMOVE}"
        log.log(partition.damage_level, "%s is offline: %s", partition.name, trouble)
        served = self._topics.topic(partition.log_id.topic_id)
        if served is not None:
            served.troubles[partition.index] = trouble
        self.left(partition)
        self._reports.met(partition, EVERYWHERE)

    def topics_deleted(self, names: Sequence[str]) -> None:
        """In the turn in which the image loses them. In the next one a topic of the same name may be there, and what is
        committed for that must stay."""
        for shard in self._group_shards.values():
            shard.insist(lambda mind, now: mind.topics_deleted(names, now))

    def topics_changed(self) -> None:
        """Topics appeared, grew or went."""
        for shard in self._group_shards.values():
            shard.tell(lambda mind, now: mind.topics_changed(now))

    def settings_changed(self) -> None:
        for group_shard in self._group_shards.values():
            group_shard.configure(self._configure_groups)
        for shard in self._transaction_shards.values():
            shard.configure(lambda mind: mind.configure(transaction_settings(self._view.settings)))

    def _configure_groups(self, mind: GroupCoordinator) -> None:
        mind.settings = group_settings(self._view.settings)

    def expire(self) -> None:
        """Forget what nobody has used for long."""
        for group_shard in self._group_shards.values():
            group_shard.tell(lambda mind, now: mind.expire(now))
        for shard in self._transaction_shards.values():
            shard.tell(lambda mind, now: mind.expire(now))

    # ---- making shards

    def _new_group_shard(self, partition: Partition) -> GroupShard:
        return Shard(
            partition,
            self._world,
            new_mind=lambda: GroupCoordinator(
                group_settings(self._view.settings),
                ImageTopics(lambda: self._view.image),
                lambda: self._held_by_others(partition),
                self._own_times,
            ),
            kinds=GROUP_KINDS,
            load_turn=self._load_turn,
            on_unreadable=self._unreadable,
            on_failure=self._failure.fail,
        )

    def _held_by_others(self, partition: Partition) -> int:
        """What groups of other partitions take of this node's memory."""
        return sum(
            shard.loaded_mind.held_bytes
            for shard in self._group_shards.values()
            if shard.loaded_mind is not None and shard.partition is not partition
        )

    def _new_transaction_shard(self, partition: Partition) -> TransactionShard:
        return Shard(
            partition,
            self._world,
            new_mind=lambda: TransactionCoordinator(
                transaction_settings(self._view.settings), partition.replica.leader_epoch
            ),
            kinds=TRANSACTION_KINDS,
            load_turn=self._load_turn,
            on_effects=self._order_markers,
            on_unreadable=self._unreadable,
            on_failure=self._failure.fail,
        )

    def _order_markers(self, shard: TransactionShard, mind: TransactionCoordinator, effects: Effects) -> None:
        """Whatever was ordered before a reload may have been fulfilled while this order waited for its commit: its
        markers would end the next transaction."""
        assert isinstance(effects, TransactionEffects)
        for order in effects.markers:
            if mind.awaits(order):
                self.markers.write(shard, order)

    def _own_times(self, group_id: str) -> OwnTimes | None:
        times = own_group_times(self._view.image, group_id, self._view.configs)
        return None if times is None else OwnTimes(*times)

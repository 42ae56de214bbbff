"""A living node: its logs, its part of the metadata, its partitions, and the chores that keep them in order."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.broker.coordination.coordinators import Coordination
from headrace.broker.coordination.producer_ids import ProducerIds
from headrace.broker.membership.assembly import Assembly, Place
from headrace.broker.membership.identity import check_metadata
from headrace.broker.membership.membership import Belonging
from headrace.broker.membership.registration import DisplacedNode, Heartbeats
from headrace.broker.metadata.store import (
    METADATA_LOG,
    METADATA_SETTINGS,
    METADATA_TOPIC,
    MetadataStore,
    damage_of_metadata,
)
from headrace.broker.partitions.appending import AppendStage
from headrace.broker.partitions.counters import Counters
from headrace.broker.partitions.examiner import Examiner
from headrace.broker.partitions.fetching import SessionCache
from headrace.broker.partitions.throttling import Pacing, Throttle
from headrace.broker.partitions.topic_table import TopicTable
from headrace.broker.replicas.cleaner import LogCleaner
from headrace.broker.replicas.damage import DamageCare
from headrace.broker.replicas.disk_space import RoomCare
from headrace.broker.replicas.fetchers import Followers
from headrace.broker.replicas.in_sync_review import InSyncReview
from headrace.broker.replicas.log_ends import LogComparison, log_ends
from headrace.broker.replicas.reconciler import Following
from headrace.broker.replicas.scrub import Scrub
from headrace.metadata.decisions.decision import Outcome
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.effective_configs import NodeConfigs, node_settings
from headrace.metadata.image.incarnations import Life
from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.model.names import NodeId, TopicId, topic_name_problem
from headrace.runtime.tasks import Breather, TaskScope, rest
from headrace.storage.compaction.workers import InThread
from headrace.storage.files.damage import DamagedLog
from headrace.storage.segments.segment_cache import OPEN_FILES
from headrace.storage.store.flusher import SLOW_S
from headrace.storage.store.log_store import LogStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from headrace.broker.metadata.controller import Controller
    from headrace.broker.metadata.quorum import Quorum, Response
    from headrace.broker.partitions.partition import Partition
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.metadata.decisions.decision import Decision
    from headrace.metadata.elections.log_end_comparison import LogEnd
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.records import Endpoint, MetadataRecord
    from headrace.model.names import LogId
    from headrace.runtime.network import Address
    from headrace.runtime.world import World
    from headrace.storage.compaction.workers import CleaningWorker
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.recovery.opening import RecoveryReport
    from headrace.wire.api import Message

    Meet = Callable[[], Awaitable[Sequence[Endpoint]]]

Answer = TypeVar("Answer")
Forwarded = TypeVar("Forwarded", bound="Message")

log = logging.getLogger(__name__)

CHECKPOINT_S: Final = 30.0  # how much a start after a crash has to verify
TRY_AGAIN_S: Final = 2.0
ROOM_BYTES: Final = 1 << 20  # the first files of a hundred partitions
EXPIRE_WAITERS_S: Final = 1.0
EXPIRE_PRODUCERS_S: Final = 600.0


class Node:
    """Start it, use it, stop it. `failed` ends when the node can no longer be trusted with data."""

    def __init__(
        self,
        world: World,
        *,
        node_id: NodeId | None = None,
        configs: Mapping[str, str] | None = None,
        rack: str | None = None,
        listeners: Mapping[str, str] | None = None,
        open_files: int = OPEN_FILES,
        voters: Mapping[NodeId, Address] | None = None,
        join: Sequence[Address] = (),
        cleaning_worker: CleaningWorker | None = None,
        stood_still_s: Callable[[float], float] = lambda _: 0.0,
    ) -> None:
        """`voters` found a cluster together, this node among them; `join` are nodes of a cluster that exists. Without
        any, it is a cluster of its own. `stood_still_s` says for how long of the last so many seconds the process was
        stopped."""
        self.world = world
        self.counters = Counters()
        self.topics = TopicTable()
        self.room = RoomCare(self)
        self.stage = AppendStage(self.counters, self.room.write_refused)
        self.examiner = Examiner(world.threads, world.clock)
        self.fetch_sessions: SessionCache
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.is_ready = False
        self.node_id: NodeId
        self.configs: NodeConfigs
        self.store: LogStore
        self.assembly: Assembly
        self.coordination: Coordination
        self.scrub: Scrub
        self.damage = DamageCare(self)
        self.producer_ids = ProducerIds(self)
        self._following: Following
        self._asked_node_id = node_id
        self._static_configs = dict(configs or {})
        self._rack = rack
        self._listeners = dict(listeners or {})
        self._open_files = open_files
        self._voters = dict(voters or {})
        self._belonging = Belonging(world, node_id, self._voters, join)
        self._tasks = TaskScope(self._task_failed)
        self._is_open = False
        self._is_following = False
        self._has_left = False
        self._is_older_copy = False
        self._may_lead = False
        self._leading_again: asyncio.Future[None] | None = None
        self._place: Place
        self._followers: Followers
        self._comparison: LogComparison
        self.cleaner: LogCleaner
        self._cleaning_worker = cleaning_worker or InThread(world)
        self._stood_still_s = stood_still_s
        self.followers_heard_ms: dict[NodeId, int] = {}
        """When each node last fetched anything as a follower, on the steady clock."""

    # ---- life

    async def start(self, meet: Meet | None = None) -> None:
        """Recover what is on disk, join the cluster and serve. Raises before anything is changed if the directory is
        not ours, and if the node fails on the way: what it waits for may never come then.

        `meet` opens the listener where other nodes find this one, and says where that and the clients' one are. It is
        called once this node can take part in an election; without the others there may be none.
        """
        starting = asyncio.create_task(self._start(meet))
        self.failed.add_done_callback(lambda _: starting.cancel())
        try:
            await starting
        except asyncio.CancelledError:
            if not self.failed.done():
                raise
            raise self.failed.result() from None

    async def _start(self, meet: Meet | None) -> None:
        await self._open()
        self.assembly.start(self._tasks)
        self._tasks.start(self._comparison.run(), "compare logs")
        self._tasks.start(self.store.run(), "flusher")
        if meet is not None:
            self._place.endpoints = tuple(await meet())
        await self._belonging.enter(self._place, self.quorum, self._tasks)
        identity = self._belonging.identity
        check_metadata(identity, self.image.cluster_id, has_logs=bool(self.store.log_ids()))
        await self.assembly.join(identity.cluster_id or self._belonging.new_cluster_id())
        await self._belonging.note_name(self.image.cluster_id or "")
        self._is_following = True
        await self._following.load(self.quorum.deleted_topics)
        self._tasks.start(self._following.run(), "follow the image")
        await self.damage.give_up_before_entry()
        await self.assembly.enrolment.beat_until_served()
        await self._following.caught_up()
        self.assembly.serve(self._tasks)
        self._start_chores()
        self.is_ready = True

    async def _open(self) -> None:
        """Everything that this node can do by itself."""
        world = self.world
        NodeConfigs.checked(self._asked_node_id or NodeId(1), self._static_configs)  # before the directory is claimed
        await self._belonging.claim()
        self.node_id = self._belonging.identity.node_id
        self.configs = NodeConfigs.checked(self.node_id, self._static_configs).known_as(self._identity_configs())
        self.store = LogStore(
            world,
            on_flushed=self._flushed,
            on_slow_disk=self._sync_took,
            on_recovered=_log_recovery,
            open_files=self._open_files,
        )
        await self.store.start()
        await self._belonging.look_at_logs(self.store.log_ids())
        settings = node_settings(EMPTY_IMAGE, self.configs)
        self._place = Place(
            self.node_id,
            world.entropy.token(16),
            self._belonging.identity.directory,
            Heartbeats.of(settings),
            settings.controller_quorum_election_timeout_ms,
            self._belonging.identity.cluster_id,
            self._rack,
            voters=self._voters,
        )
        metadata = MetadataStore(world, self.store, await self._open_metadata())
        self.assembly = Assembly(
            self._place,
            self._belonging.first_membership(has_log=metadata.log.next_offset > 0),
            world,
            metadata,
            self._committed,
            self._installed,
            self._leased,
            self._task_failed,
            self.configs,
            lambda: self.settings,
        )
        await world.threads.run(self.quorum.load)
        self._place.life = metadata.life
        self.assembly.peers.life = Life(metadata.life, self._place.incarnation)
        self.assembly.peers.on_displaced = self._displaced
        self._is_open = True
        self.fetch_sessions = SessionCache(
            self.topics,
            world.clock,
            world.entropy,
            slots=self.settings.max_incremental_fetch_session_cache_slots,
            throttle=Throttle(world.clock, lambda: self.settings.leader_replication_throttled_rate),
        )
        self.coordination = Coordination(self)
        self.cleaner = LogCleaner(
            self.topics, self.store.swaps, world.clock, self._cleaning_worker, lambda: self.settings
        )
        self._followers = Followers(
            self.node_id,
            self.assembly.peers,
            self.store,
            lambda: self.broker_epoch,
            self._task_failed,
            Pacing(
                self.node_id,
                Throttle(world.clock, lambda: self.settings.follower_replication_throttled_rate),
                self._is_in_sync,
            ),
        )
        self._followers.bad_fetch = self.damage.bad_fetch
        self._followers.no_room = self.room.write_refused
        self.scrub = Scrub(world, self.topics, lambda: self.settings, self.counters, self.damage.found)
        self._following = Following(
            self.node_id,
            self.configs,
            self.topics,
            self.store,
            self.stage,
            lambda: self.quorum.image,
            self.coordination,
            self._followers,
            lambda: self._may_lead,
            self.damage,
            self.room.open_refused,
        )
        self._comparison = LogComparison(
            self.node_id,
            self.quorum,
            self.assembly.peers,
            world.clock,
            self.log_ends,
            lambda: self.settings.election_wait_ms / 1000,
        )
        self.controller.on_leaderless = self._comparison.look_soon

    @property
    def founders(self) -> list[NodeId]:
        """With whom this node was told to found a cluster."""
        return sorted(self._voters)

    def _identity_configs(self) -> dict[str, str]:
        rack = {} if self._rack is None else {"broker.rack": self._rack}
        return {"node.id": str(self.node_id), "log.dirs": self.world.disk.location, **rack, **self._listeners}

    async def _open_metadata(self) -> PartitionLog:
        try:
            return await self.store.open_or_create(METADATA_LOG, METADATA_TOPIC, METADATA_SETTINGS)
        except DamagedLog as damage:
            raise damage_of_metadata(damage) from damage

    async def stop(self) -> None:
        """Answer nobody any more, flush, and leave a mark that everything is in order."""
        await self.leave()
        await self._tasks.close()  # whoever follows the image starts coordinators and followers, so it goes first
        await self.coordination.close()
        await self._followers.close()
        await self.assembly.close()
        if not self.failed.done():  # what a failed node has on disk is unknown: the next start must see for itself
            await self.store.close()

    async def leave(self) -> None:
        """Let others lead, if there are others: while this node still answers, so that clients hear where to go. One
        alone has nobody to leave to."""
        self.about_to_stop()
        if self.failed.done() or self._has_left or len(self.image.live_nodes()) < 2:
            return
        self._has_left = True
        await self.assembly.leave()

    def about_to_stop(self) -> None:
        """Health checks say so from now on, so that nobody new is sent here."""
        self.is_ready = False

    def commit_staged(self) -> None:
        """Write what is staged. Whatever goes wrong here concerns data, not whoever asked for it: the node stops."""
        try:
            self.stage.commit()
        except Exception as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Something broke that must not be worked around. Whoever runs the node ends it."""
        if not self.failed.done():
            log.critical("the node must stop: %s", error)
            self.failed.set_result(error)

    def _task_failed(self, name: str, error: BaseException) -> None:
        if not isinstance(error, DiskFailure | DisplacedNode):  # their words are enough, and `fail` says them
            log.error("the task %r failed", name, exc_info=error)
        self.fail(error)

    def _start_chores(self) -> None:
        self._tasks.start(self._every(lambda: CHECKPOINT_S, self.store.write_checkpoints), "checkpoints")
        self._tasks.start(self._keep_retention(), "retention")
        self._tasks.start(self._every(lambda: TRY_AGAIN_S, self._following.try_again), "partitions without room")
        self._tasks.start(
            self._every(lambda: TRY_AGAIN_S, lambda: self._belonging.note_company(self.quorum)), "company"
        )
        self._tasks.start(self._every(lambda: EXPIRE_WAITERS_S, self._expire_waiters), "late acks")
        self._tasks.start(self._every(lambda: EXPIRE_PRODUCERS_S, self._expire_producers), "quiet producers")
        self._tasks.start(
            self._every(lambda: self.settings.offsets_retention_check_interval_ms / 1000, self.coordination.expire),
            "quiet groups and transactional ids",
        )
        self._tasks.start(InSyncReview(self).run(), "in-sync sets")
        self._tasks.start(self.scrub.run(), "scrub")
        self._tasks.start(self.scrub.serve(), "scrub on demand")
        self._tasks.start(self.damage.run(), "damaged replicas")
        self._tasks.start(self.room.run(), "partitions to hand over")
        self._tasks.start(self.cleaner.run(), "compaction")

    # ---- what it knows

    @property
    def quorum(self) -> Quorum:
        return self.assembly.quorum

    @property
    def controller(self) -> Controller:
        return self.assembly.controller

    @property
    def is_controller(self) -> bool:
        return self.assembly.is_controller

    @property
    def broker_epoch(self) -> int:
        """Which life of this node the cluster knows."""
        return self.assembly.enrolment.broker_epoch

    @property
    def image(self) -> ClusterImage:
        return self.quorum.image

    def _is_in_sync(self, log_id: LogId) -> bool:
        """Whether this node's replica is, as far as it has heard."""
        partition = self.image.partition(log_id.topic_id, log_id.partition)
        return partition is not None and self.node_id in partition.isr

    @property
    def settings(self) -> NodeSettings:
        return node_settings(self.quorum.image, self.configs)

    @property
    def log_count(self) -> int:
        """How many logs are open here; most of what this node keeps in memory belongs to them."""
        return self.store.open_count if self._is_open else 0

    @property
    def metadata_end(self) -> int:
        """How many records of the metadata log this node has applied, as it counts them."""
        return self.quorum.applied_end if self._is_open else 0

    @property
    def why_not_serving(self) -> str | None:
        """In words, why this node must not be sent requests now; None if it may."""
        if self.failed.done():
            return f"the node must stop: {self.failed.result()}"
        if not self.is_ready:
            return "the node is starting or stopping"
        if not self._may_lead:
            return (
                "the node has no lease: no controller has confirmed it for too long, so others may lead what it led; "
                "it refuses reads and writes until one does"
            )
        return None

    def is_offline(self, topic_id: TopicId, index: int) -> bool:
        served = self.topics.topic(topic_id)
        return served is not None and index in served.troubles

    def troubles(self, topic_id: TopicId) -> tuple[int, ...]:
        """Which of a topic's partitions are offline."""
        served = self.topics.topic(topic_id)
        return () if served is None else tuple(served.troubles)

    def doubted_nodes(self) -> tuple[NodeId, ...]:
        """Nodes that may be gone, though nobody has decided so yet; or somebody has, and this node is the one."""
        doubted = self.assembly.peers.doubted()
        return doubted if self._may_lead else (*doubted, self.node_id)

    @property
    def may_lead(self) -> bool:
        """Whether it has a lease: without one, others may lead what it led."""
        return self._may_lead

    def unreachable_nodes(self) -> tuple[NodeId, ...]:
        """Where nobody listens, as far as this node knows."""
        return tuple(sorted({*self.assembly.peers.absent, *self.assembly.peers.doubted()}))

    # ---- what it can be asked to do

    async def submit(self, decide: Callable[[ClusterImage], Decision[Response]]) -> Response:
        """Decide, commit, and wait until this node serves the result."""
        response = await self.quorum.submit(decide)
        await self._following.caught_up()
        return response

    async def submit_each(
        self,
        names: Iterable[str],
        decide: Callable[[ClusterImage], Decision[Sequence[Outcome[Answer]]]],
        *,
        needs_room: bool = False,
    ) -> Sequence[Outcome[Answer]]:
        """`submit` for a command about several things. If it cannot be stored, each of them is refused."""
        try:
            if needs_room and self.is_controller:  # elsewhere a controller that is lost may have decided it already
                self._check_room()
            return await self.submit(decide)
        except Refusal as refusal:
            return [Outcome(name, refusal) for name in names]

    def _check_room(self) -> None:
        """Refuse what needs new files while the disk has no space for them."""
        free_bytes = self.world.disk.free_bytes()
        if free_bytes < ROOM_BYTES:
            raise Refusal(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the disk of node {self.node_id} is full ({free_bytes} bytes are free); delete topics, shorten "
                "retention or add space",
            )

    def new_topic_id(self) -> TopicId:
        return TopicId(self.world.entropy.token(16))

    def missing_topic_code(self, name: str) -> ErrorCode:
        problem = topic_name_problem(name)
        return ErrorCode.INVALID_TOPIC_EXCEPTION if problem else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def forward(
        self, message: Message, version: int, answer: type[Forwarded], *, client_id: str = "", client_host: str = ""
    ) -> Forwarded:
        """Let the controller decide it, and wait until this node serves the result. Raises Refusal or ClientError."""
        answered = await self.assembly.forward(message, version, answer, client_id=client_id, client_host=client_host)
        await self._following.caught_up()
        return answered

    def log_ends(self, log_ids: Iterable[LogId]) -> dict[LogId, LogEnd | None]:
        """Where logs end that this node has opened; None for one that must not lead."""
        return log_ends(self.topics, log_ids)

    def stop_following(self, partition: Partition) -> None:
        """Its copy is damaged: the leader must not take it for one that keeps up."""
        self._followers.leave(partition)

    @property
    def damaged_at_start(self) -> Mapping[LogId, DamagedLog]:
        """What could not be opened, and is not fetched again yet."""
        return self._following.damaged_at_start

    async def fetch_again(self, partition: Partition) -> None:
        await self._following.fetch_again(partition)

    def start_chore(self, work: Coroutine[object, object, None], name: str) -> None:
        if self._tasks.is_closed:  # followers go on a little longer than chores do
            work.close()
            return
        self._tasks.start(work, name)

    def heard_follower(self, node_id: NodeId) -> None:
        self.followers_heard_ms[node_id] = int(self.world.clock.monotonic_s() * 1000)

    # ---- chores

    def _leased(self, is_leased: bool) -> None:
        """The others believe that this node is there, or may not any more: then it must refuse writes.

        Without a lease others may have led. The image says so, and partitions follow it one after the other: until they
        have, none of them leads again.
        """
        self._leading_again = None
        if is_leased:
            self._leading_again = self._following.caught_up()
            self._leading_again.add_done_callback(self._lead_again)
            return
        if not self._has_left:
            log.warning("the controller has not answered for too long; no writes are taken until it does")
        self._set_leased(False)

    def _lead_again(self, caught_up: asyncio.Future[None]) -> None:
        if caught_up is self._leading_again:  # otherwise the lease has ended meanwhile
            self._set_leased(True)

    def _set_leased(self, is_leased: bool) -> None:
        self._may_lead = is_leased
        for partition in self.topics.partitions():
            partition.set_leased(is_leased)

    def _committed(self, before: ClusterImage, records: Sequence[MetadataRecord]) -> None:
        if self._is_following:  # else everything is loaded from the image at once
            self._following.committed(before, records)

    def _installed(self, before: ClusterImage, after: ClusterImage) -> None:
        if self._is_following:
            self._following.jumped(before, after)

    def _displaced(self, by: NodeId) -> None:
        """Another node knows a later life of this one's disk, and believes nothing that this one says."""
        if self.broker_epoch >= 0:
            self.fail(DisplacedNode(f"node {by} knows a later process than this one as node {self.node_id}"))
        elif not self._is_older_copy:
            self._is_older_copy = True
            log.error(
                "the data directory is an older copy: node %d knows a later life of it. What this node has promised "
                "since then is not in it. So its votes do not count, and it is in sync with nothing until it has "
                "fetched what it lacks from the others",
                by,
            )
            self._tasks.start(self._become_another_disk(), "older copy")

    async def _become_another_disk(self) -> None:
        self.assembly.take_directory(await self._belonging.take_new_directory())

    def look_at_lease(self, now_s: float) -> None:
        """Others may lead what this node led, as soon as its lease is over: see `Enrolment.look_at_lease`."""
        self.assembly.enrolment.look_at_lease(now_s)

    def _flushed(self, flushed_log: PartitionLog) -> None:
        self.look_at_lease(self.world.clock.monotonic_s())
        partition = self.topics.by_log_id(flushed_log.log_id)
        if partition is not None and partition.log is flushed_log:
            partition.flushed()

    def _sync_took(self, took_s: float) -> None:
        disk_s = took_s - self._stood_still_s(took_s)  # a disk may have been done long before the process went on
        if disk_s >= SLOW_S:
            log.warning(
                "the disk took %.1f s to sync what was written; acks wait for that. It is busy with others, or failing",
                disk_s,
            )

    async def _every(self, period_s: Callable[[], float], chore: Callable[[], object]) -> None:
        while True:
            await rest(period_s())
            outcome = chore()
            if asyncio.iscoroutine(outcome):
                await outcome

    async def _keep_retention(self) -> None:
        while True:
            await self.room.rest(self.settings.log_retention_check_interval_ms / 1000)
            await self._delete_expired()

    async def _delete_expired(self) -> None:
        breather = Breather(self.world.clock)
        for partition in self.topics.partitions():
            await breather.breathe()
            removed = partition.delete_expired(self.world.clock.wall_ms())
            if removed:
                log.info("%s: retention removed %d segments up to offset %d", partition.name, *removed)
        await self.store.remove_garbage()

    async def _expire_waiters(self) -> None:
        breather = Breather(self.world.clock)
        for partition in self.topics.partitions():
            await breather.breathe()
            partition.expire_waiters(self.world.clock.monotonic_s())

    async def _expire_producers(self) -> None:
        breather = Breather(self.world.clock)
        now_ms = self.world.clock.wall_ms()
        expiration_ms = self.settings.producer_id_expiration_ms
        for partition in self.topics.partitions():
            await breather.breathe()
            partition.log.producers.expire(now_ms, expiration_ms)
            partition.writer.forget_old_refusals()


def _log_recovery(report: RecoveryReport) -> None:
    for note in report.notes:
        log.warning("%s: %s", report.log_id, note)

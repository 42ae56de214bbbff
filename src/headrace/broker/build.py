"""Puts a node together: every part is made here, once, and given just what it needs of the others.

Where two parts need each other, one of them has a listener (`on_…`), which is set here, before anything runs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.broker.chores import Chores
from headrace.broker.coordination.coordinators import Coordinators
from headrace.broker.coordination.hanging import HangingTransactions
from headrace.broker.coordination.producer_ids import ProducerIds
from headrace.broker.failure import Failure
from headrace.broker.health import Health
from headrace.broker.membership.address_book import AddressBook
from headrace.broker.membership.commands import Commands
from headrace.broker.membership.controller_channel import ControllerChannel
from headrace.broker.membership.leaving import Leaving
from headrace.broker.membership.local_node import Heartbeats, LocalNode
from headrace.broker.membership.membership import ClusterMembership, MembershipPlan
from headrace.broker.membership.older_copy import OlderCopy
from headrace.broker.membership.peers import Peers
from headrace.broker.membership.raft_receiver import RaftReceiver
from headrace.broker.membership.reachability import Reachability
from headrace.broker.membership.registration import Registration
from headrace.broker.metadata.controller import Controller
from headrace.broker.metadata.quorum import Quorum
from headrace.broker.metadata.store import (
    METADATA_LOG,
    METADATA_SETTINGS,
    METADATA_TOPIC,
    MetadataStore,
    damage_of_metadata,
)
from headrace.broker.metadata.view import MetadataView
from headrace.broker.node import Node
from headrace.broker.partitions.appending import AppendStage
from headrace.broker.partitions.counters import Counters
from headrace.broker.partitions.examiner import Examiner
from headrace.broker.partitions.fetching import SessionCache
from headrace.broker.partitions.throttling import Pacing, Throttle
from headrace.broker.partitions.topic_table import TopicTable
from headrace.broker.replicas.cleaner import LogCleaner
from headrace.broker.replicas.damage import DamagedReplicas
from headrace.broker.replicas.damage_reports import DamageReports
from headrace.broker.replicas.disk_space import FullDisk, HandingOver
from headrace.broker.replicas.fetchers import ReplicaFetchers
from headrace.broker.replicas.giving_up import GivingUp
from headrace.broker.replicas.heard_followers import HeardFollowers
from headrace.broker.replicas.in_sync_review import InSyncReview
from headrace.broker.replicas.leadership import Leadership
from headrace.broker.replicas.log_ends import LogComparison, log_ends
from headrace.broker.replicas.log_repairs import LogRepairs
from headrace.broker.replicas.opening import LogOpening, PartitionFactory
from headrace.broker.replicas.reconciler import Reconciler
from headrace.broker.replicas.scrub import Scrub
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.effective_configs import NodeConfigs, node_settings
from headrace.metadata.image.incarnations import Life
from headrace.model.names import NodeId
from headrace.raft.membership import Replica
from headrace.runtime.tasks import TaskScope
from headrace.storage.compaction.workers import InThread
from headrace.storage.files.damage import DamagedLog
from headrace.storage.segments.segment_cache import OPEN_FILES
from headrace.storage.store.flusher import SLOW_S
from headrace.storage.store.log_store import LogStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.runtime.world import World
    from headrace.storage.compaction.workers import CleaningWorker
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.recovery.opening import RecoveryReport

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What an operator says about a node, and what only its process can know."""

    membership: MembershipPlan = field(default_factory=MembershipPlan)
    configs: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    listeners: Mapping[str, str] = field(default_factory=dict)
    """What clients and tools are told of its listeners, as settings."""
    open_files: int = OPEN_FILES
    cleaning_worker: CleaningWorker | None = None
    """Where logs are compacted; in a thread of this process if it is not said."""
    stood_still_s: Callable[[float], float] = lambda _: 0.0
    """For how long of the last so many seconds the process was stopped."""


class _Flushed:
    """Told by the store of each log that was flushed."""

    def __init__(self, topics: TopicTable, world: World) -> None:
        self._topics = topics
        self._clock = world.clock
        self.look_at_lease: Callable[[float], None] = lambda _: None

    def __call__(self, flushed_log: PartitionLog) -> None:
        self.look_at_lease(self._clock.monotonic_s())
        partition = self._topics.by_log_id(flushed_log.log_id)
        if partition is not None and partition.log is flushed_log:
            partition.flushed()


async def build(world: World, plan: NodePlan, health: Health | None = None) -> Node:
    """Everything that a node can do by itself: claim its directory, look at what is on disk, read the metadata log.
    Nothing runs yet. Raises before anything is changed if the directory is not ours."""
    health = health or Health(Failure())
    failure = health.failure
    tasks = TaskScope(failure.task_failed)
    NodeConfigs.checked(plan.membership.node_id or NodeId(1), plan.configs)  # before the directory is claimed
    membership = await ClusterMembership.claimed(world, plan.membership)
    node_id = membership.identity.node_id
    configs = NodeConfigs.checked(node_id, plan.configs).known_as(_identity_configs(node_id, world, plan))
    counters, topics = Counters(), TopicTable()
    flushed = _Flushed(topics, world)
    store = LogStore(
        world,
        on_flushed=flushed,
        on_slow_disk=_slow_disk(plan.stood_still_s),
        on_recovered=_log_recovery,
        open_files=plan.open_files,
    )
    await store.start()
    await membership.look_at_logs(store.log_ids())
    local = _local_node(world, plan, membership, configs)
    metadata = MetadataStore(world, store, await _open_metadata(store))
    quorum = Quorum(
        metadata,
        Replica(node_id, local.directory),
        world,
        configs=configs,
        first=membership.first_membership(has_log=metadata.log.next_offset > 0),
        election_timeout_ms=node_settings(EMPTY_IMAGE, configs).controller_quorum_election_timeout_ms,
    )
    await world.threads.run(quorum.load)
    local.life = metadata.life
    view = MetadataView(node_id, quorum, configs)

    # ---- the others
    addresses = AddressBook(local, quorum)
    peers = Peers(
        node_id,
        Life(local.life, local.incarnation),
        world,
        addresses.addresses_of,
        lambda: local.cluster_id(quorum.image),
        failure.task_failed,
    )
    quorum.send = peers.send
    controller = Controller(quorum, world.clock, configs, lambda: view.settings)
    registration = Registration(local, quorum, controller, peers, world.clock)
    flushed.look_at_lease = registration.look_at_lease
    channel = ControllerChannel(node_id, quorum, peers, registration, world.clock)
    leaving = Leaving(registration, quorum, peers)

    def gone(gone_id: NodeId) -> None:
        quorum.suspect(gone_id)
        controller.suspect(gone_id)
        leaving.somebody_is_gone()

    peers.on_gone = gone
    peers.on_displaced = OlderCopy(local, membership, quorum, registration, failure, tasks).displaced

    # ---- partitions, and the copies that they are
    full_disk = FullDisk()
    stage = AppendStage(counters, full_disk.write_refused)
    damage = DamageReports(topics, counters, peers, world.clock, tasks)
    scrub = Scrub(world, topics, lambda: view.settings, counters, damage.found)
    damage.check = scrub.begin
    fetchers = ReplicaFetchers(
        node_id,
        peers,
        store,
        lambda: registration.broker_epoch,
        failure.task_failed,
        Pacing(
            node_id, Throttle(world.clock, lambda: view.settings.follower_replication_throttled_rate), view.is_in_sync
        ),
    )
    fetchers.bad_fetch, fetchers.no_room = damage.bad_fetch, full_disk.write_refused
    damage.on_found = fetchers.leave
    factory = PartitionFactory(view, store, stage, health, damage, LogRepairs(world.threads, tasks))
    opening = LogOpening(view, topics, store, factory, damage, full_disk)
    commands = Commands(quorum, channel, world)
    coordinators = Coordinators(view, topics, peers, commands, world, failure, damage)
    reconciler = Reconciler(view, topics, store, opening, fetchers, coordinators)
    commands.served = reconciler.caught_up
    registration.on_lease = Leadership(health, topics, reconciler, leaving).leased
    giving_up = GivingUp(commands, channel)
    comparison = LogComparison(
        node_id,
        quorum,
        peers,
        world.clock,
        lambda log_ids: log_ends(topics, log_ids),
        lambda: view.settings.election_wait_ms / 1000,
    )
    controller.on_leaderless = comparison.look_soon
    heard_followers = HeardFollowers(world.clock)
    return Node(
        world=world,
        health=health,
        counters=counters,
        tasks=tasks,
        local=local,
        membership=membership,
        addresses=addresses,
        peers=peers,
        raft=RaftReceiver(local, quorum),
        registration=registration,
        channel=channel,
        leaving=leaving,
        reachability=Reachability(node_id, peers, health),
        quorum=quorum,
        controller=controller,
        view=view,
        commands=commands,
        topics=topics,
        stage=stage,
        examiner=Examiner(world.threads, world.clock),
        fetch_sessions=SessionCache(
            topics,
            world.clock,
            world.entropy,
            slots=view.settings.max_incremental_fetch_session_cache_slots,
            throttle=Throttle(world.clock, lambda: view.settings.leader_replication_throttled_rate),
        ),
        heard_followers=heard_followers,
        store=store,
        reconciler=reconciler,
        fetchers=fetchers,
        in_sync_review=InSyncReview(topics, quorum, channel, heard_followers, world.clock, lambda: view.settings),
        comparison=comparison,
        damage=damage,
        damaged_replicas=DamagedReplicas(node_id, damage, topics, quorum, store, giving_up, reconciler.fetch_again),
        handing_over=HandingOver(node_id, full_disk, topics, quorum, giving_up),
        scrub=scrub,
        cleaner=LogCleaner(
            topics, store.swaps, world.clock, plan.cleaning_worker or InThread(world), lambda: view.settings
        ),
        chores=Chores(topics, store, full_disk, world.clock, view),
        coordinators=coordinators,
        hanging=HangingTransactions(view, topics, coordinators, peers),
        producer_ids=ProducerIds(quorum, channel),
    )


def _local_node(world: World, plan: NodePlan, membership: ClusterMembership, configs: NodeConfigs) -> LocalNode:
    identity = membership.identity
    return LocalNode(
        identity.node_id,
        world.entropy.token(16),
        identity.directory,
        Heartbeats.of(node_settings(EMPTY_IMAGE, configs)),
        identity.cluster_id,
        plan.rack,
        voters=dict(plan.membership.voters),
    )


def _identity_configs(node_id: NodeId, world: World, plan: NodePlan) -> dict[str, str]:
    rack = {} if plan.rack is None else {"broker.rack": plan.rack}
    return {"node.id": str(node_id), "log.dirs": world.disk.location, **rack, **plan.listeners}


async def _open_metadata(store: LogStore) -> PartitionLog:
    try:
        return await store.open_or_create(METADATA_LOG, METADATA_TOPIC, METADATA_SETTINGS)
    except DamagedLog as damage:
        raise damage_of_metadata(damage) from damage


def _slow_disk(stood_still_s: Callable[[float], float]) -> Callable[[float], None]:
    def took(took_s: float) -> None:
        disk_s = took_s - stood_still_s(took_s)  # a disk may have been done long before the process went on
        if disk_s >= SLOW_S:
            log.warning(
                "the disk took %.1f s to sync what was written; acks wait for that. It is busy with others, or failing",
                disk_s,
            )

    return took


def _log_recovery(report: RecoveryReport) -> None:
    for note in report.notes:
        log.warning("%s: %s", report.log_id, note)

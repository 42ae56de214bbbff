"""Puts a node together: every part is made here, once, and given just what it needs of the others.

Where two parts need each other, one of them has a listener (`on_…`), which is set here, before anything runs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.access.audit import Audit
from headrace.broker.access.audit_topic import AuditTopic
from headrace.broker.access.authorizer import Authorizer
from headrace.broker.access.client_quotas import ClientQuotas
from headrace.broker.access.connection_rates import ConnectionRates
from headrace.broker.chores import Chores
from headrace.broker.coordination.coordinators import Coordinators
from headrace.broker.coordination.hanging import HangingTransactions
from headrace.broker.coordination.producer_ids import ProducerIds
from headrace.broker.failure import Failure
from headrace.broker.health import Health
from headrace.broker.membership.address_book import AddressBook
from headrace.broker.membership.commands import Commands
from headrace.broker.membership.controller_channel import ControllerChannel
from headrace.broker.membership.dialing import NO_PROOF, Dialer, NodeProof
from headrace.broker.membership.leaving import Leaving
from headrace.broker.membership.local_node import Heartbeats, LocalNode
from headrace.broker.membership.membership import ClusterMembership, MembershipPlan
from headrace.broker.membership.older_copy import OlderCopy
from headrace.broker.membership.peers import Peers
from headrace.broker.membership.raft_receiver import RaftReceiver
from headrace.broker.membership.reachability import Reachability
from headrace.broker.membership.registration import Registration
from headrace.broker.metadata.controller import Controller
from headrace.broker.metadata.found_log import find_log
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
from headrace.broker.partitions.counters import Counters
from headrace.broker.partitions.examiner import Examiner
from headrace.broker.partitions.session_cache import SessionCache
from headrace.broker.partitions.throttling import Pacing, Throttle
from headrace.broker.partitions.topic_table import TopicTable
from headrace.broker.partitions.writing import AppendStage
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
from headrace.metadata.image.incarnations import Incarnation
from headrace.model.names import NodeId
from headrace.raft.membership import ReplicaKey
from headrace.runtime.tasks import TaskScope
from headrace.storage.compaction.workers import InThread
from headrace.storage.files.damage import DamagedLog
from headrace.storage.segments.segment_cache import OPEN_FILES
from headrace.storage.store.flusher import SLOW_S
from headrace.storage.store.log_store import LogStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from headrace.runtime.world import World
    from headrace.storage.compaction.workers import CleaningWorker
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.recovery.job import RecoveryReport

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
    knows_its_clients: bool = False
    """Whether any of its listeners asks its clients who they are."""
    proof: NodeProof = NO_PROOF
    """What it shows other nodes."""


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


class _Base(NamedTuple):
    """What all other parts stand on."""

    world: World
    health: Health
    tasks: TaskScope
    counters: Counters
    topics: TopicTable
    store: LogStore
    flushed: _Flushed
    membership: ClusterMembership
    local: LocalNode
    quorum: Quorum
    view: MetadataView
    authorizer: Authorizer


class _Cluster(NamedTuple):
    """The other nodes, and this one's place among them."""

    addresses: AddressBook
    dialer: Dialer
    peers: Peers
    controller: Controller
    registration: Registration
    channel: ControllerChannel
    leaving: Leaving
    commands: Commands


class _Replicas(NamedTuple):
    """What this node keeps, and leads or follows."""

    stage: AppendStage
    full_disk: FullDisk
    damage: DamageReports
    scrub: Scrub
    fetchers: ReplicaFetchers
    coordinators: Coordinators
    reconciler: Reconciler


async def build(world: World, plan: NodePlan, health: Health | None = None) -> Node:
    """Everything that a node can do by itself: claim its directory, look at what is on disk, read the metadata log.
    Nothing runs yet. Raises before anything is changed if the directory is not ours."""
    base = await _base(world, plan, health or Health(Failure()))
    cluster = _cluster(base, plan.proof)
    replicas = _replicas(base, cluster)
    node_id, quorum, view, topics, clock = base.local.node_id, base.quorum, base.view, base.topics, world.clock
    giving_up = GivingUp(cluster.commands, cluster.channel)
    heard_followers = HeardFollowers(clock)
    return Node(
        world=world,
        health=base.health,
        counters=base.counters,
        tasks=base.tasks,
        local=base.local,
        membership=base.membership,
        addresses=cluster.addresses,
        dialer=cluster.dialer,
        peers=cluster.peers,
        raft=RaftReceiver(base.local, quorum),
        registration=cluster.registration,
        channel=cluster.channel,
        leaving=cluster.leaving,
        reachability=Reachability(node_id, cluster.peers, base.health, clock),
        quorum=quorum,
        controller=cluster.controller,
        view=view,
        commands=cluster.commands,
        authorizer=base.authorizer,
        client_quotas=ClientQuotas(view, clock),
        connection_rates=ConnectionRates(view, clock),
        audit=_audit(base, cluster, plan),
        topics=topics,
        stage=replicas.stage,
        examiner=Examiner(world.threads, clock),
        fetch_sessions=_fetch_sessions(base),
        heard_followers=heard_followers,
        store=base.store,
        reconciler=replicas.reconciler,
        fetchers=replicas.fetchers,
        in_sync_review=InSyncReview(topics, quorum, cluster.channel, heard_followers, clock, lambda: view.settings),
        comparison=_comparison(base, cluster),
        damage=replicas.damage,
        damaged_replicas=DamagedReplicas(
            node_id, replicas.damage, topics, quorum, base.store, giving_up, replicas.reconciler.fetch_again
        ),
        handing_over=HandingOver(node_id, replicas.full_disk, topics, quorum, giving_up),
        scrub=replicas.scrub,
        cleaner=LogCleaner(
            topics, base.store.replacer, clock, plan.cleaning_worker or InThread(world), lambda: view.settings
        ),
        chores=Chores(topics, base.store, replicas.full_disk, clock, view),
        coordinators=replicas.coordinators,
        hanging=HangingTransactions(view, topics, replicas.coordinators, cluster.peers),
        producer_ids=ProducerIds(quorum, cluster.channel),
    )


async def _base(world: World, plan: NodePlan, health: Health) -> _Base:
    NodeConfigs.checked(plan.membership.node_id or NodeId(1), plan.configs)  # before the directory is claimed
    membership = await ClusterMembership.claimed(world, plan.membership)
    node_id = membership.identity.node_id
    configs = NodeConfigs.checked(node_id, plan.configs).known_as(_identity_configs(node_id, world, plan))
    topics = TopicTable()
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
    first = membership.first_membership(has_log=metadata.log.next_offset > 0)
    quorum = Quorum(
        metadata,
        ReplicaKey(node_id, local.directory),
        world,
        await world.threads.run(lambda: find_log(metadata, node_id, first)),
        configs=configs,
        election_timeout_ms=node_settings(EMPTY_IMAGE, configs).controller_quorum_election_timeout_ms,
    )
    local.life = metadata.life
    tasks, view = TaskScope(health.failure.task_failed), MetadataView(node_id, quorum, configs)
    authorizer = Authorizer(view, world.clock, tasks)
    return _Base(world, health, tasks, Counters(), topics, store, flushed, membership, local, quorum, view, authorizer)


def _cluster(base: _Base, proof: NodeProof) -> _Cluster:
    world, local, quorum, view, failure = base.world, base.local, base.quorum, base.view, base.health.failure
    addresses = AddressBook(local, quorum)
    dialer = Dialer(local.node_id, world, proof)
    peers = Peers(
        dialer,
        Incarnation(local.life, local.incarnation),
        world.clock,
        addresses.addresses_of,
        lambda: local.cluster_id(quorum.image),
        failure.task_failed,
    )
    quorum.send = peers.send
    controller = Controller(quorum, world.clock, view.configs, lambda: view.settings)
    registration = Registration(local, quorum, controller, peers, world.clock)
    base.flushed.look_at_lease = registration.look_at_lease
    channel = ControllerChannel(local.node_id, quorum, peers, registration, world.clock)
    leaving = Leaving(registration, quorum, peers)

    def gone(node_id: NodeId) -> None:
        quorum.suspect(node_id)
        controller.suspect(node_id)
        leaving.somebody_is_gone()

    peers.on_gone = gone
    peers.on_displaced = OlderCopy(local, base.membership, quorum, registration, failure, base.tasks).displaced
    commands = Commands(quorum, channel, world)
    return _Cluster(addresses, dialer, peers, controller, registration, channel, leaving, commands)


def _replicas(base: _Base, cluster: _Cluster) -> _Replicas:
    world, view, topics, store, failure = base.world, base.view, base.topics, base.store, base.health.failure
    full_disk = FullDisk()
    stage = AppendStage(base.counters, full_disk.write_refused, failure.fail)
    damage = DamageReports(topics, base.counters, cluster.peers, world.clock, base.tasks)
    scrub = Scrub(world, topics, lambda: view.settings, base.counters, damage.found)
    damage.check = scrub.begin
    throttle = Throttle(world.clock, lambda: view.settings.follower_replication_throttled_rate)
    fetchers = ReplicaFetchers(
        view.node_id,
        cluster.peers,
        store,
        lambda: cluster.registration.broker_epoch,
        failure.task_failed,
        Pacing(view.node_id, throttle, view.is_in_sync),
    )
    fetchers.bad_fetch, fetchers.no_room = damage.bad_fetch, full_disk.write_refused
    damage.on_found = fetchers.leave
    factory = PartitionFactory(view, store, stage, base.health, damage, LogRepairs(world.threads, base.tasks))
    opening = LogOpening(view, topics, store, factory, damage, full_disk)
    coordinators = Coordinators(view, topics, cluster.peers, cluster.commands, world, failure, damage)
    damage.not_opened = opening.damaged_at_start
    reconciler = Reconciler(view, topics, store, opening, fetchers, coordinators)
    fetchers.begin_anew = reconciler.begin_anew
    cluster.commands.served = _served(reconciler, base.authorizer)
    cluster.registration.on_lease = Leadership(base.health, topics, reconciler, cluster.leaving).leased
    return _Replicas(stage, full_disk, damage, scrub, fetchers, coordinators, reconciler)


def _served(reconciler: Reconciler, authorizer: Authorizer) -> Callable[[], Awaitable[None]]:
    async def served() -> None:
        await reconciler.caught_up()
        await authorizer.caught_up()

    return served


def _comparison(base: _Base, cluster: _Cluster) -> LogComparison:
    comparison = LogComparison(
        base.local.node_id,
        base.quorum,
        cluster.peers,
        base.world.clock,
        lambda log_ids: log_ends(base.topics, log_ids),
        lambda: base.view.settings.election_wait_ms / 1000,
    )
    cluster.controller.on_leaderless = comparison.look_soon
    return comparison


def _audit(base: _Base, cluster: _Cluster, plan: NodePlan) -> Audit:
    view, world, counters = base.view, base.world, base.counters.audit
    settings = view.settings
    topic = AuditTopic(view, base.topics, cluster.peers, cluster.commands, world.clock, counters)
    is_of_use = plan.knows_its_clients or base.authorizer.is_on
    is_on = settings.audit_enable == "true" or (settings.audit_enable == "auto" and is_of_use)
    return Audit(view.node_id, world, settings, counters, topic, is_on=is_on)


def _fetch_sessions(base: _Base) -> SessionCache:
    return SessionCache(
        base.topics,
        base.world.clock,
        base.world.entropy,
        slots=base.view.settings.max_incremental_fetch_session_cache_slots,
        throttle=Throttle(base.world.clock, lambda: base.view.settings.leader_replication_throttled_rate),
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

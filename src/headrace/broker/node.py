"""A living node: all its parts, and the order in which they start and stop. `build` puts them together.

Nobody but whoever runs a node takes it whole: users of its parts get the two or three that they need.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.broker.chores import every
from headrace.broker.membership.identity import check_metadata
from headrace.broker.membership.membership import new_cluster_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headrace.broker.access.audit import Audit
    from headrace.broker.access.authorizer import Authorizer
    from headrace.broker.access.client_quotas import ClientQuotas
    from headrace.broker.access.connection_rates import ConnectionRates
    from headrace.broker.chores import Chores
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.coordination.hanging import HangingTransactions
    from headrace.broker.coordination.producer_ids import ProducerIds
    from headrace.broker.health import Health
    from headrace.broker.membership.address_book import AddressBook
    from headrace.broker.membership.commands import Commands
    from headrace.broker.membership.controller_channel import ControllerChannel
    from headrace.broker.membership.dialing import Dialer
    from headrace.broker.membership.leaving import Leaving
    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.membership.membership import ClusterMembership
    from headrace.broker.membership.peers import Peers
    from headrace.broker.membership.raft_receiver import RaftReceiver
    from headrace.broker.membership.reachability import Reachability
    from headrace.broker.membership.registration import Registration
    from headrace.broker.metadata.controller import Controller
    from headrace.broker.metadata.quorum import Quorum
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.counters import Counters
    from headrace.broker.partitions.examiner import Examiner
    from headrace.broker.partitions.session_cache import SessionCache
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.broker.partitions.writing import AppendStage
    from headrace.broker.replicas.cleaner import LogCleaner
    from headrace.broker.replicas.damage import DamagedReplicas
    from headrace.broker.replicas.damage_reports import DamageReports
    from headrace.broker.replicas.disk_space import HandingOver
    from headrace.broker.replicas.fetchers import ReplicaFetchers
    from headrace.broker.replicas.heard_followers import HeardFollowers
    from headrace.broker.replicas.in_sync_review import InSyncReview
    from headrace.broker.replicas.log_ends import LogComparison
    from headrace.broker.replicas.reconciler import Reconciler
    from headrace.broker.replicas.scrub import Scrub
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.records import Endpoint
    from headrace.model.names import NodeId
    from headrace.runtime.tasks import TaskScope
    from headrace.runtime.world import World
    from headrace.storage.store.log_store import LogStore

    Meet = Callable[[], Awaitable[Sequence[Endpoint]]]

TRY_AGAIN_S: Final = 2.0


@dataclass(eq=False)
class Node:
    """Start it, use it, stop it. `failed` ends when the node can no longer be trusted with data."""

    world: World
    health: Health
    counters: Counters
    tasks: TaskScope

    # who it is, and the others
    local: LocalNode
    membership: ClusterMembership
    addresses: AddressBook
    dialer: Dialer
    peers: Peers
    raft: RaftReceiver
    registration: Registration
    channel: ControllerChannel
    leaving: Leaving
    reachability: Reachability

    # what is agreed on
    quorum: Quorum
    controller: Controller
    view: MetadataView
    commands: Commands

    # what people may do, how much clients may use, and what is written down of what they do
    authorizer: Authorizer
    client_quotas: ClientQuotas
    connection_rates: ConnectionRates
    audit: Audit

    # what it serves
    topics: TopicTable
    stage: AppendStage
    examiner: Examiner
    fetch_sessions: SessionCache
    heard_followers: HeardFollowers

    # its copies
    store: LogStore
    reconciler: Reconciler
    fetchers: ReplicaFetchers
    in_sync_review: InSyncReview
    comparison: LogComparison
    damage: DamageReports
    damaged_replicas: DamagedReplicas
    handing_over: HandingOver
    scrub: Scrub
    cleaner: LogCleaner
    chores: Chores

    # groups and transactions
    coordinators: Coordinators
    hanging: HangingTransactions
    producer_ids: ProducerIds

    # ---- life

    async def start(self, meet: Meet | None = None) -> None:
        """Join the cluster and serve. Raises if the directory turns out to be of another cluster, and if the node fails
        on the way: what it waits for may never come then.

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
        tasks, quorum = self.tasks, self.quorum
        self.audit.start(tasks)
        tasks.start(quorum.run(), "metadata log")
        tasks.start(self.controller.run(), "controller")
        tasks.start(self.comparison.run(), "compare logs")
        tasks.start(self.store.run(), "flusher")
        if meet is not None:
            self.local.endpoints = tuple(await meet())
        self.dialer.keep_fresh(tasks)
        await self.membership.enter(self.local, self.addresses, quorum, self.dialer, tasks)
        identity = self.membership.identity
        check_metadata(identity, self.image.cluster_id, has_logs=bool(self.store.log_ids()))
        first_records = self.membership.first_records()
        await self.registration.join(identity.cluster_id or new_cluster_id(self.world), first_records)
        await self.membership.note_name(self.image.cluster_id or "")
        quorum.listen(self.authorizer)
        quorum.listen(self.reachability)
        quorum.listen(self.reconciler)
        quorum.listen(self.client_quotas)
        await self.reconciler.load(quorum.deleted_topics)
        tasks.start(self.reconciler.run(), "follow the image")
        await self.damaged_replicas.give_up_before_entry()
        await self.registration.beat_until_served()
        await self.reconciler.caught_up()
        await self.authorizer.caught_up()
        self._serve()
        self.health.is_ready = True

    def _serve(self) -> None:
        tasks = self.tasks
        tasks.start(self.registration.run(), "heartbeats")
        tasks.start(self.registration.watch_lease(), "lease")
        self.chores.start(tasks)
        tasks.start(every(lambda: TRY_AGAIN_S, self.reconciler.try_again), "partitions without room")
        tasks.start(every(lambda: TRY_AGAIN_S, lambda: self.membership.note_company(self.quorum)), "company")
        tasks.start(
            every(lambda: self.view.settings.offsets_retention_check_interval_ms / 1000, self.coordinators.expire),
            "quiet groups and transactional ids",
        )
        tasks.start(self.in_sync_review.run(), "in-sync sets")
        tasks.start(self.scrub.run(), "scrub")
        tasks.start(self.scrub.serve(), "scrub on demand")
        tasks.start(self.damaged_replicas.run(), "damaged replicas")
        tasks.start(self.handing_over.run(), "partitions to hand over")
        tasks.start(self.cleaner.run(), "compaction")

    async def stop(self) -> None:
        """Answer nobody any more, flush, and leave a mark that everything is in order."""
        await self.leave()
        await self.tasks.close()  # whoever follows the image starts coordinators and followers, so it goes first
        await self.audit.close()
        await self.coordinators.close()
        await self.fetchers.close()
        await self.peers.close()
        self.quorum.close()
        if not self.failed.done():  # what a failed node has on disk is unknown: the next start must see for itself
            await self.store.close()

    async def leave(self) -> None:
        """Let others lead, if there are others: while this node still answers, so that clients hear where to go. One
        alone has nobody to leave to."""
        self.about_to_stop()
        if self.failed.done() or self.leaving.has_begun or len(self.image.live_nodes()) < 2:
            return
        await self.leaving.leave()

    def about_to_stop(self) -> None:
        """Health checks say so from now on, so that nobody new is sent here."""
        self.health.is_ready = False

    # ---- for whoever runs it

    @property
    def node_id(self) -> NodeId:
        return self.local.node_id

    @property
    def failed(self) -> asyncio.Future[BaseException]:
        return self.health.failure.failed

    @property
    def image(self) -> ClusterImage:
        return self.quorum.image

    @property
    def is_controller(self) -> bool:
        return self.quorum.is_leader

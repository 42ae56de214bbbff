"""This node's part in the cluster: the quorum, the controller that may be here, the other nodes, its own enrolment."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.broker.membership.peers import Peers
from headrace.broker.membership.raft_messages import from_wire, life_of
from headrace.broker.membership.registration import Enrolment, Heartbeats
from headrace.broker.metadata.controller import Controller
from headrace.broker.metadata.quorum import Quorum
from headrace.broker.metadata.snapshots import checking
from headrace.client.errors import ClientError
from headrace.metadata.commands.node_commands import name_cluster
from headrace.metadata.image.incarnations import is_over
from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.model.names import NodeId, Offset
from headrace.raft.membership import Replica
from headrace.runtime.network import Address
from headrace.runtime.tasks import Pace
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.messages.forward import ForwardRequest, ForwardResponse
from headrace.wire.messages.raft_install_snapshot import RaftInstallSnapshotRequest
from headrace.wire.primitives import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from headrace.broker.membership.raft_messages import RaftRequest
    from headrace.broker.metadata.store import MetadataStore
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.effective_configs import NodeConfigs
    from headrace.metadata.image.records import Endpoint, MetadataRecord
    from headrace.raft.membership import Membership
    from headrace.runtime.tasks import TaskScope
    from headrace.runtime.world import World
    from headrace.wire.api import Message

Answer = TypeVar("Answer", bound="Message")

log = logging.getLogger(__name__)

NODES: Final = "CONTROLLER"  # Kafka's usual name for the listener where nodes meet
CLIENTS: Final = "PLAINTEXT"
PATIENCE_S: Final = 10.0  # with a controller that is slow, or comes and goes
LEADERLESS_S: Final = 5.0  # an election takes two seconds, and may have to be held again; after that, nobody comes soon
LEAVE_S: Final = 5.0  # for others to take over; after that they will when they miss this node
RETRY_S: Final = 0.05
LANE: Final = "controller"
CHECKED_AT_ONCE: Final = 1000  # records of a snapshot, in a turn: 2 ms
TERM_LEAP_MAX: Final = 1 << 20  # an election takes a second: no honest node is twelve days of elections ahead of us


@dataclass(slots=True)
class Place:
    """What this node says about itself."""

    node_id: NodeId
    incarnation: bytes
    directory: bytes
    timing: Heartbeats
    election_timeout_ms: int
    cluster_id: str = ""
    """As it is written on the disk; empty before it belongs to one."""
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    voters: Mapping[NodeId, Address] = field(default_factory=dict)
    """Who founds the cluster, and where they listen for each other."""
    life: int = 0
    """How often the disk was started, this time included."""
    met: dict[NodeId, Address] = field(default_factory=dict)
    """Where others listen, as the cluster said when it let this node in, or they said while nobody could decide."""


class Assembly:
    def __init__(
        self,
        place: Place,
        first: Membership,
        world: World,
        store: MetadataStore,
        on_commit: Callable[[ClusterImage, Sequence[MetadataRecord]], None],
        on_install: Callable[[ClusterImage, ClusterImage], None],
        on_lease: Callable[[bool], None],
        on_failure: Callable[[str, BaseException], None],
        configs: NodeConfigs,
        settings: Callable[[], NodeSettings],
    ) -> None:
        self._place = place
        self._world = world
        self._leaving: asyncio.Timeout | None = None
        self.peers = Peers(place.node_id, world, self._addresses_of, lambda: self.cluster_id, self._gone, on_failure)
        self.quorum = Quorum(
            store,
            Replica(place.node_id, place.directory),
            world,
            on_commit,
            on_install,
            configs=configs,
            first=first,
            send=self.peers.send,
            election_timeout_ms=place.election_timeout_ms,
        )
        self.controller = Controller(self.quorum, world.clock, configs, settings)
        self.enrolment = Enrolment(place, self.quorum, self.controller, self.peers, world.clock, on_lease)

    def start(self, tasks: TaskScope) -> None:
        tasks.start(self.quorum.run(), "metadata log")
        tasks.start(self.controller.run(), "controller")

    async def join(self, new_cluster_id: str) -> None:
        """Until the cluster has a name and knows this life of the node."""
        while self.quorum.image.cluster_id is None:
            try:
                await self.quorum.submit(lambda image: name_cluster(image, new_cluster_id))
            except Refusal:  # another node is the controller, or nobody is yet
                await asyncio.sleep(RETRY_S)
        await self.enrolment.register()
        await self._registration_applied()

    async def _registration_applied(self) -> None:
        """Until this node's image has come to its new life. An earlier one may say that the last life leads, and in
        which epoch: in that epoch nothing may be written any more. The image may be further already, where another
        life has followed or the node was removed: then the first heartbeat says so."""
        while self.quorum.image.registrations < self.enrolment.broker_epoch:
            await self.quorum.applied_up_to(Offset(self.quorum.applied_end + 1))

    def serve(self, tasks: TaskScope) -> None:
        tasks.start(self.enrolment.run(), "heartbeats")
        tasks.start(self.enrolment.watch_lease(), "lease")

    async def leave(self) -> None:
        """Let others take over, if they do so in time. Where too few are left to decide anything, nobody is waited
        for: a whole cluster that is stopped at once has a last node."""
        await self.peers.look_for_absent()
        try:
            async with asyncio.timeout(LEAVE_S if self._can_decide() else 0) as self._leaving:
                await self.enrolment.leave()
        except TimeoutError:
            if self._can_decide():
                log.warning("the controller has not taken over in time; others will when they miss this node")
            else:
                log.info("nobody is left to take over")
        finally:
            self._leaving = None

    def _can_decide(self) -> bool:
        membership = self.quorum.raft.membership
        return membership.is_majority({*membership.voter_ids} - self.peers.absent)

    async def close(self) -> None:
        await self.peers.close()
        self.quorum.close()

    @property
    def cluster_id(self) -> str:
        """Empty until the cluster has a name."""
        return self.quorum.image.cluster_id or self._place.cluster_id

    # ---- the controller, wherever it is

    @property
    def is_controller(self) -> bool:
        return self.quorum.is_leader

    async def ask_controller(self, message: Message, answer: type[Answer]) -> Answer:
        """Raises Refusal NOT_CONTROLLER or ClientError if nobody answers in time."""
        began_s = self._world.clock.monotonic_s()
        while True:
            try:
                controller = self.quorum.get_leader()
                if controller is None:
                    raise self.quorum.no_controller()
                return await self.peers.ask(controller, message, answer, lane=LANE)
            except (ClientError, Refusal):
                if self._is_hopeless(began_s):
                    raise
                await asyncio.sleep(RETRY_S)

    def _is_hopeless(self, began_s: float) -> bool:
        """Where a majority of the voters is away, whoever asks hears it at once, and not after all our patience. So it
        is where no voter is known: this node waits to be let in itself."""
        if not self.quorum.raft.membership.voters:
            return True
        waited_s = self._world.clock.monotonic_s() - began_s
        return waited_s >= PATIENCE_S or self.enrolment.unheard_s() >= LEADERLESS_S

    async def forward(
        self, message: Message, version: int, answer: type[Answer], *, client_id: str = "", client_host: str = ""
    ) -> Answer:
        """Let the controller handle a request. Its answer, once this node's image holds what it tells of."""
        writer = Writer()
        message.encode(writer, version)
        request = ForwardRequest(
            self._place.node_id, message.API_KEY, version, client_id, client_host, bytes(writer.buffer)
        )
        began_s = self._world.clock.monotonic_s()
        while True:
            forwarded = await self.ask_controller(request, ForwardResponse)
            code = ErrorCode(forwarded.error_code)
            if code is ErrorCode.NONE:
                await self._applied_if_possible(Offset(forwarded.end))
                return answer.decode(Reader(forwarded.body or b""), version)
            if code is not ErrorCode.NOT_CONTROLLER or self._is_hopeless(began_s):
                raise Refusal(code, "the controller has not taken the request")
            await asyncio.sleep(RETRY_S)

    async def _applied_if_possible(self, end: Offset) -> None:
        """What the controller has decided stands, also if this node's log has failed, and the node ends."""
        try:
            await self.quorum.applied_up_to(end)
        except (Refusal, DiskFailure) as failure:
            log.debug("an answer of the controller is passed on by a node that fails: %s", failure)

    def _gone(self, node_id: NodeId) -> None:
        """Its process has ended: whoever waits for it waits in vain."""
        self.quorum.suspect(node_id)
        self.controller.suspect(node_id)
        if self._leaving is not None and not self._leaving.expired() and not self._can_decide():
            self._leaving.reschedule(0)

    # ---- letters

    def receive(self, letter: RaftRequest) -> ErrorCode | Awaitable[ErrorCode]:
        """From another node, or so it says. What cannot be meant for us, or be honest, is not looked at. A snapshot is
        looked at in slices."""
        if letter.target != self._place.node_id:
            return ErrorCode.INVALID_VOTER_KEY  # somebody else lives here now, at an address that once was another's
        if not self._is_of_this_cluster(letter):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if self._knows_later_life(letter):
            return ErrorCode.STALE_BROKER_EPOCH
        if letter.term > self.quorum.raft.term + TERM_LEAP_MAX:
            log.warning("a letter that says it is of node %d is of term %d: ignored", letter.source, letter.term)
            return ErrorCode.INVALID_REQUEST
        if isinstance(letter, RaftInstallSnapshotRequest):
            return self._receive_snapshot(letter)
        return self._receive(letter)

    def _receive(self, letter: RaftRequest) -> ErrorCode:
        try:
            self.quorum.receive(from_wire(letter))
        except CorruptBatch as damage:
            return _damaged(letter, damage)
        return ErrorCode.NONE

    async def _receive_snapshot(self, letter: RaftInstallSnapshotRequest) -> ErrorCode:
        pace = Pace(CHECKED_AT_ONCE)
        try:
            for _ in checking(letter.snapshot):
                await pace.step()
        except CorruptBatch as damage:
            return _damaged(letter, damage)
        return self._receive(letter)

    def _is_of_this_cluster(self, letter: RaftRequest) -> bool:
        """Node ids are the same in many clusters. One wrong address must not let two of them elect each other's
        leaders. Who is just being let in may not have heard the cluster's name yet, but is known to its members."""
        if not self.cluster_id:
            return True
        if not letter.cluster_id:
            return letter.source in self.quorum.raft.membership.everybody
        return letter.cluster_id == self.cluster_id

    def _knows_later_life(self, letter: RaftRequest) -> bool:
        """Who starts on an older copy of its disk has forgotten what it promised: its votes must not count, nor what it
        says to have on disk. What this node's log says is enough to know it, whether agreed on or not."""
        source, life = NodeId(letter.source), life_of(letter)
        images = (self.quorum.image, self.quorum.found_image)
        return any(is_over(image.nodes.get(source), letter.directory, life) for image in images)

    def take_directory(self, directory: bytes) -> None:
        """This node's disk counts as another from now on."""
        self._place.directory = directory
        self.quorum.forget_votes(directory)

    # ---- where others are

    def note_moved(self, voter: Replica, address: Address) -> None:
        """A voter says where it is, and nobody leads who could write it down: to elect one may take its vote, and this
        node has to answer it."""
        if self.quorum.raft.membership.is_voter(voter):
            self._place.met[voter.node_id] = address

    def _addresses_of(self, node_id: NodeId) -> list[Address]:
        """Where a node may be, the likeliest place first: where the log says, that is where it was when it last made
        itself known; where this node was told since it started; where its operator says. Those who have moved cannot
        write it into the log before somebody is elected, and that takes letters to their new places."""
        quorum, place = self.quorum, self._place
        images = (quorum.image,) if quorum.knows_agreed else (quorum.found_image, quorum.image)
        nodes = [image.nodes[node_id] for image in images if node_id in image.nodes]
        endpoints = [endpoint for node in nodes if (endpoint := node.endpoint(NODES)) is not None]
        told = [told[node_id] for told in (place.met, place.voters) if node_id in told]
        return list(dict.fromkeys([*(Address(it.host, it.port) for it in endpoints), *told]))


def _damaged(letter: RaftRequest, damage: CorruptBatch) -> ErrorCode:
    log.warning("a letter of node %d was damaged on its way: %s", letter.source, damage)
    return ErrorCode.CORRUPT_MESSAGE

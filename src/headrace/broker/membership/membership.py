"""Which cluster a node belongs to: what its data directory remembers, and how it comes in if it knows nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.broker.membership.identity import Origin, check_metadata, load_or_create, store_identity
from headrace.broker.membership.joining import Entrance
from headrace.broker.metadata.store import METADATA_LOG
from headrace.model.names import TopicId, topic_id_text
from headrace.raft.membership import Membership, Voter

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from headrace.broker.membership.assembly import Place
    from headrace.broker.membership.identity import Identity
    from headrace.broker.metadata.quorum import Quorum
    from headrace.model.names import LogId, NodeId
    from headrace.runtime.network import Address
    from headrace.runtime.tasks import TaskScope
    from headrace.runtime.world import World


class Belonging:
    def __init__(
        self, world: World, node_id: NodeId | None, voters: Mapping[NodeId, Address], join: Sequence[Address]
    ) -> None:
        """As an operator says it; what the directory says counts for more."""
        self.identity: Identity
        self._world = world
        self._asked_node_id = node_id
        self._voters = voters
        self._join = join

    async def claim(self) -> None:
        """Learn whose the data directory is; a new one is made ours. Raises WrongIdentity."""
        world = self._world
        self.identity = await world.threads.run(
            lambda: load_or_create(
                world.disk, self._asked_node_id, self.new_cluster_id(), world.entropy.token(16), self._new_origin
            )
        )

    def new_cluster_id(self) -> str:
        return topic_id_text(TopicId(self._world.entropy.token(16)))

    @property
    def _new_origin(self) -> Origin:
        """What a new data directory is for."""
        if self._join:
            return Origin.JOINED
        return Origin.TOGETHER if self._voters else Origin.ALONE

    async def look_at_logs(self, found: Collection[LogId]) -> None:
        """Raises WrongIdentity if there are logs, and nothing that says whose they are."""
        if METADATA_LOG in found:
            return
        check_metadata(self.identity, None, has_logs=bool(found))
        if self.identity.cluster_id and self.identity.origin is not Origin.ALONE:
            # What it has promised to the other voters is gone: it must not be taken for the one that promised it.
            await self.take_new_directory()

    def first_membership(self, *, has_log: bool) -> Membership:
        """Who votes as long as the log does not say. Founders have to meet before they count."""
        me = self.identity
        if me.origin is Origin.ALONE and (has_log or not self._join):
            return Membership((Voter(me.node_id, me.directory),))
        if me.origin is Origin.TOGETHER and has_log:
            return Membership(tuple(Voter(node_id) for node_id in sorted(self._voters)))
        return Membership()

    async def enter(self, place: Place, quorum: Quorum, tasks: TaskScope) -> None:
        """Until it is known what the cluster has agreed on. Raises Refusal or WrongIdentity if it is the wrong one."""
        entrance = Entrance(place, quorum, self._world, self._join)
        found = await entrance.find_cluster(self.identity)
        if found != self.identity:
            await self._remember(found)
        if quorum.has_log and (self._join or entrance.has_moved()):
            tasks.start(entrance.knock(found), "ask the cluster in")
        await entrance.wait_heard()
        await self.note_company(quorum)

    async def take_new_directory(self) -> bytes:
        """The disk is not what it was: from now on it has another name, and nobody believes what the old one had."""
        await self._remember(replace(self.identity, directory=self._world.entropy.token(16)))
        return self.identity.directory

    async def note_company(self, quorum: Quorum) -> None:
        """A node that others have joined is no longer the only voter, not even if it should lose its log. Its log must
        say so first, and for good: with one that knows only this node, nobody would be left who votes."""
        is_settled = quorum.has_company and quorum.raft.log.is_membership_committed
        if self.identity.origin is Origin.ALONE and is_settled:
            await self._remember(replace(self.identity, origin=Origin.TOGETHER))

    async def note_name(self, cluster_id: str) -> None:
        """The cluster has this name, which others may have given it."""
        if not self.identity.cluster_id:
            await self._remember(self.identity.named(cluster_id))

    async def _remember(self, identity: Identity) -> None:
        self.identity = identity
        await self._world.threads.run(lambda: store_identity(self._world.disk, identity))

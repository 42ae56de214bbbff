"""Which cluster a node belongs to: what its data directory remembers, and how it comes in if it knows nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.access.authentication.known_users import SECRET_BYTES
from headrace.broker.membership.identity import Origin, check_metadata, load_or_create, store_identity
from headrace.broker.membership.joining import Joining
from headrace.broker.metadata.store import METADATA_LOG
from headrace.metadata.commands.user_commands import first_users
from headrace.model.names import TopicId, topic_id_text
from headrace.raft.membership import Membership, Voter

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from headrace.access.authentication.credentials import ScramUser, ScramVerifier
    from headrace.broker.membership.address_book import AddressBook
    from headrace.broker.membership.dialing import Dialer
    from headrace.broker.membership.identity import Identity
    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.metadata.quorum import Quorum
    from headrace.metadata.image.records import ScramChanged
    from headrace.model.names import LogId, NodeId
    from headrace.runtime.network import Address
    from headrace.runtime.tasks import TaskScope
    from headrace.runtime.world import World


@dataclass(frozen=True, slots=True)
class MembershipPlan:
    """As an operator says it; what the directory says counts for more. `voters` found a cluster together, this node
    among them; `join` are nodes of a cluster that exists. Without any, it is a cluster of its own."""

    node_id: NodeId | None = None
    voters: Mapping[NodeId, Address] = field(default_factory=dict)
    join: Sequence[Address] = ()
    first_users: Mapping[ScramUser, ScramVerifier] = field(default_factory=dict, repr=False)
    """Who can log in from the first moment of a cluster that is founded."""

    @property
    def new_origin(self) -> Origin:
        """What a new data directory is for."""
        if self.join:
            return Origin.JOINED
        return Origin.TOGETHER if self.voters else Origin.ALONE


def new_cluster_id(world: World) -> str:
    return topic_id_text(TopicId(world.entropy.token(16)))


class ClusterMembership:
    def __init__(self, world: World, identity: Identity, plan: MembershipPlan) -> None:
        self.identity = identity
        self._world = world
        self._plan = plan

    @classmethod
    async def claimed(cls, world: World, plan: MembershipPlan) -> ClusterMembership:
        """Learn whose the data directory is; a new one is made ours. Raises WrongIdentity."""
        identity = await world.threads.run(
            lambda: load_or_create(
                world.disk, plan.node_id, new_cluster_id(world), world.entropy.token(16), plan.new_origin
            )
        )
        return cls(world, identity, plan)

    async def look_at_logs(self, found: Collection[LogId]) -> None:
        """Raises WrongIdentity if there are logs, and nothing that says whose they are."""
        if METADATA_LOG in found:
            return
        check_metadata(self.identity, None, has_logs=bool(found))
        if self.identity.cluster_id and self.identity.origin is not Origin.ALONE:
            # What it has promised to the other voters is gone: it must not be taken for the one that promised it.
            await self.take_new_directory()

    def first_records(self) -> list[ScramChanged]:
        """What a cluster that this node founds begins with, besides its name."""
        users = self._plan.first_users
        return first_users(users, self._world.entropy.token(SECRET_BYTES)) if users else []

    def first_membership(self, *, has_log: bool) -> Membership:
        """Who votes as long as the log does not say. Founders have to meet before they count."""
        me = self.identity
        if me.origin is Origin.ALONE and (has_log or not self._plan.join):
            return Membership((Voter(me.node_id, me.directory),))
        if me.origin is Origin.TOGETHER and has_log:
            return Membership(tuple(Voter(node_id) for node_id in sorted(self._plan.voters)))
        return Membership()

    async def enter(
        self, local: LocalNode, addresses: AddressBook, quorum: Quorum, dialer: Dialer, tasks: TaskScope
    ) -> None:
        """Until it is known what the cluster has agreed on. Raises Refusal or WrongIdentity if it is the wrong one."""
        joining = Joining(local, addresses, quorum, self._world.clock, dialer, self._plan.join)
        found = await joining.find_cluster(self.identity)
        if found != self.identity:
            await self._remember(found)
        if quorum.has_log and (self._plan.join or joining.has_moved()):
            tasks.start(joining.knock(found), "ask the cluster in")
        await joining.wait_heard()
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

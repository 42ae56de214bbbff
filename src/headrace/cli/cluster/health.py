"""What is wrong with a cluster, if anything is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.cli.terminal.output import talk
from headrace.client.admin.admin import Admin
from headrace.client.admin.cluster import ClusterAdmin
from headrace.client.errors import ClientError
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from headrace.client.admin.admin import ClusterDescription
    from headrace.client.admin.cluster import Move, Quorum, QuorumMember
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import ClusterView, Partition

QUIET_MS = 5_000  # voters answer several times a second: whoever said nothing for so long is not there
LAST_KNOWN = "warning: there is no controller; this is what was last known, and may be old"


@dataclass(frozen=True)
class Health:
    description: ClusterDescription
    quorum: Quorum | None
    """None: nobody leads the metadata log, so there is no controller."""
    partitions: dict[TopicPartition, Partition]
    moves: dict[TopicPartition, Move]
    topic_count: int
    unreachable: frozenset[int] = frozenset()
    """Nodes that do not answer us. Looked for only where no controller says who is away."""

    @property
    def offline(self) -> list[TopicPartition]:
        return [name for name, part in self.partitions.items() if part.is_offline]

    @property
    def under_replicated(self) -> list[TopicPartition]:
        """Those with fewer copies in sync than they shall have, whether anybody leads them or not. A copy that is only
        being made is not missed."""
        return [name for name in self.partitions if self.missing(name)]

    def missing(self, name: TopicPartition) -> list[int]:
        """The nodes whose copy is not in sync."""
        part, move = self.partitions[name], self.moves.get(name)
        adding = () if move is None else move.adding
        return [node_id for node_id in part.replicas if node_id not in part.isr and node_id not in adding]

    @property
    def silent_voters(self) -> list[int]:
        if self.quorum is None:
            return []
        now_ms = max((voter.heard_ms or 0 for voter in self.quorum.voters), default=0)  # the leader hears itself
        return [it.node_id for it in self.quorum.voters if it.heard_ms is None or now_ms - it.heard_ms > QUIET_MS]

    @property
    def is_healthy(self) -> bool:
        return self.quorum is not None and not self.offline and not self.under_replicated and not self.silent_voters

    @property
    def away(self) -> list[int]:
        return [it.node_id for it in self.description.nodes if it.is_fenced or it.node_id in self.unreachable]

    @property
    def controller(self) -> int | None:
        return None if self.quorum is None else self.quorum.leader

    def leads(self, node_id: int) -> int:
        return sum(part.leader == node_id for part in self.partitions.values())

    def replicas_of(self, node_id: int) -> int:
        return sum(node_id in part.replicas for part in self.partitions.values())

    def in_sync(self, node_id: int) -> int:
        return sum(node_id in part.isr for part in self.partitions.values())

    def lag(self, member: QuorumMember) -> int | None:
        """How much of what is agreed on a member's log lacks; None if the leader does not know."""
        if self.quorum is None or member.log_end is None:
            return None
        return max(0, self.quorum.high_watermark - member.log_end)


async def cluster_health(cluster: Cluster) -> Health:
    view = await cluster.full_view()
    admin = ClusterAdmin(cluster)
    quorum = await _quorum(admin)
    description = await Admin(cluster).describe_cluster()
    if quorum is None:  # then nobody says who is away, and nothing moves
        unreachable = await _unreachable(cluster)
        return replace(health_of(description, None, view, {}), unreachable=unreachable)
    return health_of(description, quorum, view, await admin.list_reassignments())


async def warn_without_controller(cluster: Cluster) -> None:
    """For commands that show what a node knows, which is all that there is then."""
    try:
        quorum = await _quorum(ClusterAdmin(cluster))
    except (ClientError, Refusal):  # another kind of cluster, which does not tell, or does not tell us
        return
    if quorum is None:
        talk(LAST_KNOWN)


async def _unreachable(cluster: Cluster) -> frozenset[int]:
    node_ids = list((await cluster.refresh()).nodes)
    answers = await asyncio.gather(*map(cluster.node_connection, node_ids), return_exceptions=True)
    return frozenset(it for it, answer in zip(node_ids, answers, strict=True) if isinstance(answer, ClientError))


async def _quorum(admin: ClusterAdmin) -> Quorum | None:
    try:
        return await admin.describe_quorum()
    except Refusal as refusal:
        if refusal.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return None


def health_of(
    description: ClusterDescription, quorum: Quorum | None, view: ClusterView, moves: dict[TopicPartition, Move]
) -> Health:
    partitions = {
        TopicPartition(topic.name, part.index): part
        for topic in sorted(view.topics.values())
        for part in topic.partitions
    }
    return Health(description, quorum, partitions, moves, len(view.topics))

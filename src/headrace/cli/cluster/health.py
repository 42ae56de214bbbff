"""What is wrong with a cluster, if anything is; and how to say it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.cli.terminal.output import facts_text, plural, table, talk
from headrace.client.admin.admin import Admin
from headrace.client.admin.cluster import ClusterAdmin
from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from headrace.client.admin.admin import ClusterDescription, ClusterNode
    from headrace.client.admin.cluster import Move, Quorum, QuorumMember
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import ClusterView, Partition

QUIET_MS = 5_000  # voters answer several times a second: whoever said nothing for so long is not there
LAST_KNOWN = "warning: there is no controller; this is what was last known, and may be old"
NAMES_SHOWN_MAX = 5  # on one line; --format json has them all


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


async def look_at(cluster: Cluster) -> Health:
    view = await cluster.survey()
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
    except ClientError:  # another kind of cluster, which does not tell
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
    except Refusal:
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


# ---- in words


def status_facts(health: Health) -> dict[str, object]:
    return {
        "cluster_id": health.description.cluster_id,
        "is_healthy": health.is_healthy,
        "controller": health.controller,
        "quorum": _quorum_facts(health),
        "nodes": node_facts(health),
        "topics": health.topic_count,
        "partitions": len(health.partitions),
        "offline_partitions": [str(name) for name in health.offline],
        "under_replicated_partitions": [str(name) for name in health.under_replicated],
        "moving_partitions": [str(name) for name in health.moves],
    }


def _quorum_facts(health: Health) -> dict[str, object] | None:
    quorum = health.quorum
    if quorum is None:
        return None
    silent = health.silent_voters
    members = [(member, True) for member in quorum.voters] + [(member, False) for member in quorum.learners]
    return {
        "leader": quorum.leader,
        "term": quorum.term,
        "high_watermark": quorum.high_watermark,
        "members": [
            {
                "node_id": member.node_id,
                "is_voter": is_voter,
                "log_end": member.log_end,
                "lag": health.lag(member),
                "heard_ms": member.heard_ms,
                "is_silent": member.node_id in silent,
            }
            for member, is_voter in members
        ],
    }


def status_text(health: Health) -> str:
    facts: list[tuple[str, object]] = [
        ("Cluster", health.description.cluster_id),
        ("State", "healthy" if health.is_healthy else f"unhealthy: {', '.join(_reasons(health))}"),
        ("Controller", "none" if health.controller is None else health.controller),
        ("Quorum", _quorum_text(health)),
        ("Topics", health.topic_count),
        ("Partitions", len(health.partitions)),
        ("Offline partitions", _count_and_names(health.offline)),
        ("Under-replicated partitions", _count_and_names(health.under_replicated)),
    ]
    if health.moves:
        facts.append(("Moving partitions", _count_and_names(list(health.moves))))
    return "\n".join([facts_text(facts), "", nodes_text(health)])


def _quorum_text(health: Health) -> str:
    quorum = health.quorum
    if quorum is None:
        return "nobody leads; a majority of the voters must be there. Below is what was known before"
    voters, silent = len(quorum.voters), health.silent_voters
    text = f"{voters - len(silent)} of {voters} voters are there, term {quorum.term}"
    return f"{text}; silent: {', '.join(map(str, silent))}" if silent else text


def _reasons(health: Health) -> list[str]:
    """Why it is not healthy, the worst first."""
    reasons = [] if health.quorum is not None else ["there is no controller"]
    if health.offline:
        reasons.append(f"{plural(len(health.offline), 'partition')} without a leader")
    if health.under_replicated:
        reasons.append(f"{plural(len(health.under_replicated), 'partition')} with a copy missing")
    reasons += [f"node {node_id} is away" for node_id in health.away]
    reasons += [f"voter {node_id} is silent" for node_id in health.silent_voters if node_id not in health.away]
    return reasons


def node_facts(health: Health) -> list[dict[str, object]]:
    return [
        {
            "node_id": node.node_id,
            "address": str(node.address),
            "rack": node.rack,
            "role": _role(health, node.node_id),
            "is_fenced": node.is_fenced,
            "is_away": node.node_id in health.away,
            "is_draining": node.is_draining,
            "leads": health.leads(node.node_id),
            "replicas": health.replicas_of(node.node_id),
            "in_sync": health.in_sync(node.node_id),
        }
        for node in health.description.nodes
    ]


def nodes_text(health: Health) -> str:
    rows = [
        (
            node.node_id,
            str(node.address),
            node.rack,
            _state(health, node),
            _role(health, node.node_id),
            health.leads(node.node_id),
            health.replicas_of(node.node_id),
            health.in_sync(node.node_id),
        )
        for node in health.description.nodes
    ]
    return table(("NODE", "ADDRESS", "RACK", "STATE", "ROLE", "LEADS", "REPLICAS", "IN SYNC"), rows)


def _state(health: Health, node: ClusterNode) -> str:
    """A node that has stopped was draining before; that it is away says more."""
    if node.node_id in health.away:
        return "away"
    return "draining" if node.is_draining else "up"


def _role(health: Health, node_id: int) -> str:
    if health.quorum is None:
        return "unknown"
    if node_id == health.quorum.leader:
        return "controller"
    if any(voter.node_id == node_id for voter in health.quorum.voters):
        return "voter"
    return "learner" if any(learner.node_id == node_id for learner in health.quorum.learners) else "broker"


def under_replicated_facts(health: Health) -> list[dict[str, object]]:
    return [
        {
            "topic": name.topic,
            "partition": name.partition,
            "leader": None if health.partitions[name].is_offline else health.partitions[name].leader,
            "replicas": list(health.partitions[name].replicas),
            "isr": list(health.partitions[name].isr),
            "missing": health.missing(name),
        }
        for name in health.under_replicated
    ]


def under_replicated_text(health: Health) -> str:
    rows = []
    for name in health.under_replicated:
        part = health.partitions[name]
        leader = "none" if part.is_offline else str(part.leader)
        lists = (_numbers(part.replicas), _numbers(part.isr), _numbers(health.missing(name)))
        rows.append((name.topic, name.partition, leader, *lists))
    return table(("TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "MISSING"), rows)


def _numbers(numbers: tuple[int, ...] | list[int]) -> str:
    return ",".join(map(str, numbers))


def _count_and_names(partitions: list[TopicPartition]) -> str:
    if not partitions:
        return "0"
    names = ", ".join(str(name) for name in partitions[:NAMES_SHOWN_MAX])
    more = ", …" if len(partitions) > NAMES_SHOWN_MAX else ""
    return f"{len(partitions)} ({names}{more})"

"""How the health of a cluster is shown, to people and to programs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.terminal.output import facts_text, plural, table

if TYPE_CHECKING:
    from headrace.cli.cluster.health import Health
    from headrace.client.admin.admin import ClusterNode
    from headrace.model.names import TopicPartition

NAMES_SHOWN_MAX = 5  # on one line; --format json has them all


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

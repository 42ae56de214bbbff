"""`headrace cluster`: is it well?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.cli.options import HELP, bootstrap_server, noun, output_format

if TYPE_CHECKING:
    from headrace.client.admin import ClusterDescription
    from headrace.client.cluster import Cluster
    from headrace.client.view import ClusterView
    from headrace.model.names import TopicPartition

command = noun("Show the state of the cluster.")

UNHEALTHY = 3


@dataclass(frozen=True)
class Health:
    """What is wrong with a cluster, if anything is."""

    description: ClusterDescription
    topic_count: int
    partition_count: int
    offline: list[TopicPartition]
    under_replicated: list[TopicPartition]

    @property
    def has_controller(self) -> bool:
        return self.description.controller_id >= 0

    @property
    def is_healthy(self) -> bool:
        return self.has_controller and not self.offline and not self.under_replicated


@command.command(context_settings=HELP)
@output_format
@bootstrap_server
def status(form: str) -> int:
    """Show nodes, controller and partitions. Exit code 3 if something is wrong."""
    from headrace.cli.output import answer, answer_json
    from headrace.cli.session import with_cluster
    from headrace.client.admin import Admin

    async def work(cluster: Cluster) -> Health:
        return health_of(await Admin(cluster).describe_cluster(), await cluster.survey())

    health = with_cluster(work)
    if form == "json":
        answer_json(health_facts(health))
    else:
        answer(health_text(health))
    return 0 if health.is_healthy else UNHEALTHY


def health_of(description: ClusterDescription, view: ClusterView) -> Health:
    from headrace.model.names import TopicPartition

    partitions = [
        (TopicPartition(topic.name, part.index), part)
        for topic in sorted(view.topics.values())
        for part in topic.partitions
    ]
    return Health(
        description,
        len(view.topics),
        len(partitions),
        [name for name, part in partitions if part.is_offline],
        [name for name, part in partitions if part.is_under_replicated and not part.is_offline],
    )


def health_facts(health: Health) -> dict[str, object]:
    description = health.description
    return {
        "cluster_id": description.cluster_id,
        "is_healthy": health.is_healthy,
        "controller": description.controller_id if health.has_controller else None,
        "nodes": [
            {"node_id": node.node_id, "address": str(node.address), "rack": node.rack, "is_fenced": node.is_fenced}
            for node in description.nodes
        ],
        "topics": health.topic_count,
        "partitions": health.partition_count,
        "offline_partitions": [str(name) for name in health.offline],
        "under_replicated_partitions": [str(name) for name in health.under_replicated],
    }


def health_text(health: Health) -> str:
    from headrace.cli.output import facts_text, table

    description = health.description
    nodes = [
        (node.node_id, str(node.address), node.rack, _role(health, node.node_id, node.is_fenced))
        for node in description.nodes
    ]
    facts = [
        ("Cluster", description.cluster_id),
        ("State", "healthy" if health.is_healthy else "unhealthy"),
        ("Controller", description.controller_id if health.has_controller else "none"),
        ("Topics", health.topic_count),
        ("Partitions", health.partition_count),
        ("Offline partitions", _count_and_names(health.offline)),
        ("Under-replicated partitions", _count_and_names(health.under_replicated)),
    ]
    return "\n".join([facts_text(facts), "", table(("NODE", "ADDRESS", "RACK", "ROLE"), nodes)])


def _role(health: Health, node_id: int, is_fenced: bool) -> str:
    if is_fenced:
        return "fenced"
    return "controller" if node_id == health.description.controller_id else "broker"


NAMES_SHOWN_MAX = 10  # on one line; --format json has them all


def _count_and_names(partitions: list[TopicPartition]) -> str:
    if not partitions:
        return "0"
    names = ", ".join(str(name) for name in partitions[:NAMES_SHOWN_MAX])
    more = ", …" if len(partitions) > NAMES_SHOWN_MAX else ""
    return f"{len(partitions)} ({names}{more})"

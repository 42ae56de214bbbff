"""`headrace topics`: create, list, describe, alter, delete."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.terminal.numbers import copy_count, partition_count
from headrace.cli.terminal.options import HELP, bootstrap_server, noun, output_format, pair

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.client.admin.admin import Config
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import Topic

command = noun("Create, list, describe, alter and delete topics.")

topic_name = click.option("--name", required=True, help="The topic.")


@command.command(context_settings=HELP)
@topic_name
@click.option("--partitions", type=partition_count, help="How many. Default: the cluster's num.partitions.")
@click.option(
    "--replication-factor",
    type=copy_count,
    help="Copies of each. Default: the cluster's default.replication.factor.",
)
@click.option(
    "--config", "configs", type=pair, metavar="NAME=VALUE", multiple=True, help="A setting of the topic. Repeatable."
)
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no error; it stays as it is.")
@bootstrap_server
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
) -> None:
    """Create a topic. It can be written to when the command ends."""
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.admin import BY_DEFAULT, Admin
    from headrace.model.errors import ErrorCode, Refusal

    async def work(cluster: Cluster) -> None:
        try:
            await Admin(cluster).create_topic(
                name,
                partitions=partitions or BY_DEFAULT,
                replication_factor=replication_factor or BY_DEFAULT,
                configs=dict(configs),
            )
        except Refusal as refusal:
            if not (if_not_exists and refusal.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            talk(f"topic {name} is there already")
            return
        topic = await cluster.topic(name)
        talk(f"created topic {name} with {plural(len(topic.partitions), 'partition')}")

    with_cluster(work)


@command.command("list", context_settings=HELP)
@click.option("--internal", is_flag=True, help="Also those that the cluster keeps for itself.")
@output_format
@bootstrap_server
def list_topics(internal: bool, form: str) -> None:
    """List the topics."""
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.admin import Admin
    from headrace.model.names import topic_id_text

    async def work(cluster: Cluster) -> list[Topic]:
        return await Admin(cluster).list_topics()

    topics = [topic for topic in with_cluster(work) if internal or not topic.is_internal]
    if form == "json":
        answer_json(
            [
                {
                    "name": topic.name,
                    "topic_id": topic_id_text(topic.topic_id),
                    "partitions": len(topic.partitions),
                    "replication_factor": _replication_factor(topic),
                    "is_internal": topic.is_internal,
                }
                for topic in topics
            ]
        )
    elif topics:
        rows = [(topic.name, len(topic.partitions), _replication_factor(topic)) for topic in topics]
        answer(table(("NAME", "PARTITIONS", "REPLICATION"), rows))


@command.command(context_settings=HELP)
@topic_name
@click.option("--verbose", is_flag=True, help="Also id, settings, offsets and sizes.")
@output_format
@bootstrap_server
def describe(name: str, verbose: bool, form: str) -> None:
    """Show who leads each partition, and which replicas are in sync."""
    from headrace.cli.cluster.health import warn_without_controller
    from headrace.cli.terminal.output import answer, answer_json
    from headrace.cli.terminal.session import with_cluster

    async def work(cluster: Cluster) -> tuple[Topic, dict[str, Any] | None]:
        topic = await cluster.topic(name)
        await warn_without_controller(cluster)
        return topic, await _facts(cluster, topic) if verbose or form == "json" else None

    topic, facts = with_cluster(work)
    if form == "json":
        answer_json(facts)
        return
    answer("\n".join(partition_lines(topic)))
    if facts is not None:
        answer(_verbose_text(facts))


@command.command(context_settings=HELP)
@topic_name
@click.option("--partitions", type=partition_count, required=True, help="How many it shall have. Never fewer.")
@bootstrap_server
def alter(name: str, partitions: int) -> None:
    """Add partitions. Messages stay where they are; new ones with the same key may go elsewhere."""
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.admin import Admin

    async def work(cluster: Cluster) -> None:
        await Admin(cluster).add_partitions(name, partitions)

    with_cluster(work)
    talk(f"topic {name} now has {plural(partitions, 'partition')}")


@command.command(context_settings=HELP)
@topic_name
@click.option("--yes", is_flag=True, help="Do not ask.")
@bootstrap_server
def delete(name: str, yes: bool) -> None:
    """Delete a topic and everything in it. On a terminal it asks first."""
    from headrace.cli.terminal.complaints import Complaint
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.admin import Admin

    async def work(cluster: Cluster) -> None:
        topic = await cluster.topic(name)
        loss = _loss_of(name)
        if not yes and sys.stdin.isatty():
            partitions = plural(len(topic.partitions), "partition")
            meaning = f" This means: {loss}." if loss else ""
            if not click.confirm(f"Delete topic {name!r} with {partitions} and all messages?{meaning}", err=True):
                raise Complaint(f"topic {name!r} was not deleted")
        elif loss:
            talk(f"warning: {name} is deleted, which means: {loss}")
        await Admin(cluster).delete_topic(name)

    with_cluster(work)
    talk(f"deleted topic {name}")


def _loss_of(name: str) -> str:
    """What goes with a topic of the cluster's own, besides messages; nothing for other topics."""
    from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE

    return {
        CONSUMER_OFFSETS: "all groups and their positions are lost, and consumers begin again at an edge of the log, "
        "where they repeat or miss messages",
        TRANSACTION_STATE: "all transactional ids are forgotten, and a transaction that is open holds up readers of "
        "committed messages until `headrace transactions abort` ends it in each partition",
    }.get(name, "")


def partition_lines(topic: Topic) -> list[str]:
    """One line per partition: `Partition 0: Leader=1, ISR=[1,2,3]`."""
    return [
        f"Partition {part.index}: Leader={'none' if part.is_offline else part.leader}, ISR=[{_numbers(part.isr)}]"
        for part in topic.partitions
    ]


def _replication_factor(topic: Topic) -> int:
    return max((len(part.replicas) for part in topic.partitions), default=0)


async def _facts(cluster: Cluster, topic: Topic) -> dict[str, Any]:
    """All that can be said about a topic, ready for JSON."""
    from headrace.client.admin.admin import Admin, Resource, ResourceType, largest_copies
    from headrace.client.reading.offsets import find_bounds
    from headrace.model.names import TopicPartition, topic_id_text

    admin = Admin(cluster)
    configs = await admin.describe_configs(Resource(ResourceType.TOPIC, topic.name))
    names = [TopicPartition(topic.name, part.index) for part in topic.partitions if not part.is_offline]
    bounds = await find_bounds(cluster, names)
    directories = await admin.all_log_dirs()
    sizes = largest_copies(directories)
    partitions: list[dict[str, Any]] = []
    for part in topic.partitions:
        name = TopicPartition(topic.name, part.index)
        first, end = bounds.get(name, (None, None))
        partitions.append(
            {
                "partition": part.index,
                "leader": None if part.is_offline else part.leader,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "offline_replicas": list(part.offline_replicas),
                "first_offset": first,
                "end_offset": end,
                "bytes": sizes.get(name),
                "compaction": [
                    {"node": directory.node_id, **directory.compactions[name]._asdict()}
                    for directory in directories
                    if name in directory.compactions
                ],
            }
        )
    return {
        "name": topic.name,
        "topic_id": topic_id_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "replication_factor": _replication_factor(topic),
        "configs": {config.name: _shown(config) for config in configs if not config.is_default},
        "partitions": partitions,
    }


def _shown(config: Config) -> str | None:
    return "(hidden)" if config.is_sensitive else config.value


def _verbose_text(facts: dict[str, Any]) -> str:
    from headrace.cli.terminal.output import table

    rows = [
        (part["partition"], _numbers(part["replicas"]), part["first_offset"], part["end_offset"], part["bytes"])
        for part in facts["partitions"]
    ]
    settings = [f"  {name}={value}" for name, value in facts["configs"].items()]
    return "\n".join(
        [
            "",
            f"Topic id: {facts['topic_id']}",
            "Settings:" if settings else "Settings: all as by default",
            *settings,
            "",
            table(("PARTITION", "REPLICAS", "FIRST OFFSET", "END OFFSET", "BYTES"), rows),
            *_compaction_lines(facts),
        ]
    )


def _compaction_lines(facts: dict[str, Any]) -> list[str]:
    """How each copy of a compacted topic fares; nothing for other topics."""
    from headrace.cli.terminal.output import moment_text, table

    rows = [
        (
            part["partition"],
            copy["node"],
            copy["dirty_bytes"],
            copy["saved_bytes"],
            "never" if copy["last_pass_ms"] is None else moment_text(copy["last_pass_ms"]),
            copy["error"] or "none",
        )
        for part in facts["partitions"]
        for copy in part["compaction"]
    ]
    heads = ("PARTITION", "NODE", "DIRTY BYTES", "SAVED BYTES", "LAST COMPACTED", "TROUBLE")
    return ["", table(heads, rows)] if rows else []


def _numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))

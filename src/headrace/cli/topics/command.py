"""`headrace topics`: create, list, describe, alter, delete."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.terminal.numbers import copy_count, partition_count
from headrace.cli.terminal.options import HELP, cluster_options, noun, output_format, pair

if TYPE_CHECKING:
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
@click.option("--if-not-exists", is_flag=True, help="If the topic exists, leave it as it is; that is no error.")
@cluster_options
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
@cluster_options
def list_topics(internal: bool, form: str) -> None:
    """List the topics."""
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster
    from headrace.cli.topics.text import replication_factor
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
                    "replication_factor": replication_factor(topic),
                    "is_internal": topic.is_internal,
                }
                for topic in topics
            ]
        )
    elif topics:
        rows = [(topic.name, len(topic.partitions), replication_factor(topic)) for topic in topics]
        answer(table(("NAME", "PARTITIONS", "REPLICATION"), rows))


@command.command(context_settings=HELP)
@topic_name
@click.option("--verbose", is_flag=True, help="Also id, settings, offsets and sizes.")
@output_format
@cluster_options
def describe(name: str, verbose: bool, form: str) -> None:
    """Show who leads each partition, and which replicas are in sync."""
    from headrace.cli.cluster.health import warn_without_controller
    from headrace.cli.terminal.output import answer, answer_json
    from headrace.cli.terminal.session import with_cluster
    from headrace.cli.topics.text import facts_of, partition_lines, verbose_text

    async def work(cluster: Cluster) -> tuple[Topic, dict[str, Any] | None]:
        topic = await cluster.topic(name)
        await warn_without_controller(cluster)
        return topic, await facts_of(cluster, topic) if verbose or form == "json" else None

    topic, facts = with_cluster(work)
    if form == "json":
        answer_json(facts)
        return
    answer("\n".join(partition_lines(topic)))
    if facts is not None:
        answer(verbose_text(facts))


@command.command(context_settings=HELP)
@topic_name
@click.option("--partitions", type=partition_count, required=True, help="How many it shall have: more than it has.")
@cluster_options
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
@cluster_options
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

"""`headrace configs`: what a topic, a node or a group is set to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.terminal.numbers import node_number
from headrace.cli.terminal.options import HELP, cluster_options, noun, output_format, pair

if TYPE_CHECKING:
    from headrace.client.admin.admin import Config, ConfigChange, Resource
    from headrace.client.connections.cluster import Cluster

    Pairs = tuple[tuple[str, str], ...]

command = noun("Show and change the settings of topics, nodes and groups.")

topic_option = click.option("--topic", help="A topic.")
broker_option = click.option("--broker", type=node_number, help="A node, by its id.")
group_option = click.option("--group", help="A group of consumers.")


@command.command(context_settings=HELP)
@topic_option
@broker_option
@group_option
@click.option("--changed", is_flag=True, help="Only settings that differ from their defaults.")
@output_format
@cluster_options
def describe(topic: str | None, broker: int | None, group: str | None, changed: bool, form: str) -> None:
    """Show the settings of a topic, a node or a group, and where each value comes from."""
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.admin import Admin

    resource = _resource(topic, broker, group)

    async def work(cluster: Cluster) -> list[Config]:
        return await Admin(cluster).describe_configs(resource, with_documentation=form == "json")

    configs = [config for config in with_cluster(work) if not (changed and config.is_default)]
    if form == "json":
        answer_json(
            [
                {
                    "name": config.name,
                    "value": config.value,
                    "source": config.source.name.lower(),
                    "is_read_only": config.is_read_only,
                    "is_sensitive": config.is_sensitive,
                    "documentation": config.documentation,
                }
                for config in configs
            ]
        )
    elif configs:
        rows = [
            (config.name, "(hidden)" if config.is_sensitive else config.value, config.source.name.lower())
            for config in configs
        ]
        answer(table(("NAME", "VALUE", "SOURCE"), rows))


@command.command(context_settings=HELP)
@topic_option
@broker_option
@group_option
@click.option(
    "--set", "sets", type=pair, metavar="NAME=VALUE", multiple=True, help="Give a setting a value. Repeatable."
)
@click.option("--delete", "deletes", metavar="NAME", multiple=True, help="Go back to the default. Repeatable.")
@click.option(
    "--append", "appends", type=pair, metavar="NAME=VALUE", multiple=True, help="Add to a list setting. Repeatable."
)
@click.option(
    "--subtract",
    "subtracts",
    type=pair,
    metavar="NAME=VALUE",
    multiple=True,
    help="Remove from a list setting. Repeatable.",
)
@cluster_options
def alter(
    topic: str | None,
    broker: int | None,
    group: str | None,
    sets: Pairs,
    deletes: tuple[str, ...],
    appends: Pairs,
    subtracts: Pairs,
) -> None:
    """Change settings of a topic, a node or a group. If one is refused, none is changed."""
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.admin import Admin

    resource = _resource(topic, broker, group)
    changes = _changes(sets, deletes, appends, subtracts)
    if not changes:
        raise click.UsageError("nothing to change; give --set, --delete, --append or --subtract")

    async def work(cluster: Cluster) -> None:
        await Admin(cluster).alter_configs(resource, changes)

    with_cluster(work)
    talk(f"changed {plural(len(changes), 'setting')} of {resource}")


def _resource(topic: str | None, broker: int | None, group: str | None) -> Resource:
    from headrace.client.admin.admin import Resource, ResourceType

    named = {
        ResourceType.TOPIC: topic,
        ResourceType.BROKER: None if broker is None else str(broker),
        ResourceType.GROUP: group,
    }
    given = [Resource(kind, name) for kind, name in named.items() if name is not None]
    if len(given) != 1:
        raise click.UsageError("give one of --topic, --broker and --group")
    return given[0]


def _changes(
    sets: Pairs, deletes: tuple[str, ...], appends: Pairs, subtracts: Pairs
) -> list[tuple[str, ConfigChange, str | None]]:
    from headrace.client.admin.admin import ConfigChange

    return [
        *((name, ConfigChange.SET, value) for name, value in sets),
        *((name, ConfigChange.DELETE, None) for name in deletes),
        *((name, ConfigChange.APPEND, value) for name, value in appends),
        *((name, ConfigChange.SUBTRACT, value) for name, value in subtracts),
    ]

"""`headrace groups`: who reads what, how far they are, and where they go on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.terminal.delivery import isolation_option
from headrace.cli.terminal.numbers import offset_number
from headrace.cli.terminal.options import HELP, cluster_options, group_option, noun, output_format

if TYPE_CHECKING:
    from headrace.cli.groups.reset_plan import TopicScope
    from headrace.client.admin.groups import GroupDescription, GroupListing, PartitionLag
    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicPartition

command = noun("List, describe, move and delete consumer groups.")

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", "Dead")
TYPES = ("classic", "consumer")


@command.command("list", context_settings=HELP)
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only groups in this state. Repeatable.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="Only groups of this protocol: the classic one, or KIP-848's. Repeatable.",
)
@output_format
@cluster_options
def list_groups(states: tuple[str, ...], types: tuple[str, ...], form: str) -> None:
    """List the groups."""
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.groups import GroupAdmin

    async def work(cluster: Cluster) -> list[GroupListing]:
        return await GroupAdmin(cluster).list_groups(states=states, types=types)

    groups = sorted(with_cluster(work), key=lambda group: group.group_id)
    if form == "json":
        answer_json(
            [
                {
                    "group": group.group_id,
                    "state": group.state,
                    "type": group.type,
                    "protocol_type": group.protocol_type,
                }
                for group in groups
            ]
        )
    elif groups:
        rows = [(group.group_id, group.state, group.type, group.protocol_type or None) for group in groups]
        answer(table(("GROUP", "STATE", "TYPE", "PROTOCOL"), rows))


@command.command(context_settings=HELP)
@group_option
@isolation_option("Count up to the end of the log, or to the first open transaction. Default: the end.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "table", "json"]),
    default="text",
    show_default=True,
    help="A line per member, a row per partition, or everything for programs.",
)
@cluster_options
def describe(group_id: str, isolation: str | None, form: str) -> None:
    """Show a group's members, what each reads, and how far behind it is.

    \b
    $ headrace groups describe --group my-group
    Consumer-1: Partitions [0, 1], Lag: 100
    Consumer-2: Partitions [2], Lag: 0
    """
    from headrace.cli.groups.text import group_facts, lag_table, member_lines
    from headrace.cli.terminal.delivery import isolation_level
    from headrace.cli.terminal.output import answer, answer_json, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.groups import GroupAdmin

    async def work(cluster: Cluster) -> tuple[GroupDescription, list[PartitionLag]]:
        admin = GroupAdmin(cluster)
        group = await admin.describe(group_id)
        return group, await admin.lag(group_id, isolation=isolation_level(isolation))

    group, lags = with_cluster(work)
    if form == "json":
        answer_json(group_facts(group, lags))
        return
    if not group.members:
        talk(f"group {group_id} has no members")
    if form == "table":
        answer(lag_table(group, lags))
    elif lines := member_lines(group, lags):
        answer("\n".join(lines))


def _scope(text: str) -> TopicScope:
    """The type of `--topic`: a topic, or a topic and some of its partitions."""
    from headrace.cli.groups.reset_plan import parse_scope

    try:
        return parse_scope(text)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from wrong


scopes_option = click.option(
    "--topic",
    "scopes",
    type=_scope,
    metavar="TOPIC[:P,…]",
    multiple=True,
    help="A topic, or some of its partitions: events:0,2. Repeatable.",
)


@command.command("reset-offsets", context_settings=HELP)
@group_option
@scopes_option
@click.option("--all-topics", is_flag=True, help="Every topic in which the group has a position.")
@click.option("--to-earliest", is_flag=True, help="To the first message that is still there.")
@click.option("--to-latest", is_flag=True, help="To the end: only what comes from now on is read.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first message at this time or later (ISO 8601; UTC unless it names a zone).",
)
@click.option("--to-offset", type=offset_number, help="To this offset.")
@click.option("--shift-by", type=int, metavar="N", help="N messages forward from the present position; -N goes back.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@output_format
@cluster_options
def reset_offsets(
    group_id: str,
    scopes: tuple[TopicScope, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    to_offset: int | None,
    shift_by: int | None,
    dry_run: bool,
    form: str,
) -> None:
    """Move a group to other offsets, for example to read everything again. Shows old and new positions.

    The group must have no members: stop its consumers first. An offset outside the log becomes the nearest one. A group
    that does not exist yet can be given positions before its first member starts.
    """
    from headrace.cli.groups.resetting import reset_group, target_of
    from headrace.cli.terminal.output import answer, answer_json, plural, table, talk
    from headrace.cli.terminal.session import with_cluster

    if bool(scopes) == all_topics:
        raise click.UsageError("give either --topic or --all-topics")
    goal = target_of(to_earliest, to_latest, to_datetime, to_offset, shift_by)
    resets = with_cluster(lambda cluster: reset_group(cluster, group_id, scopes, goal, is_dry_run=dry_run))
    if form == "json":
        answer_json(
            [
                {
                    "topic": reset.partition.topic,
                    "partition": reset.partition.partition,
                    "old_offset": reset.old,
                    "new_offset": reset.new,
                    "note": reset.note or None,
                }
                for reset in resets
            ]
        )
    else:
        rows = [(*reset.partition, reset.old, reset.new, reset.note) for reset in resets]
        answer(table(("TOPIC", "PARTITION", "OLD", "NEW", "NOTE"), rows))
    changed = plural(sum(reset.is_change for reset in resets), "position")
    talk(f"{changed} would change; nothing was done" if dry_run else f"changed {changed} of {group_id}")


@command.command(context_settings=HELP)
@group_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options
def delete(group_id: str, yes: bool) -> None:
    """Delete a group and its positions. It must have no members. On a terminal it asks first."""
    from headrace.cli.terminal.complaints import Complaint
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.groups import GroupAdmin

    async def work(cluster: Cluster) -> None:
        admin = GroupAdmin(cluster)
        await admin.describe(group_id)
        if not yes and sys.stdin.isatty():
            positions = plural(len(await admin.offsets(group_id)), "position")
            if not click.confirm(f"Delete group {group_id!r} with {positions}?", err=True):
                raise Complaint(f"group {group_id!r} was not deleted")
        await admin.delete(group_id)

    with_cluster(work)
    talk(f"deleted group {group_id}")


@command.command("delete-offsets", context_settings=HELP)
@group_option
@scopes_option
@cluster_options
def delete_offsets(group_id: str, scopes: tuple[TopicScope, ...]) -> None:
    """Forget a group's positions in a topic that it does not read any more."""
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.groups import GroupAdmin

    if not scopes:
        raise click.UsageError("give --topic")

    async def work(cluster: Cluster) -> list[TopicPartition]:
        admin = GroupAdmin(cluster)
        chosen = [name for name in await admin.offsets(group_id) if any(scope.holds(name) for scope in scopes)]
        if not chosen:
            await admin.describe(group_id)
            raise Complaint(f"group {group_id!r} has no position there", exit_code=NOT_FOUND)
        await admin.delete_offsets(group_id, chosen)
        return chosen

    talk(f"forgot {plural(len(with_cluster(work)), 'position')} of {group_id}")

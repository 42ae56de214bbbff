"""`headrace acls`: access rules, which say who may or must not do what."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from headrace.cli.terminal.options import HELP, cluster_options, noun, output_format

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.access.rules.acl import Acl
    from headrace.access.rules.filters import AclFilter
    from headrace.client.connections.cluster import Cluster

command = noun("List, add and remove access rules: who may, or must not, do what with which topics, groups and so on.")

NAMES: Final = "Repeatable; * means all."


def rule_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a rule says, apart from whom it is about: a function gets the options as keywords, for `rules`."""
    for option in (
        click.option("--host", "hosts", multiple=True, help="Only from this address. Repeatable. Default: any."),
        click.option("--prefixed", is_flag=True, help="Names are beginnings: all resources that begin so."),
        click.option("--transactional-id", "transactional_ids", multiple=True, help=f"A transactional id. {NAMES}"),
        click.option(
            "--cluster", is_flag=False, flag_value="", metavar="[NAME]", help="The cluster; it needs no name."
        ),
        click.option("--group", "groups", multiple=True, help=f"A group. {NAMES}"),
        click.option("--topic", "topics", multiple=True, help=f"A topic. {NAMES}"),
        click.option("--deny", multiple=True, metavar="OPERATION,…", help="Operations that are denied, all the same."),
        click.option("--allow", multiple=True, metavar="OPERATION,…", help="Operations that are allowed: read,write."),
    ):
        function = option(function)
    return function


def principal_option(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--principal",
        "principals",
        metavar="User:NAME",
        multiple=True,
        required=required,
        help="Whom it is about, such as User:alice; User:* is everybody. Repeatable.",
    )


@command.command(context_settings=HELP)
@principal_option(required=True)
@rule_options
@cluster_options
def add(**given: Any) -> None:
    """Allow or deny something. A denial counts whatever else is allowed.

    read, write, delete and alter imply describe, and alter-configs implies describe-configs.

    \b
    $ headrace acls add --principal User:alice --allow read,write --topic orders
    $ headrace acls add --principal User:alice --allow read --group billing- --prefixed
    $ headrace acls add --principal User:alice --allow create --cluster
    """
    from headrace.cli.acls.rules import acls_of
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.acls import AclAdmin

    acls = acls_of(given)

    async def work(cluster: Cluster) -> None:
        await AclAdmin(cluster).add(acls)

    with_cluster(work)
    for acl in acls:
        talk(_sentence(acl))
    talk(f"added {plural(len(acls), 'rule')}")


@command.command("list", context_settings=HELP)
@principal_option(required=False)
@rule_options
@output_format
@cluster_options
def list_acls(form: str, **given: Any) -> None:
    """List the rules, or those that fit what is given.

    With a name it shows all that count for that resource: also those of `*`, and of beginnings of the name.
    """
    from headrace.access.operations import PatternType
    from headrace.cli.acls.rules import COLUMNS, filters_of, row
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster

    filters = filters_of(given, PatternType.MATCH)

    async def work(cluster: Cluster) -> list[Acl]:
        return await _found(cluster, filters)

    acls = with_cluster(work)
    if form == "json":
        names = [column.lower() for column in COLUMNS]
        answer_json([dict(zip(names, row(acl), strict=True)) for acl in acls])
    elif acls:
        answer(table(COLUMNS, [row(acl) for acl in acls]))


@command.command(context_settings=HELP)
@principal_option(required=False)
@rule_options
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@cluster_options
def remove(dry_run: bool, yes: bool, **given: Any) -> None:
    """Remove the rules that fit what is given, after showing them. On a terminal it asks first.

    What is left out fits everything: `--principal User:alice` removes all rules about her.
    """
    from headrace.access.operations import PatternType
    from headrace.cli.acls.rules import filters_of
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.acls import AclAdmin

    if not any(value for name, value in given.items() if name != "cluster") and given["cluster"] is None:
        raise click.UsageError("say which: --principal, --topic, --allow and so on; what is left out fits everything")
    filters = filters_of(given, PatternType.LITERAL)

    async def work(cluster: Cluster) -> int:
        found = await _found(cluster, filters)
        if not found:
            raise Complaint("there is no such rule", "`headrace acls list` shows which there are", NOT_FOUND)
        for acl in found:
            talk(_sentence(acl))
        if dry_run:
            return 0
        question = f"Remove {'this rule' if len(found) == 1 else f'these {len(found)} rules'}?"
        if not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
            raise Complaint("no rule was removed")
        return len(await AclAdmin(cluster).remove(filters))

    removed = with_cluster(work)
    talk(f"removed {plural(removed, 'rule')}" if not dry_run else "these would be removed; nothing was")


async def _found(cluster: Cluster, filters: list[AclFilter]) -> list[Acl]:
    from headrace.client.admin.acls import AclAdmin

    admin = AclAdmin(cluster)
    return sorted({acl for wanted in filters for acl in await admin.find(wanted)})


def _sentence(acl: Acl) -> str:
    from headrace.access.operations import CLUSTER, PatternType
    from headrace.access.rules.acl import ANY_HOST
    from headrace.cli.acls.rules import word

    place = "the cluster" if acl.resource_type is CLUSTER.kind else f"{word(acl.resource_type)} {acl.name}"
    if acl.pattern is PatternType.PREFIXED:
        place = f"{word(acl.resource_type)}s that begin with {acl.name}"
    origin = "" if acl.host == ANY_HOST else f" from {acl.host}"
    return f"{word(acl.permission)} {acl.principal}{origin}: {word(acl.operation)} on {place}"

"""`headrace quotas`: how much users, client ids and addresses may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from headrace.cli.terminal.options import HELP, cluster_options, noun, output_format
from headrace.cli.terminal.sizes import rate_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.access.quotas.entity import QuotaEntity
    from headrace.client.admin.quotas import EntityQuotas
    from headrace.client.connections.cluster import Cluster

command = noun("List, set and remove quotas of users, client ids and addresses.")

KEYS: Final = {
    "produce_rate": "producer_byte_rate",
    "fetch_rate": "consumer_byte_rate",
    "request_percentage": "request_percentage",
    "mutation_rate": "controller_mutation_rate",
    "connection_rate": "connection_creation_rate",
}
"""Each option, and Kafka's name for what it sets."""

ANY_NAME: Final = "(default)"
more_than_nothing = click.FloatRange(min=0, min_open=True)

RATES: Final = (
    click.option("--produce-rate", metavar="RATE", callback=rate_option, help="Bytes produced, such as 10MB/s."),
    click.option("--fetch-rate", metavar="RATE", callback=rate_option, help="Bytes fetched, such as 10MB/s."),
    click.option(
        "--request-percentage", type=more_than_nothing, help="Of the time of the thread that serves requests."
    ),
    click.option("--mutation-rate", type=more_than_nothing, help="Partitions created and deleted, per second."),
    click.option("--connection-rate", type=click.IntRange(1), help="New connections, per second."),
)


def entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Whom it is about: a function gets the six options as keywords, for `_entity` to read."""
    for option in (
        click.option("--ip-default", is_flag=True, help="Each address that has no quota of its own."),
        click.option("--ip", help="An IP address. It only has --connection-rate."),
        click.option("--client-id-default", is_flag=True, help="Each client id that has no quota of its own."),
        click.option("--client-id", help="What clients call themselves; with --user, only those of that user."),
        click.option("--user-default", is_flag=True, help="Each user that has no quota of its own."),
        click.option("--user", help="A user, by name; ANONYMOUS is everybody who has not logged in."),
    ):
        function = option(function)
    return function


def rate_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(RATES):
        function = option(function)
    return function


@command.command("set", context_settings=HELP)
@entity_options
@rate_options
@cluster_options
def set_quotas(**given: Any) -> None:
    """Set quotas of a user, a client id, both together, or an address; others that it has stay.

    Each node allows so much by itself: a client that uses three nodes gets three times the rate.
    """
    from headrace.access.quotas.keys import entity_text
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.quotas import QuotaAdmin

    entity = _entity(given)
    changes = {key: float(given[option]) for option, key in KEYS.items() if given[option] is not None}
    if not changes:
        raise click.UsageError(f"nothing to set; give one of {_flags()}")

    async def work(cluster: Cluster) -> None:
        await QuotaAdmin(cluster).alter(entity, changes)

    with_cluster(work)
    talk(f"set {plural(len(changes), 'quota')} of {entity_text(entity)}")


@command.command("list", context_settings=HELP)
@entity_options
@output_format
@cluster_options
def list_quotas(form: str, **given: Any) -> None:
    """List all quotas, or those of a user, a client id or an address, alone and with others."""
    from headrace.access.quotas.filters import FilterPart, MatchType
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.quotas import QuotaAdmin

    parts = [
        FilterPart(kind, MatchType.DEFAULT if name is None else MatchType.EXACT, name) for kind, name in _named(given)
    ]

    async def work(cluster: Cluster) -> list[EntityQuotas]:
        return await QuotaAdmin(cluster).list_quotas(parts)

    found = with_cluster(work)
    if form == "json":
        answer_json([{"entity": dict(quotas.entity), "quotas": quotas.values} for quotas in found])
    elif found:
        rows = [
            (*(_name(quotas.entity, kind) for kind in ("user", "client-id", "ip")), key, f"{value:.15g}")
            for quotas in found
            for key, value in quotas.values.items()
        ]
        answer(table(("USER", "CLIENT ID", "IP", "QUOTA", "VALUE"), rows))


@command.command(context_settings=HELP)
@entity_options
@click.option("--produce-rate", is_flag=True, help="Only this one.")
@click.option("--fetch-rate", is_flag=True, help="Only this one.")
@click.option("--request-percentage", is_flag=True, help="Only this one.")
@click.option("--mutation-rate", is_flag=True, help="Only this one.")
@click.option("--connection-rate", is_flag=True, help="Only this one.")
@cluster_options
def remove(**given: Any) -> None:
    """Remove quotas of a user, a client id, both together, or an address: all that it has, or those that are named."""
    from headrace.access.quotas.keys import entity_text
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster

    entity = _entity(given)
    named = {key for option, key in KEYS.items() if given[option]}

    async def work(cluster: Cluster) -> int:
        return await _remove(cluster, entity, named)

    removed = with_cluster(work)
    if not removed:
        raise Complaint(
            f"{entity_text(entity)} has no such quota", "`headrace quotas list` shows which there are", NOT_FOUND
        )
    talk(f"removed {plural(removed, 'quota')} of {entity_text(entity)}")


async def _remove(cluster: Cluster, entity: QuotaEntity, named: set[str]) -> int:
    """Returns how many there were. `named` empty means all."""
    from headrace.access.quotas.filters import FilterPart, MatchType
    from headrace.client.admin.quotas import QuotaAdmin

    admin = QuotaAdmin(cluster)
    parts = [FilterPart(kind, MatchType.DEFAULT if name is None else MatchType.EXACT, name) for kind, name in entity]
    found = await admin.list_quotas(parts, is_strict=True)
    keys = [key for quotas in found for key in quotas.values if not named or key in named]
    if keys:
        await admin.alter(entity, dict.fromkeys(keys))
    return len(keys)


def _named(given: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The parts of the entity that the options name; None for a default."""
    for kind, option in (("user", "user"), ("client-id", "client_id"), ("ip", "ip")):
        name, is_default = given[option], given[f"{option}_default"]
        if name is not None and is_default:
            raise click.UsageError(f"give --{kind} or --{kind}-default, not both")
        if name is not None or is_default:
            yield kind, name


def _entity(given: dict[str, Any]) -> QuotaEntity:
    from headrace.access.quotas.entity import EntityPart
    from headrace.access.quotas.keys import BadQuota, entity_of

    parts = [EntityPart(kind, name) for kind, name in _named(given)]
    if not parts:
        raise click.UsageError("give --user, --client-id or both, or --ip; or --user-default and so on")
    try:
        return entity_of(parts)
    except BadQuota as problem:
        raise click.UsageError(str(problem)) from None


def _name(entity: QuotaEntity, kind: str) -> str:
    for part in entity:
        if part.kind == kind:
            return ANY_NAME if part.name is None else part.name
    return "-"


def _flags() -> str:
    return ", ".join(f"--{option.replace('_', '-')}" for option in KEYS)

"""`headrace audit`: its options."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.terminal.options import HELP, cluster_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.audit.entries import Entry

OUTCOMES = ("done", "refused", "failed")


@click.command("audit", context_settings=HELP)
@click.option("--since", metavar="TIME", help="From then on: 90s, 15m, 1h, 7d ago, or a time in ISO 8601 (UTC).")
@click.option("--until", metavar="TIME", help="Before then, written alike.")
@click.option("--principal", help="Only what this one did, such as User:alice.")
@click.option("--action", help="Only this: Login, or an API's name, such as CreateTopics.")
@click.option("--resource", metavar="TEXT", help="Only what is about a resource with this text in its name.")
@click.option("--host", help="Only what came from this address.")
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only what ended so.")
@click.option("--follow", is_flag=True, help="Go on with what arrives.")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, path_type=Path),
    help="Read this audit.log, or all of a data directory, without any node.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="A line for people, or the JSON that was noted.",
)
@cluster_options
def command(
    since: str | None,
    until: str | None,
    principal: str | None,
    action: str | None,
    resource: str | None,
    host: str | None,
    outcome: str | None,
    follow: bool,
    path: Path | None,
    form: str,
) -> None:
    """Show who did what: logins, refusals, and changes of topics, settings, users and rules.

    It reads the topic __audit of the cluster: all nodes, in the order in which it came there.

    \b
    $ headrace audit --since 1h --outcome refused
    $ headrace audit --principal User:alice --follow
    $ headrace audit --file /var/lib/headrace --format json
    """
    from headrace.cli.audit.entries import Filter, as_json, as_text
    from headrace.cli.terminal.output import answer

    now_ms = time.time_ns() // 1_000_000
    wanted = Filter(
        _moment(since, "--since", now_ms), _moment(until, "--until", now_ms), principal, action, resource, host, outcome
    )
    if path is not None and follow:
        raise click.UsageError("--follow reads from a cluster, --file from a disk: give one of them")
    shown = as_json if form == "json" else as_text

    def show(entry: Entry) -> None:
        if wanted.takes(entry):
            answer(shown(entry))

    if path is None:
        _from_cluster(wanted.since_ms, follow, show)
    else:
        _from_files(path, show)


def _from_cluster(since_ms: int | None, follow: bool, show: Callable[[Entry], None]) -> None:
    import math

    from headrace.cli.audit.reading import read_topic
    from headrace.cli.terminal.session import with_cluster

    with_cluster(lambda cluster: read_topic(cluster, since_ms, follow, show), away_for_s=math.inf if follow else None)


def _from_files(path: Path, show: Callable[[Entry], None]) -> None:
    from headrace.cli.audit.entries import parse_line
    from headrace.cli.audit.reading import lines_of
    from headrace.cli.terminal.output import plural, talk

    unreadable = 0
    for line in lines_of(path):
        entry = parse_line(line)
        if entry is None:
            unreadable += 1
        else:
            show(entry)
    if unreadable:
        talk(f"{plural(unreadable, 'line')} could not be read: a machine that goes down may leave half a line")


def _moment(text: str | None, option: str, now_ms: int) -> int | None:
    from headrace.cli.audit.entries import parse_moment

    try:
        return None if text is None else parse_moment(text, now_ms)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint=option) from wrong

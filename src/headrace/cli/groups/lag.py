"""`headrace lag`: how far behind a group is."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.terminal.delivery import isolation_option
from headrace.cli.terminal.options import HELP, cluster_options, group_option, output_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.admin.groups import PartitionLag
    from headrace.client.connections.cluster import Cluster

INTERVAL_S = 2.0
CLEAR_SCREEN = b"\x1b[H\x1b[2J"


@click.command("lag", context_settings=HELP)
@group_option
@isolation_option("Count up to the end of the log, or to the first open transaction. Default: the end.")
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option(
    "--interval-s",
    type=click.FloatRange(min=0.1),
    default=INTERVAL_S,
    show_default=True,
    help="With --watch: how often.",
)
@output_format
@cluster_options
def command(group_id: str, isolation: str | None, watch: bool, interval_s: float, form: str) -> None:
    """Show how far a group is behind: in messages, and in time.

    Lag is the distance from the group's position to the end of the log. Lag time is the age of the oldest message that
    the group has not read yet. What cannot be known is shown as unknown: a partition without a position has no lag.
    """
    import asyncio

    from headrace.cli.terminal.delivery import isolation_level
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.groups import GroupAdmin

    level = isolation_level(isolation)

    async def work(cluster: Cluster) -> None:
        admin = GroupAdmin(cluster)
        while True:
            show(group_id, await admin.lag(group_id, isolation=level), form, is_repeated=watch)
            if not watch:
                return
            await asyncio.sleep(interval_s)

    with_cluster(work)


def show(group_id: str, lags: Sequence[PartitionLag], form: str, *, is_repeated: bool) -> None:
    """For programs that watch: one object per line and look. For people: the screen anew, if it is one."""
    from headrace.cli.groups.text import lag_facts, lag_summary, short_lag_table
    from headrace.cli.terminal.output import answer, answer_bytes, answer_json, talk

    if form == "json":
        facts = {"group": group_id, "partitions": [lag_facts(lag) for lag in lags]}
        if is_repeated:
            answer(json.dumps(facts, ensure_ascii=False))
        else:
            answer_json(facts)
        return
    if is_repeated and sys.stdout.isatty():
        answer_bytes(CLEAR_SCREEN)
    if lags:
        answer(short_lag_table(lags))
    talk(lag_summary(group_id, lags))

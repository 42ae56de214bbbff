"""`headrace consume`: messages to stdout, alone or as a member of a group; or from topic to topic, exactly once."""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import click

from headrace.cli.messages.deduplication import WINDOW
from headrace.cli.terminal.delivery import READ_COMMITTED, READ_UNCOMMITTED, Delivery, delivery_option, isolation_option
from headrace.cli.terminal.numbers import offset_number, partition_number, record_count
from headrace.cli.terminal.options import HELP, cluster_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.messages.formatter import Formatter
    from headrace.cli.messages.partition_reading import Printing, Reading
    from headrace.cli.messages.starting_offsets import OffsetSpec
    from headrace.client.connections.cluster import Cluster

POLL_RECORDS = 500
NO_ORDER = "none"
BY_TIME = "time"

message_format = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The value alone, or a JSON object with everything.",
)


class Membership(NamedTuple):
    """As whose member to read, and with which promise."""

    group_id: str
    delivery: Delivery
    instance_id: str | None
    to_topic: str | None
    transactional_id: str | None


def membership_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of a group's member, handed on as `membership`; None without `--group`."""

    @click.option("--group", help="Read as a member of this group: it shares partitions, and remembers its positions.")
    @delivery_option(
        "With --group. at-most-once: positions are stored before messages are printed. at-least-once: after (the "
        "default). exactly-once: messages go to --to-topic, in one transaction with their positions."
    )
    @click.option(
        "--instance-id", help="With --group: a fixed name of this member. Restarted under it, it keeps its partitions."
    )
    @click.option("--to-topic", help="With --group: copy the messages there instead of printing them, exactly once.")
    @click.option(
        "--transactional-id",
        help="With --to-topic: the copier's transactional id. Default: from --group and --instance-id, else a new one.",
    )
    @wraps(function)
    def with_membership(
        group: str | None,
        delivery: Delivery | None,
        instance_id: str | None,
        to_topic: str | None,
        transactional_id: str | None,
        **others: Any,
    ) -> None:
        function(membership=membership_of(group, delivery, instance_id, to_topic, transactional_id), **others)

    return with_membership


@click.command("consume", context_settings=HELP)
@click.option("--topic", required=True, help="What to read.")
@click.option(
    "--partition",
    "partitions",
    type=partition_number,
    multiple=True,
    help="Only this one. Repeatable. Default: all.",
)
@click.option(
    "--from",
    "start",
    metavar="PLACE",
    default="earliest",
    show_default=True,
    help="earliest, latest, an offset, -N (the last N of each partition), or a time (ISO 8601, or ms since 1970). "
    "With --group: earliest or latest, where the group has no position yet.",
)
@click.option(
    "--offset", type=offset_number, help="Start at this offset, however large; --from takes large numbers for times."
)
@click.option("--follow", is_flag=True, help="Go on with what arrives. Default: stop at what is the end at the start.")
@click.option("--max-messages", type=click.IntRange(min=0), help="Stop after this many.")
@click.option(
    "--max-poll-records",
    type=record_count,
    default=POLL_RECORDS,
    show_default=True,
    help="Take at most this many at a time. With --group a crash loses or repeats no more than these.",
)
@membership_options
@isolation_option(
    "Messages of transactions: all of them, or only committed ones. "
    f"Default: {READ_UNCOMMITTED}; with --delivery exactly-once {READ_COMMITTED}."
)
@click.option(
    "--dedupe-header", metavar="NAME", help="Drop messages whose header NAME has a value that was seen before."
)
@click.option(
    "--dedupe-window",
    type=click.IntRange(min=1),
    default=WINDOW,
    show_default=True,
    help="With --dedupe-header: how many values are remembered, over all partitions; about 100 bytes each.",
)
@click.option(
    "--order",
    type=click.Choice([NO_ORDER, BY_TIME]),
    default=NO_ORDER,
    show_default=True,
    help="As they come, or all partitions merged by timestamp.",
)
@click.option(
    "--idle-wait-ms",
    type=click.IntRange(min=0),
    help="With --order time: how long to wait for a silent partition. Default: 500 with --follow, otherwise until "
    "its end.",
)
@message_format
@click.option(
    "--show",
    metavar="FIELDS",
    default="value",
    show_default=True,
    help="With text: any of topic,partition,offset,timestamp,key,value,headers.",
)
@click.option("--separator", default="\t", help="With text: what stands between the fields. Default: a tab.")
@cluster_options
def command(
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    offset: int | None,
    follow: bool,
    max_messages: int | None,
    max_poll_records: int,
    membership: Membership | None,
    isolation: str | None,
    dedupe_header: str | None,
    dedupe_window: int,
    order: str,
    idle_wait_ms: int | None,
    form: str,
    show: str,
    separator: str,
) -> None:
    """Print messages, one per line: from the first one on, up to those that are there now.

    Each partition is in its own order; among partitions messages come as they arrive, unless --order time is given.

    \b
    $ headrace consume --topic events --group billing --follow
    $ headrace consume --topic events --group copier --delivery exactly-once --to-topic events-copy
    """
    from headrace.cli.messages.deduplication import RepeatFilter
    from headrace.cli.messages.partition_reading import Printing, Reading, Tally
    from headrace.cli.terminal.delivery import isolation_level
    from headrace.cli.terminal.session import with_cluster

    if membership is not None:
        _leave_it_to_the_group(partitions, start, offset, order)
    if membership is not None and membership.delivery is Delivery.EXACTLY_ONCE:
        if isolation == READ_UNCOMMITTED:
            raise click.UsageError(
                f"--delivery exactly-once reads what is committed: leave out --isolation {isolation}"
            )
        isolation = READ_COMMITTED
    reading = Reading(
        topic,
        partitions,
        _offset_spec(start, offset),
        follow,
        max_poll_records,
        order == BY_TIME,
        idle_wait_ms,
        isolation_level(isolation),
    )
    repeats = None if dedupe_header is None else RepeatFilter(dedupe_header, dedupe_window)
    printing = Printing(_formatter(form, show, separator), Tally(max_messages, repeats))

    away_for_s = math.inf if follow else None
    with_cluster(lambda cluster: _consume(cluster, reading, membership, printing), away_for_s=away_for_s)


async def _consume(cluster: Cluster, reading: Reading, membership: Membership | None, printing: Printing) -> None:
    from headrace.cli.messages.absent_nodes import told_of_absences
    from headrace.cli.terminal.output import talk

    is_copy = membership is not None and membership.to_topic is not None
    try:
        if reading.is_following:
            async with told_of_absences(cluster):
                await _read(cluster, reading, membership, printing)
        else:
            await _read(cluster, reading, membership, printing)
    finally:
        talk(printing.tally.summary("copied" if is_copy else "read"))


async def _read(cluster: Cluster, reading: Reading, membership: Membership | None, printing: Printing) -> None:
    if membership is None:
        from headrace.cli.messages.partition_reading import read_partitions

        await read_partitions(cluster, reading, printing)
    elif membership.to_topic is not None:
        from headrace.cli.messages.copying import copy_in_group

        await copy_in_group(cluster, reading, membership, printing.tally)
    else:
        from headrace.cli.messages.group_reading import read_in_group

        await read_in_group(cluster, reading, membership, printing)


def membership_of(
    group: str | None,
    delivery: Delivery | None,
    instance_id: str | None,
    to_topic: str | None,
    transactional_id: str | None,
) -> Membership | None:
    """Fill in what was not said, and refuse what does not fit together or cannot be kept."""
    if group is None:
        given = {
            "--delivery": delivery,
            "--instance-id": instance_id,
            "--to-topic": to_topic,
            "--transactional-id": transactional_id,
        }
        for option, value in given.items():
            if value is not None:
                raise click.UsageError(f"{option} needs --group: without one, no positions are kept")
        return None
    if to_topic is None:
        if delivery is Delivery.EXACTLY_ONCE:
            raise click.UsageError(
                "exactly-once needs --to-topic, which copies messages and stores positions in one transaction: what is "
                "printed cannot be taken back after a crash. To print, choose at-least-once, and --dedupe-header if "
                "messages carry an id"
            )
        if transactional_id is not None:
            raise click.UsageError("--transactional-id goes with --to-topic")
        return Membership(group, delivery or Delivery.AT_LEAST_ONCE, instance_id, None, None)
    if delivery not in {None, Delivery.EXACTLY_ONCE}:
        raise click.UsageError(f"--to-topic copies exactly once; leave out --delivery {delivery}")
    copier = transactional_id or f"headrace-copy-{group}-{instance_id or uuid4()}"
    return Membership(group, Delivery.EXACTLY_ONCE, instance_id, to_topic, copier)


def _leave_it_to_the_group(partitions: tuple[int, ...], start: str, offset: int | None, order: str) -> None:
    """Who reads what, and from where, is the group's to say."""
    if partitions:
        raise click.UsageError("--partition and --group exclude each other: the group shares out the partitions")
    if offset is not None or start not in {"earliest", "latest"}:
        raise click.UsageError(
            "a group goes on at its positions: with --group, --from may be earliest or latest, for partitions in which "
            "it has none yet. `headrace groups reset-offsets` moves a group"
        )
    if order == BY_TIME:
        raise click.UsageError("--order time and --group exclude each other: other members read the other partitions")


def _offset_spec(start: str, offset: int | None) -> OffsetSpec:
    from headrace.cli.messages.starting_offsets import parse_offset_spec

    if offset is not None:
        return offset
    try:
        return parse_offset_spec(start)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--from") from wrong


def _formatter(form: str, show: str, separator: str) -> Formatter:
    from headrace.cli.messages.formatter import SHOWABLE, json_format, text_format

    fields = [field.strip() for field in show.split(",") if field.strip()]
    for field in fields:
        if field not in SHOWABLE:
            raise click.BadParameter(f"{field!r}; expected any of {', '.join(SHOWABLE)}", param_hint="--show")
    return json_format if form == "json" else text_format(fields or ["value"], separator.encode())

"""`headrace consume`: messages of chosen partitions, to stdout."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from headrace.cli.options import HELP, bootstrap_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from headrace.cli.message_text import Formatter
    from headrace.cli.places import Place
    from headrace.client.cluster import Cluster
    from headrace.client.consumer import AssignedConsumer, Start
    from headrace.model.names import TopicPartition
    from headrace.wire.records import Record

POLL_RECORDS = 500
POLL_WAIT_S = 1.0
IDLE_WAIT_MS = 500  # long enough for a partition that has something to be heard, short enough to watch
BY_TIME = "time"

message_format = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The value alone, or a JSON object with everything.",
)


@click.command("consume", context_settings=HELP)
@click.option("--topic", required=True, help="What to read.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this one. Repeatable. Default: all.",
)
@click.option(
    "--from",
    "start",
    metavar="PLACE",
    default="earliest",
    show_default=True,
    help="earliest, latest, an offset, -N (the last N of each partition), or a time (ISO 8601, or ms since 1970).",
)
@click.option("--offset", type=click.IntRange(min=0), help="Start at this offset, whatever its size.")
@click.option("--follow", is_flag=True, help="Go on with what arrives. Default: stop at the end of now.")
@click.option("--max-messages", type=click.IntRange(min=0), help="Stop after this many.")
@click.option(
    "--max-poll-records",
    type=click.IntRange(min=1),
    default=POLL_RECORDS,
    show_default=True,
    help="Take at most this many at a time.",
)
@click.option(
    "--order",
    type=click.Choice(["none", BY_TIME]),
    default="none",
    show_default=True,
    help="As they come, or all partitions merged by timestamp.",
)
@click.option(
    "--idle-wait-ms",
    type=click.IntRange(min=0),
    help="With --order time: how long to wait for a silent partition. "
    f"Default: {IDLE_WAIT_MS} with --follow, otherwise until its end.",
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
@bootstrap_server
def command(
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    offset: int | None,
    follow: bool,
    max_messages: int | None,
    max_poll_records: int,
    order: str,
    idle_wait_ms: int | None,
    form: str,
    show: str,
    separator: str,
) -> None:
    """Print messages, one per line: from the first one on, up to those that are there now.

    Each partition is in its own order; among partitions messages come as they arrive, unless --order time is given.
    """
    from headrace.cli.output import plural, talk
    from headrace.cli.session import with_cluster

    reading = Reading(
        topic, partitions, _place(start, offset), follow, max_messages, max_poll_records, order == BY_TIME, idle_wait_ms
    )
    printing = _formatter(form, show, separator)

    async def work(cluster: Cluster) -> None:
        try:
            await _consume(cluster, reading, printing)
        finally:
            talk(f"read {plural(reading.printed_count, 'message')}")

    with_cluster(work)


@dataclass
class Reading:
    """What to read, and how far it got."""

    topic: str
    partitions: tuple[int, ...]
    place: Place
    is_following: bool
    max_messages: int | None
    poll_records: int
    is_by_time: bool
    idle_wait_ms: int | None
    printed_count: int = 0

    @property
    def left(self) -> int:
        """Messages to print before it is enough."""
        return sys.maxsize if self.max_messages is None else self.max_messages - self.printed_count


def _place(start: str, offset: int | None) -> Place:
    from headrace.cli.places import parse_place

    if offset is not None:
        return offset
    try:
        return parse_place(start)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--from") from wrong


def _formatter(form: str, show: str, separator: str) -> Formatter:
    from headrace.cli.message_text import SHOWABLE, json_format, text_format

    fields = [field.strip() for field in show.split(",") if field.strip()]
    for field in fields:
        if field not in SHOWABLE:
            raise click.BadParameter(f"{field!r}; expected any of {', '.join(SHOWABLE)}", param_hint="--show")
    return json_format if form == "json" else text_format(fields or ["value"], separator.encode())


async def _consume(cluster: Cluster, reading: Reading, printing: Formatter) -> None:
    from headrace.cli.output import plural, talk
    from headrace.client.consumer import AssignedConsumer

    names = await _partitions(cluster, reading)
    starts, ends = await _range(cluster, reading, names)
    if reading.left <= 0:
        return
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign(starts, ends)
        batches = _by_time(consumer, names, reading) if reading.is_by_time else _as_they_come(consumer, reading)
        async for batch in batches:
            _print(batch, reading, printing)
            if reading.left <= 0:
                break
        if consumer.skipped_count:
            talk(f"passed over {plural(consumer.skipped_count, 'offset')} that were deleted before they could be read")


async def _partitions(cluster: Cluster, reading: Reading) -> list[TopicPartition]:
    from headrace.client.cluster import no_such_partition
    from headrace.model.names import TopicPartition

    topic = await cluster.topic(reading.topic)
    for index in reading.partitions:
        if index >= len(topic.partitions):
            raise no_such_partition(topic, index)
    indexes = sorted(set(reading.partitions)) or range(len(topic.partitions))
    return [TopicPartition(reading.topic, index) for index in indexes]


async def _range(
    cluster: Cluster, reading: Reading, names: list[TopicPartition]
) -> tuple[dict[TopicPartition, Start], dict[TopicPartition, int]]:
    """Where to start and, unless what is yet to come is wanted too, where to end."""
    from headrace.cli.places import BeforeEnd, start_offset
    from headrace.client.offsets import find_bounds

    bounds = await find_bounds(cluster, names)
    starts: dict[TopicPartition, Start] = {}
    for name in names:
        place = reading.place
        starts[name] = start_offset(place, *bounds[name]) if isinstance(place, (int, BeforeEnd)) else place
    return starts, {} if reading.is_following else {name: bounds[name][1] for name in names}


async def _as_they_come(
    consumer: AssignedConsumer, reading: Reading
) -> AsyncIterator[Sequence[tuple[TopicPartition, Record]]]:
    while not consumer.is_finished:
        taken = await consumer.poll(min(reading.poll_records, reading.left), POLL_WAIT_S)
        if taken:
            yield [(name, record) for name, records in taken.items() for record in records]


async def _by_time(
    consumer: AssignedConsumer, names: list[TopicPartition], reading: Reading
) -> AsyncIterator[Sequence[tuple[TopicPartition, Record]]]:
    import math
    import time

    from headrace.client.merge import TimeMerge

    idle_wait_s = math.inf if reading.idle_wait_ms is None else reading.idle_wait_ms / 1000
    if reading.is_following and reading.idle_wait_ms is None:
        idle_wait_s = IDLE_WAIT_MS / 1000
    merge = TimeMerge(names, idle_wait_s=idle_wait_s, now_s=time.monotonic())
    waited_for = list(names)
    while True:
        unfinished = set(consumer.unfinished)
        for name in [name for name in waited_for if name not in unfinished]:
            merge.end(name)
            waited_for.remove(name)
        taken = merge.take(time.monotonic(), min(reading.poll_records, reading.left))
        if taken:
            yield taken
            continue
        if merge.is_exhausted:
            return
        ready_at_s = merge.ready_at_s()
        wait_s = POLL_WAIT_S if ready_at_s is None else min(POLL_WAIT_S, ready_at_s - time.monotonic())
        fresh = await consumer.poll(reading.poll_records, max(0.0, wait_s), only=set(merge.hungry))
        for name, records in fresh.items():
            merge.add(name, records)


def _print(batch: Sequence[tuple[TopicPartition, Record]], reading: Reading, printing: Formatter) -> None:
    from headrace.cli.output import answer_bytes

    answer_bytes(b"".join([printing(name, record) for name, record in batch[: reading.left]]))
    reading.printed_count += min(len(batch), reading.left)

"""`headrace produce`: lines from stdin or files become messages."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.options import HELP, bootstrap_server, pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.line_input import Lines
    from headrace.cli.message_lines import Message
    from headrace.client.cluster import Cluster
    from headrace.client.producer import BatchingProducer, ProducerSettings

    Pairs = tuple[tuple[str, str], ...]

BATCH_BYTES = 1 << 20
LINGER_MS = 5.0
DELIVERY_TIMEOUT_S = 30.0  # a person waits; long enough for a node to restart
STOP = "stop"
SKIP = "skip"


@click.command("produce", context_settings=HELP)
@click.option("--topic", required=True, help="Where the messages go.")
@click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="Read this instead of stdin. Repeatable.",
)
@click.option("--key", help="The same key for every message.")
@click.option("--key-separator", metavar="TEXT", help="Each line is a key, this separator, and a value.")
@click.option(
    "--json",
    "is_json",
    is_flag=True,
    help="Each line is a JSON object with any of key, value, headers, partition, timestamp.",
)
@click.option("--partition", type=click.IntRange(min=0), help="Default: by key; without a key, spread evenly.")
@click.option(
    "--header", "headers", type=pair, metavar="NAME=VALUE", multiple=True, help="On every message. Repeatable."
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="Wait for nobody, for the leader, or for all replicas in sync.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Of the batches.",
)
@click.option(
    "--batch-bytes",
    type=click.IntRange(min=1),
    default=BATCH_BYTES,
    show_default=True,
    help="A batch of this size is sent.",
)
@click.option(
    "--linger-ms",
    type=click.FloatRange(min=0),
    default=LINGER_MS,
    show_default=True,
    help="A batch of this age is sent, full or not.",
)
@click.option(
    "--on-error",
    type=click.Choice([STOP, SKIP]),
    default=STOP,
    show_default=True,
    help="What to do at a line that cannot be read.",
)
@bootstrap_server
def command(
    topic: str,
    files: tuple[Path, ...],
    key: str | None,
    key_separator: str | None,
    is_json: bool,
    partition: int | None,
    headers: Pairs,
    acks: str,
    compression: str,
    batch_bytes: int,
    linger_ms: float,
    on_error: str,
) -> None:
    """Send lines from stdin or files as messages, in batches.

    When it is done it says on stderr how much it sent. What was read before an error or Ctrl-C is sent.
    """
    from headrace.cli.session import with_cluster

    job = Job(topic, files, _parser(key, key_separator, is_json, headers, partition), is_strict=on_error == STOP)
    settings = _settings(acks, compression, batch_bytes, linger_ms)

    async def work(cluster: Cluster) -> None:
        await _produce(cluster, settings, job)

    with_cluster(work)


def _parser(
    key: str | None, key_separator: str | None, is_json: bool, headers: Pairs, partition: int | None
) -> Callable[[bytes], Message]:
    from headrace.cli.message_lines import json_lines, keyed_lines, parse_headers, plain_lines

    if sum((key is not None, key_separator is not None, is_json)) > 1:
        raise click.UsageError("--key, --key-separator and --json exclude each other")
    if key_separator == "":
        raise click.BadParameter("the separator cannot be empty", param_hint="--key-separator")
    own_headers = parse_headers(headers)
    if is_json:
        return json_lines(own_headers, partition)
    if key_separator is not None:
        return keyed_lines(key_separator.encode(), own_headers, partition)
    return plain_lines(None if key is None else key.encode(), own_headers, partition)


def _settings(acks: str, compression: str, batch_bytes: int, linger_ms: float) -> ProducerSettings:
    from headrace.client.producer import Acks, ProducerSettings
    from headrace.wire.batches import Codec

    return ProducerSettings(
        acks={"0": Acks.NONE, "1": Acks.LEADER, "all": Acks.ALL}[acks],
        codec=Codec[compression.upper()],
        batch_bytes=batch_bytes,
        linger_ms=linger_ms,
        delivery_timeout_s=DELIVERY_TIMEOUT_S,
    )


@dataclass
class Job:
    """What to send, and how far it got."""

    topic: str
    paths: tuple[Path, ...]
    parse: Callable[[bytes], Message]
    is_strict: bool
    """Stop at a line that cannot be read."""
    value_bytes: int = 0
    skipped_count: int = 0


async def _produce(cluster: Cluster, settings: ProducerSettings, job: Job) -> None:
    from headrace.cli.line_input import read_lines
    from headrace.cli.progress import progress_bar
    from headrace.client.producer import BatchingProducer

    await cluster.topic(job.topic)  # so that a wrong name is told before anything is read
    started_s = time.monotonic()
    producer = BatchingProducer(cluster, settings)
    total_bytes = sum(os.path.getsize(path) for path in job.paths) if job.paths else None  # noqa: ASYNC240
    try:
        with progress_bar("sending", total_bytes) as advance:
            async with producer:
                async for lines in read_lines(job.paths):
                    await _send(producer, job, lines)
                    advance(lines.bytes_read)
                    if producer.failed_count:
                        break  # leaving the block raises what went wrong
    finally:
        _summarise(producer, job, time.monotonic() - started_s)


async def _send(producer: BatchingProducer, job: Job, lines: Lines) -> None:
    from headrace.cli.complaints import Complaint
    from headrace.cli.message_lines import BadLine
    from headrace.cli.output import talk

    for number, line in enumerate(lines.lines, lines.first_number):
        try:
            message = job.parse(line)
        except BadLine as bad:
            place = f"{lines.source}, line {number}: {bad}"
            if job.is_strict:
                hint = "everything before this line was sent; --on-error skip passes over such lines"
                raise Complaint(place, hint) from bad
            talk(f"skipped: {place}")
            job.skipped_count += 1
            continue
        await producer.send(
            job.topic,
            message.key,
            message.value,
            partition=message.partition,
            headers=message.headers,
            timestamp_ms=message.timestamp_ms,
        )
        job.value_bytes += len(message.key or b"") + len(message.value or b"")


def _summarise(producer: BatchingProducer, job: Job, took_s: float) -> None:
    from headrace.cli.output import bytes_text, plural, talk

    rate = producer.delivered_count / took_s if took_s > 0 else 0.0
    failed = f", {producer.failed_count:,} failed" if producer.failed_count else ""
    skipped = f", {plural(job.skipped_count, 'line')} skipped" if job.skipped_count else ""
    talk(
        f"sent {plural(producer.delivered_count, 'message')} ({bytes_text(job.value_bytes)}) "
        f"in {took_s:.2f} s: {rate:,.0f} messages/s{failed}{skipped}"
    )

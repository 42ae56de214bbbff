"""`headrace produce`: lines from stdin or files become messages."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import click

from headrace.cli.terminal.delivery import Delivery, delivery_option
from headrace.cli.terminal.numbers import batch_size, partition_number, timeout_ms
from headrace.cli.terminal.options import HELP, cluster_options, pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.messages.line_input import Lines
    from headrace.cli.messages.line_parser import Message
    from headrace.client.connections.cluster import Cluster
    from headrace.client.producing.producer import BatchingProducer, ProducerSettings

    Pairs = tuple[tuple[str, str], ...]

BATCH_BYTES = 1 << 20
LINGER_MS = 5.0
DELIVERY_TIMEOUT_S = 30.0  # a person waits; long enough for a node to restart
TRANSACTION_TIMEOUT_MS = 60_000  # Kafka's default; as long may a dead producer hold up readers of committed messages
LAST_WORD_S = 0.01  # a stop that came with the end of the input takes a few turns of the loop; then it is too late
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
@click.option("--partition", type=partition_number, help="Default: by key; without a key, spread evenly.")
@click.option(
    "--header", "headers", type=pair, metavar="NAME=VALUE", multiple=True, help="On every message. Repeatable."
)
@delivery_option(
    "at-most-once: sent once, without waiting for an answer. at-least-once: acknowledged by all replicas in sync, "
    "retried until then (the default). exactly-once: the whole input in one transaction, all of it or nothing."
)
@click.option(
    "--transactional-id",
    help="With exactly-once: the transactional id. A second run under it aborts at once what the first left open. "
    "Default: a new one for each run.",
)
@click.option(
    "--transaction-timeout-ms",
    type=timeout_ms,
    default=TRANSACTION_TIMEOUT_MS,
    show_default=True,
    help="With exactly-once: an input that takes longer is aborted.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    help="Wait for nobody, for the leader, or for all replicas in sync. Default: what --delivery needs, else all.",
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
    type=batch_size,
    default=BATCH_BYTES,
    show_default=True,
    help="Send a batch when it has so many bytes.",
)
@click.option(
    "--linger-ms",
    type=click.FloatRange(min=0),
    default=LINGER_MS,
    show_default=True,
    help="Send a batch after so many milliseconds, full or not.",
)
@click.option(
    "--on-error",
    type=click.Choice([STOP, SKIP]),
    default=STOP,
    show_default=True,
    help="What to do at a line that cannot be read.",
)
@cluster_options
def command(
    topic: str,
    files: tuple[Path, ...],
    key: str | None,
    key_separator: str | None,
    is_json: bool,
    partition: int | None,
    headers: Pairs,
    delivery: Delivery | None,
    transactional_id: str | None,
    transaction_timeout_ms: int,
    acks: str | None,
    compression: str,
    batch_bytes: int,
    linger_ms: float,
    on_error: str,
) -> None:
    """Send lines from stdin or files as messages, in batches.

    When it is done it says on stderr how much it sent. What was read before an error or Ctrl-C is sent; with
    --delivery exactly-once it is aborted instead, and the command can be run again without repeating anything.
    """
    from headrace.cli.terminal.session import with_cluster

    guarantee = guarantee_of(delivery, acks, transactional_id)
    job = Job(
        topic, files, _parser(key, key_separator, is_json, headers, partition), on_error == STOP, guarantee.delivery
    )
    settings = _settings(guarantee, transaction_timeout_ms, compression, batch_bytes, linger_ms)

    async def work(cluster: Cluster) -> None:
        await _produce(cluster, settings, job)

    with_cluster(work)


def _parser(
    key: str | None, key_separator: str | None, is_json: bool, headers: Pairs, partition: int | None
) -> Callable[[bytes], Message]:
    from headrace.cli.messages.line_parser import json_lines, keyed_lines, parse_headers, plain_lines

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


class Guarantee(NamedTuple):
    """What `--delivery` means for a producer."""

    delivery: Delivery
    acks: str
    transactional_id: str | None


def guarantee_of(delivery: Delivery | None, acks: str | None, transactional_id: str | None) -> Guarantee:
    """Fill in what was not said, and refuse what does not fit together."""
    needed = {None: acks or "all", Delivery.AT_MOST_ONCE: "0"}.get(delivery, "all")
    if acks is not None and acks != needed:
        raise click.UsageError(f"--delivery {delivery} needs --acks {needed}, not {acks}")
    if delivery is Delivery.EXACTLY_ONCE:
        return Guarantee(delivery, needed, transactional_id or f"headrace-produce-{uuid4()}")
    if transactional_id is not None:
        raise click.UsageError("--transactional-id goes with --delivery exactly-once")
    return Guarantee(delivery or Delivery.AT_LEAST_ONCE, needed, None)


def _settings(
    guarantee: Guarantee, transaction_timeout_ms: int, compression: str, batch_bytes: int, linger_ms: float
) -> ProducerSettings:
    from headrace.client.producing.producer import Acks, ProducerSettings
    from headrace.wire.batches.header import Codec

    return ProducerSettings(
        acks={"0": Acks.NONE, "1": Acks.LEADER, "all": Acks.ALL}[guarantee.acks],
        codec=Codec[compression.upper()],
        batch_bytes=batch_bytes,
        linger_ms=linger_ms,
        # Without time there is no second attempt: it could be a second copy.
        delivery_timeout_s=0.0 if guarantee.delivery is Delivery.AT_MOST_ONCE else DELIVERY_TIMEOUT_S,
        transactional_id=guarantee.transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
    )


@dataclass
class Job:
    """What to send, and how far it got."""

    topic: str
    paths: tuple[Path, ...]
    parse: Callable[[bytes], Message]
    is_strict: bool
    """Stop at a line that cannot be read."""
    delivery: Delivery
    skipped_count: int = 0

    @property
    def fate(self) -> str:
        """What becomes of the lines before one that stops everything."""
        is_aborted = self.delivery is Delivery.EXACTLY_ONCE
        return "nothing of the input is committed" if is_aborted else "everything before this line was sent"


async def _produce(cluster: Cluster, settings: ProducerSettings, job: Job) -> None:
    from asyncio import CancelledError, sleep

    from headrace.cli.terminal.progress import progress_bar
    from headrace.client.producing.producer import BatchingProducer

    await cluster.topic(job.topic)  # so that a wrong name is told before anything is read
    started_s = time.monotonic()
    producer = BatchingProducer(cluster, settings)
    total_bytes = sum(os.path.getsize(path) for path in job.paths) if job.paths else None  # noqa: ASYNC240
    try:
        with progress_bar("sending", total_bytes) as advance:
            async with producer:
                if job.delivery is Delivery.EXACTLY_ONCE:
                    async with producer.transaction():
                        await _send_all(producer, job, advance)
                        await sleep(LAST_WORD_S)
                else:
                    await _send_all(producer, job, advance)
    except CancelledError:
        if not _is_committed(producer, job):
            raise
        # It came too late to stop anything. Whoever sees this command fail would run it again.
    finally:
        _summarise(producer, job, time.monotonic() - started_s)


def _is_committed(producer: BatchingProducer, job: Job) -> bool:
    from headrace.client.producing.transactions import Outcome

    return job.delivery is Delivery.EXACTLY_ONCE and producer.transaction_outcome is Outcome.COMMITTED


async def _send_all(producer: BatchingProducer, job: Job, advance: Callable[[int], None]) -> None:
    from headrace.cli.messages.line_input import read_lines

    async for lines in read_lines(job.paths):
        await _send(producer, job, lines)
        advance(lines.bytes_read)
        if producer.failed_count and job.delivery is not Delivery.AT_MOST_ONCE:
            break  # whoever closes the producer, or commits, hears what went wrong


async def _send(producer: BatchingProducer, job: Job, lines: Lines) -> None:
    from headrace.cli.messages.line_parser import BadLine
    from headrace.cli.terminal.complaints import Complaint
    from headrace.cli.terminal.output import talk

    for number, line in enumerate(lines.lines, lines.first_number):
        try:
            message = job.parse(line)
        except BadLine as bad:
            place = f"{lines.source}, line {number}: {bad}"
            if job.is_strict:
                raise Complaint(place, f"{job.fate}; --on-error skip passes over such lines") from bad
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


def _summarise(producer: BatchingProducer, job: Job, took_s: float) -> None:
    from headrace.cli.terminal.output import bytes_text, plural, talk

    failed = f", {producer.failed_count:,} failed" if producer.failed_count else ""
    skipped = f", {plural(job.skipped_count, 'line')} skipped" if job.skipped_count else ""
    if job.delivery is Delivery.EXACTLY_ONCE and not _is_committed(producer, job):
        talk(f"{_fate_of_input(producer)}{failed}{skipped}")
        return
    rate = producer.delivered_count / took_s if took_s > 0 else 0.0
    talk(
        f"sent {plural(producer.delivered_count, 'message')} ({bytes_text(producer.delivered_bytes)}) "
        f"in {took_s:.2f} s: {rate:,.0f} messages/s{failed}{skipped}"
    )


def _fate_of_input(producer: BatchingProducer) -> str:
    from headrace.client.producing.transactions import Outcome

    if producer.transaction_outcome is Outcome.NOT_COMMITTED:
        return "aborted: readers of committed messages will see none of the input"
    return (
        "unknown: the input may have been committed, all of it or nothing; read the topic with --isolation "
        "read-committed before this is run again"
    )

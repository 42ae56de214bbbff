"""`headrace get`: exactly one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.messages.consume import message_format
from headrace.cli.terminal.numbers import offset_number, partition_number
from headrace.cli.terminal.options import HELP, cluster_options

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicPartition
    from headrace.wire.batches.records import Record


@click.command("get", context_settings=HELP)
@click.option("--topic", required=True, help="Where to look.")
@click.option("--partition", type=partition_number, required=True, help="In which partition.")
@click.option("--offset", type=offset_number, required=True, help="At which offset.")
@message_format
@cluster_options
def command(topic: str, partition: int, offset: int, form: str) -> None:
    """Print the message at one offset. Exit code 3 if there is none."""
    from headrace.cli.messages.formatter import json_format, text_format
    from headrace.cli.terminal.output import answer_bytes
    from headrace.cli.terminal.session import with_cluster
    from headrace.model import names

    name = names.TopicPartition(topic, partition)

    async def work(cluster: Cluster) -> Record:
        return await _find(cluster, name, offset)

    record = with_cluster(work)
    printing = json_format if form == "json" else text_format(["value"], b"")
    answer_bytes(printing(name, record))


async def _find(cluster: Cluster, name: TopicPartition, offset: int) -> Record:
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
    from headrace.client.connections.cluster import no_such_partition
    from headrace.client.reading.consumer import AssignedConsumer
    from headrace.client.reading.offsets import find_bounds

    topic = await cluster.topic(name.topic)
    if name.partition >= len(topic.partitions):
        raise no_such_partition(topic, name.partition)
    first, end = (await find_bounds(cluster, [name]))[name]
    if not first <= offset < end:
        held = f"holds offsets {first} to {end - 1}" if end > first else "is empty"
        raise Complaint(f"{name} has no message at offset {offset}; it {held}", exit_code=NOT_FOUND)
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign({name: offset}, {name: offset + 1})
        while not consumer.is_finished:
            for record in (await consumer.poll(1)).get(name, ()):
                if record.offset == offset:
                    return record
    raise Complaint(
        f"{name} has no message at offset {offset} any more",
        "compaction removed it, or it is a transaction's mark, which carries no message",
        NOT_FOUND,
    )

"""Where entries of the audit come from: the topic of a cluster, or files of a node that may be down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.cli.audit.entries import parse_line
from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
from headrace.client.reading.consumer import AssignedConsumer, AtTime
from headrace.client.reading.offsets import Edge, find_bounds
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.cli.audit.entries import Entry
    from headrace.client.connections.cluster import Cluster

TOPIC: Final = "__audit"
FILE: Final = "audit.log"


async def read_topic(cluster: Cluster, since_ms: int | None, follow: bool, show: Callable[[Entry], None]) -> None:
    names = await _partitions(cluster)
    start = Edge.EARLIEST if since_ms is None else AtTime(since_ms)
    ends = None if follow else {name: end for name, (_, end) in (await find_bounds(cluster, names)).items()}
    async with AssignedConsumer(cluster) as consumer:
        await consumer.assign(dict.fromkeys(names, start), ends)
        while follow or not consumer.is_finished:
            for records in (await consumer.poll()).values():
                for record in records:
                    entry = None if record.value is None else parse_line(bytes(record.value))
                    if entry is not None:
                        show(entry)


async def _partitions(cluster: Cluster) -> list[TopicPartition]:
    try:
        topic = await cluster.topic(TOPIC)
    except Refusal as refusal:
        if refusal.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise Complaint(
            f"the cluster has no topic {TOPIC}: nothing was noted yet, or the audit is off",
            hint="headrace.audit.enable=true turns it on where no listener asks its clients who they are",
            exit_code=NOT_FOUND,
        ) from refusal
    return [TopicPartition(TOPIC, part.index) for part in topic.partitions]


def lines_of(path: Path) -> Iterator[bytes]:
    """Of one file, or of all that a data directory has, the oldest first."""
    for file in [path] if path.is_file() else _files_in(path):
        with file.open("rb") as lines:
            yield from (line.rstrip(b"\n") for line in lines if line.strip())


def _files_in(directory: Path) -> list[Path]:
    older = [it for it in directory.glob(f"{FILE}.*") if it.suffix[1:].isdigit()]
    files = sorted(older, key=lambda it: -int(it.suffix[1:]))
    files += [directory / FILE] if (directory / FILE).exists() else []
    if not files:
        raise Complaint(f"{directory} has no {FILE}: nothing was noted there", exit_code=NOT_FOUND)
    return files

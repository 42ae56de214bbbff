"""Lets nodes check their files, and tells how far they are and what they found."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
from headrace.cli.terminal.output import bytes_text, plural, table, talk
from headrace.client.admin.cluster import ClusterAdmin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.admin.cluster import DamagedPlace, ScrubProgress
    from headrace.client.connections.cluster import Cluster

LOOK_S = 0.2
WORDS_S = 10.0  # a line now and then says that it is still going on


class Found(NamedTuple):
    node_id: int
    place: DamagedPlace


async def scrub(cluster: Cluster, node_id: int | None, topic: str | None) -> list[Found]:
    """All nodes, or one, at the same time: each has a disk of its own."""
    nodes = sorted((await cluster.retry(cluster.refresh)).nodes)
    if node_id is not None and node_id not in nodes:
        raise Complaint(f"there is no node {node_id}; the nodes are {', '.join(map(str, nodes))}", exit_code=NOT_FOUND)
    if topic is not None:
        await cluster.topic(topic)
    admin = ClusterAdmin(cluster)
    running = {one: await admin.scrub(one, topic) for one in (nodes if node_id is None else [node_id])}
    words_s = cluster.clock.monotonic_s() + WORDS_S
    while any(progress.is_running for progress in running.values()):
        if cluster.clock.monotonic_s() >= words_s:
            talk(_words(running))
            words_s += WORDS_S
        await asyncio.sleep(LOOK_S)
        for one in [one for one, progress in running.items() if progress.is_running]:
            running[one] = await admin.scrub(one, is_question=True)
    talk(_words(running))
    return [Found(one, place) for one, progress in running.items() for place in progress.damaged]


def _words(running: dict[int, ScrubProgress]) -> str:
    checked = sum(progress.checked_bytes for progress in running.values())
    total = sum(progress.total_bytes for progress in running.values())
    return f"checked {bytes_text(checked)} of {bytes_text(total)} on {plural(len(running), 'node')}"


def found_facts(found: Sequence[Found]) -> list[dict[str, object]]:
    return [
        {
            "node_id": node_id,
            "topic": place.partition.topic,
            "partition": place.partition.partition,
            "first_offset": place.first_offset,
            "last_offset": place.end_offset - 1,
            "problem": place.problem,
        }
        for node_id, place in found
    ]


def found_text(found: Sequence[Found]) -> str:
    rows = [
        (node_id, str(place.partition), place.first_offset, place.end_offset - 1, place.problem)
        for node_id, place in found
    ]
    return table(("NODE", "PARTITION", "FIRST OFFSET", "LAST OFFSET", "PROBLEM"), rows)

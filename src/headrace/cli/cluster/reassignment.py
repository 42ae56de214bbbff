"""Moves replicas: shows what is to move, begins it a few partitions at a time, and waits."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.cli.cluster.throttle import limited_rate, throttled
from headrace.cli.terminal.complaints import Complaint
from headrace.cli.terminal.output import bytes_text, plural, table, talk
from headrace.client.admin.cluster import ClusterAdmin
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.client.admin.cluster import PlannedMove
    from headrace.client.connections.cluster import Cluster

LOOK_S = 0.2  # a move takes seconds at least; whoever waits sees its end soon
WORDS_S = 10.0  # a line now and then says that it is still going on


@dataclass(frozen=True)
class Pace:
    """How fast to move."""

    at_once: int
    bytes_per_s: int | None = None
    """From each node, and to each."""


async def begin(cluster: Cluster, moves: Sequence[PlannedMove]) -> None:
    """All of them. Complaint if one is refused, and the others go on."""
    refusals = await ClusterAdmin(cluster).reassign({move.partition: move.target for move in moves})
    if refusals:
        name, refusal = next(iter(refusals.items()))
        others = f", and {len(refusals) - 1} others are refused as well" if len(refusals) > 1 else ""
        raise Complaint(f"{name} cannot be moved: {refusal.message}{others}")


async def move_in_waves(cluster: Cluster, moves: Sequence[PlannedMove], pace: Pace) -> None:
    """Returns when everything is where it shall be. Interrupted, it leaves the wave under way to end by itself."""
    is_limited = pace.bytes_per_s is not None
    async with limited_rate(cluster, pace.bytes_per_s) if pace.bytes_per_s is not None else nullcontext():
        for first in range(0, len(moves), pace.at_once):
            wave = moves[first : first + pace.at_once]
            async with throttled(cluster, wave) if is_limited else nullcontext():
                await begin(cluster, wave)
                await _ended(cluster, [move.partition for move in wave])
            talk(f"moved {first + len(wave):,} of {plural(len(moves), 'partition')}")


async def _ended(cluster: Cluster, names: list[TopicPartition]) -> None:
    admin = ClusterAdmin(cluster)
    words_s = cluster.clock.monotonic_s() + WORDS_S
    while under_way := await admin.list_reassignments(names):
        if cluster.clock.monotonic_s() >= words_s:
            talk(waiting_text(list(under_way), await _led_by_nobody(cluster, under_way)))
            words_s += WORDS_S
        await asyncio.sleep(LOOK_S)


async def _led_by_nobody(cluster: Cluster, names: Iterable[TopicPartition]) -> list[TopicPartition]:
    topics = (await cluster.full_view()).topics.values()
    offline = {
        TopicPartition(topic.name, part.index) for topic in topics for part in topic.partitions if part.is_offline
    }
    return [name for name in names if name in offline]


# ---- in words


def waiting_text(under_way: Sequence[TopicPartition], led_by_nobody: Sequence[TopicPartition]) -> str:
    """How many still move; and why some of them cannot, for whoever waits would wait in vain."""
    text = f"{plural(len(under_way), 'partition')} still moving, {under_way[0]} among them"
    if not led_by_nobody:
        return text
    topics = " ".join(f"--topic {topic}" for topic in sorted({name.topic for name in led_by_nobody}))
    return (
        f"{text}; nobody leads {_some(led_by_nobody)}, so nothing can be copied from there. `headrace cluster "
        f"elect-leaders {topics}` says who has the records: start that node, or add --unclean to go on without them"
    )


def _some(names: Sequence[TopicPartition]) -> str:
    others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"{names[0]}{others}"


def plan_facts(moves: Sequence[PlannedMove]) -> list[dict[str, object]]:
    return [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "replicas": list(move.replicas),
            "target": list(move.target),
            "from": list(move.going),
            "to": list(move.coming),
        }
        for move in moves
    ]


def plan_text(moves: Sequence[PlannedMove]) -> str:
    rows = [
        (
            move.partition.topic,
            move.partition.partition,
            _numbers(move.going),
            _numbers(move.coming),
            _numbers(move.replicas),
            _numbers(move.target),
        )
        for move in moves
    ]
    return table(("TOPIC", "PARTITION", "FROM", "TO", "REPLICAS", "TARGET"), rows)


def pace_text(pace: Pace) -> str:
    limit = "" if pace.bytes_per_s is None else f", no more than {bytes_text(pace.bytes_per_s)}/s from or to each node"
    return f"{pace.at_once} at a time{limit}"


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "-"

"""Lets replicas be copied at a limited rate while they move, by the settings that Kafka has for it.

Each node then sends, and takes in, no more than so many bytes a second for the replicas that are named. Whoever does
not come to an end leaves them as they are: what began to move goes on, and it was to be slow.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from headrace.cli.terminal.output import bytes_text, talk
from headrace.client.admin.admin import Admin, ConfigChange, ConfigSource, Resource, ResourceType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from headrace.client.admin.cluster import PlannedMove
    from headrace.client.connections.cluster import Cluster

    Changes = list[tuple[str, ConfigChange, str | None]]

EVERY_NODE: Final = Resource(ResourceType.BROKER, "")
RATES: Final = ("follower.replication.throttled.rate", "leader.replication.throttled.rate")
COMING: Final = "follower.replication.throttled.replicas"
GIVING: Final = "leader.replication.throttled.replicas"


@asynccontextmanager
async def limited_rate(cluster: Cluster, bytes_per_s: int) -> AsyncIterator[None]:
    """For the whole cluster; afterwards it is what it was."""
    admin = Admin(cluster)
    before = {config.name: config.value for config in await admin.describe_configs(EVERY_NODE)}
    await admin.alter_configs(EVERY_NODE, [(name, ConfigChange.SET, str(bytes_per_s)) for name in RATES])
    try:
        yield
    except BaseException:
        talk(
            f"moves that have begun go on at {bytes_text(bytes_per_s)}/s; `headrace configs alter --topic NAME "
            f"--delete {GIVING} --delete {COMING}` takes the limit off a topic"
        )
        raise
    await admin.alter_configs(EVERY_NODE, [_as_before(name, before.get(name)) for name in RATES])


def _as_before(name: str, value: str | None) -> tuple[str, ConfigChange, str | None]:
    return (name, ConfigChange.DELETE, None) if value is None else (name, ConfigChange.SET, value)


@asynccontextmanager
async def throttled(cluster: Cluster, wave: Sequence[PlannedMove]) -> AsyncIterator[None]:
    """For the replicas of these moves."""
    admin = Admin(cluster)
    after: dict[Resource, Changes] = {}
    for topic in dict.fromkeys(move.partition.topic for move in wave):
        resource = Resource(ResourceType.TOPIC, topic)
        lists = _lists([move for move in wave if move.partition.topic == topic])
        own = {it.name for it in await admin.describe_configs(resource) if it.source is ConfigSource.TOPIC}
        await admin.alter_configs(resource, [(name, ConfigChange.APPEND, text) for name, text in lists.items()])
        after[resource] = [
            (name, ConfigChange.SUBTRACT, text) if name in own else (name, ConfigChange.DELETE, None)
            for name, text in lists.items()
        ]
    yield
    for resource, changes in after.items():
        await admin.alter_configs(resource, changes)


def _lists(moves: Sequence[PlannedMove]) -> dict[str, str]:
    return {
        GIVING: ",".join(f"{move.partition.partition}:{node_id}" for move in moves for node_id in move.replicas),
        COMING: ",".join(f"{move.partition.partition}:{node_id}" for move in moves for node_id in move.coming),
    }

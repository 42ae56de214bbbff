"""What is known of a topic, and how it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from headrace.client.admin.admin import Config
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import Topic


T = TypeVar("T")


def partition_lines(topic: Topic) -> list[str]:
    """One line per partition: `Partition 0: Leader=1, ISR=[1,2,3]`."""
    return [
        f"Partition {part.index}: Leader={'none' if part.is_offline else part.leader}, ISR=[{_numbers(part.isr)}]"
        for part in topic.partitions
    ]


def replication_factor(topic: Topic) -> int:
    return max((len(part.replicas) for part in topic.partitions), default=0)


async def facts_of(cluster: Cluster, topic: Topic) -> dict[str, Any]:
    """All that can be said about a topic, ready for JSON."""
    from headrace.client.admin.admin import Admin, Resource, ResourceType, largest_copies
    from headrace.client.reading.offsets import find_bounds
    from headrace.model.names import TopicPartition, topic_id_text

    admin = Admin(cluster)
    configs = await _if_allowed("settings", admin.describe_configs(Resource(ResourceType.TOPIC, topic.name)))
    names = [TopicPartition(topic.name, part.index) for part in topic.partitions if not part.is_offline]
    bounds = await find_bounds(cluster, names)
    directories = await _if_allowed("sizes", admin.all_log_dirs())
    sizes = largest_copies(directories)
    partitions: list[dict[str, Any]] = []
    for part in topic.partitions:
        name = TopicPartition(topic.name, part.index)
        first, end = bounds.get(name, (None, None))
        partitions.append(
            {
                "partition": part.index,
                "leader": None if part.is_offline else part.leader,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "offline_replicas": list(part.offline_replicas),
                "first_offset": first,
                "end_offset": end,
                "bytes": sizes.get(name),
                "compaction": [
                    {"node": directory.node_id, **directory.compactions[name]._asdict()}
                    for directory in directories
                    if name in directory.compactions
                ],
            }
        )
    return {
        "name": topic.name,
        "topic_id": topic_id_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "replication_factor": replication_factor(topic),
        "configs": {config.name: _shown(config) for config in configs if not config.is_default},
        "partitions": partitions,
    }


async def _if_allowed(what: str, asked: Awaitable[list[T]]) -> list[T]:
    """Nothing, and a word about it, where that takes a right that is missing: the rest is shown all the same."""
    from headrace.cli.terminal.output import talk
    from headrace.client.errors import UNAUTHORIZED
    from headrace.model.errors import Refusal

    try:
        return await asked
    except Refusal as refusal:
        if refusal.code not in UNAUTHORIZED:
            raise
        talk(f"warning: {what} are not shown: {refusal.message}")
        return []


def _shown(config: Config) -> str | None:
    return "(hidden)" if config.is_sensitive else config.value


def verbose_text(facts: dict[str, Any]) -> str:
    from headrace.cli.terminal.output import table

    rows = [
        (part["partition"], _numbers(part["replicas"]), part["first_offset"], part["end_offset"], part["bytes"])
        for part in facts["partitions"]
    ]
    settings = [f"  {name}={value}" for name, value in facts["configs"].items()]
    return "\n".join(
        [
            "",
            f"Topic id: {facts['topic_id']}",
            "Settings:" if settings else "Settings: all as by default",
            *settings,
            "",
            table(("PARTITION", "REPLICAS", "FIRST OFFSET", "END OFFSET", "BYTES"), rows),
            *_compaction_lines(facts),
        ]
    )


def _compaction_lines(facts: dict[str, Any]) -> list[str]:
    """How each copy of a compacted topic fares; nothing for other topics."""
    from headrace.cli.terminal.output import moment_text, table

    rows = [
        (
            part["partition"],
            copy["node"],
            copy["dirty_bytes"],
            copy["saved_bytes"],
            "never" if copy["last_pass_ms"] is None else moment_text(copy["last_pass_ms"]),
            copy["error"] or "none",
        )
        for part in facts["partitions"]
        for copy in part["compaction"]
    ]
    heads = ("PARTITION", "NODE", "DIRTY BYTES", "SAVED BYTES", "LAST COMPACTED", "TROUBLE")
    return ["", table(heads, rows)] if rows else []


def _numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))

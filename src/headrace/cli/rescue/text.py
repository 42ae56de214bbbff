"""What `headrace rescue` says of a data directory, to people and to programs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.terminal.output import bytes_text, facts_text, moment_text, plural, table
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.metadata.rescue import Fate, fate_of
from headrace.model.names import LogId, TopicId, TopicPartition, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.broker.rescue.stranded import Positions
    from headrace.broker.rescue.survivor import Survivor
    from headrace.metadata.image.cluster_image import Partition
    from headrace.metadata.rescue import Copy, Rescue, Rescued
    from headrace.storage.files.damage import DamagedRange
    from headrace.storage.integrity.salvage import Survey

NAMES_MAX = 20  # in one warning; the report has the others

Facts = dict[str, Any]


# ---- inspect


def inspected_facts(
    survivor: Survivor, surveys: Mapping[LogId, Survey], copies: Mapping[LogId, Copy], unfinished: str | None
) -> Facts:
    """`unfinished` names a rescue that was begun and is not done."""
    identity, agreed = survivor.identity, survivor.agreed
    return {
        "cluster_id": identity.cluster_id,
        "node_id": identity.node_id,
        "directory_id": topic_id_text(TopicId(identity.directory)),
        "origin": identity.origin.value,
        "metadata": None
        if agreed is None
        else {
            "end_offset": agreed.end,
            "last_decision_ms": agreed.decided_ms,
            "voters": list(agreed.membership.voter_ids),
            "learners": list(agreed.membership.learners),
        },
        "metadata_problem": survivor.metadata_trouble or None,
        "unfinished_rescue": unfinished,
        "partitions": [
            *_known_partitions(survivor, surveys, copies),
            *_unknown_logs(survivor, surveys),
        ],
        "set_aside": [
            {"directory": it.directory, "topic": it.name and it.name.topic, "partition": it.name and it.name.partition}
            for it in survivor.set_aside
        ],
    }


def _known_partitions(survivor: Survivor, surveys: Mapping[LogId, Survey], copies: Mapping[LogId, Copy]) -> list[Facts]:
    found = []
    for topic, partition in partitions_of(survivor.image):
        log_id = LogId(topic.topic_id, partition.partition)
        fate = fate_of(partition, survivor.identity.node_id, copies.get(log_id))
        name = TopicPartition(topic.name, partition.partition)
        found.append(
            {**_name_facts(name), "state": _STATES[fate], **_agreed_facts(partition), **_log_facts(surveys.get(log_id))}
        )
    return found


def _unknown_logs(survivor: Survivor, surveys: Mapping[LogId, Survey]) -> list[Facts]:
    return [
        {**_name_facts(survivor.names[log_id]), "state": "unknown", **_log_facts(found)}
        for log_id, found in sorted(surveys.items())
        if survivor.image.partition(*log_id) is None
    ]


_STATES = {Fate.KEPT: "in sync", Fate.BEHIND: "behind", Fate.LOST: "not here"}


def _name_facts(name: TopicPartition) -> Facts:
    return {"topic": name.topic, "partition": name.partition}


def _agreed_facts(partition: Partition) -> Facts:
    return {
        "leader": partition.leader if partition.has_leader else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
    }


def _log_facts(found: Survey | None) -> Facts:
    if found is None:
        return {"start_offset": None, "end_offset": None, "bytes": None, "damaged": []}
    return {
        "start_offset": found.start_offset,
        "end_offset": found.end_offset,
        "bytes": found.size,
        "last_timestamp_ms": found.last_timestamp_ms,
        "damaged": [damage_facts(one) for one in found.damaged],
        "torn_bytes": 0 if found.torn is None else found.torn.size,
        "open_transactions": [
            {"producer_id": producer_id, "first_offset": first_offset}
            for producer_id, first_offset in found.open_transactions.items()
        ]
        if found.is_verified
        else None,
    }


def damage_facts(one: DamagedRange) -> Facts:
    return {
        "first_offset": one.first_offset,
        "last_offset": one.end_offset - 1,
        "file": one.path,
        "position": one.position,
        "problem": one.problem,
    }


def inspected_text(facts: Facts) -> str:
    rows = [
        (
            f"{it['topic']}-{it['partition']}",
            it["state"],
            it["start_offset"],
            it["end_offset"],
            None if it["bytes"] is None else bytes_text(it["bytes"]),
            it.get("leader"),
            _ids(it["isr"]) if "isr" in it else None,
            _ids(it["replicas"]) if "replicas" in it else None,
            _trouble(it),
        )
        for it in facts["partitions"]
    ]
    columns = ("PARTITION", "COPY", "START", "END", "SIZE", "LEADER", "IN SYNC", "REPLICAS", "TROUBLE")
    parts = [facts_text(_directory_facts(facts)), table(columns, rows)]
    parts += [f"set aside: {it['directory']} ({it['topic'] or 'of no topic'})" for it in facts["set_aside"]]
    return "\n\n".join(parts)


def _directory_facts(facts: Facts) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = [
        ("cluster", facts["cluster_id"] or "none yet"),
        ("node", facts["node_id"]),
        ("disk", facts["directory_id"]),
    ]
    if facts["unfinished_rescue"]:
        lines.append(("unfinished", f"{facts['unfinished_rescue']}: run `headrace rescue new-cluster` again"))
    metadata = facts["metadata"]
    if metadata is None:
        return [*lines, ("metadata", f"cannot be read: {facts['metadata_problem']}")]
    decided_ms = metadata["last_decision_ms"]
    told = "" if decided_ms is None else f", the last decision made at {moment_text(decided_ms)}"
    return [
        *lines,
        ("voters", _ids(metadata["voters"])),
        ("metadata", f"up to offset {metadata['end_offset']}{told}"),
    ]


def _ids(node_ids: Sequence[int]) -> str:
    return ",".join(map(str, node_ids)) or "nobody"


def _trouble(partition: Facts) -> str | None:
    troubles = [_range_text(one) for one in partition["damaged"]]
    if partition.get("torn_bytes"):
        troubles.append(f"a torn end of {plural(partition['torn_bytes'], 'byte')}")
    if partition.get("open_transactions"):
        troubles.append(plural(len(partition["open_transactions"]), "open transaction"))
    return "; ".join(troubles) or None


def _range_text(one: Facts) -> str:
    return f"offsets {one['first_offset']} to {one['last_offset']} are damaged: {one['problem']}"


# ---- new-cluster


def report_facts(
    survivor: Survivor, rescue: Rescue, cluster_id: str, surveys: Mapping[LogId, Survey], positions: Positions
) -> Facts:
    """What was done, and what may be lost: kept beside the data for whoever asks later."""
    agreed = survivor.agreed
    assert agreed is not None, "without metadata there is no new cluster"
    return {
        "old_cluster_id": survivor.identity.cluster_id,
        "cluster_id": cluster_id,
        "node_id": survivor.identity.node_id,
        "old_voters": list(agreed.membership.voter_ids),
        "last_decision_ms": agreed.decided_ms,
        "partitions": [_rescued_facts(it, surveys.get(it.log_id)) for it in rescue.partitions],
        "stranded_groups": [
            {"group": it.group, **_name_facts(it.partition), "committed": it.committed, "end_offset": it.end}
            for it in positions.stranded
        ],
        "unreadable_position_batches": positions.unreadable_batches,
    }


def _rescued_facts(rescued: Rescued, found: Survey | None) -> Facts:
    return {
        **_name_facts(rescued.name),
        "fate": rescued.fate.value,
        **_agreed_facts(rescued.before),
        **_log_facts(found if rescued.fate is not Fate.LOST else None),
    }


def warnings(report: Facts) -> list[str]:
    """What may be lost, in sentences."""
    said = [_age_warning(report["last_decision_ms"])]
    lost, behind = _of_fate(report, Fate.LOST), _of_fate(report, Fate.BEHIND)
    if lost:
        said.append(
            f"this disk has no copy of {plural(len(lost), 'partition')}, and all their records are LOST: "
            f"{_listed(lost)}"
        )
    if behind:
        ends = [f"{_label(it)} (ends at offset {it['end_offset']})" for it in behind]
        said.append(
            f"this disk's copies of {plural(len(behind), 'partition')} were not in sync: what was acknowledged beyond "
            f"their ends is LOST: {_some(ends)}"
        )
    torn = [it for it in report["partitions"] if it.get("torn_bytes")]
    if torn:
        said.append(
            f"the ends of {plural(len(torn), 'partition')} are torn, as after a crash, and the next start cuts them: "
            f"{_listed(torn)}"
        )
    damaged = [it for it in report["partitions"] if it["damaged"]]
    if damaged:
        said.append(
            f"this disk's copies of {plural(len(damaged), 'partition')} are DAMAGED; `headrace rescue dump` saves what "
            f"is whole in them: {_listed(damaged)}"
        )
    return [*said, *_position_warnings(report)]


def _position_warnings(report: Facts) -> list[str]:
    said = []
    if report["stranded_groups"]:
        places = [f"{it['group']} at {it['committed']} of {_label(it)}" for it in report["stranded_groups"]]
        said.append(
            "groups have read what is lost, and would SKIP what is written there anew; before their consumers start, "
            f"`headrace groups reset-offsets --shift-by 0` brings them to the ends that are left: {_some(places)}"
        )
    if report["unreadable_position_batches"]:
        said.append(f"{report['unreadable_position_batches']} of the batches with positions of groups cannot be read")
    return said


def _age_warning(decided_ms: int | None) -> str:
    when = "at a time that it does not tell" if decided_ms is None else f"at {moment_text(decided_ms)}"
    return (
        f"this node heard of the last decision {when}. Whatever the others agreed on later is LOST: topics, settings, "
        "and that this node fell behind"
    )


def _of_fate(report: Facts, fate: Fate) -> list[Facts]:
    return [it for it in report["partitions"] if it["fate"] == fate.value]


def _label(partition: Facts) -> str:
    return f"{partition['topic']}-{partition['partition']}"


def _listed(partitions: Sequence[Facts]) -> str:
    return _some([_label(it) for it in partitions])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def report_text(report: Facts) -> str:
    rows = [
        (
            _label(it),
            it["fate"],
            it["start_offset"],
            it["end_offset"],
            it["leader"],
            _ids(it["isr"]),
            _trouble(it),
        )
        for it in report["partitions"]
    ]
    return table(("PARTITION", "FATE", "START", "END", "LEADER WAS", "IN SYNC WERE", "TROUBLE"), rows)

"""What becomes of a directory that begins a new cluster: planned, shown, agreed to, and then no way back."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headrace.cli.rescue.directory import look_at_directory, survey_of
from headrace.cli.terminal.complaints import Complaint

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.broker.membership.identity import Identity
    from headrace.broker.rescue.survivor import Agreed, Survivor
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.rescue import Wishes
    from headrace.runtime.disk import SystemDisk
    from headrace.runtime.overlay_disk import OverlayDisk


class Plan(NamedTuple):
    old_cluster_id: str
    agreed: Agreed
    identity: Identity
    """Of the new cluster."""
    image: ClusterImage
    report: dict[str, Any]


def plan_of(disk: OverlayDisk, wishes: Wishes, verify: bool) -> Plan:
    from headrace.broker.membership.identity import Identity
    from headrace.broker.rescue.stranded import stranded_groups
    from headrace.broker.rescue.survivor import copies
    from headrace.cli.rescue.text import report_facts
    from headrace.metadata.rescue import Fate, rescue
    from headrace.model.names import TopicId, topic_id_text
    from headrace.runtime.entropy import SystemEntropy

    survivor = look_at_directory(disk)
    agreed = _expect_metadata(survivor)
    surveys = survey_of(disk, survivor, verify)
    entropy = SystemEntropy()
    cluster_id = topic_id_text(TopicId(entropy.token(16)))
    identity = Identity(cluster_id, survivor.identity.node_id, entropy.token(16))
    rescued = rescue(agreed.image, identity.node_id, identity.directory, cluster_id, copies(surveys), wishes)
    ends = {it.name: 0 if it.fate is Fate.LOST or it.copy is None else it.copy.end_offset for it in rescued.partitions}
    report = report_facts(survivor, rescued, cluster_id, surveys, stranded_groups(disk, survivor, ends))
    return Plan(survivor.identity.cluster_id, agreed, identity, rescued.image, report)


def _expect_metadata(survivor: Survivor) -> Agreed:
    """Complaint if there is nothing that says which topics there were, or if it says so of another cluster."""
    agreed, identity = survivor.agreed, survivor.identity
    if agreed is None or agreed.image.cluster_id is None:
        problem = survivor.metadata_trouble or "this node never received any metadata"
        raise Complaint(
            f"no cluster can be made of this directory: {problem}",
            "`headrace rescue dump` writes its topics to files, which needs no metadata",
        )
    if agreed.image.cluster_id != identity.cluster_id:
        raise Complaint(
            f"meta.properties says cluster {identity.cluster_id or 'none'}, the metadata log {agreed.image.cluster_id}",
            "one of them was taken from another data directory: put the right one back",
        )
    return agreed


def show(report: dict[str, Any], form: str) -> None:
    from headrace.cli.rescue.text import report_text, warnings
    from headrace.cli.terminal.complaints import write_line
    from headrace.cli.terminal.output import answer, answer_json

    if form == "json":
        answer_json(report)
    else:
        answer(report_text(report))
    for warning in warnings(report):
        write_line(sys.stderr, "warning", warning, red=True)


def expect_accepted(plan: Plan, is_accepted: bool) -> None:
    if is_accepted:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(
            "a new cluster may lose data, and there is nobody to ask: add --yes-i-may-lose-data if you accept that"
        )
    typed = click.prompt(f"To accept that, type the id of the old cluster ({plan.old_cluster_id})", err=True)
    if typed.strip() != plan.old_cluster_id:
        raise Complaint("that is not its id; nothing was changed")


def commit_to(disk: SystemDisk, plan: Plan) -> str:
    """From when this returns there is no way back but the copy of what was."""
    from headrace.broker.rescue.rescue import promise, stage
    from headrace.cli.terminal.output import moment_text
    from headrace.runtime.clock import SystemClock

    now = moment_text(SystemClock().wall_ms()).replace(":", "").replace(".", "")
    report = json.dumps(plan.report, indent=2, ensure_ascii=False).encode()
    name = stage(disk, now, plan.agreed, plan.identity, plan.image, report)
    promise(disk, name)
    return name


def say_done(directory: Path, name: str) -> None:
    from headrace.broker.membership.identity import IDENTITY_FILE, Identity
    from headrace.broker.rescue.rescue import AFTER, BEFORE, REPORT
    from headrace.cli.terminal.output import talk

    identity = Identity.decode((directory / name / AFTER / IDENTITY_FILE).read_bytes())
    talk(f"{directory} is node {identity.node_id} of the new cluster {identity.cluster_id}")
    talk(
        f"what was replaced is kept in {directory / name / BEFORE}, what became of each partition in {REPORT} beside it"
    )
    talk(f"start it:    headrace serve --data-dir {directory} --cluster-listen HOST:PORT   (without --voters)")
    talk("add others:  headrace serve --node-id N --data-dir EMPTY --cluster-listen … --join HOST:PORT")
    talk("nodes of the old cluster are refused; start them with empty directories only")

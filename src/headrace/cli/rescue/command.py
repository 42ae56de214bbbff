"""`headrace rescue`: when a majority of the voters' disks is gone. Works on a data directory, without any node."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
from headrace.cli.terminal.options import HELP, noun, output_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.membership.identity import Identity
    from headrace.broker.rescue.survivor import Agreed, Survivor
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.rescue import Wishes
    from headrace.model.names import LogId
    from headrace.runtime.disk import SystemDisk
    from headrace.runtime.overlay_disk import UntouchedDisk
    from headrace.storage.integrity.salvage import Survey

EMPTY = "empty"
OFFLINE = "offline"

command = noun("Save what is left when a majority of disks is gone: without a node, from one data directory.")

directory_argument = click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
verify_option = click.option("--verify", is_flag=True, help="Read and check every byte, not only where logs end.")


@command.command(context_settings=HELP)
@directory_argument
@verify_option
@output_format
def inspect(directory: Path, verify: bool, form: str) -> int:
    """Show what a data directory holds: whose it is, its partitions, and whether their copies were in sync.

    In sync is said as this node last knew. Nothing is changed. Ends with exit code 3 if something is damaged.
    """
    from headrace.broker.rescue.rescue import unfinished
    from headrace.broker.rescue.survivor import copies
    from headrace.cli.rescue.text import inspected_facts, inspected_text
    from headrace.cli.terminal.output import answer, answer_json

    with _untouched(directory) as disk:
        survivor = _look_at(disk)
        surveys = _survey(disk, survivor, verify)
        begun = unfinished(disk)
    facts = inspected_facts(survivor, surveys, copies(surveys), begun)
    if form == "json":
        answer_json(facts)
    else:
        answer(inspected_text(facts))
    is_damaged = survivor.metadata_trouble or any(found.damaged for found in surveys.values())
    return NOT_FOUND if is_damaged or begun else 0


@command.command(context_settings=HELP)
@directory_argument
@click.option(
    "--to",
    "out",
    required=True,
    metavar="OUT",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files go: a directory that is empty, or not there.",
)
@click.option("--topic", "topics", multiple=True, help="Only this one. Repeatable. Default: all but internal ones.")
@click.option("--with-aborted", is_flag=True, help="Also the records of transactions that were aborted.")
@click.option(
    "--with-set-aside", is_flag=True, help="Also copies that were damaged and replaced, or belong to no topic."
)
@output_format
def dump(
    directory: Path, out: Path, topics: tuple[str, ...], with_aborted: bool, with_set_aside: bool, form: str
) -> int:
    """Write topics of a data directory to files: a line of JSON for each record, as `headrace produce --json` reads it.

    Nothing in the data directory is changed. Damaged places are passed over and named, and the command ends with exit
    code 3. Records of transactions that were never ended go to files of their own.
    """
    from headrace.broker.rescue.decided import decided_transactions
    from headrace.cli.rescue.dump import MANIFEST, RESTORE, dump_logs, sources, write_manifest
    from headrace.cli.terminal.output import answer, answer_json, bytes_text, facts_text, talk
    from headrace.cli.terminal.progress import progress_bar

    if out.resolve().is_relative_to(directory.resolve()):
        raise click.UsageError("--to lies in the data directory, which is only to be read; choose another place")
    if out.exists() and any(out.iterdir()):
        raise Complaint(f"{out} is not empty; choose a directory that is, or that is not there yet")
    with _untouched(directory) as disk:
        survivor = _look_at(disk)
        if survivor.metadata_trouble:
            talk(f"warning: the metadata cannot be read ({survivor.metadata_trouble}); topics are named by their logs")
        found = sources(survivor, topics, with_set_aside=with_set_aside)
        out.mkdir(parents=True, exist_ok=True)
        total = sum(source.log.size for source in found)
        with progress_bar("dumping", 2 * total) as on_read:
            decided = decided_transactions(disk, survivor)
            dumped = dump_logs(disk, found, out, decided, keeps_aborted=with_aborted, on_read=on_read)
    manifest = write_manifest(out, survivor, dumped)
    if form == "json":
        answer_json(manifest)
    else:
        facts: list[tuple[str, object]] = [
            ("topics", ", ".join(topic["name"] for topic in manifest["topics"]) or "none"),
            ("records", f"{sum(it.records for it in dumped):,}"),
            ("read", bytes_text(total)),
            ("what is in the files", out / MANIFEST),
            ("to bring it into a cluster", out / RESTORE),
        ]
        answer(facts_text(facts))
    return NOT_FOUND if any(it.damaged for it in dumped) or survivor.metadata_trouble else 0


@command.command("new-cluster", context_settings=HELP)
@directory_argument
@click.option(
    "--lost",
    type=click.Choice([EMPTY, OFFLINE]),
    default=EMPTY,
    show_default=True,
    help="Partitions of which this disk has no copy: begin them empty, or let nobody lead them until `headrace "
    "cluster elect-leaders --unclean`.",
)
@click.option(
    "--keep-replicas",
    is_flag=True,
    help="Partitions keep their replicas: nodes that join with the old ids and empty disks fetch them by themselves. "
    "Until enough have, min.insync.replicas may refuse writes. Default: this node alone has them.",
)
@verify_option
@click.option("--dry-run", is_flag=True, help="Only show what would become of each partition.")
@click.option("--yes-i-may-lose-data", "is_accepted", is_flag=True, help="Do not ask for the cluster's id.")
@output_format
def new_cluster(
    directory: Path, lost: str, keep_replicas: bool, verify: bool, dry_run: bool, is_accepted: bool, form: str
) -> None:
    """Make this data directory the first node of a NEW cluster, with all that it has of the old one.

    For when a majority of the voters' disks is gone for good. Whatever was not on this disk is lost. Nodes of the old
    cluster are refused from then on: start them with empty directories. Run it again after a crash: it goes on.
    """
    from headrace.broker.rescue.rescue import install, unfinished
    from headrace.cli.terminal.output import talk
    from headrace.metadata.rescue import Wishes

    wishes = Wishes(keep_replicas=keep_replicas, lost_stay_offline=lost == OFFLINE)
    if dry_run:
        with _untouched(directory) as looked_at:
            _show(_planned(looked_at, wishes, verify).report, form)
        return
    with _held(directory) as disk:
        name = unfinished(disk)
        if name is not None:
            talk("a rescue of this directory was begun and not finished: it is gone on with, as it was wished then")
        else:
            with _untouched(directory, is_ours=True) as looked_at:
                plan = _planned(looked_at, wishes, verify)
            _show(plan.report, form)
            _expect_accepted(plan, is_accepted)
            name = _promise(disk, plan)
        install(disk, name)
    _say_done(directory, name)


# ---- the directory


@contextmanager
def _untouched(directory: Path, *, is_ours: bool = False) -> Iterator[UntouchedDisk]:
    from headrace.runtime.overlay_disk import UntouchedDisk

    try:
        disk = UntouchedDisk(directory, is_ours=is_ours)
    except BlockingIOError as error:
        raise Complaint(str(error.strerror), "a node that runs tells of itself: `headrace cluster status`") from error
    try:
        yield disk
    finally:
        disk.close()


@contextmanager
def _held(directory: Path) -> Iterator[SystemDisk]:
    """For us alone: no node starts on it meanwhile."""
    from headrace.broker.membership.identity import IDENTITY_FILE
    from headrace.runtime.disk import SystemDisk

    if not (directory / IDENTITY_FILE).exists():
        raise _no_data_directory(directory)
    _expect_owner(directory)
    try:
        disk = SystemDisk(directory)
    except BlockingIOError as error:
        raise Complaint(str(error.strerror)) from error
    try:
        yield disk
    finally:
        disk.close()


def _expect_owner(directory: Path) -> None:
    """What is written belongs to who writes it, and is for him alone: a node of another account could not read it."""
    from headrace.broker.membership.identity import IDENTITY_FILE

    owner = (directory / IDENTITY_FILE).stat().st_uid
    if owner != os.geteuid():
        raise Complaint(
            f"{directory} belongs to the user with id {owner}, who could not read what is written now",
            f"run it as that user: sudo -u '#{owner}' headrace rescue new-cluster …",
        )


def _no_data_directory(directory: Path) -> Complaint:
    return Complaint(
        f"{directory} is no data directory of a node: it has no meta.properties",
        "name the --data-dir of the node that is left",
        exit_code=NOT_FOUND,
    )


def _look_at(disk: UntouchedDisk) -> Survivor:
    from headrace.broker.membership.identity import WrongIdentity
    from headrace.broker.rescue.survivor import NoDataDirectory, look_at

    try:
        return look_at(disk)
    except NoDataDirectory as missing:
        raise _no_data_directory(Path(disk.location)) from missing
    except WrongIdentity as wrong:
        raise Complaint(str(wrong)) from wrong


def _survey(disk: UntouchedDisk, survivor: Survivor, verify: bool) -> dict[LogId, Survey]:
    from headrace.broker.rescue.survivor import survey
    from headrace.cli.terminal.progress import progress_bar

    total = sum(log.size for log in survivor.logs.values())
    with progress_bar("reading", total if verify else None) as on_read:
        return survey(disk, survivor, is_thorough=verify, on_read=on_read)


# ---- the new cluster


class _Plan(NamedTuple):
    old_cluster_id: str
    agreed: Agreed
    identity: Identity
    """Of the new cluster."""
    image: ClusterImage
    report: dict[str, Any]


def _planned(disk: UntouchedDisk, wishes: Wishes, verify: bool) -> _Plan:
    from headrace.broker.membership.identity import Identity
    from headrace.broker.rescue.stranded import stranded_groups
    from headrace.broker.rescue.survivor import copies
    from headrace.cli.rescue.text import report_facts
    from headrace.metadata.rescue import Fate, rescue
    from headrace.model.names import TopicId, topic_id_text
    from headrace.runtime.entropy import SystemEntropy

    survivor = _look_at(disk)
    agreed = _expect_metadata(survivor)
    surveys = _survey(disk, survivor, verify)
    entropy = SystemEntropy()
    cluster_id = topic_id_text(TopicId(entropy.token(16)))
    identity = Identity(cluster_id, survivor.identity.node_id, entropy.token(16))
    rescued = rescue(agreed.image, identity.node_id, identity.directory, cluster_id, copies(surveys), wishes)
    ends = {it.name: 0 if it.fate is Fate.LOST or it.copy is None else it.copy.end_offset for it in rescued.partitions}
    report = report_facts(survivor, rescued, cluster_id, surveys, stranded_groups(disk, survivor, ends))
    return _Plan(survivor.identity.cluster_id, agreed, identity, rescued.image, report)


def _expect_metadata(survivor: Survivor) -> Agreed:
    """Complaint if there is nothing that says which topics there were, or if it says so of another cluster."""
    agreed, identity = survivor.agreed, survivor.identity
    if agreed is None or agreed.image.cluster_id is None:
        problem = survivor.metadata_trouble or "this node was never told of anything"
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


def _show(report: dict[str, Any], form: str) -> None:
    from headrace.cli.rescue.text import report_text, warnings
    from headrace.cli.terminal.complaints import write_line
    from headrace.cli.terminal.output import answer, answer_json

    if form == "json":
        answer_json(report)
    else:
        answer(report_text(report))
    for warning in warnings(report):
        write_line(sys.stderr, "warning", warning, red=True)


def _expect_accepted(plan: _Plan, is_accepted: bool) -> None:
    if is_accepted:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(
            "a new cluster may lose data, and there is nobody to ask: add --yes-i-may-lose-data if you accept that"
        )
    typed = click.prompt(f"To accept that, type the id of the old cluster ({plan.old_cluster_id})", err=True)
    if typed.strip() != plan.old_cluster_id:
        raise Complaint("that is not its id; nothing was changed")


def _promise(disk: SystemDisk, plan: _Plan) -> str:
    """From when this returns there is no way back but the copy of what was."""
    from headrace.broker.rescue.rescue import promise, stage
    from headrace.cli.terminal.output import moment_text
    from headrace.runtime.clock import SystemClock

    now = moment_text(SystemClock().wall_ms()).replace(":", "").replace(".", "")
    report = json.dumps(plan.report, indent=2, ensure_ascii=False).encode()
    name = stage(disk, now, plan.agreed, plan.identity, plan.image, report)
    promise(disk, name)
    return name


def _say_done(directory: Path, name: str) -> None:
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

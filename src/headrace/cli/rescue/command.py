"""`headrace rescue`: when a majority of the voters' disks is gone. Works on a data directory, without any node."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.rescue.directory import held, look_at_directory, survey_of, untouched
from headrace.cli.rescue.new_cluster import commit_to, expect_accepted, plan_of, say_done, show
from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
from headrace.cli.terminal.options import HELP, noun, output_format

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

    Whether a copy was in sync is what this node last knew. Nothing is changed. Exit code 3 if something is damaged.
    """
    from headrace.broker.rescue.rescue import unfinished
    from headrace.broker.rescue.survivor import copies
    from headrace.cli.rescue.text import inspected_facts, inspected_text
    from headrace.cli.terminal.output import answer, answer_json

    with untouched(directory) as disk:
        survivor = look_at_directory(disk)
        surveys = survey_of(disk, survivor, verify)
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
    with untouched(directory) as disk:
        survivor = look_at_directory(disk)
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
        with untouched(directory) as looked_at:
            show(plan_of(looked_at, wishes, verify).report, form)
        return
    with held(directory) as disk:
        name = unfinished(disk)
        if name is not None:
            talk("an earlier rescue of this directory was not finished: it goes on, with the options it was begun with")
        else:
            with untouched(directory, is_ours=True) as looked_at:
                plan = plan_of(looked_at, wishes, verify)
            show(plan.report, form)
            expect_accepted(plan, is_accepted)
            name = commit_to(disk, plan)
        install(disk, name)
    say_done(directory, name)

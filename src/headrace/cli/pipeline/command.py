"""`headrace pipeline`: run a pipeline from its file, and look after those that run anywhere.

Only what touches a file's tables needs Spark. To list, to ask and to stop, the cluster is enough.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.terminal.options import HELP, cluster_options, noun, output_format

if TYPE_CHECKING:
    from headrace.cli.terminal.complaints import Complaint
    from headrace.client.connections.cluster import Cluster
    from headrace_spark.pipeline.file.errors import PipelineError
    from headrace_spark.pipeline.file.spec import Pipeline
    from headrace_spark.pipeline.run.display import JsonLines, LiveTable
    from headrace_spark.pipeline.status.run_status import RunStatus

SPARK_MODULES = ("pyspark", "pyarrow", "numpy", "py4j")
WAIT_POLL_S = 0.5

command = noun("Run Spark pipelines that are written as files, and look after them.")

pipeline_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@command.command(context_settings=HELP)
@pipeline_file
@click.option("--once", is_flag=True, help="Take what is there now, then end, whatever the file's trigger says.")
@click.option("--master", help="Where Spark runs, in place of what the file says: local[*], spark://…, yarn.")
@click.option("--checkpoint", help="Where its progress is kept, in place of what the file says.")
@click.option(
    "--from-start", is_flag=True, help="Begin anew, though it has run before and its checkpoint is gone. Rows repeat."
)
@click.option("--take-over", is_flag=True, help="If the pipeline runs already, stop that run and go on in this one.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    help="How to tell of progress. Default: a live table on a terminal, lines of JSON elsewhere.",
)
@cluster_options
def run(
    file: Path,
    once: bool,
    master: str | None,
    checkpoint: str | None,
    from_start: bool,
    take_over: bool,
    form: str | None,
) -> int:
    """Run a pipeline.

    It ends when all is read, if its trigger is available-now; otherwise with Ctrl-C, SIGTERM or `headrace pipeline
    stop`, after the batches in progress. A second Ctrl-C does not wait for them. Nothing is lost or doubled either
    way.
    """
    _need_spark()
    from headrace.cli.terminal.output import talk
    from headrace_spark.java import JavaUnsuitable
    from headrace_spark.pipeline.run.failures import PipelineFailure
    from headrace_spark.pipeline.run.runner import Runner, TakenOver
    from headrace_spark.pipeline.status.run_status import AlreadyRunning, RunState

    pipeline = _changed(_load(file), once=once, master=master, checkpoint=checkpoint)
    try:
        with _display(pipeline, form) as display:
            runner = Runner(pipeline, display, take_over=take_over, from_start=from_start)
            end = runner.run()
    except AlreadyRunning as other:
        hint = f"stop it with `headrace pipeline stop {pipeline.name}`, or replace it with --take-over"
        raise _complaint(str(other), hint) from other
    except PipelineFailure as failure:
        where = f" in {failure.query}" if failure.query else ""
        hint = f"all that Spark said is in {failure.details}" if failure.details else ""
        raise _complaint(f"pipeline {pipeline.name!r} failed{where}: {failure}", hint) from failure
    except (JavaUnsuitable, TakenOver) as told:
        raise _complaint(str(told)) from told
    reason = f" ({runner.switch.reason})" if runner.switch.reason else ""
    talk(f"pipeline {pipeline.name} {end.state}{reason}")
    number = runner.switch.signal_number
    return 128 + number if end.state is RunState.STOPPED and number is not None else 0


@command.command(context_settings=HELP)
@pipeline_file
@cluster_options
def validate(file: Path) -> int:
    """Check a pipeline's file, its query against its tables, and its topics. Prints one line per problem."""
    _need_spark()
    from headrace.cli.terminal.complaints import FAILED
    from headrace.cli.terminal.output import answer, plural, talk
    from headrace_spark.java import JavaUnsuitable
    from headrace_spark.pipeline.file.errors import PipelineError
    from headrace_spark.pipeline.inspect.validate import problems_of

    try:
        problems = problems_of(_read(file))
    except PipelineError as wrong:
        problems = [wrong]
    except JavaUnsuitable as told:
        raise _complaint(str(told)) from told
    for problem in problems:
        answer(str(problem))
    talk(f"{file}: {plural(len(problems), 'problem')}" if problems else f"{file}: no problem found")
    return FAILED if problems else 0


@command.command(context_settings=HELP)
@pipeline_file
@cluster_options
def explain(file: Path) -> None:
    """Show what a pipeline's file means: what is read, how it is checked, and where it goes."""
    _need_spark()
    from headrace.cli.terminal.output import answer
    from headrace_spark.java import JavaUnsuitable
    from headrace_spark.pipeline.file.errors import PipelineError
    from headrace_spark.pipeline.inspect.explain import explain as explanation

    pipeline = _load(file)
    try:
        answer(explanation(pipeline))
    except PipelineError as wrong:
        raise _file_complaint(wrong) from wrong
    except JavaUnsuitable as told:
        raise _complaint(str(told)) from told


@command.command("list", context_settings=HELP)
@output_format
@cluster_options
def list_pipelines(form: str) -> None:
    """List the pipelines that run on this cluster's topics, and those that did."""
    from headrace.cli.pipeline.text import run_facts, run_row
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster
    from headrace_spark.pipeline.status.run_status import now_utc
    from headrace_spark.pipeline.status.status_topic import read_status

    async def work(cluster: Cluster) -> list[RunStatus]:
        return [run for _, run in sorted((await read_status(cluster)).runs.items())]

    runs, now = with_cluster(work), now_utc()
    if form == "json":
        answer_json([run_facts(run, now) for run in runs])
    elif runs:
        answer(
            table(("NAME", "STATE", "QUERIES", "ROWS/S", "LAG", "SINCE", "WHERE"), [run_row(run, now) for run in runs])
        )


@command.command(context_settings=HELP)
@click.argument("name")
@output_format
@cluster_options
def status(name: str, form: str) -> int:
    """Show how a pipeline is doing. Exit code 3 if it failed, is degraded (a query of it fails), or is silent."""
    from headrace.cli.pipeline.text import run_facts, status_text
    from headrace.cli.terminal.complaints import NOT_FOUND
    from headrace.cli.terminal.output import answer, answer_json
    from headrace.cli.terminal.session import with_cluster
    from headrace_spark.pipeline.status.run_status import now_utc

    found = with_cluster(lambda cluster: _find(cluster, name))
    now = now_utc()
    if form == "json":
        answer_json(run_facts(found, now))
    else:
        answer(status_text(found, now))
    return 0 if found.is_well(now) else NOT_FOUND


@command.command(context_settings=HELP)
@click.argument("name")
@click.option("--wait", is_flag=True, help="Return when it has ended.")
@cluster_options
def stop(name: str, wait: bool) -> None:
    """Ask a pipeline to stop, wherever it runs. It ends after the batches in progress."""
    from headrace.cli.terminal.output import talk
    from headrace.cli.terminal.session import with_cluster

    async def work(cluster: Cluster) -> RunStatus:
        return await _stop(cluster, name, wait=wait)

    run = with_cluster(work)
    talk(f"pipeline {name} {run.state}" if run.state.is_over else f"asked pipeline {name} to stop ({run.where})")


@command.command(context_settings=HELP)
@click.argument("name")
@cluster_options
def delete(name: str) -> None:
    """Forget a pipeline that does not run: its record, its consumer group, its sinks' staging topics and groups.

    Its checkpoint and what it has written stay.
    """
    from headrace.cli.terminal.output import talk
    from headrace.cli.terminal.session import with_cluster

    run, gone = with_cluster(lambda cluster: _delete(cluster, name))
    for thing in gone:
        talk(f"deleted {thing}")
    place = "" if run.checkpoint is None else f"; its checkpoint stays in {run.checkpoint}"
    talk(f"deleted pipeline {name}{place}")


async def _delete(cluster: Cluster, name: str) -> tuple[RunStatus, list[str]]:
    from headrace_spark.pipeline.status.cleanup import forget
    from headrace_spark.pipeline.status.run_status import now_utc

    run = await _find(cluster, name)
    if run.is_alive(now_utc()):
        hint = f"stop it first: `headrace pipeline stop {name} --wait`"
        raise _complaint(f"pipeline {name!r} is {run.state}, as {run.where}", hint)
    return run, await forget(cluster, run)


async def _stop(cluster: Cluster, name: str, *, wait: bool) -> RunStatus:
    import asyncio

    from headrace.cli.pipeline.text import silence_text
    from headrace_spark.pipeline.status.run_status import now_utc
    from headrace_spark.pipeline.status.status_topic import ask_to_stop

    run = await _find(cluster, name)
    if run.state.is_over:
        raise _complaint(f"pipeline {name!r} does not run: it {_ended_text(run)}")
    if not run.is_alive(now_utc()):
        raise _complaint(
            f"pipeline {name!r} ({run.where}) shows {silence_text(run, now_utc())}: nobody is there to stop"
        )
    await ask_to_stop(cluster, run)
    while wait:
        await asyncio.sleep(WAIT_POLL_S)
        now = await _find(cluster, name)
        if now.run_id != run.run_id or now.state.is_over:
            return now
        if not now.is_alive(now_utc()):
            raise _complaint(f"pipeline {name!r} ({now.where}) shows {silence_text(now, now_utc())}")
    return run


async def _find(cluster: Cluster, name: str) -> RunStatus:
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
    from headrace_spark.pipeline.status.status_topic import read_status

    run = (await read_status(cluster)).runs.get(name)
    if run is None:
        hint = "`headrace pipeline list` shows those that ran on this cluster"
        raise Complaint(f"there is no pipeline {name!r}", hint, NOT_FOUND)
    return run


def _ended_text(run: RunStatus) -> str:
    from headrace.cli.terminal.output import moment_text

    return f"{run.state} at {moment_text(int(run.updated_at.timestamp() * 1000))}"


# ---- the file


def _load(file: Path) -> Pipeline:
    from headrace_spark.pipeline.file.errors import PipelineError

    try:
        return _read(file)
    except PipelineError as wrong:
        raise _file_complaint(wrong) from wrong


def _read(file: Path) -> Pipeline:
    """Raises PipelineError."""
    from headrace.cli.terminal.client_settings import given_client
    from headrace_spark.pipeline.file.loader import load

    servers, config, properties = given_client()
    return load(file, bootstrap_servers=servers, command_config=config, properties=properties)


def _changed(pipeline: Pipeline, *, once: bool, master: str | None, checkpoint: str | None) -> Pipeline:
    """What the command line says, in place of what the file says."""
    from headrace_spark.pipeline.file.spec import AvailableNow

    run = pipeline.run
    if once:
        run = replace(run, trigger=AvailableNow())
    if master is not None:
        run = replace(run, master=master)
    if checkpoint is not None:
        run = replace(run, checkpoint=checkpoint if "://" in checkpoint else str(Path(checkpoint).resolve()))
    return replace(pipeline, run=run)


def _display(pipeline: Pipeline, form: str | None) -> JsonLines | LiveTable:
    from headrace.cli.terminal.output import answer
    from headrace_spark.pipeline.run.display import JsonLines, LiveTable

    if form is None:
        form = "table" if sys.stdout.isatty() and sys.stderr.isatty() else "json"
    return LiveTable(pipeline, answer) if form == "table" else JsonLines(pipeline, answer)


# ---- complaints


def _need_spark() -> None:
    """Told before anything is tried, and without the time that it takes to import Spark."""
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in SPARK_MODULES):
        raise _complaint("pipelines run on Spark, which is not installed", "pip install 'headrace[spark]'")


def _file_complaint(wrong: PipelineError) -> Complaint:
    place = str(wrong.path) if wrong.line is None else f"{wrong.path}:{wrong.line}"
    return _complaint(f"{place}: {wrong.problem}", wrong.hint)


def _complaint(what: str, hint: str = "") -> Complaint:
    from headrace.cli.terminal.complaints import Complaint

    return Complaint(what, hint)

"""`headrace export`: topics become Parquet files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from headrace.cli.offline.spark_job import (
    failures_told,
    master_option,
    progress_of,
    spark_session,
)
from headrace.cli.terminal.options import HELP, cluster_options, output_format
from headrace.cli.terminal.output import answer, answer_json, bytes_text, duration_text, facts_text, plural, talk
from headrace.cli.terminal.sizes import size_option

if TYPE_CHECKING:
    from headrace_spark.offline.exports.job import Export, ExportProgress, ExportResult
    from headrace_spark.offline.exports.offset_specs import OffsetSpec

GO_ON = "run the same command again to go on where it stopped"


@click.command("export", context_settings=HELP)
@click.option("--topic", "topics", multiple=True, help="What to export. Repeatable.")
@click.option("--topics-pattern", metavar="REGEX", help="Every topic whose whole name fits this pattern.")
@click.option(
    "--from",
    "from_",
    metavar="PLACE",
    default="earliest",
    show_default=True,
    help="earliest, an offset, -N for the last N of each partition, an ISO 8601 date, or milliseconds since 1970.",
)
@click.option(
    "--to",
    metavar="PLACE",
    default="latest",
    show_default=True,
    help="Where to stop, not included. Written like --from.",
)
@click.option("--out", required=True, metavar="PLACE", help="A directory, or a URI such as s3://bucket/path.")
@click.option(
    "--file-size",
    default="256MB",
    show_default=True,
    callback=size_option,
    help="About how much goes into one file, before compression.",
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "none"]),
    default="zstd",
    show_default=True,
    help="Of the files.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read-committed", "read-uncommitted"]),
    default="read-committed",
    show_default=True,
    help="Whether messages of transactions that are open or aborted are left out.",
)
@master_option
@output_format
@cluster_options
def command(
    topics: tuple[str, ...],
    topics_pattern: str | None,
    from_: str,
    to: str,
    out: str,
    file_size: int,
    compression: str,
    isolation: str,
    master: str,
    form: str,
) -> None:
    """Write a range of topics as Parquet files, with a manifest of what is in them.

    What is to be exported is decided and stored first. After a crash the same command goes on with what is missing.
    """
    if not topics and topics_pattern is None:
        raise click.UsageError("say what to export: --topic or --topics-pattern")
    _check_pattern(topics_pattern)
    from headrace.cli.terminal.client_settings import chosen_client

    chosen = chosen_client()
    start, end = _offset_spec("--from", from_), _offset_spec("--to", to)
    if isinstance(start, int) and isinstance(end, int) and start >= end:
        raise click.UsageError(f"nothing lies between --from {from_} and --to {to}: --to is not included")
    with failures_told(GO_ON):
        from headrace_spark.offline.exports.job import Export
        from headrace_spark.offline.exports.plan import ExportRequest
        from headrace_spark.offline.storage import Storage

        request = ExportRequest(
            tuple(sorted(set(topics))), topics_pattern, from_, to, isolation, compression, file_size
        )
        job = Export(chosen.bootstrap_servers, request, start, end, Storage.at(out), chosen.security)
        exported = _export(job, master)
    _summarise(exported, out, form)


def _export(export: Export, master: str) -> ExportResult:
    from headrace_spark.offline.exports.job import ExportResult, prepare_export, run_export
    from headrace_spark.offline.exports.manifest import Manifest

    plan = prepare_export(export)
    if isinstance(plan, Manifest):
        return ExportResult(plan, 0.0, was_there=True)
    with spark_session("headrace export", master) as spark, progress_of("exporting") as show:

        def on_progress(progress: ExportProgress) -> None:
            show(progress.done, progress.total, progress.rows, progress.record_bytes)

        return run_export(spark, export, plan, on_progress)


def _check_pattern(pattern: str | None) -> None:
    if pattern is None:
        return
    try:
        re.compile(pattern)
    except re.error as wrong:
        raise click.BadParameter(
            f"{pattern!r} is no regular expression: {wrong}", param_hint="--topics-pattern"
        ) from wrong


def _offset_spec(option: str, text: str) -> OffsetSpec:
    from headrace.cli.messages.starting_offsets import BeforeEnd, parse_offset_spec

    try:
        spec = parse_offset_spec(text)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint=option) from wrong
    if isinstance(spec, BeforeEnd):
        from headrace_spark.offline.exports import offset_specs

        return offset_specs.BeforeEnd(spec.count)
    return spec


def _summarise(exported: ExportResult, out: str, form: str) -> None:
    manifest = exported.manifest
    mb_per_s = 0.0 if exported.was_there else manifest.record_bytes / 1e6 / exported.duration_s
    if form == "json":
        answer_json(
            {
                "out": out,
                "topics": sorted({part.topic for part in manifest.ranges}),
                "rows": manifest.rows,
                "record_bytes": manifest.record_bytes,
                "file_bytes": manifest.file_bytes,
                "files": len(manifest.files),
                "was_there": exported.was_there,
                "duration_ms": round(exported.duration_s * 1000),
                "mb_per_s": round(mb_per_s, 1),
            }
        )
        return
    if exported.was_there:
        talk("this export was complete already; nothing was left to do")
    elif not manifest.rows:
        talk("there is no message in that range; the export is empty")
    facts: list[tuple[str, object]] = [
        ("topics", ", ".join(sorted({part.topic for part in manifest.ranges}))),
        ("rows", f"{manifest.rows:,}"),
        ("keys and values", bytes_text(manifest.record_bytes)),
        ("files", f"{plural(len(manifest.files), 'file')}, {bytes_text(manifest.file_bytes)}"),
    ]
    if not exported.was_there:
        facts.append(("time", f"{duration_text(round(exported.duration_s * 1000))}, {mb_per_s:.0f} MB/s"))
    answer(facts_text([*facts, ("in", out)]))

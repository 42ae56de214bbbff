"""`headrace import`: Parquet files become messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.offline.spark_job import failures_told, master_option, progress_of, spark_session
from headrace.cli.terminal.options import HELP, cluster_options, output_format
from headrace.cli.terminal.output import answer, answer_json, bytes_text, duration_text, facts_text, talk

if TYPE_CHECKING:
    from headrace_spark.offline.imports.job import Import, ImportResult
    from headrace_spark.offline.imports.rate_limit import Rate

GO_ON = "run the same command again to go on: what was sent is not sent twice"
BY_SOURCE = "source"


@click.command("import", context_settings=HELP)
@click.option("--topic", required=True, help="Where the messages go. It must exist.")
@click.option("--in", "in_", required=True, metavar="PLACE", help="A directory, or a URI such as s3://bucket/path.")
@click.option("--source-topic", help="Which topic of an export that holds several.")
@click.option("--key-column", help="Default: key, if there is one.")
@click.option("--value-column", help="Default: value.")
@click.option("--timestamp-column", help="Default: timestamp, if there is one; else the time of the import.")
@click.option("--headers-column", help="Default: headers, if there is one.")
@click.option(
    "--partition-by",
    type=click.Choice(["key", BY_SOURCE]),
    default="key",
    show_default=True,
    help="Where a message goes: to the partition of its key, or to the one that it was exported from.",
)
@click.option("--rate", metavar="RATE", help="At most this much, such as 10MB/s or 50000/s. Default: no limit.")
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Of the batches.",
)
@click.option("--name", help="A name of this import. Under a new one, the same files are sent again.")
@master_option
@output_format
@cluster_options
def command(
    topic: str,
    in_: str,
    source_topic: str | None,
    key_column: str | None,
    value_column: str | None,
    timestamp_column: str | None,
    headers_column: str | None,
    partition_by: str,
    rate: str | None,
    compression: str,
    name: str | None,
    master: str,
    form: str,
) -> None:
    """Send the rows of Parquet files as messages, exactly once, in order for each key.

    The files are an export, or any others. After a crash the same command goes on where it stopped, repeating nothing.
    """
    from headrace.cli.terminal.client_settings import chosen_client

    chosen = chosen_client()
    with failures_told(GO_ON):
        from headrace.wire.batches.header import Codec
        from headrace_spark.offline.imports.columns import ColumnNames
        from headrace_spark.offline.imports.job import Import
        from headrace_spark.offline.storage import Storage

        job = Import(
            chosen.bootstrap_servers,
            topic,
            Storage.at(in_),
            ColumnNames(key_column, value_column, timestamp_column, headers_column),
            Codec[compression.upper()],
            _rate(rate),
            partition_by == BY_SOURCE,
            source_topic,
            name,
            chosen.security,
        )
        imported = _import(job, master)
    _summarise(imported, topic, form)


def _import(job: Import, master: str) -> ImportResult:
    from headrace_spark.offline.imports.job import ImportResult, prepare_import, run_import

    prepared = prepare_import(job)
    found = prepared.found
    if prepared.rows_before >= found.rows:
        return ImportResult(found.rows, 0, 0, 0.0)
    with spark_session("headrace import", master) as spark, progress_of("importing") as show:

        def on_progress(rows: int) -> None:
            # The bytes of rows on their way are not known here; those of the files are near enough for a display.
            sent = rows - prepared.rows_before
            show(rows, found.rows, rows, round(found.file_bytes * sent / found.rows))

        return run_import(spark, job, prepared, on_progress)


def _rate(text: str | None) -> Rate:
    from headrace_spark.offline.imports.rate_limit import Rate

    if text is None:
        return Rate()
    try:
        return Rate.parse(text)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--rate") from wrong


def _summarise(imported: ImportResult, topic: str, form: str) -> None:
    mb_per_s = imported.record_bytes / 1e6 / imported.duration_s if imported.duration_s else 0.0
    if form == "json":
        answer_json(
            {
                "topic": topic,
                "rows": imported.rows,
                "rows_sent": imported.rows_sent,
                "record_bytes": imported.record_bytes,
                "duration_ms": round(imported.duration_s * 1000),
                "mb_per_s": round(mb_per_s, 1),
            }
        )
        return
    if not imported.rows_sent:
        talk("everything was there already; nothing was sent" if imported.rows else "the files hold no rows")
    facts: list[tuple[str, object]] = [
        ("topic", topic),
        ("rows", f"{imported.rows:,}"),
        ("sent now", f"{imported.rows_sent:,}, {bytes_text(imported.record_bytes)}"),
    ]
    if imported.rows_sent:
        facts.append(("time", f"{duration_text(round(imported.duration_s * 1000))}, {mb_per_s:.0f} MB/s"))
    answer(facts_text(facts))

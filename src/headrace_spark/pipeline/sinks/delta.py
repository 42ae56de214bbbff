"""A Delta table, each batch in it exactly once.

Spark's tasks write a batch as Parquet files, in a directory of its own inside the table's. Such files are invisible
until the table's log names them, which the driver does with the `deltalake` package: it adds their names, and in the
same commit "query Q has written batch N". The rows themselves never pass through the driver. A batch that comes again
finds that note. Files of attempts that died are never named; the table's own `vacuum` removes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.sinks.hadoop_files import HadoopFiles
from headrace_spark.pipeline.sinks.parquet_files import compute_only, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace_spark.pipeline.file.spec import DeltaSink
    from headrace_spark.pipeline.sinks.batch_name import BatchName
    from headrace_spark.pipeline.sinks.hadoop_files import StoredFile
    from headrace_spark.pipeline.sinks.parquet_files import Written

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"  # how Spark names the directory of rows without a value


class DeltaWriter:
    """Writes batches to the table of one sink."""

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink

    def __call__(self, batch: DataFrame, name: BatchName) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction  # noqa: PLC0415 - slow to import

        sink = self._sink
        path = sink.path.rstrip("/")
        table = _opened_table(DeltaTable, path, batch, sink.partition_by)
        written_last = table.transaction_version(name.query_id)
        if written_last is not None and written_last >= name.batch_id:
            compute_only(batch)
            return
        directory = f"batch-{name.batch_id:08}-{uuid4().hex}"
        files = HadoopFiles(batch.sparkSession, path)
        written = write_parquet(batch, files, f"{path}/{directory}", sink.partition_by, sink.target_file_bytes)
        row_counts = _row_counts(batch.sparkSession, path, directory, written)
        table.create_write_transaction(
            [_add_action(directory, file, row_counts[file.path]) for file in written.files],
            mode="overwrite" if sink.mode == "complete" else "append",
            schema=table.schema(),
            partition_by=list(sink.partition_by),
            commit_properties=CommitProperties(app_transactions=[Transaction(name.query_id, name.batch_id)]),
        )


def _opened_table(table_type: Any, path: str, batch: DataFrame, partition_by: tuple[str, ...]) -> Any:
    """The table; made if it is not there, and with columns that it lacks added.

    Raises PipelineError if it has another form: a mistake would be noticed only when the files are read.
    """
    from deltalake import Schema  # noqa: PLC0415

    address = path.replace("s3a://", "s3://", 1)  # Hadoop's name for it
    schema = Schema.from_json(batch.schema.toNullable().json())  # Delta writes schemas as Spark does
    if not table_type.is_deltatable(address):
        return table_type.create(address, schema, mode="ignore", partition_by=list(partition_by))
    table = table_type(address)
    known = {field.name: field for field in table.schema().fields}
    _refuse_other_form(path, table, known, schema, partition_by)
    added = [field for field in schema.fields if field.name not in known]
    if added:
        table.alter.add_columns(added)
    return table


def _refuse_other_form(
    path: str, table: Any, known: dict[str, Any], schema: Any, partition_by: tuple[str, ...]
) -> None:
    hint = "write to another table, or change the query or partition_by so that they fit this one"
    for field in schema.fields:
        if field.name in known and _type_of(field) != _type_of(known[field.name]):
            there, here = known[field.name].type, field.type
            problem = f"the Delta table's column '{field.name}' is {there}, and that of the result {here}"
            raise PipelineError(Path(path), None, problem, hint)
    there = tuple(table.metadata().partition_columns)
    if there != partition_by:
        problem = f"the Delta table is partitioned by {_listed(there)}, and partition_by says {_listed(partition_by)}"
        raise PipelineError(Path(path), None, problem, hint)


def _type_of(field: Any) -> Any:
    """Without what may be null: files do not differ by that."""

    def bare(part: Any) -> Any:
        if not isinstance(part, dict):
            return [bare(each) for each in part] if isinstance(part, list) else part
        passed_over = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {name: bare(value) for name, value in part.items() if name not in passed_over}

    return bare(json.loads(field.to_json())["type"])


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(columns) or "nothing"


def _row_counts(session: SparkSession, path: str, directory: str, written: Written) -> dict[str, int]:
    """Rows of each file, by its path. Several are counted from what the files say of themselves at their ends."""
    if len(written.files) <= 1:
        return {file.path: written.row_count for file in written.files}
    counted = session.read.parquet(f"{path}/{directory}").groupBy("_metadata.file_path").count().collect()
    # Spark gives addresses, with a percent sign and two digits for what may not stand in one.
    return {unquote(address).partition(f"/{directory}/")[2]: count for address, count in counted}


def _add_action(directory: str, file: StoredFile, row_count: int) -> Any:
    from deltalake.transaction import AddAction  # noqa: PLC0415

    values: dict[str, str | None] = {}
    for part in file.path.split("/")[:-1]:
        column, _, value = part.partition("=")
        values[unquote(column)] = None if value == NULL_DIRECTORY else unquote(value)
    return AddAction(
        path=f"{directory}/{file.path}",
        size=file.size_bytes,
        partition_values=values,
        modification_time=file.modified_at_ms,
        data_change=True,
        stats=json.dumps({"numRecords": row_count}),
    )

"""The columns that a file declares, and what Spark thinks of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import ParseException
from pyspark.sql.types import StructType

from headrace_spark.pipeline.decode.records import OWN_PREFIX
from headrace_spark.pipeline.file.spec import METADATA_COLUMNS
from headrace_spark.pipeline.spark_errors import said_by

if TYPE_CHECKING:
    from headrace_spark.pipeline.file.spec import Pipeline, SourceSpec, StaticTable
    from headrace_spark.pipeline.file.toml_lines import KeyPath


def declared_columns(pipeline: Pipeline, table: SourceSpec | StaticTable) -> StructType:
    """The schema of the file, parsed by the running Spark. Raises PipelineError."""
    assert table.schema is not None
    key_path = (*table.key_path, "schema")
    try:
        columns = StructType.fromDDL(table.schema)
    except ParseException as error:
        hint = "columns are written as in CREATE TABLE: id BIGINT, sku STRING, at TIMESTAMP"
        raise pipeline.error(key_path, f"the schema is wrong: {said_by(error)}", hint) from error
    if not isinstance(columns, StructType):
        raise pipeline.error(key_path, "the schema is a type, not a list of columns", "write id BIGINT, sku STRING")
    check_names(pipeline, key_path, columns.names)
    return columns


def check_names(pipeline: Pipeline, key_path: KeyPath, names: list[str]) -> None:
    """`key_path` leads to the key that names the columns. Raises PipelineError."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise pipeline.error(
                key_path,
                f"the schema has the column '{name}' twice",
                "column names that differ only in upper and lower case are the same to SQL",
            )
        if name.lower() in METADATA_COLUMNS or name.lower().startswith(OWN_PREFIX):
            raise pipeline.error(
                key_path, f"a column cannot be named '{name}'", "the name is reserved for the metadata of records"
            )
        seen.add(name.lower())

"""Tables that do not move, to join streams with. They are read when the pipeline starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import from_arrow_schema

from headrace_spark.pipeline.decode.schemas import declared_columns
from headrace_spark.pipeline.spark_errors import quiet, said_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace_spark.pipeline.file.spec import Pipeline, StaticTable

_DEFAULTS = {"csv": {"header": "true", "inferSchema": "true", "escape": '"'}}


def read_static_table(spark: SparkSession, pipeline: Pipeline, table: StaticTable) -> DataFrame:
    """Raises PipelineError."""
    if table.format == "delta":
        return _read_delta(spark, pipeline, table)
    reader = spark.read.format(table.format).options(**_DEFAULTS.get(table.format, {})).options(**table.options)
    if table.schema is not None:
        reader = reader.schema(declared_columns(pipeline, table))
    try:
        with quiet():
            return reader.load(table.path)
    except AnalysisException as error:
        hint = "relative paths start at the pipeline's file"
        raise pipeline.error((*table.key_path, table.format), f"it cannot be read: {said_by(error)}", hint) from error


def _read_delta(spark: SparkSession, pipeline: Pipeline, table: StaticTable) -> DataFrame:
    """Spark reads the Parquet files that the table's log names; the log itself needs no JAR to be read."""
    from deltalake import DeltaTable  # noqa: PLC0415 - most pipelines do without
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    key_path = (*table.key_path, "delta")
    try:
        delta = DeltaTable(table.path, storage_options=dict(table.options) or None)
    except (DeltaError, OSError) as error:
        hint = "relative paths start at the pipeline's file"
        raise pipeline.error(key_path, f"it cannot be read as a Delta table: {error}", hint) from error
    if "deletionVectors" in (delta.protocol().reader_features or ()):
        hint = "run OPTIMIZE or REORG TABLE … APPLY (PURGE) on it, or read a Parquet copy"
        raise pipeline.error(key_path, "the Delta table uses deletion vectors, which cannot be read here", hint)
    import pyarrow as pa  # noqa: PLC0415

    columns = from_arrow_schema(pa.schema(delta.schema().to_arrow()))
    files = delta.file_uris()
    if not files:
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).option("basePath", table.path).parquet(*files)

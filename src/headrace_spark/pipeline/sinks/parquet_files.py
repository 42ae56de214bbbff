"""Let Spark's tasks write a batch as Parquet files of a good size."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Observation
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, DataFrameWriter

    from headrace_spark.pipeline.sinks.hadoop_files import HadoopFiles, StoredFile

# Spark's default is INT96, which other readers have dropped or guess at, and Delta forbids.
TIMESTAMP_TYPE = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
NO_SUCCESS_FILE = ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")  # nobody waits for one here


class Written(NamedTuple):
    """The files that a batch has become."""

    files: list[StoredFile]
    row_count: int


def write_parquet(
    batch: DataFrame, files: HadoopFiles, directory: str, partition_by: Sequence[str], target_file_bytes: int
) -> Written:
    """Write the batch to a directory that does not exist yet; no files if it has no rows.

    How many bytes a batch makes is known only when it is written. So it is written as its tasks happen to hold it,
    and if that makes many small files or huge ones, they are written once more. For small batches that costs little.
    """
    batch.sparkSession.conf.set(*TIMESTAMP_TYPE)
    counted = Observation()
    _writer(batch.observe(counted, F.count(F.lit(1)).alias("rows")), partition_by).parquet(directory)
    row_count = int(counted.get["rows"])
    if row_count == 0:
        files.delete(directory)  # for no rows Spark writes a file all the same
        return Written([], 0)
    written = files.list_parquet(directory)
    if not _is_worth_rewriting(written, target_file_bytes):
        return Written(written, row_count)
    first_try = f"{directory}.as-written"
    files.rename(directory, first_try)
    # With the schema given, a partition's directory is not taken for a number because it looks like one.
    rows = batch.sparkSession.read.schema(batch.schema).parquet(first_try)
    total_bytes = sum(file.size_bytes for file in written)
    file_count = ceil(total_bytes / target_file_bytes)
    spread = rows.repartition(file_count, *partition_by) if partition_by else rows.coalesce(file_count)
    rows_per_file = ceil(row_count * target_file_bytes / total_bytes)
    _writer(spread, partition_by).option("maxRecordsPerFile", rows_per_file).parquet(directory)
    files.delete(first_try)
    return Written(files.list_parquet(directory), row_count)


def compute_only(batch: DataFrame) -> None:
    """For a batch that was written before: Spark wants it computed all the same, to bring its state up to date."""
    batch.write.format("noop").mode("overwrite").save()


def _writer(rows: DataFrame, partition_by: Sequence[str]) -> DataFrameWriter:
    return rows.write.partitionBy(*partition_by).option(*NO_SUCCESS_FILE)


def _is_worth_rewriting(files: Sequence[StoredFile], target_bytes: int) -> bool:
    bytes_of: dict[str, int] = {}
    for file in files:
        directory = file.path.rpartition("/")[0]
        bytes_of[directory] = bytes_of.get(directory, 0) + file.size_bytes
    wanted_count = sum(ceil(size / target_bytes) for size in bytes_of.values())
    return wanted_count < len(files) or any(file.size_bytes > 2 * target_bytes for file in files)

"""Sinks of pipelines, batch by batch: what is written once stays written once, whenever the driver dies."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from pyarrow import dataset
from pyspark.sql import functions as F

from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.file.spec import DeltaSink, ParquetSink
from headrace_spark.pipeline.sinks.batch_name import BatchName
from headrace_spark.pipeline.sinks.console import ROWS_MAX, ConsoleWriter
from headrace_spark.pipeline.sinks.delta import DeltaWriter
from headrace_spark.pipeline.sinks.parquet import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

MIB = 1 << 20
QUERY = "00000000-0000-0000-0000-00000000000a"


def batch(number: int) -> BatchName:
    return BatchName(QUERY, number)


def rows(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end, 1, 4).select("id", (F.col("id") % 3).alias("third"))


def parquet_writer(path: Path, partition_by: Sequence[str] = (), target_bytes: int = MIB) -> ParquetWriter:
    return ParquetWriter(ParquetSink("files", str(path), tuple(partition_by), target_bytes, "append", ()))


def delta_writer(path: Path, partition_by: Sequence[str] = (), mode: Any = "append") -> DeltaWriter:
    return DeltaWriter(DeltaSink("table", str(path), tuple(partition_by), MIB, mode, ()))


def ids_by_any_reader(path: Path) -> list[int]:
    """As a program reads it that knows nothing of Spark: every Parquet file below the directory."""
    return sorted(dataset.dataset(sorted(map(str, path.rglob("*.parquet")))).to_table()["id"].to_pylist())


def test_a_batch_that_comes_again_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    write = parquet_writer(tmp_path / "out")
    for number in (0, 0, 1, 1):
        write(rows(spark, number * 10, number * 10 + 10), batch(number))
    assert ids_by_any_reader(tmp_path / "out") == list(range(20))
    names = sorted(path.name[:14] for path in (tmp_path / "out").glob("*.parquet"))
    assert names == ["batch-00000000", "batch-00000001"]


def test_a_driver_that_dies_between_two_files_leaves_the_rest_to_the_next(spark: SparkSession, tmp_path: Path) -> None:
    out, aside = tmp_path / "out", tmp_path / ".out.headrace" / QUERY
    write = parquet_writer(out, ["third"])
    write(rows(spark, 0, 30), batch(0))
    # As it is in the middle of the move: the batch is ready, one file is not in its place yet, and nothing says "done".
    late = next((out / "third=1").glob("*.parquet"))
    waiting = aside / "ready-0" / "third=1" / late.name.removeprefix("batch-00000000-")
    waiting.parent.mkdir(parents=True)
    shutil.move(late, waiting)
    (aside / "done-0").unlink()
    # The batch that comes again has other rows, to show that these are not taken.
    write(rows(spark, 1000, 1030), batch(0))
    assert ids_by_any_reader(out) == list(range(30))
    assert not (aside / "ready-0").exists()


def test_what_an_attempt_left_behind_is_cleared_and_never_seen(spark: SparkSession, tmp_path: Path) -> None:
    attempt = tmp_path / ".out.headrace" / QUERY / "attempt-0-abc"
    rows(spark, 0, 5).write.parquet(str(attempt))
    parquet_writer(tmp_path / "out")(rows(spark, 0, 10), batch(0))
    assert ids_by_any_reader(tmp_path / "out") == list(range(10))
    assert not attempt.exists()


def test_a_batch_without_rows_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    write = parquet_writer(tmp_path / "out")
    write(rows(spark, 0, 0), batch(0))
    write(rows(spark, 0, 3), batch(1))
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 1


def test_files_have_about_the_size_that_was_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    noise = rows(spark, 0, 40_000).withColumn("noise", F.expr("uuid()"))
    parquet_writer(tmp_path / "one", target_bytes=64 * MIB)(noise, batch(0))
    (one,) = (tmp_path / "one").glob("*.parquet")
    target_bytes = one.stat().st_size // 8
    parquet_writer(tmp_path / "many", target_bytes=target_bytes)(noise, batch(0))
    sizes = [path.stat().st_size for path in (tmp_path / "many").glob("*.parquet")]
    assert len(sizes) >= 8
    assert max(sizes) < 2 * target_bytes
    assert ids_by_any_reader(tmp_path / "many") == list(range(40_000))


def test_delta_takes_a_batch_once_and_counts_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    write = delta_writer(tmp_path / "table")
    for number in (0, 0, 1):
        write(rows(spark, number * 10, number * 10 + 10), batch(number))
    table = DeltaTable(tmp_path / "table")
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == list(range(20))
    assert table.count() == 20


def test_delta_keeps_partitions_apart_whatever_their_names(spark: SparkSession, tmp_path: Path) -> None:
    names = ["plain", "two words", "a/b:c%d=e", "ä", None]
    frame = spark.createDataFrame([(number, name) for number, name in enumerate(names)], "id INT, name STRING")
    delta_writer(tmp_path / "table", ["name"])(frame, batch(0))
    table = DeltaTable(tmp_path / "table")
    assert {row["id"]: row["name"] for row in table.to_pyarrow_table().to_pylist()} == dict(enumerate(names))
    assert table.count() == len(names)


def test_delta_in_complete_mode_holds_the_last_batch_and_learns_new_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    delta_writer(tmp_path / "table")(rows(spark, 0, 10), batch(0))
    wider = rows(spark, 0, 5).withColumn("colour", F.lit("green"))
    delta_writer(tmp_path / "table", mode="complete")(wider, batch(1))
    kept = DeltaTable(tmp_path / "table").to_pyarrow_table()
    assert kept.num_rows == 5
    assert set(kept["colour"].to_pylist()) == {"green"}


def test_delta_refuses_rows_of_another_form(spark: SparkSession, tmp_path: Path) -> None:
    delta_writer(tmp_path / "table")(rows(spark, 0, 10), batch(0))
    texts = rows(spark, 10, 20).withColumn("id", F.col("id").cast("string"))
    with pytest.raises(PipelineError, match=r"table: the Delta table's column 'id' is .*long.*, .* result .*string"):
        delta_writer(tmp_path / "table")(texts, batch(1))
    with pytest.raises(PipelineError, match="is partitioned by nothing, and partition_by says third"):
        delta_writer(tmp_path / "table", ["third"])(rows(spark, 10, 20), batch(1))
    assert sorted(DeltaTable(tmp_path / "table").to_pyarrow_table()["id"].to_pylist()) == list(range(10))


def test_the_console_shows_the_first_rows_and_how_many_more_there_are(spark: SparkSession) -> None:
    shown: list[tuple[str, int, list[dict[str, Any]], int]] = []
    write = ConsoleWriter("console", lambda *facts: shown.append(facts))
    write(rows(spark, 0, 100).coalesce(1), batch(7))
    write(rows(spark, 0, 0), batch(8))
    ((query, batch_id, first, more),) = shown
    assert (query, batch_id, more) == ("console", 7, 100 - ROWS_MAX)
    assert first[1] == {"id": 1, "third": 1}

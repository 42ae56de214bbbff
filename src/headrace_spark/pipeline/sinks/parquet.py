"""Parquet files, each row in them exactly once, for every reader: no list of valid files beside them to know of.

A batch may come again: its driver died before Spark noted that it was done. So it goes through three places. Tasks
write it *aside*, where no reader looks. When it is complete, one rename makes it *ready*. Then its files move into
the directory one by one, and a note says *done*. A batch that comes again is passed over if it is done; if it is
ready, what is left of it is moved; otherwise it is written anew. At no moment is a row visible twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from headrace_spark.pipeline.sinks.hadoop_files import HadoopFiles
from headrace_spark.pipeline.sinks.parquet_files import compute_only, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace_spark.pipeline.file.spec import ParquetSink
    from headrace_spark.pipeline.sinks.batch_name import BatchName


class ParquetWriter:
    """Writes batches to the directory of one sink."""

    def __init__(self, sink: ParquetSink) -> None:
        self._sink = sink

    def __call__(self, batch: DataFrame, name: BatchName) -> None:
        target = self._sink.path.rstrip("/")
        files = HadoopFiles(batch.sparkSession, target)
        aside = f"{_aside(target)}/{name.query_id}"
        ready, done = f"{aside}/ready-{name.batch_id}", f"{aside}/done-{name.batch_id}"
        if files.exists(done):
            compute_only(batch)
            return
        if files.exists(ready):
            compute_only(batch)
        else:
            _clear_attempts(files, aside)
            attempt = f"{aside}/attempt-{name.batch_id}-{uuid4().hex}"
            written = write_parquet(batch, files, attempt, self._sink.partition_by, self._sink.target_file_bytes)
            if written.files:
                files.rename(attempt, ready)
        _move(files, ready, target, name.batch_id)
        files.touch(done)
        files.delete(ready)
        files.delete(f"{aside}/done-{name.batch_id - 1}")


def _aside(target: str) -> str:
    """Next to the directory, not in it: `**/*.parquet` must not find it. A whole bucket has nothing next to it."""
    parent, _, last = target.rpartition("/")
    return f"{target}/.headrace" if parent.endswith(":/") else f"{parent}/.{last}.headrace"


def _clear_attempts(files: HadoopFiles, aside: str) -> None:
    """What died before it was ready."""
    for name in files.list_names(aside):
        if name.startswith("attempt-"):
            files.delete(f"{aside}/{name}")


def _move(files: HadoopFiles, ready: str, target: str, batch_id: int) -> None:
    for file in files.list_parquet(ready):
        directory, _, last = file.path.rpartition("/")
        place = "/".join(part for part in (target, directory) if part)
        goal = f"{place}/batch-{batch_id:08}-{last}"
        files.make_directory(place)
        if files.exists(goal):  # a store that renames by copying, and was cut off between copy and deletion
            files.delete(f"{ready}/{file.path}")
        else:
            files.rename(f"{ready}/{file.path}", goal)

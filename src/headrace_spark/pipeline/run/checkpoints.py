"""Checks, before anything is read, whether a pipeline's checkpoint fits what is known of its earlier runs.

Spark takes a directory without a checkpoint for the first run of a query, and begins. If the pipeline has run before,
that repeats all it has written, or with `starting = "latest"` leaves out what came since. Somebody has to want it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.admin.groups import GroupAdmin
from headrace_spark.pipeline.sinks.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from headrace_spark.pipeline.file.errors import PipelineError
    from headrace_spark.pipeline.file.spec import Pipeline
    from headrace_spark.pipeline.status.run_status import RunStatus

METADATA = "metadata"  # the file that Spark makes first, with the query's id


def check_checkpoints(spark: SparkSession, pipeline: Pipeline, run: RunStatus, *, from_start: bool) -> None:
    """Raises PipelineError if a query has run before and its checkpoint is gone, unless `from_start` is set; and if
    `from_start` is set though no checkpoint is gone. `run` knows what earlier runs have told.
    """
    known = known_queries(pipeline, run, has_group=_has_offsets(pipeline))
    missing = [name for name in sorted(known) if not has_checkpoint(spark, pipeline.checkpoint_of(name))]
    if missing and not from_start:
        raise _gone(pipeline, run, missing)
    if from_start and known and not missing:
        raise _is_there(pipeline)


def known_queries(pipeline: Pipeline, run: RunStatus, *, has_group: bool) -> set[str]:
    """Of the pipeline's queries those that have got through a batch at some time.

    The status of the runs says it. Where that is lost, a consumer group that has offsets counts for all of them.
    """
    told = {query.sink for query in run.queries if query.batch_id is not None}
    names = set(pipeline.query_names)
    return names & told if told or not has_group else names


def has_checkpoint(spark: SparkSession, path: str) -> bool:
    """Whether Spark has begun a checkpoint in this directory."""
    return METADATA in HadoopFiles(spark, path).list_names(path)


def _has_offsets(pipeline: Pipeline) -> bool:
    with pipeline.cluster.connect() as client:
        return bool(client.run(GroupAdmin(client.cluster).offsets(pipeline.run.group)))


def _gone(pipeline: Pipeline, run: RunStatus, missing: Collection[str]) -> PipelineError:
    problem = (
        f"pipeline {pipeline.name!r} has run before, but there is no checkpoint of {', '.join(missing)} in "
        f"{pipeline.run.checkpoint}. It would begin anew, and write again what it has written"
    )
    elsewhere = run.checkpoint if run.checkpoint not in {None, pipeline.run.checkpoint} else None
    place = f" (the last run had {elsewhere})" if elsewhere else ""
    hint = f"name the place of its checkpoint with --checkpoint{place}, or let it begin anew with --from-start"
    return pipeline.error(("run",), problem, hint)


def _is_there(pipeline: Pipeline) -> PipelineError:
    problem = f"--from-start, but there is a checkpoint in {pipeline.run.checkpoint}, from which it would go on"
    return pipeline.error(("run",), problem, "delete that directory first, or leave the option out")

"""What `headrace pipeline status` says of a pipeline that is in trouble: what is, and not what one would like."""

from __future__ import annotations

import json
import logging
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.admin.admin import Admin
from headrace_spark.blocking import BlockingCluster
from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.run.checkpoints import known_queries
from headrace_spark.pipeline.run.failures import PipelineFailure
from headrace_spark.pipeline.run.runner import Runner
from headrace_spark.pipeline.status.query_status import QueryStatus
from headrace_spark.pipeline.status.run_status import RunState, new_run, now_utc
from tests.clients.commands import call_here
from tests.spark.source_topics import produce

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.testing import Broker
    from headrace_spark.pipeline.file.spec import Pipeline
    from headrace_spark.pipeline.run.query_progress import BatchProgress
    from headrace_spark.pipeline.status.run_status import RunStatus

pytestmark = pytest.mark.xdist_group("spark")

PATIENCE_S = 60.0  # against hangs only


class Witness:
    """An observer that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[RunStatus] = []
        self.batches: list[BatchProgress] = []
        self.failures: list[PipelineFailure] = []

    def tell(self, run: RunStatus) -> None:
        self.told.append(run)

    def batch(self, progress: BatchProgress) -> None:
        self.batches.append(progress)

    def rows(self, query: str, batch_id: int, rows: list[dict[str, Any]], more_count: int) -> None: ...

    def restarting(self, failure: PipelineFailure, pause_s: float) -> None:
        self.failures.append(failure)


def status_when(broker: Broker, name: str, state: RunState) -> tuple[int, dict[str, Any], str]:
    """Exit code and answers of `pipeline status`, once it tells of that state."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        asked = call_here(broker.bootstrap_servers, "pipeline", "status", name, "--format", "json")
        told = json.loads(asked.out)
        if told["state"] == state or time.monotonic() > deadline_s:
            return asked.code, told, call_here(broker.bootstrap_servers, "pipeline", "status", name).out


THREE_WAYS = """
name = "three-ways"
[[source]]
name = "words"
topic = "three-ways-in"
format = "text"
undecodable = "drop"
[[sink]]
name = "good"
topic = "three-ways-out"
[[sink]]
name = "blocked-1"
parquet = "file/1"
[[sink]]
name = "blocked-2"
parquet = "file/2"
[run]
trigger = "100 ms"
checkpoint = "checkpoint"
restart_attempts = 2
restart_backoff = "50 ms"
"""


def test_a_crash_loop_is_degraded_and_then_failed_whatever_the_other_queries_get_through(
    spark: SparkSession, broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "py4j")  # it shows each error with two stacks
    (tmp_path / "file").touch()  # where a directory should be
    (tmp_path / "three.toml").write_text(THREE_WAYS)
    broker.create_topic("three-ways-in")
    produce(broker, "three-ways-in", ["first"])
    seen: list[tuple[int, dict[str, Any], str]] = []

    class Inquirer(Witness):
        def restarting(self, failure: PipelineFailure, pause_s: float) -> None:
            produce(broker, "three-ways-in", ["more for the query that is well"])
            if not seen:
                seen.append(status_when(broker, "three-ways", RunState.DEGRADED))
            super().restarting(failure, pause_s)

    inquirer = Inquirer()
    with pytest.raises(PipelineFailure) as gave_up:
        Runner(load(tmp_path / "three.toml", bootstrap_servers=broker.bootstrap_servers), inquirer).run(spark)
    code, told, text = seen[0]
    assert (code, told["restarts"]) == (3, 1)
    assert "State:      degraded" in text
    assert "Parent path is not a directory" in told["error"]
    assert "\n" not in told["error"]
    assert told["error_at"] > told["started_at"]
    assert f"{told['error_at']} in {told['error_in']}: {told['error']}" in text
    failing = {query["sink"]: query for query in told["queries"] if query["is_failing"]}
    assert failing.keys() == {failure.query for failure in inquirer.failures[: len(failing)]}
    for query in failing.values():
        assert (query["restarts"], query["lag"], query["error_batch"]) == (1, None, 0)
        assert f"{query['sink']} failed at {query['error_at']} in batch 0: {query['error']}" in text
    since = inquirer.told.index(next(run for run in inquirer.told if run.restarts))
    assert {run.state for run in inquirer.told[since:]} == {RunState.DEGRADED, RunState.FAILED}
    assert not any(run.is_well(now_utc()) for run in inquirer.told[since:])
    code, told, text = status_when(broker, "three-ways", RunState.FAILED)
    assert (code, told["error_in"]) == (3, gave_up.value.query)
    assert str(gave_up.value) in text


LATE = """
name = "late"
[[source]]
name = "visits"
topic = "late-in"
format = "json"
schema = "page STRING, at TIMESTAMP"
watermark = "at 1 minute"
undecodable = "drop"
tombstones = "drop"
[query]
sql = "SELECT page, count(*) AS visits FROM visits GROUP BY window(at, '1 minute'), page"
[[sink]]
name = "counts"
topic = "late-out"
mode = "update"
[run]
trigger = "available-now"
checkpoint = "checkpoint"
"""


def test_rows_that_come_too_late_are_counted_over_runs(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "late.toml").write_text(LATE)
    broker.create_topic("late-in")

    def run(*visits: tuple[str, str]) -> int:
        produce(broker, "late-in", [json.dumps({"page": page, "at": f"2026-01-01T{at}Z"}) for page, at in visits])
        Runner(load(tmp_path / "late.toml", bootstrap_servers=broker.bootstrap_servers), Witness()).run(spark)
        code, told, text = status_when(broker, "late", RunState.FINISHED)
        (query,) = told["queries"]
        assert (code, "LATE ROWS" in text) == (0, True)
        return int(query["late_rows"])

    assert run(("/a", "10:00:00"), ("/a", "12:00:00")) == 0, "in one batch nothing is late"
    # Spark counts what reaches the operator that drops it: rows of one page and minute are one by then.
    assert run(*[("/a", f"10:00:{second}") for second in range(10, 20)], ("/b", "10:00:00")) == 2
    assert run(("/a", "10:00:00"), ("/a", "12:00:01")) == 3


ANEW = """
name = "anew"
[[source]]
name = "words"
topic = "anew-in"
format = "text"
undecodable = "drop"
fail_on_data_loss = true
[[sink]]
name = "files"
parquet = "out/"
[run]
trigger = "available-now"
checkpoint = "checkpoint"
restart = "never"
"""


def test_a_topic_that_was_made_anew_stops_the_pipeline_or_is_read_from_its_beginning(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "anew.toml"
    file.write_text(ANEW)

    def run() -> None:
        Runner(load(file, bootstrap_servers=broker.bootstrap_servers), Witness()).run(spark)

    def words() -> list[str]:
        return sorted(row["value"] for row in spark.read.parquet(str(tmp_path / "out")).collect())

    broker.create_topic("anew-in")
    produce(broker, "anew-in", ["old 1", "old 2"])
    run()
    broker.delete_topic("anew-in")
    broker.create_topic("anew-in")
    produce(broker, "anew-in", ["new 1", "new 2", "new 3"])
    with pytest.raises(PipelineFailure, match="'anew-in' was deleted and made anew"):
        run()
    code, told, text = status_when(broker, "anew", RunState.FAILED)
    assert (code, told["error_in"], words()) == (3, "files", ["old 1", "old 2"])
    assert f"Error:    {told['error_at']} in files: {told['error']}" in text
    assert "fail_on_data_loss = false" in text
    file.write_text(ANEW.replace("fail_on_data_loss = true", "fail_on_data_loss = false"))
    run()
    assert words() == ["new 1", "new 2", "new 3", "old 1", "old 2"]
    code, told, text = status_when(broker, "anew", RunState.FINISHED)
    assert (code, told["queries"][0]["is_failing"]) == (0, False)
    assert "files: topic 'anew-in' was deleted and made anew, and is read from its beginning" in text


def test_a_known_pipeline_without_its_checkpoint_asks_before_it_repeats_everything(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "lost.toml"
    file.write_text(ANEW.replace("anew", "lost"))
    pipeline = load(file, bootstrap_servers=broker.bootstrap_servers)
    broker.create_topic("lost-in")
    produce(broker, "lost-in", ["one", "two"])

    def run(pipeline: Pipeline = pipeline, *, from_start: bool = False) -> int:
        end = Runner(pipeline, Witness(), from_start=from_start).run(spark)
        return sum(query.rows for query in end.queries)

    assert run() == 2
    with pytest.raises(PipelineFailure, match=r"there is a checkpoint in .*, from which it would go on"):
        run(from_start=True)
    elsewhere = replace(pipeline, run=replace(pipeline.run, checkpoint=str(tmp_path / "elsewhere")))
    for _ in range(2):
        with pytest.raises(PipelineFailure, match="has run before, but there is no checkpoint of files in") as refused:
            run(elsewhere)
        assert f"(the last run had {pipeline.run.checkpoint})" in str(refused.value)
    code, _, text = status_when(broker, "lost", RunState.FAILED)
    assert (code, "--from-start" in text) == (3, True)
    assert run() == 0, "where its checkpoint is, it goes on"
    assert run(elsewhere, from_start=True) == 2
    assert run(elsewhere) == 0


def test_the_consumer_group_speaks_for_a_pipeline_whose_record_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(THREE_WAYS)
    pipeline, now = load(file), now_utc()
    fresh = new_run("three-ways", "r", "local", now)
    assert known_queries(pipeline, fresh, has_group=False) == set()
    assert known_queries(pipeline, fresh, has_group=True) == {"good", "blocked-1", "blocked-2"}
    once = replace(fresh, queries=(QueryStatus("good", 0), QueryStatus("blocked-1"), QueryStatus("removed", 3)))
    assert known_queries(pipeline, once, has_group=True) == {"good"}


LARGE = """
name = "large"
[[source]]
name = "words"
topic = "large-in"
format = "text"
undecodable = "drop"
[[sink]]
name = "copy"
topic = "large-out"
[run]
trigger = "available-now"
checkpoint = "checkpoint"
restart = "never"
"""


def test_staging_topics_go_with_the_run_or_with_the_next(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text(LARGE)
    pipeline = load(tmp_path / "large.toml", bootstrap_servers=broker.bootstrap_servers)
    broker.create_topic("large-in")

    def staging() -> set[str]:
        with BlockingCluster(broker.bootstrap_servers) as client:
            names = {topic.name for topic in client.run(Admin(client.cluster).list_topics())}
        return {name for name in names if name.startswith("__spark-staging-spark-sink-large-out-")}

    seen: list[set[str]] = []

    class Crash(Witness):
        def batch(self, progress: BatchProgress) -> None:
            seen.append(staging())
            raise KeyboardInterrupt

    produce(broker, "large-in", ["x" * 1000] * 200)
    with pytest.raises(KeyboardInterrupt):
        Runner(pipeline, Crash()).run(spark)
    (left,) = seen[0]
    assert staging() == {left}, "its successor may want it"
    shutil.rmtree(pipeline.run.checkpoint)

    class Look(Witness):
        def batch(self, progress: BatchProgress) -> None:
            seen.append(staging())

    Runner(pipeline, Look(), from_start=True).run(spark)
    assert len(seen[1]) == 1
    assert left not in seen[1], "it was cleared away before anything else was done"
    assert staging() == set()
    deleted = call_here(broker.bootstrap_servers, "pipeline", "delete", "large")
    assert deleted.code == 0
    assert "deleted group pipeline.large\n" in deleted.talk
    assert f"its checkpoint stays in {pipeline.run.checkpoint}" in deleted.talk
    assert call_here(broker.bootstrap_servers, "pipeline", "status", "large").code == 3

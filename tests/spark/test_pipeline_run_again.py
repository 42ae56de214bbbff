"""A pipeline that ends, fails or is stopped, and goes on: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.groups import GroupAdmin
from headrace.client.producing.producer import BatchingProducer
from headrace.client.reading.consumer import AssignedConsumer, ConsumerSettings
from headrace.client.reading.offsets import Edge, IsolationLevel, find_bounds
from headrace.model.names import TopicPartition
from headrace_spark.blocking import BlockingCluster
from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.file.spec import EverySeconds
from headrace_spark.pipeline.run.failures import PipelineFailure
from headrace_spark.pipeline.run.runner import Runner
from headrace_spark.pipeline.status.run_status import RunState
from headrace_spark.pipeline.status.status_topic import read_status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

    from headrace.testing import Broker
    from headrace_spark.pipeline.file.spec import Pipeline
    from headrace_spark.pipeline.run.query_progress import BatchProgress
    from headrace_spark.pipeline.status.run_status import RunStatus

pytestmark = pytest.mark.xdist_group("spark")

PATIENCE_S = 280.0  # against hangs only


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.batches: list[BatchProgress] = []
        self.failures: list[str] = []
        self.states: list[RunState] = []
        self.first_batch = threading.Event()

    def tell(self, run: RunStatus) -> None:
        if not self.states or self.states[-1] != run.state:
            self.states.append(run.state)

    def batch(self, progress: BatchProgress) -> None:
        self.batches.append(progress)
        self.first_batch.set()

    def rows(self, query: str, batch_id: int, rows: list[dict[str, Any]], more_count: int) -> None: ...

    def restarting(self, failure: PipelineFailure, pause_s: float) -> None:
        self.failures.append(str(failure))


@pytest.fixture
def client(broker: Broker) -> Iterator[BlockingCluster]:
    with BlockingCluster(broker.bootstrap_servers) as client:
        yield client


def numbers_pipeline(broker: Broker, directory: Path, name: str, query: str = "") -> Pipeline:
    """Numbers of one topic, to another and to files."""
    for topic in (f"{name}-in", f"{name}-out"):
        broker.create_topic(topic)
    file = directory / "numbers.toml"
    file.write_text(f"""
name = "{name}"
[[source]]
name = "numbers"
topic = "{name}-in"
format = "json"
schema = "number INT"
undecodable = "drop"
tombstones = "drop"
{query}
[[sink]]
name = "topic"
topic = "{name}-out"
[[sink]]
name = "files"
parquet = "out/"
[run]
trigger = "available-now"
checkpoint = "checkpoint"
restart_attempts = 2
restart_backoff = "100 ms"
""")
    return load(file, bootstrap_servers=broker.bootstrap_servers)


def send(client: BlockingCluster, pipeline: Pipeline, numbers: range) -> None:
    async def work() -> None:
        async with BatchingProducer(client.cluster) as producer:
            for number in numbers:
                await producer.send(pipeline.sources[0].topics[0], None, json.dumps({"number": number}).encode())

    client.run(work())


def numbers_out(client: BlockingCluster, pipeline: Pipeline) -> list[int]:
    name = TopicPartition(f"{pipeline.name}-out", 0)
    committed = IsolationLevel.READ_COMMITTED

    async def work() -> list[int]:
        end = (await find_bounds(client.cluster, [name], committed))[name][1]
        found: list[int] = []
        async with AssignedConsumer(client.cluster, ConsumerSettings(isolation=committed)) as consumer:
            await consumer.assign({name: Edge.EARLIEST}, {name: end})
            while not consumer.is_finished:
                for record in (await consumer.poll()).get(name, ()):
                    assert record.value is not None
                    found.append(json.loads(record.value)["number"])
        return sorted(found)

    return client.run(work())


def numbers_in_files(spark: SparkSession, directory: Path) -> list[int]:
    return sorted(row["number"] for row in spark.read.parquet(str(directory / "out")).collect())


def test_the_next_run_goes_on_where_the_last_one_ended(
    spark: SparkSession, broker: Broker, client: BlockingCluster, tmp_path: Path
) -> None:
    pipeline = numbers_pipeline(broker, tmp_path, "goes-on")
    for numbers in (range(10), range(10, 25)):
        send(client, pipeline, numbers)
        watcher = Watcher()
        end = Runner(pipeline, watcher).run(spark)
        assert watcher.states == [RunState.STARTING, RunState.RUNNING, RunState.FINISHED]
        assert {query.sink: query.rows for query in end.queries} == {"topic": len(numbers), "files": len(numbers)}
        assert {query.lag for query in end.queries} == {0}
    assert numbers_out(client, pipeline) == list(range(25))
    assert numbers_in_files(spark, tmp_path) == list(range(25))
    (lag,) = client.run(GroupAdmin(client.cluster).lag("pipeline.goes-on"))
    assert lag.lag == 0
    told = client.run(read_status(client.cluster)).runs["goes-on"]
    assert (told.state, told.error) == (RunState.FINISHED, None)


FRAGILE = """
from pathlib import Path
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

def repaired(path):
    @F.udf(IntegerType())
    def checked(number):
        if number == 5 and not Path(path).exists():
            raise ZeroDivisionError("number five")
        return number
    return checked

def fragile(spark, tables):
    return tables["numbers"].select(repaired("PATH")("number").alias("number"))
"""


class Repairman(Watcher):
    """Mends the fault after the first failure."""

    def __init__(self, flag: Path) -> None:
        super().__init__()
        self._flag = flag

    def restarting(self, failure: PipelineFailure, pause_s: float) -> None:
        super().restarting(failure, pause_s)
        self._flag.touch()


FAILED = "ZeroDivisionError: number five (fragile_numbers.py, line 10)"


def test_a_failure_that_passes_is_ridden_out_and_one_that_stays_is_told(
    spark: SparkSession, broker: Broker, client: BlockingCluster, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    (tmp_path / "fragile_numbers.py").write_text(FRAGILE.replace("PATH", str(flag)))
    query = '[query]\npython = "fragile_numbers:fragile"'
    pipeline = numbers_pipeline(broker, tmp_path, "fragile", query)
    send(client, pipeline, range(10))

    hopeless = Watcher()
    with pytest.raises(PipelineFailure, match=f"^{re.escape(FAILED)}$"):
        Runner(pipeline, hopeless).run(spark)
    assert set(hopeless.failures) == {FAILED}
    told = client.run(read_status(client.cluster)).runs["fragile"]
    assert (told.state, told.error) == (RunState.FAILED, FAILED)
    assert 2 in {query.restarts for query in told.queries}, "the one that fails first, in some attempts with the other"
    assert not spark.streams.active

    repairman = Repairman(flag)
    assert Runner(pipeline, repairman).run(spark).restarts == 1
    assert set(repairman.failures) == {FAILED}
    assert numbers_out(client, pipeline) == list(range(10))
    assert numbers_in_files(spark, tmp_path) == list(range(10))


def test_a_stop_waits_for_the_batch_and_the_next_run_goes_on(
    spark: SparkSession, broker: Broker, client: BlockingCluster, tmp_path: Path
) -> None:
    pipeline = numbers_pipeline(broker, tmp_path, "stops")
    endless = replace(pipeline, run=replace(pipeline.run, trigger=EverySeconds(0.1)))
    send(client, pipeline, range(10))
    watcher = Watcher()
    runner = Runner(endless, watcher)
    ends: list[RunStatus] = []
    thread = threading.Thread(target=lambda: ends.append(runner.run(spark)))
    thread.start()
    assert watcher.first_batch.wait(PATIENCE_S)
    runner.switch.ask("a test")
    thread.join(PATIENCE_S)
    assert [end.state for end in ends] == [RunState.STOPPED]
    assert watcher.states == [RunState.STARTING, RunState.RUNNING, RunState.STOPPING, RunState.STOPPED]
    send(client, pipeline, range(10, 20))
    Runner(pipeline, Watcher()).run(spark)
    assert numbers_out(client, pipeline) == list(range(20))
    assert numbers_in_files(spark, tmp_path) == list(range(20))

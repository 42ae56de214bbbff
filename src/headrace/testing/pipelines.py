"""Run a pipeline's file in a test: sample records in, what it makes of them out.

    result = pipeline_result("orders.toml", {"orders": [{"sku": "tea", "amount": 2.5}, b"not JSON"]})
    assert result["orders-per-minute"] == [...]
    assert [letter.value for letter in result.dead_letters] == [b"not JSON"]

Everything is real but small: a broker in this process, Spark on this machine, and the very code that runs pipelines.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from headrace.client.producing.producer import BatchingProducer
from headrace.client.reading.consumer import AssignedConsumer, ConsumerSettings
from headrace.client.reading.offsets import Edge, IsolationLevel, find_bounds
from headrace.model.names import TopicPartition
from headrace.testing.broker import Broker
from headrace_spark.blocking import BlockingCluster
from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.file.spec import (
    AvailableNow,
    ClusterSpec,
    ConsoleSink,
    DeltaSink,
    ParquetSink,
    RestartPolicy,
    TopicSink,
)
from headrace_spark.pipeline.run.runner import DEFAULT_CONF, Runner
from headrace_spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.batches.records import Record
    from headrace_spark.pipeline.file.spec import Pipeline, SinkSpec, SourceSpec
    from headrace_spark.pipeline.run.failures import PipelineFailure
    from headrace_spark.pipeline.run.query_progress import BatchProgress
    from headrace_spark.pipeline.status.run_status import RunStatus

DEAD_LETTER_PREFIX: Final = "headrace-dlq-"
# A test has few rows: many tasks for them would only cost time.
SESSION_CONF: Final = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}


@dataclass(frozen=True)
class OutputRecord:
    """A record that the pipeline wrote to a topic, as it lies there.

    (record,) = result.records["orders-per-minute"]
    assert (record.key, record.headers) == (b"tea", {})
    """

    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]
    """Of several headers with one name, the last."""


@dataclass(frozen=True)
class DeadLetter:
    """A record that the pipeline put aside, with the reason and with where it came from.

    (letter,) = result.dead_letters
    assert letter.reason == "expectation 'positive amount' is broken: amount > 0"
    """

    key: bytes | None
    value: bytes | None
    reason: str
    topic: str
    """Where it was read, not where it was put: that, and the next two."""
    partition: int
    offset: int


@dataclass(frozen=True)
class PipelineResult:
    """What one run of a pipeline wrote. `result["name"]` is the output of a sink, by its name or its topic.

    result = pipeline_result("orders.toml", {"orders": [{"sku": "tea", "amount": 2.5}]})
    assert result["orders-per-minute"] == [{"sku": "tea", "amount": 2.5}]
    """

    outputs: dict[str, list[Any]]
    """By sink: rows of files and of the console, values of topics, both as Python values (JSON is read)."""
    records: dict[str, list[OutputRecord]]
    """By sink, of topics only: records with key and headers."""
    files: dict[str, list[Path]]
    """By sink, of parquet and delta only: the Parquet files."""
    dead_letters: list[DeadLetter]
    sink_names: Mapping[str, str] = field(repr=False)
    """A sink may also be called by its topic."""
    directory: object = field(repr=False)
    """Kept as long as the result is: the files lie in it."""

    def __getitem__(self, name: str) -> list[Any]:
        """The output of a sink, by its name or its topic. Raises KeyError if the pipeline has no such sink."""
        return self.outputs[self.sink_names.get(name, name)]

    @property
    def output(self) -> list[Any]:
        """The output of the only sink. Raises ValueError if there are several."""
        (rows,) = self.outputs.values()
        return rows


def pipeline_result(file: Path | str, inputs: Mapping[str, Sequence[Any]]) -> PipelineResult:
    """Run the pipeline on these records, up to the last one, and return what it wrote.

        result = pipeline_result("orders.toml", {"orders": [{"sku": "tea", "amount": 2.5}, b"not JSON"]})
        assert result["orders-per-minute"] == [{"sku": "tea", "amount": 2.5}]
        assert [letter.value for letter in result.dead_letters] == [b"not JSON"]

    `inputs`: by a source's name, or by a topic's. A record is a value, or a pair of key and value. A value is bytes,
    text, None, or, for JSON, whatever JSON can say. The active Spark session is used; without one, one is started.
    The cluster, trigger, checkpoint and output directories of the file are not used. Raises PipelineError and
    PipelineFailure, as the file or the records deserve.
    """
    session = SparkSession.getActiveSession() or start_session("pipeline test", master="local[2]", conf=SESSION_CONF)
    directory = tempfile.TemporaryDirectory(prefix="headrace-pipeline-")
    with Broker() as broker, BlockingCluster(broker.bootstrap_servers) as client:
        pipeline = _for_a_test(load(Path(file), cluster=ClusterSpec(broker.bootstrap_servers)), Path(directory.name))
        samples = _samples_by_topic(pipeline, inputs)
        for topic in dict.fromkeys([*_topics(pipeline), *samples]):
            broker.create_topic(topic)
        client.run(_produce(client.cluster, samples))
        observer = _Collector()
        Runner(pipeline, observer).run(_session_like(session, pipeline))
        records = {
            sink.name: [_output_record(record) for record in client.run(_consume(client.cluster, sink.topic))]
            for sink in pipeline.sinks
            if isinstance(sink, TopicSink)
        }
        letters = client.run(_consume(client.cluster, pipeline.dead_letters.topic))
    return PipelineResult(
        {sink.name: _output(sink, records, observer) for sink in pipeline.sinks},
        records,
        {sink.name: _files(sink) for sink in pipeline.sinks if isinstance(sink, ParquetSink | DeltaSink)},
        [_dead_letter(letter) for letter in letters],
        {sink.topic: sink.name for sink in pipeline.sinks if isinstance(sink, TopicSink)},
        directory,
    )


# ---- before the run


def _for_a_test(pipeline: Pipeline, directory: Path) -> Pipeline:
    """The same pipeline, but it ends, fails at once, and leaves nothing outside the directory."""
    sinks = tuple(
        replace(sink, path=str(directory / "out" / sink.name)) if isinstance(sink, ParquetSink | DeltaSink) else sink
        for sink in pipeline.sinks
    )
    run = replace(
        pipeline.run,
        trigger=AvailableNow(),
        checkpoint=str(directory / "checkpoint"),
        restart=RestartPolicy(0, 1.0, 1.0),
    )
    return replace(pipeline, sinks=sinks, run=run)


def _session_like(session: SparkSession, pipeline: Pipeline) -> SparkSession:
    """With the pipeline's settings, as far as they can still be chosen, and without a trace in the test's session."""
    own = session.newSession()
    for name, value in {**DEFAULT_CONF, **pipeline.spark_conf}.items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    return own


def _topics(pipeline: Pipeline) -> list[str]:
    read = [topic for source in pipeline.sources for topic in source.topics]
    written = [sink.topic for sink in pipeline.sinks if isinstance(sink, TopicSink)]
    return [*read, *written, pipeline.dead_letters.topic]


def _samples_by_topic(pipeline: Pipeline, inputs: Mapping[str, Sequence[Any]]) -> dict[str, list[tuple[Any, Any]]]:
    """Key and value of each record, as bytes."""
    sources = {source.name: source for source in pipeline.sources}
    by_topic: dict[str, list[tuple[Any, Any]]] = {}
    for name, samples in inputs.items():
        source = sources.get(name)
        topic = name if source is None else _only_topic(source)
        records = by_topic.setdefault(topic, [])
        for sample in samples:
            key, value = sample if isinstance(sample, tuple) else (None, sample)
            records.append((_encoded(key), _encoded(value)))
    return by_topic


def _only_topic(source: SourceSpec) -> str:
    if len(source.topics) != 1:
        raise ValueError(f"source {source.name!r} reads several topics: give its records by the names of the topics")
    return source.topics[0]


def _encoded(value: Any) -> bytes | None:
    match value:
        case None | bytes():
            return value
        case str():
            return value.encode()
        case _:
            return json.dumps(value).encode()


async def _produce(cluster: Cluster, samples: Mapping[str, list[tuple[Any, Any]]]) -> None:
    async with BatchingProducer(cluster) as producer:
        for topic, records in samples.items():
            for key, value in records:
                await producer.send(topic, key, value)
        await producer.flush()


# ---- after the run


async def _consume(cluster: Cluster, topic: str) -> list[Record]:
    committed = IsolationLevel.READ_COMMITTED
    names = [TopicPartition(topic, part.index) for part in (await cluster.topic(topic)).partitions]
    ends = {name: end for name, (_, end) in (await find_bounds(cluster, names, committed)).items()}
    records: list[Record] = []
    async with AssignedConsumer(cluster, ConsumerSettings(isolation=committed)) as consumer:
        await consumer.assign(dict.fromkeys(names, Edge.EARLIEST), ends)
        while not consumer.is_finished:
            for taken in (await consumer.poll()).values():
                records += taken
    return records


def _output_record(record: Record) -> OutputRecord:
    return OutputRecord(record.key, record.value, dict(record.headers))


def _dead_letter(record: Record) -> DeadLetter:
    facts = {
        name.removeprefix(DEAD_LETTER_PREFIX): (value or b"").decode()
        for name, value in record.headers
        if name.startswith(DEAD_LETTER_PREFIX)
    }
    return DeadLetter(
        record.key, record.value, facts["reason"], facts["topic"], int(facts["partition"]), int(facts["offset"])
    )


def _output(sink: SinkSpec, records: Mapping[str, list[OutputRecord]], observer: _Collector) -> list[Any]:
    match sink:
        case TopicSink():
            return [_decoded(sink, record.value) for record in records[sink.name]]
        case ParquetSink():
            return _parquet_rows(sink)
        case DeltaSink():
            return _delta_rows(sink)
        case ConsoleSink():
            return observer.shown.get(sink.name, [])


def _decoded(sink: TopicSink, value: bytes | None) -> Any:
    if value is None or sink.format == "raw":
        return value
    return json.loads(value) if sink.format == "json" else value.decode()


def _parquet_rows(sink: ParquetSink) -> list[dict[str, Any]]:
    from pyarrow import dataset  # noqa: PLC0415 - slow to import

    if not Path(sink.path).exists():
        return []  # no batch had rows
    rows: list[dict[str, Any]] = dataset.dataset(sink.path, partitioning="hive").to_table().to_pylist()
    return rows


def _delta_rows(sink: DeltaSink) -> list[dict[str, Any]]:
    from deltalake import DeltaTable  # noqa: PLC0415

    rows: list[dict[str, Any]] = DeltaTable(sink.path).to_pyarrow_table().to_pylist()
    return rows


def _files(sink: ParquetSink | DeltaSink) -> list[Path]:
    if isinstance(sink, ParquetSink):
        return sorted(Path(sink.path).rglob("*.parquet"))
    from deltalake import DeltaTable  # noqa: PLC0415

    return sorted(Path(address.removeprefix("file://")) for address in DeltaTable(sink.path).file_uris())


class _Collector:
    """Keeps what a console sink shows, and says nothing."""

    def __init__(self) -> None:
        self.shown: dict[str, list[Any]] = {}

    def tell(self, run: RunStatus) -> None: ...

    def batch(self, progress: BatchProgress) -> None: ...

    def rows(self, query: str, batch_id: int, rows: list[dict[str, Any]], more_count: int) -> None:  # noqa: ARG002
        self.shown.setdefault(query, []).extend(rows)

    def restarting(self, failure: PipelineFailure, pause_s: float) -> None: ...

"""Which writer serves which sink, and which rows it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from headrace_spark.pipeline.file.spec import ConsoleSink, DeltaSink, ParquetSink, TopicSink
from headrace_spark.pipeline.sinks.console import ConsoleWriter
from headrace_spark.pipeline.sinks.delta import DeltaWriter
from headrace_spark.pipeline.sinks.parquet import ParquetWriter
from headrace_spark.pipeline.sinks.topic import TopicWriter, records_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace_spark.pipeline.file.spec import Pipeline, SinkSpec
    from headrace_spark.pipeline.sinks.batch_name import BatchWriter
    from headrace_spark.pipeline.sinks.console import ShowRows


def writer_for(sink: SinkSpec, pipeline: Pipeline, show_rows: ShowRows) -> BatchWriter:
    """The writer of a sink; `show_rows` gets what a console sink shows."""
    match sink:
        case TopicSink():
            return TopicWriter(pipeline.cluster, sink.topic)
        case ParquetSink():
            return ParquetWriter(sink)
        case DeltaSink():
            return DeltaWriter(sink)
        case ConsoleSink():
            return ConsoleWriter(sink.name, show_rows)
        case _:
            assert_never(sink)


def rows_for(sink: SinkSpec, result: DataFrame) -> DataFrame:
    """The pipeline's result as this sink writes it."""
    return records_of(result, sink) if isinstance(sink, TopicSink) else result


def dead_letter_writer(pipeline: Pipeline) -> BatchWriter:
    """The writer of the topic of dead letters."""
    return TopicWriter(pipeline.cluster, pipeline.dead_letters.topic)

"""A source's records as a streaming table: decoded, checked against the expectations, with watermark, deduplicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, TimestampNTZType, TimestampType

from headrace_spark.pipeline.decode.decoders import decoder_of
from headrace_spark.pipeline.decode.records import PROBLEM, ROW, VALUE, named
from headrace_spark.pipeline.file.errors import choices_hint
from headrace_spark.pipeline.file.spec import METADATA_COLUMNS
from headrace_spark.pipeline.file.units import parse_duration_s
from headrace_spark.pipeline.spark_errors import quiet, said_by
from headrace_spark.pipeline.tables.dead_letters import as_dead_letters
from headrace_spark.pipeline.tables.expectations import is_valid, with_verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace_spark.pipeline.file.spec import Pipeline, SourceSpec


class StreamingTable:
    """One source's table.

    Its methods raise PipelineError where parts of the file do not fit together: an expectation about a column that is
    not there, a schema that is not one.
    """

    def __init__(self, pipeline: Pipeline, source: SourceSpec) -> None:
        self._pipeline = pipeline
        self._source = source
        self._decoder = decoder_of(pipeline, source)
        self._expectations = pipeline.expectations_of(source)
        self._columns = [*self._decoder.columns.names, *source.metadata]

    @property
    def has_dead_letters(self) -> bool:
        """Whether any record of the source may become a dead letter."""
        return self._pipeline.has_dead_letters(self._source)

    @property
    def record_columns(self) -> tuple[str, ...]:
        """Those of a record that decide about its rows: the source need not deliver the others."""
        spoken_of = " ".join(expectation.sql.lower() for expectation in self._expectations)
        wanted = [name for name in METADATA_COLUMNS if name in self._source.metadata or name in spoken_of]
        if self._source.undecodable == "fail" or any(one.otherwise == "fail" for one in self._expectations):
            wanted += ["_topic", "_partition", "_offset"]  # the failure names the record
        return "value", *(name[1:] for name in METADATA_COLUMNS if name in wanted)

    def rows(self, records: DataFrame) -> DataFrame:
        """The rows of valid records. Late and duplicate ones are dropped, as the file says."""
        table = self._with_verdicts(records).filter(is_valid()).select(*map(_quoted, self._columns))
        return self._deduplicated(self._with_watermark(table))

    def dead_letters(self, records: DataFrame) -> DataFrame:
        """The rejected records, as `as_dead_letters` makes them."""
        return as_dead_letters(self._with_verdicts(records), self._pipeline)

    def _with_verdicts(self, records: DataFrame) -> DataFrame:
        decoded = self._decoder.decode(named(records))
        table = decoded.select(*METADATA_COLUMNS, VALUE, PROBLEM, F.col(f"{ROW}.*"))
        self._check_expectations(table)
        return with_verdicts(table, self._source, self._expectations)

    def _check_expectations(self, table: DataFrame) -> None:
        for expectation in self._expectations:
            key_path = (*expectation.key_path, "sql")
            try:
                with quiet():
                    (field,) = table.select(F.expr(expectation.sql)).schema
            except (AnalysisException, ParseException) as error:
                problem = f"the expectation '{expectation.name}' does not fit {self._source.name}: {said_by(error)}"
                hint = f"it has the columns {', '.join(self._decoder.columns.names)}"
                raise self._pipeline.error(key_path, problem, hint) from error
            if not isinstance(field.dataType, BooleanType):
                problem = (
                    f"the expectation '{expectation.name}' gives {field.dataType.simpleString()}, not true or false"
                )
                raise self._pipeline.error(key_path, problem, "write a condition, as in amount > 0")

    def _with_watermark(self, table: DataFrame) -> DataFrame:
        watermark = self._source.watermark
        if watermark is None:
            return table
        kind = table.schema[self._known_column(watermark.column, "watermark")].dataType
        if not isinstance(kind, (TimestampType, TimestampNTZType)):
            key_path = (*self._source.key_path, "watermark")
            problem = f"the watermark's column '{watermark.column}' is {kind.simpleString().upper()}"
            raise self._pipeline.error(key_path, problem, "a watermark needs a TIMESTAMP")
        # In a unit that Spark knows: it has not all those that people write, nor fractions of them.
        delay = f"{round(parse_duration_s(watermark.delay) * 1000)} milliseconds"
        return table.withWatermark(watermark.column, delay) if table.isStreaming else table

    def _deduplicated(self, table: DataFrame) -> DataFrame:
        columns = [self._known_column(column, "dedupe") for column in self._source.dedupe]
        if not columns:
            return table
        return table.dropDuplicatesWithinWatermark(columns) if table.isStreaming else table.dropDuplicates(columns)

    def _known_column(self, name: str, key: str) -> str:
        for column in self._columns:
            if column.lower() == name.lower():
                return column
        if name in METADATA_COLUMNS:
            hint = f'ask for it: metadata = ["{name}"]'
        else:
            hint = choices_hint(name, self._columns)
        raise self._pipeline.error((*self._source.key_path, key), f"{self._source.name} has no column '{name}'", hint)


def _quoted(column: str) -> str:
    return f"`{column.replace('`', '``')}`"

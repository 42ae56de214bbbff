"""From bytes to columns. A record that does not decode keeps its bytes and says why.

A decoder takes the records of `records.named` and adds `ROW` and `PROBLEM`. It is strict: a field that does not have
the declared type makes the record undecodable and not a null, for a null would be believed. Fields that are not
declared are passed over, and declared ones that are not there are null (unless NOT NULL): old and new records both do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, assert_never

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from headrace_spark.pipeline.decode.avro import AvroDecoder
from headrace_spark.pipeline.decode.protobuf import ProtobufDecoder
from headrace_spark.pipeline.decode.records import OWN_PREFIX, PROBLEM, ROW, VALUE, evaluated_once
from headrace_spark.pipeline.decode.schemas import declared_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from headrace_spark.pipeline.file.spec import Pipeline, SourceSpec

_PARSED = f"{OWN_PREFIX}parsed"
_CORRUPT = f"{OWN_PREFIX}corrupt"

_TEXT_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
_JSON_OPTIONS = {**_TEXT_OPTIONS, "allowNonNumericNumbers": "false"}  # NaN is no JSON, in quotes even less
_CSV_OPTIONS = {**_TEXT_OPTIONS, "escape": '"'}  # a quote inside quotes is doubled, as spreadsheets write it
_JSON_SPACE = " \t\r\n"
_YEAR_MAX = 9999  # the last that ISO 8601 can write
_SHOWN_CHARACTERS = 40  # of a wrong field: enough to recognise it, and a reason stays a line


class Decoder(Protocol):
    """What knows one format."""

    @property
    def columns(self) -> StructType:
        """What `ROW` holds."""

    def decode(self, records: DataFrame) -> DataFrame:
        """Adds `ROW` and `PROBLEM` to the records; one of both is null."""


def decoder_of(pipeline: Pipeline, source: SourceSpec) -> Decoder:
    """Raises PipelineError if the schema or its file is wrong."""
    match source.format:
        case "json":
            return JsonDecoder(declared_columns(pipeline, source))
        case "csv":
            return CsvDecoder(declared_columns(pipeline, source))
        case "text":
            return TextDecoder()
        case "raw":
            return RawDecoder()
        case "avro":
            return AvroDecoder(pipeline, source)
        case "protobuf":
            return ProtobufDecoder(pipeline, source)
        case _:
            assert_never(source.format)


class RawDecoder:
    """Bytes as they are, in the one column `value`. Nothing is undecodable."""

    columns = StructType([StructField("value", BinaryType())])

    def decode(self, records: DataFrame) -> DataFrame:
        """Every record decodes."""
        row = F.struct(F.col(VALUE).alias("value"))
        return records.withColumns({ROW: row, PROBLEM: F.lit(None).cast("string")})


class TextDecoder:
    """UTF-8, in the one column `value`."""

    columns = StructType([StructField("value", StringType())])

    def decode(self, records: DataFrame) -> DataFrame:
        """What is not UTF-8 is undecodable."""
        row = F.struct(F.col(VALUE).cast("string").alias("value"))
        return records.withColumns({ROW: row, PROBLEM: _unless_utf8()})


class JsonDecoder:
    """One JSON object for each record, parsed by Spark."""

    def __init__(self, columns: StructType) -> None:
        self.columns = columns

    def decode(self, records: DataFrame) -> DataFrame:
        """Names the first field that does not fit its column."""
        parsed = _parsed(records, F.from_json, self.columns, _JSON_OPTIONS)
        as_strings = F.from_json(_text(), _all_strings(self.columns))
        is_object = F.rtrim(_text(), F.lit(_JSON_SPACE)).endswith("}")  # Spark does not mind what follows it
        problem = F.coalesce(
            _unless_utf8(),
            F.when(F.col(_PARSED).isNull(), "the value is empty"),
            F.when(
                F.col(_PARSED)[_CORRUPT].isNotNull(),
                F.coalesce(
                    _first_misfit(self.columns, as_strings),
                    F.when(_has_any(self.columns, as_strings), "a field inside a field does not fit the schema"),
                    F.lit("the value is not a JSON object"),
                ),
            ),
            F.when(~is_object, "something follows the JSON object"),
            _first_far_time(self.columns),
            _first_missing(self.columns),
        )
        return _with_row(parsed, self.columns, problem)


class CsvDecoder:
    """One record is one line. A line may be shorter or longer than the schema: columns are added at the end."""

    def __init__(self, columns: StructType) -> None:
        self.columns = columns

    def decode(self, records: DataFrame) -> DataFrame:
        """Names the first field that does not fit its column."""
        parsed = _parsed(records, _from_csv, self.columns, _CSV_OPTIONS)
        as_strings = _from_csv(_text(), _all_strings(self.columns), _CSV_OPTIONS)
        problem = F.coalesce(
            _unless_utf8(),
            F.when(F.length(F.trim(_text())) == 0, "the value is empty"),
            F.when(F.col(_PARSED)[_CORRUPT].isNotNull(), _first_misfit(self.columns, as_strings)),
            _first_missing(self.columns),
        )
        return _with_row(parsed, self.columns, problem)


def _from_csv(text: Column, schema: StructType, options: dict[str, str]) -> Column:
    return F.from_csv(text, _ddl(schema), options)


def _parsed(
    records: DataFrame,
    parse: Callable[[Column, StructType, dict[str, str]], Column],
    columns: StructType,
    options: dict[str, str],
) -> DataFrame:
    with_corrupt = StructType([*_nullable(columns), StructField(_CORRUPT, StringType())])
    return records.withColumn(_PARSED, evaluated_once(parse(_text(), with_corrupt, options)))


def _with_row(parsed: DataFrame, columns: StructType, problem: Column) -> DataFrame:
    row = F.struct(*(F.col(_PARSED)[field.name].alias(field.name) for field in columns))
    return parsed.withColumns({ROW: row, PROBLEM: problem}).drop(_PARSED)


def _text() -> Column:
    return F.col(VALUE).cast("string")


def _unless_utf8() -> Column:
    return F.when(~F.is_valid_utf8(_text()), "the value is not UTF-8")


def _first_misfit(columns: StructType, as_strings: Column) -> Column:
    """The first field that has text but no value. It is computed for corrupt records alone."""
    misfits = [
        F.when(
            F.col(_PARSED)[field.name].isNull() & as_strings[field.name].isNotNull(),
            F.concat(
                F.lit(f"{field.name}: '"),
                F.left(as_strings[field.name], F.lit(_SHOWN_CHARACTERS)),
                F.lit(f"' is not {field.dataType.simpleString().upper()}"),
            ),
        )
        for field in columns
    ]
    return F.coalesce(*misfits)


def _has_any(columns: StructType, as_strings: Column) -> Column:
    return F.coalesce(*(as_strings[field.name] for field in columns)).isNotNull()


def _first_missing(columns: StructType) -> Column:
    """Spark's parsers ignore NOT NULL."""
    missing = [
        F.when(F.col(_PARSED)[field.name].isNull(), f"{field.name} is missing, and it is NOT NULL")
        for field in columns
        if not field.nullable
    ]
    return F.coalesce(*missing) if missing else F.lit(None).cast("string")


def _first_far_time(columns: StructType) -> Column:
    """Spark takes a number for seconds. Milliseconds would lie so far ahead that a watermark drops all that follows."""
    far = [
        F.when(
            F.year(F.col(_PARSED)[field.name]) > _YEAR_MAX,
            f"{field.name}: a time after the year {_YEAR_MAX}; a number counts seconds, not milliseconds",
        )
        for field in columns
        if isinstance(field.dataType, TimestampType | TimestampNTZType)
    ]
    return F.coalesce(*far) if far else F.lit(None).cast("string")


def _all_strings(columns: StructType) -> StructType:
    return StructType([StructField(field.name, StringType()) for field in columns])


def _nullable(columns: StructType) -> list[StructField]:
    return [StructField(field.name, field.dataType) for field in columns]


def _ddl(columns: StructType) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in columns)

"""The pipeline's result: its SQL over the tables, or what its Python function makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.file.spec import PythonQuery, SqlQuery
from headrace_spark.pipeline.spark_errors import position_in_sql, quiet, said_by
from headrace_spark.pipeline.tables.python_modules import load_function

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from headrace_spark.pipeline.file.spec import Pipeline

_COLUMN_HINTS = ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")


def result_of(spark: SparkSession, pipeline: Pipeline, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Nothing runs yet. Raises PipelineError if the query does not fit the tables."""
    match pipeline.query:
        case None:
            return tables[pipeline.sources[0].name]
        case SqlQuery():
            return _result_of_sql(spark, pipeline, pipeline.query, tables)
        case PythonQuery():
            return _result_of_python(spark, pipeline, pipeline.query, tables)
        case _:
            assert_never(pipeline.query)


# ---- SQL


def _result_of_sql(
    spark: SparkSession, pipeline: Pipeline, query: SqlQuery, tables: Mapping[str, DataFrame]
) -> DataFrame:
    for name, table in tables.items():
        table.createOrReplaceTempView(name)
    try:
        with quiet():
            return spark.sql(query.sql)
    except (AnalysisException, ParseException) as error:
        raise _sql_error(pipeline, query, tables, error) from error


def _sql_error(
    pipeline: Pipeline,
    query: SqlQuery,
    tables: Mapping[str, DataFrame],
    error: AnalysisException | ParseException,
) -> PipelineError:
    condition = error.getCondition() or ""
    hint = ""
    if condition.startswith(_COLUMN_HINTS):
        hint = "; ".join(f"{name} has {', '.join(table.columns)}" for name, table in tables.items())
    elif condition == "TABLE_OR_VIEW_NOT_FOUND":
        hint = f"there are the tables {', '.join(tables)}"
    key_path = (*query.key_path, "sql")
    line = pipeline.file.key_lines.text_line_of(key_path)
    position = position_in_sql(error)
    if line is not None and position is not None:
        line += position.line - 1
    return PipelineError(pipeline.path, line, f"the SQL is wrong: {said_by(error)}", hint)


# ---- Python


def _result_of_python(
    spark: SparkSession, pipeline: Pipeline, query: PythonQuery, tables: Mapping[str, DataFrame]
) -> DataFrame:
    function = load_function(spark, pipeline, query)
    try:
        with quiet():
            result = function(spark, dict(tables))
    except (AnalysisException, ParseException) as error:
        problem = f"{query.module}:{query.function} does not fit the tables: {said_by(error)}"
        raise pipeline.error((*query.key_path, "python"), problem) from error
    except Py4JError:
        raise  # of the JVM, not of the function
    except Exception as error:
        problem = f"{query.module}:{query.function} fails: {type(error).__name__}: {error}"
        raise pipeline.error((*query.key_path, "python"), problem) from error
    if not isinstance(result, DataFrame):
        problem = f"{query.module}:{query.function} returned {type(result).__name__}, not a DataFrame"
        raise pipeline.error(
            (*query.key_path, "python"), problem, "it is called with (spark, tables) and returns the result"
        )
    return result

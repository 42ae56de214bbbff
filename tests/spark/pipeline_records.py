"""Records for pipelines without a topic: what a source would give, from what a test writes down."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace_spark.pipeline.decode.records import RECORD_SCHEMA
from headrace_spark.pipeline.file.loader import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headrace_spark.pipeline.file.spec import Pipeline

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def records(spark: SparkSession, values: Sequence[bytes | str | None], *, topic: str = "orders") -> DataFrame:
    """One partition, offsets from 0, keys k0, k1, …; every record has the header trace=t."""
    rows = [
        (
            f"k{offset}".encode(),
            value.encode() if isinstance(value, str) else value,
            topic,
            0,
            offset,
            AT,
            0,
            [("trace", b"t")],
        )
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, RECORD_SCHEMA).coalesce(1)


def write_pipeline(directory: Path, text: str) -> Path:
    path = directory / "orders.toml"
    path.write_text(textwrap.dedent(text))
    return path


def pipeline_of(directory: Path, source: str, rest: str = "") -> Pipeline:
    """One source named orders, a sink, and what else the test is about."""
    head = 'name = "p"\n[[source]]\nname = "orders"\ntopic = "orders"\n'
    text = head + textwrap.dedent(source) + "\n[[sink]]\nconsole = true\n" + textwrap.dedent(rest)
    return load(write_pipeline(directory, text))

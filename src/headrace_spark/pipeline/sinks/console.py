"""The first few rows of each batch, shown on the terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace_spark.pipeline.sinks.topic import KEEP_NULLS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyspark.sql import DataFrame

    from headrace_spark.pipeline.sinks.batch_name import BatchName

    ShowRows = Callable[[str, int, list[dict[str, Any]], int], None]
    """Gets the query's name, the batch id, the first rows, and how many more there are."""

ROWS_MAX = 20  # as Spark's own console; to see all, write them to a topic


class ConsoleWriter:
    """Shows the first rows of each batch."""

    def __init__(self, query_name: str, show: ShowRows) -> None:
        self._query_name = query_name
        self._show = show

    def __call__(self, batch: DataFrame, name: BatchName) -> None:
        # To take only a few rows would leave the others uncomputed, and with them the state of an aggregation.
        rows = batch.select(F.to_json(F.struct("*"), KEEP_NULLS)).persist()
        try:
            count = rows.count()
            first = [json.loads(row[0]) for row in rows.take(ROWS_MAX)]
        finally:
            rows.unpersist()
        if first:
            self._show(self._query_name, name.batch_id, first, count - len(first))

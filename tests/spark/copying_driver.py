"""The driver that is killed: copies a topic through a shuffle and a Python function, and ends when all is copied.

Run as `python -m tests.spark.copying_driver SETTINGS`, settings in JSON. Being the main module, its functions travel
to the executors by value, as those of a user's script do.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from headrace_spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MARK = "copied:"  # before each value of the output
TASKS = 4  # behind the shuffle
ARROW_BATCHES = 5  # at least, which a task gets: so that it has left some of its rows when it fails
BATCH_ID_PROPERTY = "streaming.sql.batchId"
QUERY_STARTS_MAX = 5  # in one life of the driver, which takes longer to start than a query that failed
FAILING_EACH = 3  # batches: the first attempt of one of their tasks fails
STRAGGLING_EACH = 4  # batches: the first attempt of one of their tasks takes long

# A second copy of a task that lags behind the others but a little. Only hosts that have no copy yet get one.
EAGER_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}


@dataclass(frozen=True)
class CopySettings:
    master: str
    bootstrap_servers: str
    source: str
    target: str
    checkpoint: str
    batch_records: int
    straggling_s: float
    conf: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CopySettings:
        return cls(**json.loads(text))


def stumbling_copy(straggling_s: float) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    """Marks each value. Now and then a first attempt fails or straggles in the midst of its rows."""

    def copy(arrays: Iterator[pa.Array]) -> Iterator[pa.Array]:
        context = TaskContext.get()
        assert context is not None
        batch_id, task = int(context.getLocalProperty(BATCH_ID_PROPERTY) or 0), context.partitionId()
        is_first = context.attemptNumber() == 0
        for position, values in enumerate(arrays):
            if is_first and position == 1 and task == 0 and batch_id % FAILING_EACH == 1:
                raise RuntimeError(f"task {task} of batch {batch_id} fails on purpose")
            if is_first and position == 1 and task == 1 and batch_id % STRAGGLING_EACH == 2:
                time.sleep(straggling_s)
            yield pc.binary_join_element_wise(MARK, values.cast(pa.string()), "")

    return copy


def copied(spark: SparkSession, settings: CopySettings) -> DataFrame:
    source = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", settings.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(settings.batch_records))
        .load()
    )
    copy = arrow_udf(stumbling_copy(settings.straggling_s), "string", ArrowUDFType.SCALAR_ITER)
    by_key = source.select("key", "value").repartition(TASKS, "key")
    return by_key.select("key", copy("value").alias("value"))


def copy_all(settings: CopySettings) -> None:
    conf = {
        **EAGER_SPECULATION,
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(settings.batch_records // (TASKS * ARROW_BATCHES)),
        **settings.conf,
    }
    spark = start_session("copying", master=settings.master, conf=conf)
    for starts_left in reversed(range(QUERY_STARTS_MAX)):
        try:
            start_query(spark, settings).awaitTermination()
            break
        except StreamingQueryException as failure:
            print(failure, flush=True)
            if not starts_left:
                raise
    spark.stop()


def start_query(spark: SparkSession, settings: CopySettings) -> StreamingQuery:
    return (
        copied(spark, settings)
        .writeStream.format("headrace")
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("topic", settings.target)
        .option("checkpointLocation", settings.checkpoint)
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    copy_all(CopySettings.from_json(sys.argv[1]))

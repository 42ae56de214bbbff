"""`format("headrace")`: what Spark asks for by that name, to read and to write, in batches and as a stream.

    orders = spark.readStream.format("headrace").option("kafka.bootstrap.servers", "127.0.0.1:9092")
    orders = orders.option("subscribe", "orders").load()  # key, value, topic, partition, offset, timestamp, …

Spark finds it by itself. The options are those of the official Kafka connector: `source.options` reads those for
reading, `sink.options` those for writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from headrace_spark.source.options import SourceOptions
from headrace_spark.source.plain_errors import without_traceback

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType

NAME = "headrace"


class HeadraceDataSource(DataSource):
    """Spark makes one per read or write, in a process of its own, and sends it about pickled: it holds options only."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return NAME

    @without_traceback
    def schema(self) -> StructType:
        """Asked for at `load()`, so options that are wrong are told there."""
        return SourceOptions.parse(self.options).schema

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`. Raises ValueError if options contradict each other, or a schema is given."""
        from headrace_spark.source.readers import BatchReader  # noqa: PLC0415 - whoever writes needs none of it

        return BatchReader(SourceOptions.parse(self.options).for_batch(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For `spark.readStream`. Its options are looked at when it is first asked for something."""
        from headrace_spark.source.readers import StreamReader  # noqa: PLC0415

        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For `df.write`. Raises ValueError if options or columns are wrong, and for `overwrite`."""
        from headrace_spark.sink.writers import batch_writer  # noqa: PLC0415 - whoever reads needs none of it

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """For `df.writeStream`. Raises ValueError if options or columns are wrong."""
        from headrace_spark.sink.writers import stream_writer  # noqa: PLC0415

        return stream_writer(schema, self.options, overwrite)

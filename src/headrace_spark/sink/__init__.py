"""The sink of `format("headrace")`: Arrow in, record batches out; a micro-batch is published at once, exactly once."""

from headrace_spark.sink.writers import batch_writer, stream_writer

__all__ = ["batch_writer", "stream_writer"]

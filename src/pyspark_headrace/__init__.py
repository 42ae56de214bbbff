"""Spark looks for packages named `pyspark_*` and takes the `DefaultSource` of each: `format("headrace")` just works."""

from headrace_spark.data_source import HeadraceDataSource as DefaultSource

__all__ = ["DefaultSource"]

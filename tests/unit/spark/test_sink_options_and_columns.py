"""What the sink is told, and what it says to mistakes before anything is written."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from headrace.model.names import topic_name_problem
from headrace.wire.batches.header import Codec
from headrace_spark.sink.options import SinkOptions
from headrace_spark.sink.staging_names import staging_topic
from headrace_spark.sink.writers import DirectWriter, OnceWriter, StreamWriter, batch_writer, stream_writer

HERE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def schema_of(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_options_are_read() -> None:
    options = SinkOptions.parse(
        {
            "Kafka.Bootstrap.Servers": "a:1,b:2",
            "topic": "out",
            "kafka.compression.type": "zstd",
            "kafka.batch.size": "5000",
            "kafka.acks": "all",
            "kafka.transaction.timeout.ms": "90000",
            "kafka.delivery.timeout.ms": "10000",
            "kafka.linger.ms": "5",
            "txnAppId": "nightly",
            "txnVersion": "7",
        }
    )
    assert options.bootstrap_servers == "a:1,b:2"
    assert (options.topic, options.codec, options.batch_bytes_max) == ("out", Codec.ZSTD, 5000)
    assert (options.transaction_timeout_ms, options.settings.retry_for_s) == (90_000, 10.0)
    assert options.application == ("nightly", 7)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "kafka.bootstrap.servers"),
        ({**HERE, "topic": "a b"}, "option 'topic' is 'a b'"),
        ({**HERE, "kafka.acks": "1"}, "kafka.acks' is '1'; only 'all'"),
        ({**HERE, "kafka.enable.idempotence": "false"}, "always numbers its batches"),
        ({**HERE, "kafka.compression.type": "brotli"}, "expected is none or gzip or snappy or lz4 or zstd"),
        ({**HERE, "kafka.batch.size": "0"}, "kafka.batch.size' is '0'; expected is a positive"),
        ({**HERE, "kafka.transactional.id": "x"}, "set txnAppId and txnVersion"),
        ({**HERE, "kafka.value.serializer": "x"}, "values are bytes or text"),
        ({**HERE, "kafka.ssl.ca.location": "ca.pem"}, "ssl.ca.location is set, but"),
        ({**HERE, "txnAppId": "x"}, "go together"),
        ({**HERE, "txnVersion": "1"}, "go together"),
        ({**HERE, "txnAppId": "x", "txnVersion": "-1"}, "'txnVersion' is '-1'; expected is a number from 0 on"),
        ({**HERE, "txnAppId": "x", "txnVersion": "one"}, "'txnVersion' is 'one'"),
    ],
)
def test_wrong_options_are_told(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SinkOptions.parse(options)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"id": IntegerType()}, "column 'value' is missing; the rows to write have id"),
        ({"value": IntegerType()}, "column 'value' is of type int; expected is string or binary"),
        ({"key": LongType()}, "column 'key' is of type bigint; expected is string or binary"),
        ({"topic": BinaryType()}, "column 'topic' is of type binary; expected is string"),
        ({"partition": LongType()}, "column 'partition' is of type bigint; expected is int"),
        ({"timestamp": DateType()}, "column 'timestamp' is of type date; expected is timestamp"),
        ({"headers": ArrayType(StringType())}, "column 'headers' is of type array<string>; expected is array<struct<"),
    ],
)
def test_wrong_columns_are_told(columns: dict[str, DataType], complaint: str) -> None:
    schema = schema_of(columns if "id" in columns else {"value": StringType(), **columns})
    with pytest.raises(ValueError, match=complaint):
        stream_writer(schema, {**HERE, "topic": "out"}, False)


def test_headers_are_told_apart_by_their_fields() -> None:
    fields = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    schema = schema_of({"value": BinaryType(), "headers": ArrayType(fields)})
    assert isinstance(stream_writer(schema, {**HERE, "topic": "out"}, False), StreamWriter)
    swapped = schema_of({"value": BinaryType(), "headers": ArrayType(StructType(fields.fields[::-1]))})
    with pytest.raises(ValueError, match="column 'headers'"):
        stream_writer(swapped, {**HERE, "topic": "out"}, False)


def test_a_topic_has_to_come_from_somewhere() -> None:
    with pytest.raises(ValueError, match="nothing says where to write"):
        batch_writer(schema_of({"value": StringType()}), HERE, False)
    with_topic = schema_of({"value": StringType(), "topic": StringType()})
    assert isinstance(batch_writer(with_topic, HERE, False), DirectWriter)


def test_the_writer_fits_the_write() -> None:
    schema = schema_of({"value": BinaryType(), "key": StringType(), "whatever": DateType()})
    to_topic = {**HERE, "topic": "out"}
    once = {**to_topic, "txnAppId": "x", "txnVersion": "0"}
    assert isinstance(batch_writer(schema, to_topic, False), DirectWriter)
    assert isinstance(batch_writer(schema, once, False), OnceWriter)
    assert isinstance(stream_writer(schema, to_topic, False), StreamWriter)
    assert isinstance(stream_writer(schema, to_topic, True), StreamWriter)  # output mode complete
    with pytest.raises(ValueError, match="a topic cannot be overwritten"):
        batch_writer(schema, to_topic, True)
    with pytest.raises(ValueError, match="are for batch writes"):
        stream_writer(schema, once, False)


def test_no_two_applications_share_an_id() -> None:
    pairs = [("out", "x"), ("out-x", ""), (None, "out:x"), ("out", "out:x"), (None, "x")]
    ids = {
        SinkOptions.parse(
            {**HERE, "txnAppId": name or "y", "txnVersion": "0", **({} if topic is None else {"topic": topic})}
        ).application_id
        for topic, name in pairs
    }
    assert len(ids) == len(pairs)
    assert len({staging_topic(name) for name in ids}) == len(pairs)


@pytest.mark.parametrize("transactional_id", ["spark-sink-1", "spark-sink-a:b", "spark-sink-" + "x" * 300, "ä ö/ü"])
def test_every_id_has_a_staging_topic(transactional_id: str) -> None:
    assert topic_name_problem(staging_topic(transactional_id)) is None

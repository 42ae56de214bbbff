"""Bytes to columns: what decodes, and what is said of what does not."""

from __future__ import annotations

import io
import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.tables.sources import tables_of
from tests.spark.pipeline_records import pipeline_of, records

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headrace_spark.pipeline.file.spec import Pipeline

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = 'schema = "id BIGINT NOT NULL, sku STRING, amount DOUBLE, at TIMESTAMP"'


def sift(spark: SparkSession, pipeline: Pipeline, values: list[Any]) -> tuple[list[tuple[Any, ...]], dict[int, str]]:
    """The good rows, and the reason of each dead letter by its offset."""
    tables = tables_of(spark, pipeline, {"orders": records(spark, values)})
    good = [tuple(row) for row in tables.by_name["orders"].collect()]
    return good, reasons(tables.dead_letters)


def reasons(rejected: DataFrame | None) -> dict[int, str]:
    if rejected is None:
        return {}
    found = {}
    for row in rejected.collect():
        headers = {header.key: bytes(header.value).decode() for header in row.headers}
        found[int(headers["headrace-dlq-offset"])] = headers["headrace-dlq-reason"]
    return found


# ---- json


def test_json(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, f'format = "json"\n{SCHEMA}')
    good, bad = sift(
        spark,
        pipeline,
        [
            '{"id": 1, "sku": "a", "amount": 2.5, "at": "2026-01-01T00:00:00Z"}',
            '{"id": 2, "new": {"unheard": "of"}}',
            ' {"id": 3, "amount": 7, "sku": null} \n',
            '{"id": "4"}',
            '{"id": 5, "amount": "much"}',
            '{"id": 6, "at": "yesterday"}',
            "not json",
            "",
            None,
            '[{"id": 9}]',
            '{"id": 10} {"id": 11} x',
            '{"sku": "a"}',
            b'{"id": 12, "sku": "\xff"}',
            '{"id": 13',
            "null",
            '{"id": 15, "at": 1767225600000}',
            '{"id": 16, "amount": "NaN"}',
        ],
    )
    assert good == [
        (1, "a", 2.5, datetime(2026, 1, 1)),  # noqa: DTZ001 - PySpark gives local time, and the session's zone is UTC
        (2, None, None, None),
        (3, None, 7.0, None),
    ]
    assert bad == {
        3: "undecodable: id: '4' is not BIGINT",
        4: "undecodable: amount: 'much' is not DOUBLE",
        5: "undecodable: at: 'yesterday' is not TIMESTAMP",
        6: "undecodable: the value is not a JSON object",
        7: "undecodable: the value is empty",
        8: "the value is null",
        9: "undecodable: the value is not a JSON object",
        10: "undecodable: something follows the JSON object",
        11: "undecodable: id is missing, and it is NOT NULL",
        12: "undecodable: the value is not UTF-8",
        13: "undecodable: the value is not a JSON object",
        14: "undecodable: the value is not a JSON object",
        15: "undecodable: at: a time after the year 9999; a number counts seconds, not milliseconds",
        16: "undecodable: amount: 'NaN' is not DOUBLE",
    }


def test_json_with_structs_inside(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, 'schema = "id INT, inner STRUCT<n: INT, l: ARRAY<STRING>>"')
    good, bad = sift(
        spark, pipeline, ['{"id": 1, "inner": {"n": 2, "l": ["a"], "m": 1}}', '{"id": 1, "inner": {"n": "two"}}']
    )
    assert good == [(1, (2, ["a"]))]
    assert bad == {1: "undecodable: a field inside a field does not fit the schema"}


def test_each_value_is_parsed_once(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, 'schema = "id INT, sku STRING"')
    good = tables_of(spark, pipeline, {"orders": records(spark, ['{"id": 1}'])}).by_name["orders"]
    plan = good._jdf.queryExecution().executedPlan().toString()
    assert plan.count("from_json(StructField(id,IntegerType") == 1


# ---- csv, text, raw


def test_csv(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, f'format = "csv"\n{SCHEMA}')
    good, bad = sift(
        spark,
        pipeline,
        ['1,"a ""b"", c",2.5,', "2,a", "3,a,1,2026-01-01T00:00:00Z,new", "4,a,much,", "", ",a,1,"],
    )
    assert good == [
        (1, 'a "b", c', 2.5, None),
        (2, "a", None, None),
        (3, "a", 1.0, datetime(2026, 1, 1)),  # noqa: DTZ001
    ]
    assert bad == {
        3: "undecodable: amount: 'much' is not DOUBLE",
        4: "undecodable: the value is empty",
        5: "undecodable: id is missing, and it is NOT NULL",
    }


def test_text(spark: SparkSession, tmp_path: Path) -> None:
    good, bad = sift(spark, pipeline_of(tmp_path, 'format = "text"'), ["één", b"\xff", None, ""])
    assert good == [("één",), (None,), ("",)]
    assert bad == {1: "undecodable: the value is not UTF-8"}


def test_raw_has_no_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    tables = tables_of(spark, pipeline_of(tmp_path, 'format = "raw"'), {"orders": records(spark, [b"\xff", None])})
    assert [row.value for row in tables.by_name["orders"].collect()] == [bytearray(b"\xff"), None]
    assert tables.dead_letters is None


# ---- avro

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "sku", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": ["int", "long"]}},
    ],
}
ORDER = {
    "id": 7,
    "sku": None,
    "price": Decimal("12.50"),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "token": "c0ffee00-0000-4000-8000-000000000000",
    "state": "PAID",
    "before": "NEW",
    "tags": ["a", "b"],
    "counts": {"x": 1},
}
ORDER_ROW = (
    7,
    None,
    Decimal("12.50"),
    datetime(2026, 1, 31, 12),  # noqa: DTZ001
    date(2026, 1, 31),
    "c0ffee00-0000-4000-8000-000000000000",
    "PAID",
    "NEW",
    ["a", "b"],
    {"x": 1},
)


def avro_bytes(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), record)
    return out.getvalue()


def test_avro(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    pipeline = pipeline_of(tmp_path, 'format = "avro"\nschema_file = "order.avsc"')
    newer = {**AVRO, "fields": [*AVRO["fields"], {"name": "later", "type": "string"}]}
    whole = avro_bytes(AVRO, ORDER)
    good, bad = sift(
        spark,
        pipeline,
        [whole, avro_bytes(newer, {**ORDER, "later": "x"}), whole[:9], None, b"\0\0\0\0\1" + whole[:9]],
    )
    assert good == [ORDER_ROW, ORDER_ROW]
    assert bad[2].startswith("undecodable: the value is not Avro of this schema: ")
    assert bad[3] == "the value is null"
    assert bad[4].endswith("is registry_prefix = true missing?")


def test_avro_of_a_registry(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    pipeline = pipeline_of(tmp_path, 'format = "avro"\nschema_file = "order.avsc"\nregistry_prefix = true')
    good, bad = sift(spark, pipeline, [b"\0\0\0\0\x2a" + avro_bytes(AVRO, ORDER), avro_bytes(AVRO, ORDER), b"\0\0"])
    assert good == [ORDER_ROW]
    assert set(bad) == {1, 2}
    assert bad[1].startswith("undecodable: the value does not begin with a registry's prefix")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON"),
        ('{"type": "rekord", "name": "x", "fields": []}', "is not an Avro schema"),
        ('"string"', "describes no record"),
        (
            '{"type": "record", "name": "x", "fields": [{"name": "a", "type": ["int", "string"]}]}',
            "a union of int, string cannot be one column",
        ),
        (
            '{"type": "record", "name": "x", "fields": [{"name": "a", "type": ["null", "x"]}]}',
            "the type x contains itself",
        ),
        (
            '{"type": "record", "name": "x", "fields": [{"name": "_key", "type": "int"}]}',
            "a column cannot be named '_key'",
        ),
    ],
)
def test_a_wrong_avro_schema_is_told_with_its_line(
    spark: SparkSession, tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "order.avsc").write_text(text)
    pipeline = pipeline_of(tmp_path, 'format = "avro"\nschema_file = "order.avsc"')
    with pytest.raises(PipelineError, match=expected) as caught:
        tables_of(spark, pipeline, {"orders": records(spark, [])})
    assert caught.value.line == 6


# ---- protobuf


def order_descriptors() -> bytes:
    """What protoc would make of:

    message Order {
      int64 id = 1;  optional string sku = 2;  google.protobuf.Timestamp at = 3;  State state = 4;
      repeated Line lines = 5;  map<string, int32> counts = 6;  uint64 big = 7;  bytes token = 8;
    }
    """
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = descriptor_pb2.FieldDescriptorProto
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    line = file.message_type.add(name="Line")
    line.field.add(name="pieces", number=1, type=kind.TYPE_INT32, label=kind.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=kind.TYPE_INT64, label=kind.LABEL_OPTIONAL)
    order.oneof_decl.add(name="_sku")
    order.field.add(
        name="sku", number=2, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL, oneof_index=0, proto3_optional=True
    )
    order.field.add(
        name="at",
        number=3,
        type=kind.TYPE_MESSAGE,
        label=kind.LABEL_OPTIONAL,
        type_name=".google.protobuf.Timestamp",
    )
    order.field.add(name="state", number=4, type=kind.TYPE_ENUM, label=kind.LABEL_OPTIONAL, type_name=".shop.State")
    order.field.add(name="lines", number=5, type=kind.TYPE_MESSAGE, label=kind.LABEL_REPEATED, type_name=".shop.Line")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kind.TYPE_INT32, label=kind.LABEL_OPTIONAL)
    order.field.add(
        name="counts",
        number=6,
        type=kind.TYPE_MESSAGE,
        label=kind.LABEL_REPEATED,
        type_name=".shop.Order.CountsEntry",
    )
    order.field.add(name="big", number=7, type=kind.TYPE_UINT64, label=kind.LABEL_OPTIONAL)
    order.field.add(name="token", number=8, type=kind.TYPE_BYTES, label=kind.LABEL_OPTIONAL)
    timestamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    return descriptor_pb2.FileDescriptorSet(file=[timestamp, file]).SerializeToString()


def order_bytes() -> bytes:
    pool = DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(order_descriptors()).file:
        pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    order.id = 7
    order.at.FromDatetime(datetime(2026, 1, 31, 12, tzinfo=UTC))
    order.state = 1
    order.lines.add(pieces=3)
    order.counts["x"] = 1
    order.big = 2**64 - 1
    order.token = b"\xff"
    return order.SerializeToString()


PROTO_ROW = (
    7,
    None,
    datetime(2026, 1, 31, 12),  # noqa: DTZ001
    "PAID",
    [(3,)],
    {"x": 1},
    Decimal(2**64 - 1),
    bytearray(b"\xff"),
)


def protobuf_pipeline(directory: Path, more: str = "") -> Pipeline:
    (directory / "shop.desc").write_bytes(order_descriptors())
    return pipeline_of(directory, f'format = "protobuf"\nschema_file = "shop.desc"\nmessage = "shop.Order"\n{more}')


def test_protobuf(spark: SparkSession, tmp_path: Path) -> None:
    newer = order_bytes() + bytes([15 << 3, 5])  # a field 15 that the descriptors do not know
    good, bad = sift(spark, protobuf_pipeline(tmp_path), [order_bytes(), newer, b"\xff\xff", None])
    assert good == [PROTO_ROW, PROTO_ROW]
    assert bad[2].startswith("undecodable: the value is not a shop.Order: ")
    assert bad[3] == "the value is null"


@pytest.mark.parametrize("indexes", [b"\0", b"\x02\x02"])
def test_protobuf_of_a_registry(spark: SparkSession, tmp_path: Path, indexes: bytes) -> None:
    pipeline = protobuf_pipeline(tmp_path, "registry_prefix = true")
    good, bad = sift(spark, pipeline, [b"\0" + struct.pack(">I", 42) + indexes + order_bytes(), b"\0\0\0\0\1", b"x"])
    assert good == [PROTO_ROW]
    assert bad[1] == "undecodable: the value ends within a registry's prefix"
    assert set(bad) == {1, 2}


def test_wrong_descriptors_are_told_with_their_line(spark: SparkSession, tmp_path: Path) -> None:
    protobuf_pipeline(tmp_path)
    wrong = pipeline_of(tmp_path, 'format = "protobuf"\nschema_file = "shop.desc"\nmessage = "shop.Oder"')
    with pytest.raises(PipelineError, match=r"has no message 'shop.Oder'; did you mean 'shop.Order'\?") as caught:
        tables_of(spark, wrong, {"orders": records(spark, [])})
    assert caught.value.line == 7
    (tmp_path / "shop.desc").write_bytes(b"\xff\xff")
    with pytest.raises(PipelineError, match="is not a complete set of Protobuf descriptors") as caught:
        tables_of(spark, wrong, {"orders": records(spark, [])})
    assert caught.value.line == 6

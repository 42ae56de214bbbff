"""From records to the tables of a query: what is kept, what is rejected, what comes out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.tables.expectations import failure_in
from headrace_spark.pipeline.tables.query import result_of
from headrace_spark.pipeline.tables.sources import read_sources, tables_of
from tests.spark.pipeline_records import AT, pipeline_of, records, write_pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.testing import Broker
    from headrace_spark.pipeline.file.spec import Pipeline

pytestmark = pytest.mark.xdist_group("spark")

SOURCE = 'schema = "id INT, amount DOUBLE, at TIMESTAMP"\n'


def expect(sql: str, otherwise: str, name: str = "e") -> str:
    return f'[[expect]]\nname = "{name}"\nsql = "{sql}"\notherwise = "{otherwise}"\n'


def ids(spark: SparkSession, pipeline: Pipeline, values: list[Any]) -> list[int]:
    good = tables_of(spark, pipeline, {"orders": records(spark, values)}).by_name["orders"]
    return sorted(row.id for row in good.collect())


VALUES = ['{"id": 0, "amount": 5}', '{"id": 1, "amount": -1}', '{"id": 2}', '{"id": 3, "amount": 2000}']


# ---- expectations and dead letters


def test_a_dead_letter_is_the_record_with_headers_that_say_what_happened(spark: SparkSession, tmp_path: Path) -> None:
    rules = expect("amount > 0", "dead-letter", "positive") + expect("amount < 1000", "drop", "sane")
    pipeline = pipeline_of(tmp_path, SOURCE, rules)
    tables = tables_of(spark, pipeline, {"orders": records(spark, [*VALUES, "nonsense"])})
    assert [row.id for row in tables.by_name["orders"].collect()] == [0]
    assert tables.dead_letters is not None
    assert tables.dead_letters.columns == ["topic", "key", "value", "headers"]
    letters = tables.dead_letters.collect()
    assert [(row.topic, bytes(row.key), bytes(row.value).decode()) for row in letters] == [
        ("p.dead-letters", b"k1", VALUES[1]),
        ("p.dead-letters", b"k2", VALUES[2]),
        ("p.dead-letters", b"k4", "nonsense"),
    ]
    headers = [(header.key, bytes(header.value).decode()) for header in letters[0].headers]
    at = dict(headers).pop("headrace-dlq-at")
    assert headers == [
        ("trace", "t"),
        ("headrace-dlq-topic", "orders"),
        ("headrace-dlq-partition", "0"),
        ("headrace-dlq-offset", "1"),
        ("headrace-dlq-reason", "expectation 'positive' is broken: amount > 0"),
        ("headrace-dlq-at", at),
        ("headrace-dlq-source", "pipeline.p"),
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at)


def test_the_first_broken_expectation_counts(spark: SparkSession, tmp_path: Path) -> None:
    drop_first = pipeline_of(tmp_path, SOURCE, expect("amount > 0", "drop") + expect("amount > 0", "dead-letter"))
    tables = tables_of(spark, drop_first, {"orders": records(spark, VALUES[:2])})
    assert tables.dead_letters is not None
    assert tables.dead_letters.count() == 0


def test_an_expectation_can_stop_the_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, SOURCE, expect("amount > 0", "fail", "positive"))
    assert ids(spark, pipeline, VALUES[:1]) == [0]
    with pytest.raises(PySparkException) as caught:
        ids(spark, pipeline, VALUES[:2])
    assert failure_in(caught.value) == (
        "pipeline stopped: the record of orders-0 at offset 1: expectation 'positive' is broken: amount > 0"
    )


def test_undecodable_records_can_stop_it_too_or_be_dropped(spark: SparkSession, tmp_path: Path) -> None:
    dropping = pipeline_of(tmp_path, SOURCE + 'undecodable = "drop"\ntombstones = "drop"')
    tables = tables_of(spark, dropping, {"orders": records(spark, ["x", VALUES[0], None])})
    assert tables.by_name["orders"].count() == 1
    assert tables.dead_letters is None
    failing = pipeline_of(tmp_path, SOURCE + 'undecodable = "fail"')
    with pytest.raises(PySparkException) as caught:
        ids(spark, failing, ["x"])
    assert failure_in(caught.value) == (
        "pipeline stopped: the record of orders-0 at offset 0: undecodable: the value is not a JSON object"
    )


def test_tombstones_can_be_kept_and_metadata_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    asked = 'tombstones = "keep"\nmetadata = ["_offset", "_key", "_headers"]'
    pipeline = pipeline_of(tmp_path, SOURCE + asked, expect("_partition = 0 AND _offset >= 0", "dead-letter"))
    good = tables_of(spark, pipeline, {"orders": records(spark, [None, VALUES[3]])}).by_name["orders"]
    assert good.columns == ["id", "amount", "at", "_offset", "_key", "_headers"]
    assert [(row.id, row._offset, bytes(row._key)) for row in good.collect()] == [(None, 0, b"k0"), (3, 1, b"k1")]


# ---- watermark and doubles


def test_doubles_are_dropped(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, SOURCE + 'watermark = "at 1 minute"\ndedupe = "id"')
    assert ids(spark, pipeline, [VALUES[0], VALUES[1], VALUES[0]]) == [0, 1]


@pytest.mark.parametrize(
    ("source", "rest", "expected"),
    [
        ('watermark = "when 1 minute"', "", r"orders.toml:6: orders has no column 'when'; there are amount, at, id"),
        ('watermark = "_timestamp 1 minute"', "", r'orders has no column \'_timestamp\'; ask for it: metadata = \["_t'),
        ('watermark = "id 1 minute"', "", r"the watermark's column 'id' is INT; a watermark needs a TIMESTAMP"),
        (
            'watermark = "at 1 minute"\ndedupe = "idd"',
            "",
            r"orders.toml:7: orders has no column 'idd'; did you mean 'id'",
        ),
        ("", expect("amont > 0", "drop"), r"orders.toml:11: the expectation 'e' does not fit .*amont.* the columns id"),
        ("", expect("amount + 1", "drop"), r"the expectation 'e' gives double, not true or false"),
        ("", expect("amount >", "drop"), r"the expectation 'e' does not fit orders: syntax error"),
    ],
)
def test_what_does_not_fit_the_columns_is_told_with_its_line(
    spark: SparkSession, tmp_path: Path, source: str, rest: str, expected: str
) -> None:
    pipeline = pipeline_of(tmp_path, SOURCE + source, rest)
    with pytest.raises(PipelineError, match=expected):
        tables_of(spark, pipeline, {"orders": records(spark, [])})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("id BIGGINT", r'the schema is wrong: unsupported data type "BIGGINT"'),
        ("id", "the schema is wrong: "),
        ("INT", "the schema is "),
        ("id INT, ID INT", "the schema has the column 'ID' twice"),
        ("_offset INT", "a column cannot be named '_offset'"),
    ],
)
def test_a_wrong_schema_is_told_with_its_line(spark: SparkSession, tmp_path: Path, schema: str, expected: str) -> None:
    with pytest.raises(PipelineError, match=f"orders.toml:5: {expected}"):
        tables_of(spark, pipeline_of(tmp_path, f'schema = "{schema}"'), {"orders": records(spark, [])})


# ---- the query


def test_sql_joins_sources_and_static_tables(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "skus.csv").write_text("sku,title\na,Apple\nb,Bread\n")
    spark.createDataFrame([("a", 3)], "sku STRING, stock INT").coalesce(1).write.parquet(str(tmp_path / "stock"))
    (tmp_path / "tax.json").write_text('{"sku": "a", "rate": 7}\n')
    import pyarrow as pa

    write_deltalake(
        tmp_path / "shops", pa.table({"shop": ["s1", "s2"], "city": ["Ulm", "Bonn"]}), partition_by=["shop"]
    )
    write_deltalake(tmp_path / "shops", pa.table({"shop": ["s1"], "city": ["Ulm"]}), mode="overwrite")
    path = write_pipeline(
        tmp_path,
        '''
        name = "joined"
        [[source]]
        name = "orders"
        topic = "orders"
        schema = "sku STRING, shop STRING"
        [[source]]
        name = "views"
        topic = "views"
        format = "text"
        [[table]]
        name = "skus"
        csv = "skus.csv"
        [[table]]
        name = "stock"
        parquet = "stock"
        [[table]]
        name = "tax"
        json = "tax.json"
        schema = "sku STRING, rate INT"
        [[table]]
        name = "shops"
        delta = "shops"
        [query]
        sql = """
        SELECT title, stock, rate, city
        FROM orders JOIN skus USING (sku) JOIN stock USING (sku) JOIN tax USING (sku) JOIN shops USING (shop)
        JOIN views ON views.value = orders.sku
        """
        [[sink]]
        console = true
        ''',
    )
    pipeline = load(path)
    orders = records(spark, ['{"sku": "a", "shop": "s1"}', '{"sku": "b", "shop": "s1"}', '{"sku": "a", "shop": "s2"}'])
    tables = tables_of(spark, pipeline, {"orders": orders, "views": records(spark, ["a"], topic="views")})
    assert [tuple(row) for row in result_of(spark, pipeline, tables.by_name).collect()] == [("Apple", 3, 7, "Ulm")]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('csv = "none.csv"', r"orders.toml:11: it cannot be read: path does not exist"),
        ('delta = "none"', r"orders.toml:11: it cannot be read as a Delta table: "),
        ('csv = "none.csv"\nschema = "x INTT"', r"orders.toml:12: the schema is wrong"),
    ],
)
def test_a_static_table_that_cannot_be_read(spark: SparkSession, tmp_path: Path, table: str, expected: str) -> None:
    rest = f'[[table]]\nname = "t"\n{table}\n[query]\nsql = "SELECT * FROM orders"\n'
    pipeline = pipeline_of(tmp_path, 'format = "raw"\n', rest)
    with pytest.raises(PipelineError, match=expected):
        tables_of(spark, pipeline, {"orders": records(spark, [])})


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('"SELECT amont FROM orders"', r"orders.toml:10: the SQL is wrong: .*`amont` .*; orders has id, amount, at"),
        ('"""\nSELECT id,\n  amont\nFROM orders\n"""', r"orders.toml:12: the SQL is wrong: .*`amont` "),
        ('"""SELECT id\nFORM orders"""', r"orders.toml:11: the SQL is wrong: syntax error at or near 'orders'"),
        ('"SELECT * FROM order_s"', r"orders.toml:10: .*`order_s` cannot be found; there are the tables orders"),
    ],
)
def test_wrong_sql_is_told_with_its_line(spark: SparkSession, tmp_path: Path, sql: str, expected: str) -> None:
    pipeline = pipeline_of(tmp_path, SOURCE, f"[query]\nsql = {sql}\n")
    tables = tables_of(spark, pipeline, {"orders": records(spark, [])})
    with pytest.raises(PipelineError, match=expected):
        result_of(spark, pipeline, tables.by_name)


def test_a_function_beside_the_file_runs_on_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    """Two pipelines with modules of one name, one after the other in the same workers."""
    for directory, word in (("one", "uno"), ("two", "due")):
        home = tmp_path / directory
        (home / "steps").mkdir(parents=True)
        (home / "steps" / "__init__.py").write_text("")
        (home / "steps" / "words.py").write_text(f"WORD = {word!r}\n")
        (home / "steps" / "naming.py").write_text(
            "from pyspark.sql import functions as F\n"
            "from steps.words import WORD\n"
            "def _name(value):\n"
            "    return f'{WORD} {value}'\n"
            "def name(spark, tables):\n"
            "    return tables['orders'].select(F.udf(_name)('value').alias('named'))\n"
        )
        pipeline = pipeline_of(home, 'format = "text"', '[query]\npython = "steps.naming:name"\n')
        tables = tables_of(spark, pipeline, {"orders": records(spark, ["x"])})
        assert [row.named for row in result_of(spark, pipeline, tables.by_name).collect()] == [f"{word} x"]


NAMING = """
from pyspark.sql import functions as F
import helpers

def _name(value):
    from sayings.greeting import greet  # not before a worker comes here
    return helpers.together(greet(), value)

def name(spark, tables):
    import helpers_of_the_driver
    return tables["orders"].select(F.udf(_name)("value").alias(helpers_of_the_driver.COLUMN))
"""


def test_all_python_beside_the_file_is_there_on_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    """Also if another pipeline, whose modules have the same names, went through the same session."""
    for directory, word in (("one", "uno"), ("two", "due")):
        home = tmp_path / directory
        (home / "sayings").mkdir(parents=True)
        (home / "naming.py").write_text(NAMING)
        (home / "helpers.py").write_text(
            "import threading\n"
            "lock = threading.Lock()  # which cannot be sent\n"
            f"def together(*words):\n    return ' '.join((*words, {word!r}))\n"
        )
        (home / "helpers_of_the_driver.py").write_text("COLUMN = 'named'\n")
        (home / "sayings" / "__init__.py").write_text("")
        (home / "sayings" / "greeting.py").write_text(f"def greet():\n    return 'ciao {word}'\n")
        (home / "data").mkdir()
        pipeline = pipeline_of(home, 'format = "text"', '[query]\npython = "naming:name"\n')
        tables = tables_of(spark, pipeline, {"orders": records(spark, ["x"])})
        rows = result_of(spark, pipeline, tables.by_name).collect()
        assert [row.named for row in rows] == [f"ciao {word} x {word}"]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (None, r"orders.toml:9: the module steps cannot be imported: No module named 'steps'; steps.py is looked for"),
        ("def (", r"the module steps fails when it is imported: SyntaxError"),
        ("1 / 0", r"the module steps fails when it is imported: ZeroDivisionError"),
        ("def nam(spark, tables): ...", r"steps has no function 'name'; did you mean 'nam'\?"),
        ("def name(spark, tables): return 5", r"steps:name returned int, not a DataFrame"),
        ("def name(spark, tables): return tables['order']", r"orders.toml:9: steps:name fails: KeyError: 'order'"),
        (
            "def name(spark, tables): return tables['orders'].select('nothing')",
            r"steps:name does not fit the tables: .*`nothing`",
        ),
    ],
)
def test_a_wrong_function_is_told_with_its_line(
    spark: SparkSession, tmp_path: Path, module: str | None, expected: str
) -> None:
    if module is not None:
        (tmp_path / "steps.py").write_text(module)
    pipeline = pipeline_of(tmp_path, 'format = "raw"', '[query]\npython = "steps:name"\n')
    tables = tables_of(spark, pipeline, {"orders": records(spark, [])})
    with pytest.raises(PipelineError, match=expected):
        result_of(spark, pipeline, tables.by_name)


# ---- from a topic


def test_sources_are_read_from_their_topics(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    broker.create_topic("pipeline-orders", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for at, value in enumerate([*VALUES, "nonsense"]):
        producer.produce("pipeline-orders", value, key=f"k{at}", headers=[("h", b"v")], timestamp=1_000 + at)
    producer.flush()
    path = write_pipeline(
        tmp_path,
        """
        name = "p"
        [[source]]
        name = "orders"
        topic = "pipeline-orders"
        schema = "id INT, amount DOUBLE"
        metadata = ["_timestamp"]
        [[expect]]
        sql = "amount > 0 AND _key IS NOT NULL"
        [[sink]]
        console = true
        """,
    )
    pipeline = load(path, bootstrap_servers=broker.bootstrap_servers)
    tables = read_sources(spark, pipeline, is_streaming=False)
    assert sorted((row.id, round(row._timestamp.timestamp() * 1000)) for row in tables.by_name["orders"].collect()) == [
        (0, 1000),
        (3, 1003),
    ]
    assert tables.dead_letters is not None
    letters = {bytes(row.key): row for row in tables.dead_letters.collect()}
    assert sorted(letters) == [b"k1", b"k2", b"k4"]
    assert letters[b"k4"].headers[0].key == "h"


def test_the_words_of_the_file_become_the_connectors(tmp_path: Path) -> None:
    from headrace_spark.pipeline.tables.sources import source_options

    pipeline = pipeline_of(
        tmp_path,
        'format = "raw"\nstarting = 2026-01-31T12:00:00Z\nrecords_per_batch_max = 10\nfail_on_data_loss = false',
    )
    assert source_options(pipeline.sources[0], is_streaming=True) == {
        "subscribe": "orders",
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_committed",
        "startingTimestamp": str(int(AT.timestamp() * 1000)),
        "startingOffsetsByTimestampStrategy": "latest",
        "maxOffsetsPerTrigger": "10",
    }

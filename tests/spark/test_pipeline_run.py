"""Whole pipelines on a real broker and real Spark: from a file and sample records to what comes out."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from headrace.testing import pipeline_result
from headrace_spark.pipeline.run.failures import PipelineFailure

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

ORDERS = """
name = "orders-per-minute"
[[source]]
name = "orders"
topic = "orders"
format = "json"
schema = "id BIGINT, sku STRING, amount DOUBLE, at TIMESTAMP"
watermark = "at 2 minutes"
dedupe = "id"
[[expect]]
name = "positive amount"
sql = "amount > 0"
[query]
sql = '''
  SELECT window(at, '1 minute').start AS minute, sku, sum(amount) AS amount FROM orders
  GROUP BY window(at, '1 minute'), sku
'''
[[sink]]
topic = "totals"
key = "sku"
mode = "update"
"""

SAMPLES = [
    {"id": 1, "sku": "tea", "amount": 2.0, "at": "2026-01-01T10:00:01Z"},
    {"id": 2, "sku": "tea", "amount": 0.5, "at": "2026-01-01T10:00:59Z"},
    {"id": 2, "sku": "tea", "amount": 0.5, "at": "2026-01-01T10:00:59Z"},
    {"id": 3, "sku": "cup", "amount": 7.0, "at": "2026-01-01T10:01:00Z", "colour": "a field that nobody declared"},
    ("the key", {"id": 4, "sku": "cup", "amount": -7.0, "at": "2026-01-01T10:01:00Z"}),
    b"not JSON",
]


def test_events_in_totals_per_minute_out(tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_text(ORDERS)
    result = pipeline_result(file, {"orders": SAMPLES})
    assert sorted(result["totals"], key=lambda row: row["sku"]) == [
        {"minute": "2026-01-01T10:01:00.000Z", "sku": "cup", "amount": 7.0},
        {"minute": "2026-01-01T10:00:00.000Z", "sku": "tea", "amount": 2.5},
    ]
    assert {record.key for record in result.records["topic-totals"]} == {b"tea", b"cup"}
    letters = {letter.offset: letter for letter in result.dead_letters}
    assert letters.keys() == {4, 5}
    assert (letters[4].key, letters[4].topic) == (b"the key", "orders")
    assert "positive amount" in letters[4].reason
    assert letters[5].value == b"not JSON"


EVERY_KIND = """
name = "every-kind"
[[source]]
name = "visits"
topic_pattern = "visits-.*"
format = "csv"
schema = "page STRING, seconds INT"
tombstones = "drop"
[query]
sql = "SELECT page, sum(seconds) AS seconds FROM visits GROUP BY page"
[[sink]]
name = "totals"
topic = "page-totals"
format = "text"
key = "page"
mode = "complete"
[[sink]]
name = "shown"
console = true
mode = "complete"
[[sink]]
name = "table"
delta = "table/"
mode = "complete"
"""


def test_one_result_to_a_topic_the_console_and_a_delta_table(tmp_path: Path) -> None:
    file = tmp_path / "visits.toml"
    file.write_text(EVERY_KIND)
    result = pipeline_result(file, {"visits-1": ["/a,1", "/b,2", None], "visits-2": ["/a,10"]})
    rows = [{"page": "/a", "seconds": 11}, {"page": "/b", "seconds": 2}]
    assert {record.key: record.value for record in result.records["totals"]} == {b"/a": b"11", b"/b": b"2"}
    assert sorted(result["shown"], key=lambda row: row["page"]) == rows
    assert sorted(result["table"], key=lambda row: row["page"]) == rows
    assert len(result.files["table"]) == 1
    assert result.dead_letters == []


STRICT = """
name = "strict"
[[source]]
name = "orders"
topic = "orders"
format = "json"
schema = "amount INT"
[[expect]]
name = "positive"
sql = "amount > 0"
otherwise = "fail"
[[sink]]
parquet = "out/"
"""


def test_a_record_that_must_not_be_stops_the_pipeline_with_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "strict.toml"
    file.write_text(STRICT)
    with pytest.raises(PipelineFailure) as failed:
        pipeline_result(file, {"orders": [{"amount": 1}, {"amount": -1}]})
    assert failed.value.query == "parquet-out"
    assert failed.value.is_permanent
    assert "the record of orders-0 at offset 1" in str(failed.value)
    assert "positive" in str(failed.value)
    assert "\n" not in str(failed.value)


OWN_CODE = """
name = "own-code"
[[source]]
name = "words"
topic = "words"
format = "text"
[query]
python = "numbers_of:run"
[[sink]]
topic = "numbers"
format = "text"
"""
FAILING = """
from pyspark.sql import functions as F

def _number(text):
    {what}

def run(spark, tables):
    return tables["words"].select(F.udf(_number)("value").alias("value"))
"""


@pytest.mark.parametrize(
    ("what", "cause", "more"),
    [
        ("return int(text)", "invalid literal for int() with base 10: 'one' (numbers_of.py, line 5)", "in _number\n"),
        ("import os; os._exit(3)", "Python worker exited unexpectedly (crashed)", "\tat org.apache.spark."),
    ],
)
def test_a_function_that_fails_is_told_in_one_line_and_in_full_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, cause: str, more: str
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN_CODE)
    (tmp_path / "numbers_of.py").write_text(FAILING.format(what=what))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(PipelineFailure) as failed:
        pipeline_result(file, {"words": ["one"]})
    assert str(failed.value).startswith(cause)
    assert "\n" not in str(failed.value)
    assert failed.value.details is not None
    assert more in Path(failed.value.details).read_text()


def test_what_the_result_lacks_is_told_before_anything_is_written(tmp_path: Path) -> None:
    file = tmp_path / "lacking.toml"
    file.write_text(ORDERS.replace('key = "sku"', 'key = "colour"'))
    with pytest.raises(PipelineFailure, match=r"lacking\.toml:\d+: .*`colour`"):
        pipeline_result(file, {"orders": []})

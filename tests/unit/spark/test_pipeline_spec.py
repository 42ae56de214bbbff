"""What a pipeline's file says, and what is said about a wrong one."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.file.keys import KEYS
from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.file.spec import (
    METADATA_COLUMNS,
    AvailableNow,
    ConsoleSink,
    DeltaSink,
    EverySeconds,
    ParquetSink,
    PythonQuery,
    RestartPolicy,
    SqlQuery,
    TopicSink,
    Watermark,
)
from headrace_spark.pipeline.file.units import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[3] / "docs" / "pipelines.md"

WHOLE = """\
name = "orders-per-minute"
[cluster]
bootstrap_servers = "127.0.0.1:9092"
[[source]]
name = "orders"
topic = "orders"
format = "json"
schema = "id BIGINT, sku STRING, amount DOUBLE, at TIMESTAMP"
starting = "earliest"
watermark = "at 2 minutes"
dedupe = "id"
[[expect]]
name = "positive amount"
sql = "amount > 0"
otherwise = "dead-letter"
[query]
sql = "SELECT window(at, '1 minute').start AS minute, sku, sum(amount) AS amount FROM orders GROUP BY 1, 2"
[[sink]]
topic = "orders-per-minute"
key = "sku"
format = "json"
mode = "update"
[run]
trigger = "available-now"
master = "local[*]"
checkpoint = "checkpoints/orders"
[spark.conf]
"spark.sql.shuffle.partitions" = "4"
"""
SMALL = """\
name = "copy"
[[source]]
name = "orders"
topic = "orders"
format = "raw"
[[sink]]
topic = "copied"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.toml"


def complaint(file: Path, text: str) -> str:
    """What is said about the file, without the directory that it lies in."""
    file.write_text(text)
    with pytest.raises(PipelineError) as caught:
        load(file)
    return str(caught.value).replace(f"{file.parent}/", "")


# ---- good files


def test_the_whole_form_is_read(file: Path) -> None:
    file.write_text(WHOLE)
    pipeline = load(file)
    (source,) = pipeline.sources
    (sink,) = pipeline.sinks
    (expectation,) = pipeline.expectations
    assert pipeline.name == "orders-per-minute"
    assert pipeline.cluster.bootstrap_servers == "127.0.0.1:9092"
    assert (source.name, source.topics, source.format, source.starting) == ("orders", ("orders",), "json", "earliest")
    assert (source.watermark, source.dedupe) == (Watermark("at", "2 minutes"), ("id",))
    assert (expectation.name, expectation.source, expectation.otherwise) == (
        "positive amount",
        "orders",
        "dead-letter",
    )
    assert isinstance(pipeline.query, SqlQuery)
    assert isinstance(sink, TopicSink)
    assert (sink.topic, sink.key, sink.format, sink.mode) == ("orders-per-minute", "sku", "json", "update")
    assert pipeline.run.trigger == AvailableNow()
    assert pipeline.run.checkpoint == str(file.parent / "checkpoints" / "orders")
    assert pipeline.dead_letters.topic == "orders-per-minute.dead-letters"
    assert pipeline.spark_conf == {"spark.sql.shuffle.partitions": "4"}


def test_little_must_be_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_BOOTSTRAP_SERVER", raising=False)
    file.write_text(SMALL)
    pipeline = load(file)
    (source,) = pipeline.sources
    assert pipeline.cluster.bootstrap_servers == "127.0.0.1:9092"
    assert pipeline.query is None
    assert pipeline.run.trigger == EverySeconds(5)
    assert pipeline.run.group == "pipeline.copy"
    assert pipeline.run.restart == RestartPolicy(5, 1.0, 60.0)
    assert pipeline.run.checkpoint == str(file.parent / "checkpoints" / "copy")
    assert pipeline.checkpoint_of("topic-copied") == str(file.parent / "checkpoints" / "copy" / "topic-copied")
    assert (source.undecodable, source.tombstones, source.metadata) == ("dead-letter", "keep", ())
    assert source.is_data_loss_fatal
    assert source.is_committed_only


def test_a_caller_may_choose_the_cluster(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", "from-environment:1")
    file.write_text(SMALL)
    assert load(file).cluster.bootstrap_servers == "from-environment:1"
    assert load(file, bootstrap_servers="given:2").cluster.bootstrap_servers == "given:2"
    file.write_text(WHOLE)
    assert load(file).cluster.bootstrap_servers == "127.0.0.1:9092"
    assert load(file, bootstrap_servers="given:2").cluster.bootstrap_servers == "given:2"


def test_every_kind_of_sink(file: Path) -> None:
    file.write_text(
        SMALL
        + """
[[sink]]
parquet = "out/orders"
partition_by = ["day", "shop"]
target_file_size = "64 MiB"
[[sink]]
delta = "s3://bucket/orders"
mode = "complete"
[[sink]]
console = true
mode = "update"
name = "screen"
"""
    )
    pipeline = load(file)
    _, parquet, delta, console = pipeline.sinks
    assert isinstance(parquet, ParquetSink)
    assert (parquet.name, parquet.path) == ("parquet-out-orders", str(file.parent / "out" / "orders"))
    assert (parquet.partition_by, parquet.target_file_bytes) == (("day", "shop"), 64 * 1024 * 1024)
    assert isinstance(delta, DeltaSink)
    assert (delta.name, delta.path, delta.mode) == ("delta-s3-bucket-orders", "s3://bucket/orders", "complete")
    assert isinstance(console, ConsoleSink)
    assert (console.name, console.mode) == ("screen", "update")


def test_sources_tables_and_a_function(file: Path) -> None:
    file.write_text(
        """\
name = "joined"
[[source]]
name = "orders"
topic = ["orders", "old-orders"]
schema = "id BIGINT"
starting = 2026-01-31T12:00:00Z
metadata = true
tombstones = "drop"
undecodable = "fail"
records_per_batch_max = 1000
fail_on_data_loss = false
isolation = "read_uncommitted"
[source.options]
minPartitions = 8
[[source]]
name = "clicks"
topic_pattern = "clicks-.*"
format = "avro"
schema_file = "clicks.avsc"
registry_prefix = true
starting = "2026-01-31 12:00"
metadata = ["_key", "_timestamp"]
[[table]]
name = "products"
csv = "products.csv"
schema = "sku STRING"
options = { sep = ";" }
[[expect]]
source = "clicks"
sql = "at IS NOT NULL"
[query]
python = "steps.joining:join"
[[sink]]
console = true
[run]
trigger = "2 minutes"
restart = "on-failure"
restart_attempts = 2
restart_backoff = "500 ms"
restart_backoff_max = "5 seconds"
[dead_letters]
topic = "bad"
[spark.conf]
spark.sql.shuffle.partitions = 4
"spark.sql.ansi.enabled" = false
"""
    )
    pipeline = load(file)
    orders, clicks = pipeline.sources
    assert orders.topics == ("orders", "old-orders")
    assert orders.starting == clicks.starting == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert orders.metadata == METADATA_COLUMNS
    assert (orders.tombstones, orders.undecodable, orders.records_per_batch_max) == ("drop", "fail", 1000)
    assert (orders.is_data_loss_fatal, orders.is_committed_only) == (False, False)
    assert orders.options == {"minPartitions": "8"}
    assert (clicks.topics, clicks.topic_pattern) == ((), "clicks-.*")
    assert clicks.schema_file == str(file.parent / "clicks.avsc")
    assert clicks.has_registry_prefix
    assert clicks.metadata == ("_key", "_timestamp")
    (products,) = pipeline.tables
    assert (products.format, products.path) == ("csv", str(file.parent / "products.csv"))
    assert products.options == {"sep": ";"}
    assert [expectation.name for expectation in pipeline.expectations] == ["expectation 1"]
    assert pipeline.expectations_of(clicks) == pipeline.expectations
    assert pipeline.expectations_of(orders) == ()
    assert isinstance(pipeline.query, PythonQuery)
    assert (pipeline.query.module, pipeline.query.function) == ("steps.joining", "join")
    assert pipeline.run.trigger == EverySeconds(120)
    assert pipeline.run.restart == RestartPolicy(2, 0.5, 5)
    assert pipeline.dead_letters.topic == "bad"
    assert pipeline.spark_conf == {"spark.sql.shuffle.partitions": "4", "spark.sql.ansi.enabled": "false"}


def test_strings_may_hold_environment_variables(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGE", "test")
    monkeypatch.delenv("UNSET", raising=False)
    file.write_text(
        SMALL.replace('topic = "orders"', 'topic = "${STAGE}-orders"')
        + "[query]\nsql = \"SELECT '$${x}', '${UNSET:-nothing}', '$5' FROM orders\"\n"
    )
    pipeline = load(file)
    assert pipeline.sources[0].topics == ("test-orders",)
    assert isinstance(pipeline.query, SqlQuery)
    assert pipeline.query.sql == "SELECT '${x}', 'nothing', '$5' FROM orders"


# ---- wrong files

WRONG = {
    "a key that is none": (
        WHOLE.replace('topic = "orders"', 'topik = "orders"'),
        "orders.toml:6: [[source]] has no key 'topik'; did you mean 'topic'?",
    ),
    "a table that is none": (
        SMALL + "[sparks]\n",
        "orders.toml:8: the pipeline has no key 'sparks'; did you mean 'spark'?",
    ),
    "a key far from all": (
        SMALL + "[run]\nzzz = 1\n",
        (
            "orders.toml:9: [run] has no key 'zzz'; there are checkpoint, group, master, restart, restart_attempts, "
            "restart_backoff, restart_backoff_max, trigger"
        ),
    ),
    "a number for a string": (
        SMALL.replace('name = "copy"', "name = 5"),
        'orders.toml:1: the pipeline name must be a string, not 5; put it in quotes: name = "5"',
    ),
    "a string for a truth value": (
        SMALL.replace('format = "raw"', 'format = "raw"\nfail_on_data_loss = "no"'),
        "orders.toml:6: [[source]] fail_on_data_loss must be true or false, not 'no'; leave the quotes out",
    ),
    "a truth value for a number": (
        SMALL + "[run]\nrestart_attempts = true\n",
        "orders.toml:9: [run] restart_attempts must be a whole number, not true",
    ),
    "too small a number": (
        SMALL + "[run]\nrestart_attempts = 0\n",
        "orders.toml:9: [run] restart_attempts is 0; it must be at least 1",
    ),
    "no name": (
        SMALL.replace('name = "copy"\n', ""),
        "orders.toml: the pipeline needs 'name'; for example name = \"orders-per-minute\"",
    ),
    "a name with a blank": (
        SMALL.replace("copy", "my copy"),
        (
            "orders.toml:1: the pipeline cannot be named 'my copy'; it names a consumer group, a topic and a directory"
            ": letters, digits, '.', '_' and '-', at most 200"
        ),
    ),
    "a source without a topic": (
        SMALL.replace('topic = "orders"\n', ""),
        "orders.toml:2: [[source]] needs 'topic'; for example topic = \"orders\"",
    ),
    "a source without a schema": (
        SMALL.replace('format = "raw"', 'format = "json"'),
        "orders.toml:2: [[source]] needs 'schema'; for example schema = \"id BIGINT, sku STRING, at TIMESTAMP\"",
    ),
    "raw with a schema": (
        SMALL.replace('format = "raw"', 'format = "raw"\nschema = "id INT"'),
        "orders.toml:6: [[source]] schema does not go with raw; leave it out: the table has the one column 'value'",
    ),
    "avro without its file": (
        SMALL.replace('format = "raw"', 'format = "avro"'),
        "orders.toml:2: [[source]] needs 'schema_file'; for example schema_file = \"orders.avsc\"",
    ),
    "a format that is none": (
        SMALL.replace('format = "raw"', 'format = "jsn"'),
        "orders.toml:5: [[source]] format is 'jsn'; did you mean 'json'?",
    ),
    "no topic's name": (
        SMALL.replace('topic = "copied"', 'topic = "cop ied"'),
        "orders.toml:7: [[sink]] topic: the topic name 'cop ied' may hold only ASCII letters, digits, '.', '_' and '-'",
    ),
    "no table's name": (
        SMALL.replace('name = "orders"', 'name = "my-orders"'),
        (
            "orders.toml:3: [[source]] cannot be named 'my-orders'; it is a table's name in SQL: letters, digits and "
            "'_', no digit first"
        ),
    ),
    "two sources of one name": (
        SMALL + '[[source]]\nname = "Orders"\ntopic = "x"\nformat = "raw"\n',
        "orders.toml:9: there are two tables named 'Orders'; see line 3",
    ),
    "two sources and no query": (
        SMALL + '[[source]]\nname = "b"\ntopic = "x"\nformat = "raw"\n',
        'orders.toml: nothing says how to join orders and b; add [query] with sql = "SELECT …"',
    ),
    "no source": ('name = "x"\n[[sink]]\nconsole = true\n', "orders.toml: a pipeline needs a source; for example"),
    "no sink": (SMALL[: SMALL.index("[[sink]]")], "orders.toml: a pipeline needs a sink; for example"),
    "one bracket too few": (
        SMALL.replace("[[source]]", "[source]"),
        "orders.toml:2: [source] can be there several times; write [[source]]",
    ),
    "one bracket too many": (
        SMALL + '[[run]]\nmaster = "local"\n',
        "orders.toml:8: [[run]] can be there only once; write [run]",
    ),
    "two kinds of sink": (
        SMALL + 'parquet = "out"\n',
        "orders.toml:8: [[sink]] has both topic and parquet; give one of topic, parquet, delta and console",
    ),
    "no kind of sink": (
        SMALL.replace('topic = "copied"', 'mode = "append"'),
        "orders.toml:6: [[sink]] does not say where to write; give one of topic, parquet, delta and console",
    ),
    "a key for another sink": (
        SMALL + 'partition_by = "day"\n',
        "orders.toml:8: [[sink]] partition_by does not go with topic; it is for parquet and delta",
    ),
    "updates of files": (
        SMALL.replace('topic = "copied"', 'parquet = "out"\nmode = "update"'),
        "orders.toml:8: [[sink]] mode update does not go with parquet; files are only added to",
    ),
    "two sinks of one place": (
        SMALL + '[[sink]]\ntopic = "copied"\n',
        "orders.toml:8: there are two sinks named 'topic-copied'; give one a name of its own",
    ),
    "a loop": (
        SMALL.replace("copied", "orders"),
        "orders.toml:7: the topic 'orders' is read and written; what it writes it would read again, without end",
    ),
    "a loop of dead letters": (
        SMALL + '[dead_letters]\ntopic = "orders"\n',
        "orders.toml:9: a source reads the topic of the dead letters; what it writes it would read again",
    ),
    "SQL and Python": (
        SMALL + '[query]\nsql = "SELECT 1"\npython = "a:b"\n',
        "orders.toml:10: [query] has both sql and python; keep the one that is meant",
    ),
    "no function": (
        SMALL + '[query]\npython = "steps"\n',
        "orders.toml:9: [query] python is 'steps'; write module:function, as in orders:enrich",
    ),
    "a bad duration": (
        SMALL + '[run]\ntrigger = "5 secnds"\n',
        (
            "orders.toml:9: [run] trigger: 'secnds' is no unit of time; there are milliseconds, seconds, minutes, "
            "hours and days; the other choice is 'available-now'"
        ),
    ),
    "a duration without unit": (
        SMALL + '[run]\nrestart_backoff = "5"\n',
        "orders.toml:9: [run] restart_backoff: '5' is not a number and a unit, as in '5 seconds' or '2 minutes'",
    ),
    "back-off upside down": (
        SMALL + '[run]\nrestart_backoff = "5 minutes"\nrestart_backoff_max = "1 minute"\n',
        "orders.toml:10: [run] restart_backoff_max is shorter than restart_backoff",
    ),
    "attempts that are not made": (
        SMALL + '[run]\nrestart = "never"\nrestart_attempts = 3\n',
        'orders.toml:10: [run] has restart_attempts, but restart = "never"; keep the one that is meant',
    ),
    "a bad size": (
        SMALL.replace('topic = "copied"', 'parquet = "out"\ntarget_file_size = "3 bits"'),
        "orders.toml:8: [[sink]] target_file_size: 'bits' is no unit of size; there are B, KB, MB, GB, KiB, MiB and",
    ),
    "a size of nothing": (
        SMALL.replace('topic = "copied"', 'parquet = "out"\ntarget_file_size = "0 MiB"'),
        "orders.toml:8: [[sink]] target_file_size: '0 MiB' is less than a byte",
    ),
    "a watermark without duration": (
        SMALL.replace('format = "raw"', 'format = "raw"\nwatermark = "at"'),
        "orders.toml:6: [[source]] watermark: 'at' is not a column and a duration, as in 'at 2 minutes'",
    ),
    "dedupe without watermark": (
        SMALL.replace('format = "raw"', 'format = "raw"\ndedupe = "id"'),
        "orders.toml:6: [[source]] has dedupe, but no watermark; duplicates are remembered as long as",
    ),
    "a start that is none": (
        SMALL.replace('format = "raw"', 'format = "raw"\nstarting = "yesterday"'),
        "orders.toml:6: [[source]] starting is 'yesterday'; there are earliest, latest, or a time such as",
    ),
    "an unknown metadata column": (
        SMALL.replace('format = "raw"', 'format = "raw"\nmetadata = ["_kee"]'),
        "orders.toml:6: [[source]] metadata has no column '_kee'; there are _key, _topic,",
    ),
    "a pattern that fits the sink": (
        SMALL.replace('topic = "orders"', 'topic_pattern = "(orders|cop).*"'),
        "orders.toml:7: the topic 'copied' is read and written; what it writes it would read again, without end",
    ),
    "a pattern that fits the dead letters": (
        SMALL.replace('topic = "orders"', 'topic_pattern = "copy.*"').replace('"raw"', '"text"'),
        "orders.toml:4: topic_pattern fits the topic of the dead letters, 'copy.dead-letters'; what it writes it would",
    ),
    "a pattern that is none": (
        SMALL.replace('topic = "orders"', 'topic_pattern = "orders-("'),
        "orders.toml:4: [[source]] topic_pattern is no regular expression: missing ), unterminated subpattern",
    ),
    "an expectation of nothing": (
        SMALL + '[[expect]]\nsql = "1 = 1"\nsource = "order"\n',
        "orders.toml:10: [[expect]] is about the source 'order', which is not there; did you mean 'orders'?",
    ),
    "a variable that is not set": (
        SMALL.replace('topic = "orders"', 'topic = "${NOT_SET_ANYWHERE}"'),
        (
            "orders.toml:4: [[source]] topic uses the environment variable NOT_SET_ANYWHERE, which is not set; set it, "
            "or give a default: ${NOT_SET_ANYWHERE:-…}"
        ),
    ),
    "a bad address": (
        SMALL + '[cluster]\nbootstrap_servers = "host:port"\n',
        "orders.toml:9: [cluster] bootstrap_servers: 'host:port' is not an address; expected host:port with a port",
    ),
    "a static table of two kinds": (
        SMALL + '[[table]]\nname = "t"\ncsv = "a"\njson = "b"\n',
        "orders.toml:11: [[table]] has both csv and json; give one of parquet, csv, json and delta, with a path",
    ),
    "text without quotes": (
        SMALL.replace('topic = "copied"', "topic = copied"),
        'orders.toml:7: this is not TOML: invalid value (column 9); text goes between quotes, as in topic = "orders"',
    ),
    "a string without end": (
        SMALL.replace('topic = "copied"', 'topic = "copied'),
        (
            "orders.toml:7: this is not TOML: illegal character '\\n' (column 16); close the string; text of several "
            'lines goes between """ and """'
        ),
    ),
    "a colon": (
        SMALL.replace('topic = "copied"', 'topic: "copied"'),
        (
            "orders.toml:7: this is not TOML: expected '=' after a key in a key/value pair (column 6); a key and its "
            "value are joined by an equals sign"
        ),
    ),
    "a key twice": (
        SMALL + 'topic = "again"\n',
        "orders.toml:8: this is not TOML: cannot overwrite a value (column 16); a key or table may stand there only",
    ),
    "nothing at all": ("", "orders.toml: the pipeline needs 'name'"),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_told_with_line_and_hint(file: Path, text: str, expected: str) -> None:
    assert complaint(file, text).startswith(expected)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"none\.toml: it cannot be read: no such file or directory"):
        load(tmp_path / "none.toml")


def test_a_file_that_is_not_utf8(file: Path) -> None:
    file.write_bytes(b'name = "x"\n# \xff\n')
    with pytest.raises(PipelineError, match=r"orders\.toml:2: this line is not UTF-8"):
        load(file)


def test_lines_count_the_same_with_windows_line_breaks(file: Path) -> None:
    file.write_bytes(WHOLE.replace('topic = "orders"', 'topik = "orders"').replace("\n", "\r\n").encode())
    with pytest.raises(PipelineError) as caught:
        load(file)
    assert caught.value.line == 6


# ---- the page


def documented() -> dict[str, set[str]]:
    """The first column of each section's table in the docs."""
    parts = re.split(r"^## `\[+([\w.]+)\]+`.*$|^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    sections: dict[str, set[str]] = {}
    for section, other, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        name = section if section is not None else "" if other == "The top of the file" else None
        if name is not None:
            keys = text.partition("\n### ")[0]
            sections[name] = set(re.findall(r"^\| `(\w+)`", keys, flags=re.MULTILINE))
    return sections


def test_the_pages_example_is_a_pipeline(file: Path) -> None:
    example = re.search(r"^```toml\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert example is not None
    file.write_text(example[1])
    assert load(file).name == "orders-per-minute"


def test_every_key_is_documented_and_no_other() -> None:
    expected = {section: set(keys) for section, keys in KEYS.items()}
    expected["spark.conf"] = set()  # its keys are Spark's
    del expected["spark"]
    assert documented() == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("3 milliseconds", 0.003),
        ("5 s", 5),
        ("1 second", 1),
        ("2m", 120),
        ("2 min", 120),
        ("1.5 minutes", 90),
        ("1 h", 3600),
        ("2 hours", 7200),
        ("1 d", 86400),
        ("2 days", 172800),
    ],
)
def test_durations_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XYZ+7")  # a zone that needs no tables
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_greenwich")
@pytest.mark.parametrize("starting", ['"2026-01-31 12:00"', "2026-01-31T12:00:00"], ids=["text", "date"])
def test_a_time_without_a_zone_is_the_same_on_every_machine(file: Path, starting: str) -> None:
    file.write_text(SMALL.replace('format = "raw"', f'format = "raw"\nstarting = {starting}'))
    (source,) = load(file).sources
    assert source.starting == datetime(2026, 1, 31, 12, tzinfo=UTC)

"""What docs/spark.md says is so: its programs run, one after the other, and its tables name every option."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

import headrace_spark
from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.groups.group_offsets import fetch_offsets
from headrace.testing import Broker
from headrace_spark.blocking import BlockingCluster
from headrace_spark.source.options import COLUMN_TYPES
from tests.clients.nodes import PATIENCE_S
from tests.docs.blocks import ROOT, blocks_of
from tests.docs.terminal import ON_THE_PAGES
from tests.unit.spark.sink_inputs import committed_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.docs.told_blocks import ToldBlocks

pytestmark = pytest.mark.xdist_group("spark")
pytest_plugins = ["tests.docs.told_blocks"]

PAGE = (ROOT / "docs" / "spark.md").read_text()
EVENTS = {"alice": "tea please", "bob": "more tea"}


@pytest.fixture
def cluster() -> Iterator[str]:
    """With the topics that the page speaks of, and nothing else."""
    with Broker() as broker:
        for topic in ("events", "shouts", "word-counts"):
            broker.create_topic(topic)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for key, value in EVENTS.items():
            producer.produce("events", key=key, value=value)
        assert producer.flush(PATIENCE_S) == 0
        yield broker.bootstrap_servers


def texts(servers: str, topic: str) -> dict[str, str]:
    records = committed_records(servers, topic)
    found = {record.key().decode(): record.value().decode() for record in records}
    assert len(found) == len(records)
    return found


def next_offset(servers: str, group: str) -> int:
    with BlockingCluster(servers) as blocking:
        coordinator = Coordinator(blocking.cluster, CoordinatorKind.GROUP, group)
        (committed,) = blocking.run(fetch_offsets(coordinator, group)).values()
    return committed.offset


@pytest.mark.timeout(600)  # four queries, and perhaps the start of Spark
def test_the_programs_run_as_they_stand(
    spark: SparkSession, cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], told_blocks: ToldBlocks
) -> None:
    names: dict[str, Any] = {}
    for program in told_blocks.take_all():
        here = program.text.replace(ON_THE_PAGES, cluster).replace('"checkpoints/', f'"{tmp_path}/')
        exec(compile(here, str(program), "exec"), names)

    assert names["spark"] is spark  # one that is active is taken
    assert "more tea" in capsys.readouterr().out
    assert texts(cluster, "shouts") == {"alice": "TEA PLEASE", "bob": "MORE TEA"}
    assert texts(cluster, "word-counts") == {"tea": "2", "please": "1", "more": "1"}
    assert next_offset(cluster, "pipeline.look") == len(EVENTS)


def test_writing_a_version_again_writes_nothing(spark: SparkSession, cluster: str) -> None:
    (program,) = (block.text for block in blocks_of("docs/spark.md") if block.text.startswith("def publish"))
    names: dict[str, Any] = {"spark": spark}
    exec(program.partition("\n\n\n")[0].replace(ON_THE_PAGES, cluster), names)
    counts = spark.createDataFrame([("tea", 2)], "word STRING, count BIGINT")
    names["publish"](counts, 0)
    names["publish"](counts, 0)
    assert texts(cluster, "word-counts") == {"tea": "2"}


def documented() -> set[str]:
    """The names in the first column of the page's tables."""
    cells = re.findall(r"^\| (`.*?) \|", PAGE, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize(
    ("module", "wanted"),
    [
        ("source/options.py", r'_read\(given, "([\w.]+)"'),
        ("kafka_options.py", r'_(?:seconds|bytes)\(kafka, "([\w.]+)"'),
        ("sink/options.py", r'_number\(kafka, "([\w.]+)"'),
    ],
)
def test_every_option_is_in_a_table(module: str, wanted: str) -> None:
    source = (Path(headrace_spark.__file__).parent / module).read_text()
    prefix = "" if module == "source/options.py" else "kafka."
    names = {prefix + name for name in re.findall(wanted, source)}
    assert names
    assert names <= documented()


def test_every_column_is_in_a_table() -> None:
    assert set(COLUMN_TYPES) <= documented()

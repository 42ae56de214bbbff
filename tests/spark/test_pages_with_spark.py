"""What README and the pages do with Spark: their commands and programs run as they stand.

Docs/walk-through.md and docs/spark.md have tests of their own.
"""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from headrace.testing import Broker
from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.inspect.validate import problems_of
from tests.clients.nodes import PATIENCE_S
from tests.docs.terminal import NUMBERS, ON_THE_PAGES, Terminal, listed_names, masked
from tests.spark.offline_commands import Commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.docs.blocks import Block, Command
    from tests.docs.told_blocks import ToldBlocks

pytestmark = pytest.mark.xdist_group("spark")
pytest_plugins = ["tests.docs.told_blocks"]

TOPICS = ("orders", "orders-copy", "orders-again", "events", "orders-per-minute")
PARTITIONS = 6
ORDERS = 60


@pytest.fixture(scope="module")
def shop() -> Iterator[Broker]:
    """With the topics that the pages speak of, and orders of two days in January."""
    with Broker(configs={"log.retention.check.interval.ms": "86400000"}) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, partitions=PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        noon = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
        for number in range(ORDERS):
            order = f'{{"id": {number}, "sku": "tea", "amount": 2.5, "at": "2026-01-01T12:00:00Z"}}'
            moment = noon + number % 2 * 86_400_000
            producer.produce("orders", order, partition=number % PARTITIONS, timestamp=moment)
        assert producer.flush(PATIENCE_S) == 0
        yield broker


class Desk:
    """Commands are called in this process, where a Spark session is active: a start of Spark takes ten seconds."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def follow(self, block: Block) -> None:
        for command in block.commands:
            self.call(command)

    def call(self, command: Command) -> None:
        program, *arguments = shlex.split(command.line)
        assert program == "headrace"
        code, out, talk = self._commands(*arguments)
        assert code == 0, f"$ {command.line}\n{talk}"
        if command.shown:
            assert masked(out, NUMBERS) == masked(command.shown, NUMBERS), f"$ {command.line}\n{out}"


@pytest.fixture
def desk(
    spark: SparkSession,
    shop: Broker,
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(Commands(shop, capsysbinary))


def run_program(block: Block, shop: Broker, **names: Any) -> dict[str, Any]:
    exec(compile(block.text.replace(ON_THE_PAGES, shop.bootstrap_servers), str(block), "exec"), names)
    return names


def test_export_and_import(desk: Desk, spark: SparkSession, tmp_path: Path, told_blocks: ToldBlocks) -> None:
    desk.follow(told_blocks.take("$ headrace export --topic orders --out"))
    exported = tmp_path / "exports" / "orders"
    listed = listed_names(dedent(told_blocks.take("exports/orders/").text.partition("\n")[2]))
    files = [path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()]
    assert not [path for path in files if not any(re.fullmatch(name, path) for name in listed)]
    assert len(files) == PARTITIONS + 2

    program = told_blocks.take("spark.read.parquet")
    frame: DataFrame = eval(program.text.replace("exports/orders", str(exported)), {"spark": spark})
    assert frame.count() == ORDERS
    desk.follow(told_blocks.take("$ headrace export --topic orders --from"))
    days = [spark.read.parquet(str(tmp_path / f"exports/2026-01-0{day}")).count() for day in (1, 2)]
    assert days == [ORDERS // 2, ORDERS // 2]


def test_a_month_is_exported_and_imported(desk: Desk, told_blocks: ToldBlocks) -> None:
    desk.follow(told_blocks.take("$ headrace export"))
    desk.follow(told_blocks.take("$ headrace import"))


def test_a_stream_in_a_program_of_ones_own(spark: SparkSession, shop: Broker, told_blocks: ToldBlocks) -> None:
    names = run_program(told_blocks.take("events = ("), shop, spark=spark)
    assert names["events"].isStreaming


def test_a_function_that_joins(spark: SparkSession, shop: Broker, told_blocks: ToldBlocks) -> None:
    join = run_program(told_blocks.take("def join("), shop)["join"]
    tables = {
        "orders": spark.createDataFrame([(1, "tea")], "id INT, sku STRING"),
        "products": spark.createDataFrame([("tea", "a drink")], "sku STRING, kind STRING"),
    }
    assert [row.asDict() for row in join(spark, tables).collect()] == [{"sku": "tea", "id": 1, "kind": "a drink"}]


@pytest.mark.timeout(900)  # three commands start a JVM
def test_a_pipeline_from_its_file(
    spark: SparkSession, shop: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told_blocks: ToldBlocks
) -> None:
    terminal = Terminal(tmp_path / "reader", shop.bootstrap_servers)
    file = terminal.home / "orders.toml"
    text = told_blocks.take("name = ").text.replace(ON_THE_PAGES, shop.bootstrap_servers)
    file.write_text(text)
    commands = told_blocks.take("headrace pipeline")
    terminal.follow(commands)

    of_the_file, of_the_query = told_blocks.take("orders.toml:8").text.splitlines()
    file.write_text(text.replace('topic = "orders"', 'topik = "orders"', 1))
    assert terminal.type(f"{commands.commands[0].line} 2> /dev/null || true").strip() == of_the_file
    file.write_text(text.replace("sum(amount)", "sum(amont)", 1))
    monkeypatch.chdir(terminal.home)
    assert [str(problem) for problem in problems_of(load(Path(file.name)), spark)] == [of_the_query]


@pytest.mark.timeout(600)
def test_a_pipeline_in_a_test(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    told_blocks: ToldBlocks,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.toml").write_text(told_blocks.take("name = ").text)
    names: dict[str, Any] = {}
    exec(told_blocks.take("from headrace.testing import pipeline_result").text, names)
    names["test_totals_per_minute"]()

"""Topics to Parquet: what is in the files, what the manifest says of them, and which range was meant."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from tests.spark.offline_topics import FIRST_MS, Message, fill, sample

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.testing import Broker
    from tests.spark.offline_commands import Commands

pytest_plugins = ["tests.spark.offline_fixtures"]
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

COUNT = 2000


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """Three partitions, one of them empty, in the order of `sample`."""
    name = f"export-{uuid4().hex[:8]}"
    broker.create_topic(name, partitions=3)
    fill(broker.bootstrap_servers, name, [sample(number) for number in range(COUNT) if sample(number).key is not None])
    return name


def numbers(out: Path) -> list[int]:
    """Which samples are in the files, by their timestamps."""
    times = ds.dataset(out, format="parquet", partitioning="hive").to_table(columns=["timestamp"])["timestamp"]
    return sorted((round(time.timestamp() * 1000) - FIRST_MS) // 1000 for time in times.to_pylist())


KEYED = [number for number in range(COUNT) if sample(number).key is not None]


def test_every_column_arrives_and_spark_reads_it_as_a_table(
    commands: Commands, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    summary = commands.json("export", "--topic", topic, "--out", tmp_path / "out", "--file-size", "20KB")

    assert summary["rows"] == len(KEYED)
    assert summary["files"] > 3
    table = spark.read.parquet(str(tmp_path / "out"))
    assert dict(table.dtypes) == {
        "key": "binary",
        "value": "binary",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "headers": "array<struct<key:string,value:binary>>",
        "topic": "string",
        "partition": "int",
    }
    rows = table.orderBy("partition", "offset").collect()
    found = [
        Message(
            bytes(row.key),
            None if row.value is None else bytes(row.value),
            tuple((pair.key, None if pair.value is None else bytes(pair.value)) for pair in row.headers or ()),
            round(row.timestamp.timestamp() * 1000),
        )
        for row in rows
    ]
    assert sorted(found, key=repr) == sorted((sample(number) for number in KEYED), key=repr)
    for partition in range(3):
        offsets = [row.offset for row in rows if row.partition == partition]
        assert offsets == list(range(len(offsets)))


def test_the_manifest_tells_the_truth(commands: Commands, topic: str, tmp_path: Path) -> None:
    commands.json("export", "--topic", topic, "--out", tmp_path, "--file-size", "20KB", "--compression", "snappy")

    manifest = json.loads((tmp_path / "_manifest.json").read_text())
    assert manifest["format"] == "headrace-export"
    assert manifest["rows"] == len(KEYED)
    by_partition: dict[int, int] = {}
    for file in manifest["files"]:
        path = tmp_path / file["path"]
        assert path.stat().st_size == file["file_bytes"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == file["sha256"]
        assert path.name == f"{file['start']:020d}-{file['end'] - 1:020d}.parquet"
        assert pq.read_metadata(path).num_rows == file["rows"] == file["end"] - file["start"]
        assert pq.read_metadata(path).row_group(0).column(0).compression == "SNAPPY"
        assert file["start"] == by_partition.get(file["partition"], 0)  # no gap, and nothing twice
        by_partition[file["partition"]] = file["end"]
    assert by_partition == {part["partition"]: part["end"] for part in manifest["ranges"] if part["end"]}
    on_disk = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")}
    assert on_disk == {file["path"] for file in manifest["files"]}


@pytest.mark.parametrize(
    ("from_", "to", "expected"),
    [
        (str(FIRST_MS + 500_000), str(FIRST_MS + 600_000), range(500, 600)),
        ("2025-06-15T15:15:00Z", "2025-06-15T15:20:00Z", range(500, 800)),
        ("1990-01-01", "2100-01-01", range(COUNT)),
        ("2100-01-01", "latest", range(0)),
    ],
)
def test_a_range_of_time(commands: Commands, topic: str, tmp_path: Path, from_: str, to: str, expected: range) -> None:
    commands.json("export", "--topic", topic, "--out", tmp_path, "--from", from_, "--to", to)

    found = numbers(tmp_path) if list(tmp_path.rglob("*.parquet")) else []
    assert found == [number for number in expected if number in KEYED]


def test_a_range_of_offsets(commands: Commands, topic: str, tmp_path: Path) -> None:
    commands.json("export", "--topic", topic, "--out", tmp_path / "a", "--from", "10", "--to", "25")
    commands.json("export", "--topic", topic, "--out", tmp_path / "b", "--from", "-5")

    manifest = json.loads((tmp_path / "a" / "_manifest.json").read_text())
    assert {(file["start"], file["end"]) for file in manifest["files"]} == {(10, 25)}
    last = json.loads((tmp_path / "b" / "_manifest.json").read_text())
    assert {file["rows"] for file in last["files"]} == {5}


def test_an_empty_topic_gives_an_empty_export(commands: Commands, broker: Broker, tmp_path: Path) -> None:
    name = f"empty-{uuid4().hex[:8]}"
    broker.create_topic(name, partitions=2)

    code, out, err = commands("export", "--topic", name, "--out", tmp_path)

    assert code == 0
    assert "no message in that range" in err
    assert "rows:            0" in out
    manifest = json.loads((tmp_path / "_manifest.json").read_text())
    assert manifest["files"] == []
    assert len(manifest["ranges"]) == 2


def test_only_what_is_committed_is_exported_unless_all_is_wanted(
    commands: Commands, broker: Broker, tmp_path: Path
) -> None:
    name = f"transactions-{uuid4().hex[:8]}"
    broker.create_topic(name)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    for word, ends in (("kept", True), ("dropped", False), ("kept too", True)):
        producer.begin_transaction()
        producer.produce(name, word.encode())
        producer.flush(30)
        (producer.commit_transaction if ends else producer.abort_transaction)(30)

    commands.json("export", "--topic", name, "--out", tmp_path / "committed")
    commands.json("export", "--topic", name, "--out", tmp_path / "all", "--isolation", "read-uncommitted")

    def values(out: Path) -> list[bytes]:
        found: list[bytes] = ds.dataset(out, format="parquet").to_table(columns=["value"])["value"].to_pylist()
        return found

    assert values(tmp_path / "committed") == [b"kept", b"kept too"]
    assert values(tmp_path / "all") == [b"kept", b"dropped", b"kept too"]


def test_several_topics_by_name_and_pattern(commands: Commands, broker: Broker, tmp_path: Path) -> None:
    stem = uuid4().hex[:8]
    for name in (f"{stem}-a", f"{stem}-b", f"{stem}-c"):
        broker.create_topic(name)
        fill(broker.bootstrap_servers, name, [sample(1)])

    summary = commands.json("export", "--topic", f"{stem}-c", "--topics-pattern", f"{stem}-[ab]", "--out", tmp_path)

    assert summary["topics"] == [f"{stem}-a", f"{stem}-b", f"{stem}-c"]
    assert summary["rows"] == 3


def test_a_finished_export_is_left_alone_and_another_is_refused(
    commands: Commands, broker: Broker, tmp_path: Path
) -> None:
    name = f"twice-{uuid4().hex[:8]}"
    broker.create_topic(name)
    fill(broker.bootstrap_servers, name, [sample(1)])
    commands.json("export", "--topic", name, "--out", tmp_path)
    fill(broker.bootstrap_servers, name, [sample(2)])

    again = commands.json("export", "--topic", name, "--out", tmp_path)
    other = commands("export", "--topic", name, "--out", tmp_path, "--from", "5")

    assert again["was_there"]
    assert again["rows"] == 1
    assert other[0] == 1
    assert "holds another export already: from is '5', was 'earliest'" in other[2]


def test_wrong_input_is_told_in_a_sentence(commands: Commands, broker: Broker, topic: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("")

    def trouble(*arguments: object) -> tuple[int, str]:
        code, out, err = commands("export", *arguments)
        assert out == ""
        assert "Traceback" not in err
        return code, err

    assert trouble("--out", tmp_path)[0] == 2
    assert trouble("--topic", topic, "--out", tmp_path, "--from", "7", "--to", "7")[0] == 2
    assert trouble("--topic", topic, "--out", tmp_path, "--from", "yesterday")[0] == 2
    code, err = trouble("--topic", "nowhere", "--out", tmp_path / "new")
    assert (code, "there is no topic 'nowhere'" in err) == (3, True)
    assert not (tmp_path / "new").exists()
    code, err = trouble("--topic", topic, "--out", tmp_path / "full")
    assert (code, "is not empty and holds no export: letter.txt" in err) == (1, True)
    code, err = trouble("--topic", topic, "--out", tmp_path / "file" / "below")
    assert code == 1
    code, err = trouble("--topic", topic, "--out", "gopher://somewhere")
    assert (code, "is no place that can be opened" in err) == (1, True)

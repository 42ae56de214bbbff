"""Parquet to a topic: an export comes back as it was, and other files arrive in order."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.offline_topics import by_key, everything, fill, read_back, sample

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.testing import Broker
    from tests.spark.offline_commands import Commands

pytest_plugins = ["tests.spark.offline_fixtures"]
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

COUNT = 3000


@pytest.fixture
def target(broker: Broker) -> str:
    name = f"import-{uuid4().hex[:8]}"
    broker.create_topic(name, partitions=5)
    return name


@pytest.fixture(scope="module")
def source(broker: Broker) -> str:
    name = f"source-{uuid4().hex[:8]}"
    broker.create_topic(name, partitions=3)
    fill(broker.bootstrap_servers, name, [sample(number) for number in range(COUNT)])
    return name


def test_an_export_comes_back_as_it_was(
    commands: Commands, broker: Broker, source: str, target: str, tmp_path: Path
) -> None:
    commands.json("export", "--topic", source, "--out", tmp_path, "--file-size", "30KB")

    summary = commands.json("import", "--topic", target, "--in", tmp_path, "--compression", "lz4")

    assert (summary["rows"], summary["rows_sent"]) == (COUNT, COUNT)
    before, after = (read_back(broker.bootstrap_servers, name) for name in (source, target))
    assert everything(after) == everything(before)
    assert by_key(after) == by_key(before)


def test_messages_may_keep_their_partitions(
    commands: Commands, broker: Broker, source: str, target: str, tmp_path: Path
) -> None:
    commands.json("export", "--topic", source, "--out", tmp_path)

    commands.json("import", "--topic", target, "--in", tmp_path, "--partition-by", "source")

    after = read_back(broker.bootstrap_servers, target)
    before = read_back(broker.bootstrap_servers, source)
    assert {partition: messages for partition, messages in after.items() if messages} == before


def test_a_second_run_repeats_nothing_and_a_new_name_repeats_all(
    commands: Commands, broker: Broker, target: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"value": ["a", "b"]}), tmp_path / "0.parquet")
    first = commands.json("import", "--topic", target, "--in", tmp_path)
    second = commands.json("import", "--topic", target, "--in", tmp_path)
    third = commands.json("import", "--topic", target, "--in", tmp_path, "--name", "once more")

    assert [each["rows_sent"] for each in (first, second, third)] == [2, 0, 2]
    values = [message.value for message in everything(read_back(broker.bootstrap_servers, target))]
    assert sorted(map(str, values)) == ["b'a'", "b'a'", "b'b'", "b'b'"]


def test_any_parquet_arrives_in_the_order_of_its_files(
    commands: Commands, broker: Broker, target: str, tmp_path: Path
) -> None:
    """Keys lie in every file, in row groups of odd sizes."""
    for index in range(3):
        rows = range(index * 700, (index + 1) * 700)
        table = pa.table(
            {
                "body": [f"{number}" for number in rows],
                "id": pa.array([f"id-{number % 11}" for number in rows]).dictionary_encode(),
                "at": pa.array([1_750_000_000_000 + number for number in rows]),
                "other": pa.array(rows, pa.float64()),
            }
        )
        pq.write_table(table, tmp_path / f"{index}.parquet", row_group_size=130)

    commands.json(
        *("import", "--topic", target, "--in", tmp_path, "--rate", "20000/s"),
        *("--key-column", "id", "--value-column", "body", "--timestamp-column", "at"),
    )

    found = by_key(read_back(broker.bootstrap_servers, target))
    assert set(found) == {b"id-%d" % number for number in range(11)}
    for key, messages in found.items():
        numbers = [int(message.value or b"") for message in messages]
        assert numbers == [number for number in range(2100) if b"id-%d" % (number % 11) == key]
        assert [message.timestamp_ms for message in messages] == [1_750_000_000_000 + number for number in numbers]


def test_wrong_input_is_told_in_a_sentence(
    commands: Commands, broker: Broker, source: str, target: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "plain" / "0.parquet")
    one = f"one-{uuid4().hex[:8]}"
    broker.create_topic(one)
    commands.json("export", "--topic", source, "--out", tmp_path / "export")

    def trouble(*arguments: object) -> tuple[int, str]:
        code, out, err = commands("import", *arguments)
        assert out == ""
        assert "Traceback" not in err
        return code, err

    code, err = trouble("--topic", "nowhere", "--in", tmp_path / "export")
    assert (code, "there is no topic 'nowhere'" in err) == (3, True)
    code, err = trouble("--topic", target, "--in", tmp_path / "missing")
    assert (code, "there is no Parquet file" in err) == (3, True)
    code, err = trouble("--topic", target, "--in", tmp_path / "plain")
    assert (code, "has no column 'value'; it has text" in err, "--value-column" in err) == (1, True, True)
    code, err = trouble("--topic", one, "--in", tmp_path / "export", "--partition-by", "source")
    assert (code, "has only 1" in err) == (1, True)
    assert trouble("--topic", target, "--in", tmp_path / "export", "--rate", "quickly")[0] == 2
    # A file that is damaged in the middle is found when a task comes to it. The command can be repeated.
    (tmp_path / "bad").mkdir()
    path = tmp_path / "bad" / "0.parquet"
    pq.write_table(pa.table({"value": [f"{number:0100d}" for number in range(1000)]}), path, compression="zstd")
    broken = bytearray(path.read_bytes())
    broken[200:400] = bytes(200)
    path.write_bytes(broken)
    code, err = trouble("--topic", target, "--in", tmp_path / "bad")
    assert (code, "cannot be read" in err, "run the same command again" in err) == (1, True, True)

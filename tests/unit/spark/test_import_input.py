"""Which files an import takes, in which lanes, and what of their columns becomes a message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace_spark.codec.columns import HEADERS_TYPE, TIMESTAMP_TYPE
from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.exports.manifest import MANIFEST_NAME, Manifest, WrittenFile
from headrace_spark.offline.exports.plan import PLAN_NAME, ExportRequest, PartitionRange
from headrace_spark.offline.imports.columns import ColumnNames, as_messages
from headrace_spark.offline.imports.plan import find_input
from headrace_spark.offline.storage import Storage

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = ExportRequest(("a", "b"), None, "earliest", "latest", "read-committed", "zstd", 1000)
ANY = ColumnNames()


def write(path: Path, rows: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": [f"{n}" for n in range(rows)]}), path)
    return path


def write_export(place: Path) -> Manifest:
    ranges, files = [], []
    for topic, partition, starts in (("a", 0, [0, 2]), ("a", 2, [5]), ("b", 0, [0])):
        ranges.append(PartitionRange(topic, "", partition, starts[0], starts[-1] + 2))
        for start in starts:
            path = write(place / f"topic={topic}/partition={partition}/{start:020d}-{start + 1:020d}.parquet", 2)
            name = str(path.relative_to(place))
            files.append(WrittenFile(name, topic, partition, start, start + 2, 2, 2, path.stat().st_size, "00"))
    manifest = Manifest(REQUEST, tuple(ranges), tuple(files), "2026-01-01T00:00:00+00:00")
    (place / MANIFEST_NAME).write_bytes(manifest.to_json())
    return manifest


def test_an_export_has_a_lane_for_each_partition(tmp_path: Path) -> None:
    write_export(tmp_path)

    found = find_input(Storage.at(str(tmp_path)), ANY, "a")

    assert found.is_export
    assert [(lane.name, lane.source_partition, lane.rows) for lane in found.lanes] == [("a-0", 0, 4), ("a-2", 2, 2)]
    names = [file.path.rpartition("/")[2][:20] for file in found.lanes[0].files]
    assert names == [f"{0:020d}", f"{2:020d}"]


def test_other_files_are_one_lane_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b/1.parquet", "a.parquet", "b/0.parquet", ".hidden.parquet", "_temporary/0.parquet", "b/notes.txt"):
        write(tmp_path / name, 3)

    found = find_input(Storage.at(str(tmp_path)), ANY, None)

    (lane,) = found.lanes
    assert [file.path for file in lane.files] == ["a.parquet", "b/0.parquet", "b/1.parquet"]
    assert (found.rows, found.is_export) == (9, False)


def test_files_that_change_are_another_import(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    storage = Storage.at(str(tmp_path))
    before = find_input(storage, ANY, None)
    assert before.fingerprint("topic") == find_input(storage, ANY, None).fingerprint("topic")
    assert before.fingerprint("topic") != before.fingerprint("other")

    write(tmp_path / "b.parquet")

    assert find_input(storage, ANY, None).fingerprint("topic") != before.fingerprint("topic")


def test_an_export_that_lost_a_file_is_refused(tmp_path: Path) -> None:
    manifest = write_export(tmp_path)
    (tmp_path / manifest.files[1].path).unlink()

    with pytest.raises(OfflineFailed, match=r"00000002-.*is missing"):
        find_input(Storage.at(str(tmp_path)), ANY, "a")


def test_what_cannot_be_imported_is_told(tmp_path: Path) -> None:
    place = Storage.at(str(tmp_path))
    with pytest.raises(OfflineFailed, match="no Parquet file"):
        find_input(place, ANY, None)
    write_export(tmp_path / "export")
    with pytest.raises(OfflineFailed, match="the export holds a, b"):
        find_input(Storage.at(str(tmp_path / "export")), ANY, None)
    with pytest.raises(OfflineFailed, match="and not c"):
        find_input(Storage.at(str(tmp_path / "export")), ANY, "c")
    (tmp_path / "export" / MANIFEST_NAME).rename(tmp_path / "export" / PLAN_NAME)
    with pytest.raises(OfflineFailed, match="is not finished"):
        find_input(Storage.at(str(tmp_path / "export")), ANY, "a")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.parquet").write_text("dear")
    with pytest.raises(OfflineFailed, match=r"letter\.parquet is not Parquet"):
        find_input(Storage.at(str(tmp_path / "other")), ANY, None)


def test_columns_are_found_by_role_or_by_name() -> None:
    schema = pa.schema([("key", pa.string()), ("value", pa.binary()), ("id", pa.large_string()), ("at", pa.int64())])

    assert ANY.chosen(schema, "f") == {"key": "key", "value": "value"}
    assert ColumnNames(key="id", timestamp="at").chosen(schema, "f") == {
        "key": "id",
        "value": "value",
        "timestamp": "at",
    }


@pytest.mark.parametrize(
    ("names", "fields", "what"),
    [
        (ANY, [("text", pa.string())], "has no column 'value'; it has text"),
        (ColumnNames(key="id"), [("value", pa.string())], "has no column 'id'"),
        (ANY, [("value", pa.float64())], "column 'value' is of type double, and a value is text or binary"),
        (ANY, [("value", pa.string()), ("headers", pa.string())], "a headers is a list of structs"),
        (ANY, [("value", pa.string()), ("timestamp", pa.string())], "milliseconds since 1970"),
    ],
)
def test_columns_that_do_not_fit_are_told(names: ColumnNames, fields: list[tuple[str, pa.DataType]], what: str) -> None:
    with pytest.raises(OfflineFailed, match=what):
        names.chosen(pa.schema(fields), "file")


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())],
)
def test_every_kind_of_text_and_bytes_becomes_bytes(kind: pa.DataType) -> None:
    rows = pa.record_batch(
        {"value": pa.array(["ä", None, ""]).cast(pa.binary() if "binary" in str(kind) else pa.string()).cast(kind)}
    )

    converted = as_messages(rows, {"value": "value"}).column("value")

    assert converted.type == pa.binary()
    assert converted.to_pylist() == ["ä".encode(), None, b""]


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")])
def test_every_kind_of_time_becomes_an_instant(kind: pa.DataType) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    rows = pa.record_batch({"at": pa.array([moment, None], pa.timestamp("us", "UTC")).cast(kind)})

    converted = as_messages(rows, {"timestamp": "at"}).column("timestamp")

    assert converted.type == TIMESTAMP_TYPE
    assert converted.to_pylist() == [moment, None]


def test_numbers_are_milliseconds() -> None:
    rows = pa.record_batch({"at": pa.array([1_750_000_000_123])})

    assert as_messages(rows, {"timestamp": "at"}).column("timestamp").cast(pa.int64()).to_pylist() == [
        1_750_000_000_123_000
    ]


def test_headers_of_other_types_are_brought_to_ours() -> None:
    kind = pa.large_list(pa.struct([("key", pa.binary()), ("value", pa.large_string())]))
    pairs = [[{"key": b"a", "value": "1"}, {"key": b"b", "value": None}], None, [], [{"key": b"c", "value": ""}]]
    rows = pa.record_batch({"h": pa.array(pairs, kind)}).slice(0)

    converted = as_messages(rows, {"headers": "h"}).column("headers")

    assert converted.type == HEADERS_TYPE
    assert converted.to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        [],
        [{"key": "c", "value": b""}],
    ]

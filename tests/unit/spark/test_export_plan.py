"""How an export is cut into files, and how plan and manifest are kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.exports.manifest import Manifest, WrittenFile
from headrace_spark.offline.exports.plan import ExportRequest, PartitionRange, Piece, Plan, cut

REQUEST = ExportRequest(("orders",), None, "earliest", "latest", "read-committed", "zstd", 1000)


def part(partition: int, start: int, end: int) -> PartitionRange:
    return PartitionRange("orders", "ab" * 16, partition, start, end)


@pytest.mark.parametrize(
    ("ranges", "row_bytes", "edges"),
    [
        ([part(0, 0, 100)], 10.0, [(0, 0, 100)]),
        ([part(0, 5, 205)], 10.0, [(0, 5, 105), (0, 105, 205)]),
        ([part(0, 0, 10), part(1, 7, 7), part(2, 3, 4)], 1.0, [(0, 0, 10), (2, 3, 4)]),
        ([part(0, 0, 3)], 5000.0, [(0, 0, 1), (0, 1, 2), (0, 2, 3)]),
        ([part(0, 0, 0)], 1.0, []),
    ],
)
def test_ranges_are_cut_into_equal_files(
    ranges: list[PartitionRange], row_bytes: float, edges: list[tuple[int, int, int]]
) -> None:
    pieces = cut(ranges, {"orders": row_bytes}, 1000)

    assert [(piece.partition, piece.start, piece.end) for piece in pieces] == edges


def test_files_are_named_by_their_first_and_last_offset() -> None:
    assert Piece("orders", 3, 1000, 2000).path == (
        "topic=orders/partition=3/00000000000000001000-00000000000000001999.parquet"
    )


def test_a_plan_comes_back_as_it_was_stored() -> None:
    plan = Plan(REQUEST, (part(0, 0, 10),), (Piece("orders", 0, 0, 10),))

    assert Plan.from_json(plan.to_json(), "here") == plan


def test_a_manifest_comes_back_as_it_was_stored_and_adds_up() -> None:
    files = tuple(WrittenFile(f"f{n}", "orders", 0, n, n + 1, 1, 100 + n, 10, "00") for n in range(3))
    manifest = Manifest(REQUEST, (part(0, 0, 3),), files, "2026-01-01T00:00:00+00:00")

    assert Manifest.from_json(manifest.to_json(), "here") == manifest
    assert (manifest.rows, manifest.record_bytes, manifest.file_bytes) == (3, 303, 30)
    assert json.loads(manifest.to_json())["rows"] == 3


def test_what_differs_between_two_requests_is_named() -> None:
    other = replace(REQUEST, topics=("orders", "returns"), from_="5")

    assert REQUEST.differences(REQUEST) == []
    assert other.differences(REQUEST) == ["topics is orders, returns, was orders", "from is '5', was 'earliest'"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"{", "is no JSON"),
        (b"[]", "is not of headrace"),
        (b'{"format": "headrace-export-plan", "version": 2}', "has version 2; this headrace reads version 1"),
        (b'{"format": "headrace-export-plan", "version": 1}', "is damaged"),
    ],
)
def test_a_plan_that_cannot_be_read_is_told(text: bytes, what: str) -> None:
    with pytest.raises(OfflineFailed, match=what):
        Plan.from_json(text, "out/_plan.json")

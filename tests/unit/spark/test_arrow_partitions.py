"""Keys of a column go where every Kafka client sends them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.partitioning import partition_for_key
from headrace_spark.codec.partitions import KEY_BYTES_MAX, murmur2_partitions


def one_by_one(keys: list[bytes | None], count: int) -> list[int]:
    return [-1 if key is None else partition_for_key(key, count) for key in keys]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 2**31 - 1), st.integers(0, 3))
def test_as_one_key_at_a_time(keys: list[bytes | None], count: int, skipped: int) -> None:
    column = pa.array(keys, pa.binary())[skipped:]
    assert murmur2_partitions(column, count).tolist() == one_by_one(keys[skipped:], count)


@pytest.mark.parametrize("size", [*range(10), KEY_BYTES_MAX - 1, KEY_BYTES_MAX, KEY_BYTES_MAX + 1, 5000])
def test_keys_of_every_length(size: int) -> None:
    keys: list[bytes | None] = [bytes((255 - number + at) % 256 for at in range(size)) for number in range(20)]
    assert murmur2_partitions(pa.array(keys, pa.binary()), 12).tolist() == one_by_one(keys, 12)


def test_nothing_and_nothing_but_null() -> None:
    assert murmur2_partitions(pa.array([], pa.binary()), 3).tolist() == []
    assert murmur2_partitions(pa.nulls(2, pa.binary()), 3).tolist() == [-1, -1]
    assert murmur2_partitions(pa.nulls(2), 3).tolist() == [-1, -1]


def test_text_and_chunks() -> None:
    column = pa.chunked_array([pa.array(["clé", None]), pa.array(["key"])])
    assert murmur2_partitions(column, 7).tolist() == one_by_one(["clé".encode(), None, b"key"], 7)
    assert murmur2_partitions(column, 7).dtype == "int32"

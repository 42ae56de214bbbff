"""Transaction markers, byte by byte.

Worked out by hand from Kafka's ControlRecordType (key: int16 version 0, int16 type, 0 abort and 1 commit),
EndTransactionMarker (value: int16 version 0, int32 coordinator epoch) and DefaultRecordBatch (format 2, attributes 0x20
control and 0x10 transactional, no sequence).
"""

from __future__ import annotations

import pytest
from crc32c import crc32c

from headrace.wire.batches.header import CorruptBatch, read_header
from headrace.wire.batches.markers import Marker, decode_marker, encode_marker
from headrace.wire.batches.records import encode_batch

COMMIT = (
    "0000000000000000"  # base offset
    "00000042"  # 66 bytes follow
    "ffffffff"  # leader epoch, given when it is appended
    "02"  # format
    "{crc}"
    "0030"  # attributes: control, transactional
    "00000000"  # last offset delta
    "0000018bcfe56800"  # both timestamps
    "0000018bcfe56800"
    "0000000000000fa0"  # producer id 4000
    "0007"  # producer epoch
    "ffffffff"  # no sequence
    "00000001"  # one record
    "20"  # of 16 bytes
    "000000"  # attributes, timestamp delta, offset delta
    "08"  # the key has 4 bytes
    "0000"  # version 0
    "0001"  # commit
    "0c"  # the value has 6 bytes
    "0000"  # version 0
    "00000005"  # coordinator epoch 5
    "00"  # no headers
)


def test_a_commit() -> None:
    batch = encode_marker(4000, 7, Marker(is_commit=True, coordinator_epoch=5), 1_700_000_000_000)
    assert len(batch) == 78
    assert batch.hex() == COMMIT.format(crc=f"{crc32c(batch[21:]):08x}")


def test_an_abort_differs_in_one_byte() -> None:
    commit = encode_marker(4000, 7, Marker(is_commit=True, coordinator_epoch=5), 1_700_000_000_000)
    abort = encode_marker(4000, 7, Marker(is_commit=False, coordinator_epoch=5), 1_700_000_000_000)
    assert [place for place in range(21, 78) if commit[place] != abort[place]] == [69]
    assert (commit[69], abort[69]) == (1, 0)


@pytest.mark.parametrize("marker", [Marker(is_commit=True, coordinator_epoch=0), Marker(False, 2**31 - 1)])
def test_markers_read_back(marker: Marker) -> None:
    batch = encode_marker(1, 0, marker, 5)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert decode_marker(batch) == marker


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(None, b"\0\0\0\0\0\1", id="no key"),
        pytest.param(b"\0\0\0", b"\0\0\0\0\0\1", id="short key"),
        pytest.param(b"\0\0\0\2", b"\0\0\0\0\0\1", id="a type that is no transaction's"),
        pytest.param(b"\0\0\0\1", b"\0\0\0\0\0", id="short value"),
        pytest.param(b"\0\0\0\1", None, id="no value"),
    ],
)
def test_what_is_no_marker_is_not_taken_for_one(key: bytes | None, value: bytes | None) -> None:
    batch = encode_batch([(0, key, value, ())], producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    with pytest.raises(CorruptBatch):
        decode_marker(batch)

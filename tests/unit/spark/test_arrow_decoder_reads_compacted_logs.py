"""What compaction leaves of a log, as Spark's decoder reads it: gaps, emptied batches, times counted from a horizon."""

from __future__ import annotations

from random import Random

import pytest

from headrace.simulation.environment.device import Device
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import encode_batch
from headrace_spark.codec.decoder import Columns, RangeDecoder
from tests.unit.storage.compacted_logs import compact, flush, held
from tests.unit.storage.small_logs import FIRST_MS, append, new_log

SETTINGS = LogSettings(segment_bytes=2000, retention_ms=None)


@pytest.mark.parametrize("codec", list(Codec))
def test_spark_sees_what_stays_and_reaches_the_end(codec: Codec) -> None:
    log = new_log(SimulatedDisk(Device(Random(1))), SETTINGS)
    chance = Random(7)
    for number in range(60):
        records = [
            (FIRST_MS + number, b"key %d" % chance.randrange(8), None if chance.random() < 0.3 else b"%d" % number, ())
            for _ in range(3)
        ]
        append(log, encode_batch(records, base_offset=log.next_offset, codec=codec, leader_epoch=0, producer_id=5))
    log.roll()
    flush(log)
    compact(log, now_ms=FIRST_MS + 1000)
    batches = held(log)
    assert any(not batch.records for batch in batches) or len(batches) < 60
    decoder = RangeDecoder("orders", 0, 0, log.next_offset, Columns(), read_committed=True)
    rows = []
    while not decoder.is_done:
        piece = log.read(decoder.next_offset, 1 << 20, log.next_offset, at_least_one=True)
        assert piece is not None
        for rows_together in decoder.decode(piece.read()):
            rows += rows_together.to_pylist()
        piece.release()
    expected = [
        (record.offset, record.key, record.value, record.timestamp) for batch in batches for record in batch.records
    ]
    assert [
        (row["offset"], row["key"], row["value"], round(row["timestamp"].timestamp() * 1000)) for row in rows
    ] == expected

"""Producers as a file, in the format of Kafka's `.snapshot` (version 1), so that a start need not read the whole log.

    version int16 · CRC-32C of what follows uint32 · count int32 · entries of 46 bytes

Kafka writes one entry for a producer, its last batch, and so forgets after a restart the four before it, which a client
may still repeat. Here each remembered batch is an entry, oldest first. Kafka's own reader keeps the last entry of an id
and therefore reads the same state from it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headrace.model.errors import Fault
from headrace.model.names import NO_OFFSET, NO_TIMESTAMP
from headrace.replication.producers import (
    BATCHES_REMEMBERED,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    Producer,
    ProducerStates,
    RememberedBatch,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION: Final = 1

_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")  # id, epoch, last sequence, last offset, delta, timestamp, coordinator epoch, transaction
_ENTRIES_POSITION = _PREFIX.size + _COUNT.size
_NO_BATCH = RememberedBatch(NO_SEQUENCE, 0, NO_OFFSET, NO_TIMESTAMP)


class DamagedSnapshot(Fault):
    """This file cannot be trusted. The log can: go back to an older snapshot and apply what follows it."""


def encode_snapshot(producers: Iterable[Producer]) -> bytes:
    """The file for `states.entries()`."""
    entries = [entry for producer in producers for entry in _entries_of(producer)]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(snapshot: bytes) -> ProducerStates:
    if len(snapshot) < _ENTRIES_POSITION:
        raise DamagedSnapshot(f"a producer snapshot has at least {_ENTRIES_POSITION} bytes, this one {len(snapshot)}")
    version, stored_crc = _PREFIX.unpack_from(snapshot)
    if version != VERSION:
        raise DamagedSnapshot(f"the producer snapshot has version {version}, expected {VERSION}")
    computed_crc = crc32c(memoryview(snapshot)[_PREFIX.size :])
    if stored_crc != computed_crc:
        raise DamagedSnapshot(f"the producer snapshot's CRC is {computed_crc:#x}, expected {stored_crc:#x}")
    (count,) = _COUNT.unpack_from(snapshot, _PREFIX.size)
    expected_size = _ENTRIES_POSITION + count * _ENTRY.size
    if len(snapshot) != expected_size:
        raise DamagedSnapshot(f"the producer snapshot has {len(snapshot)} bytes, its count asks for {expected_size}")

    producers: dict[int, Producer] = {}
    for fields in _ENTRY.iter_unpack(memoryview(snapshot)[_ENTRIES_POSITION:]):
        producer = _producer_of(fields)
        older = producers.get(producer.producer_id)
        if older is not None and older.epoch == producer.epoch:
            producer = producer._replace(batches=(older.batches + producer.batches)[-BATCHES_REMEMBERED:])
        producers[producer.producer_id] = producer
    return ProducerStates(producers.values())


def _entries_of(producer: Producer) -> Iterator[bytes]:
    for batch in producer.batches[:-1]:
        yield _entry(producer, batch, batch.timestamp_ms)
    # The last entry tells when the producer last wrote: a marker may have moved that past its last batch.
    yield _entry(producer, producer.batches[-1] if producer.batches else _NO_BATCH, producer.last_timestamp_ms)


def _entry(producer: Producer, batch: RememberedBatch, timestamp_ms: int) -> bytes:
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.offset_delta,
        timestamp_ms,
        producer.coordinator_epoch,
        producer.current_txn_first_offset,
    )


def _producer_of(entry: tuple[int, int, int, int, int, int, int, int]) -> Producer:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, txn_first = entry
    batches: tuple[RememberedBatch, ...] = ()
    if last_offset >= 0:
        first_sequence = NO_SEQUENCE if last_sequence < 0 else (last_sequence - offset_delta) & SEQUENCE_MAX
        batches = (RememberedBatch(first_sequence, offset_delta, last_offset - offset_delta, timestamp_ms),)
    next_sequence = (last_sequence + 1) & SEQUENCE_MAX
    return Producer(producer_id, epoch, batches, next_sequence, timestamp_ms, coordinator_epoch, txn_first)

"""Batches that other people's code made: we read them all, and write the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.wire.batches.examination import ON_THE_LOOP, Demands, examine
from headrace.wire.batches.header import Codec, read_header, repack
from headrace.wire.batches.records import Record, decode_records, encode_batch
from headrace.wire.batches.validation import check_batch
from tests.golden.wire.capture_batches import RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

FILES = sorted(Path(__file__).parent.glob("*.batch"))
INFLATE_MAX = 1 << 20


def batch_of(records: Iterable[Record], **options: Any) -> bytearray:
    return encode_batch([record[1:] for record in records], **options)


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def batch_file(request: pytest.FixtureRequest) -> Path:
    file = request.param
    assert isinstance(file, Path)
    return file


def test_there_is_a_batch_of_each_codec_from_each_kind_of_client() -> None:
    names = {file.stem for file in FILES}
    for codec in Codec:
        assert {f"aiokafka-{codec.name.lower()}", f"librdkafka-{codec.name.lower()}"} <= names


def test_a_clients_batch_is_taken_and_its_records_are_read(batch_file: Path) -> None:
    batch = memoryview(batch_file.read_bytes())
    header = read_header(batch)
    check_batch(batch, header, len(batch))
    examined = examine(batch, header, Demands(), ON_THE_LOOP)
    times = [record.timestamp for record in RECORDS]
    assert (examined.oldest_ms, examined.newest_ms) == (min(times), max(times))
    assert tuple(decode_records(batch, inflate_max=INFLATE_MAX)) == RECORDS


def test_a_clients_batch_says_in_its_name_how_it_was_compressed(batch_file: Path) -> None:
    codec_name = batch_file.stem.rpartition("-")[2]
    expected = Codec.NONE if codec_name == "transactional" else Codec[codec_name.upper()]
    assert read_header(batch_file.read_bytes()).codec == expected


@pytest.mark.parametrize("name", ["aiokafka-none", "aiokafka-transactional", "kafka-python-none", "librdkafka-none"])
def test_our_encoder_writes_the_same_bytes(name: str) -> None:
    theirs = Path(__file__).with_name(f"{name}.batch").read_bytes()
    header = read_header(theirs)
    ours = batch_of(
        RECORDS,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )
    assert ours == theirs


def test_a_batch_recompressed_to_none_has_the_bytes_of_the_uncompressed_one(batch_file: Path) -> None:
    batch = memoryview(batch_file.read_bytes())
    header = read_header(batch)
    plain = examine(batch, header, Demands(codec=Codec.NONE), ON_THE_LOOP).repacked
    plain = batch if plain is None else repack(header, Codec.NONE, plain)[0]
    client = batch_file.stem.rpartition("-")[0]
    expected = "aiokafka-transactional" if header.is_transactional else f"{client}-none"
    assert plain == batch_file.with_name(f"{expected}.batch").read_bytes()


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_clients_read_what_we_compress(codec: Codec) -> None:
    from aiokafka.record.default_records import DefaultRecordBatch

    theirs = DefaultRecordBatch(bytes(batch_of(RECORDS, codec=codec)))
    assert theirs.validate_crc()
    read_back = [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs]
    assert read_back == list(RECORDS)

"""Makes the `*.batch` files of this folder. Run by hand, when a client library changes its ways:

    python -m tests.golden.wire.capture_batches

aiokafka and kafka-python have record builders that work offline. librdkafka has none to call, but it has a mock broker
that keeps what it is sent: produce into it, fetch the raw bytes back.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
TOPIC = "golden"
FETCH_BYTES = 1 << 20

RECORDS = (
    Record(0, 1_700_000_000_000, b"key", b"value", ()),
    Record(1, 1_700_000_000_005, None, b"no key", ()),
    Record(2, 1_699_999_999_000, b"tombstone", None, ()),
    Record(3, 1_700_000_086_400_000, b"", b"", (("trace", b"\x00\xff"), ("", b""), ("nothing", None))),
    Record(4, 1_700_000_000_005, "clé".encode(), b"repeats " * 1000, (("naïve", "日本".encode()),)),
    *(Record(index, 1_700_000_000_005 + index, b"k%d" % index, b"v" * index, ()) for index in range(5, 80)),
)


def main() -> None:
    for name, batch in (*_from_aiokafka(), *_from_kafka_python(), *_from_librdkafka()):
        (HERE / f"{name}.batch").write_bytes(batch)
        print(f"{name}: {len(batch)} bytes")


def _from_aiokafka() -> Iterator[tuple[str, bytes]]:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    for codec in Codec:
        builder = DefaultRecordBatchBuilder(2, int(codec), 0, 77, 3, 21, 1 << 24)
        yield f"aiokafka-{codec.name.lower()}", _fill(builder)
    builder = DefaultRecordBatchBuilder(2, 0, 1, 77, 3, 21, 1 << 24)
    yield "aiokafka-transactional", _fill(builder)


def _from_kafka_python() -> Iterator[tuple[str, bytes]]:
    import kafka.codec
    from kafka.record.default_records import DefaultRecordBatchBuilder

    for codec in Codec:
        if codec is Codec.NONE or getattr(kafka.codec, f"has_{codec.name.lower()}")():
            builder = DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, 1 << 24)
            yield f"kafka-python-{codec.name.lower()}", _fill(builder)


def _fill(builder: object) -> bytes:
    for record in RECORDS:
        builder.append(  # type: ignore[attr-defined]
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    return bytes(builder.build())  # type: ignore[attr-defined]


def _from_librdkafka() -> Iterator[tuple[str, bytes]]:
    from confluent_kafka import Producer

    for codec in Codec:
        producer = Producer(
            {
                "bootstrap.servers": "mock",
                "test.mock.num.brokers": 1,
                "compression.codec": codec.name.lower(),
                "linger.ms": 200,
            }
        )
        for record in RECORDS:
            producer.produce(
                TOPIC,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp,
                headers=list(record.headers),
                partition=0,
            )
        producer.flush(30)
        broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
        yield f"librdkafka-{codec.name.lower()}", _fetch(broker.host, broker.port)


def _fetch(host: str, port: int) -> bytes:
    """One Fetch request (version 4) by hand, so that nobody takes the batch apart on its way."""
    name = TOPIC.encode()
    request = struct.pack(">hhih", 1, 4, 1, -1)  # api key, version, correlation id, no client id
    request += struct.pack(">iiiibi", -1, 1000, 1, FETCH_BYTES, 0, 1)
    request += struct.pack(f">h{len(name)}siiqi", len(name), name, 1, 0, 0, FETCH_BYTES)
    with socket.create_connection((host, port), timeout=10) as connection, connection.makefile("rwb") as stream:
        stream.write(struct.pack(">i", len(request)) + request)
        stream.flush()
        (size,) = struct.unpack(">i", stream.read(4))
        answer = stream.read(size)
    # Skip correlation id, throttle time, one topic and its name, then partition, error, two offsets, aborted list.
    position = 4 + 4 + 4 + 2 + len(name) + 4
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, position)
    assert error == 0
    assert aborted <= 0
    position += struct.calcsize(">ihqqi")
    (size,) = struct.unpack_from(">i", answer, position)
    return answer[position + 4 : position + 4 + size]


if __name__ == "__main__":
    main()

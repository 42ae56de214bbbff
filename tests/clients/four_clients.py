"""The clients that judge us, behind one small face: write these messages, read everything that is there.

Nothing about the clients is changed; only their spelling differs. Each call makes a new client and closes it. All of
them check the CRC of what they read.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import kafka.codec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from tests import secured_run
from tests.clients.nodes import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_MS = int(PATIENCE_S * 1000)
UNTIL_FLUSHED_MS = 60_000  # librdkafka's flush does not wait for it: what came before travels together, however slowly
LINGER_MS = 20  # long enough that messages travel together, so that there is something to compress
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

Headers = tuple[tuple[str, bytes | None], ...]


class Message(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    """None leaves it to the client."""


class Seen(NamedTuple):
    offset: int
    message: Message


class Client(Protocol):
    name: str
    codecs: Sequence[str]
    sets_timestamps: bool

    def write(
        self, servers: str, topic: str, messages: Sequence[Message], *, codec: str = "none", acks: int | str = "all"
    ) -> list[int]:
        """Write to partition 0, in order; the offsets that were answered (nonsense with acks=0)."""
        ...

    def read(
        self, servers: str, topic: str, from_offset: int = 0, partition: int = 0, isolation: str = READ_UNCOMMITTED
    ) -> list[Seen]:
        """Everything from an offset to the end of the partition as it is now, in the order of arrival."""
        ...


class Confluent:
    """confluent-kafka, which is librdkafka."""

    name = "confluent-kafka"
    codecs = CODECS
    sets_timestamps = True

    def write(
        self, servers: str, topic: str, messages: Sequence[Message], *, codec: str = "none", acks: int | str = "all"
    ) -> list[int]:
        together = {"linger.ms": UNTIL_FLUSHED_MS}
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "acks": acks, **together})
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors.append(error)
            offsets.append(message.offset())

        for message in messages:
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                partition=0,
                headers=list(message.headers),
                timestamp=message.timestamp_ms or 0,
                on_delivery=delivered,
            )
        assert producer.flush(PATIENCE_S) == 0
        assert not errors
        return offsets

    def read(
        self, servers: str, topic: str, from_offset: int = 0, partition: int = 0, isolation: str = READ_UNCOMMITTED
    ) -> list[Seen]:
        settings = {"bootstrap.servers": servers, "group.id": "nobody", "enable.partition.eof": True}
        consumer = Consumer({**settings, "check.crcs": True, "isolation.level": isolation})
        consumer.assign([ConfluentPartition(topic, partition, from_offset)])
        seen = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "nothing arrived, not even the end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            headers = tuple(message.headers() or ())
            seen.append(
                Seen(message.offset(), Message(message.value(), message.key(), headers, message.timestamp()[1]))
            )
        consumer.close()
        return seen


class Aiokafka:
    """aiokafka, in an event loop of its own for each call."""

    name = "aiokafka"
    codecs = CODECS
    sets_timestamps = True

    def write(
        self, servers: str, topic: str, messages: Sequence[Message], *, codec: str = "none", acks: int | str = "all"
    ) -> list[int]:
        return asyncio.run(self._write(servers, topic, messages, codec, acks))

    async def _write(
        self, servers: str, topic: str, messages: Sequence[Message], codec: str, acks: int | str
    ) -> list[int]:
        compression = None if codec == "none" else codec
        async with AIOKafkaProducer(
            bootstrap_servers=servers, compression_type=compression, acks=acks, linger_ms=LINGER_MS
        ) as producer:
            sent = [
                await producer.send(
                    topic,
                    message.value,
                    message.key,
                    partition=0,
                    timestamp_ms=message.timestamp_ms,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            done = [await future for future in sent]
        return [-1 if record is None else record.offset for record in done]

    def read(
        self, servers: str, topic: str, from_offset: int = 0, partition: int = 0, isolation: str = READ_UNCOMMITTED
    ) -> list[Seen]:
        return asyncio.run(self._read(servers, AiokafkaPartition(topic, partition), from_offset, isolation))

    async def _read(self, servers: str, place: AiokafkaPartition, from_offset: int, isolation: str) -> list[Seen]:
        async with AIOKafkaConsumer(bootstrap_servers=servers, isolation_level=isolation) as consumer:
            consumer.assign([place])
            consumer.seek(place, from_offset)
            end = (await consumer.end_offsets([place]))[place]
            seen: list[Seen] = []
            while await consumer.position(place) < end:
                arrived = await asyncio.wait_for(consumer.getmany(timeout_ms=PATIENCE_MS), PATIENCE_S)
                seen += map(_seen, arrived.get(place, ()))
        return seen


class KafkaPython:
    """kafka-python. Its producers are idempotent unless told otherwise, and then accept nothing but acks=all."""

    name = "kafka-python"
    sets_timestamps = True

    @property
    def codecs(self) -> Sequence[str]:
        """Those whose libraries are installed."""
        return [codec for codec in CODECS if codec == "none" or getattr(kafka.codec, f"has_{codec}")()]

    def write(
        self, servers: str, topic: str, messages: Sequence[Message], *, codec: str = "none", acks: int | str = "all"
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            acks=acks,
            enable_idempotence=acks == "all",
            linger_ms=LINGER_MS,
        )
        sent = [
            producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=0,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        producer.flush(PATIENCE_S)
        offsets = [future.get(PATIENCE_S).offset for future in sent]
        producer.close()
        return offsets

    def read(
        self, servers: str, topic: str, from_offset: int = 0, partition: int = 0, isolation: str = READ_UNCOMMITTED
    ) -> list[Seen]:
        consumer = KafkaConsumer(bootstrap_servers=servers, isolation_level=isolation)
        place = KafkaPythonPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, from_offset)
        end = consumer.end_offsets([place])[place]
        seen: list[Seen] = []
        while consumer.position(place) < end:
            arrived = consumer.poll(PATIENCE_MS)
            assert arrived, f"nothing arrived after {len(seen)} of {end - from_offset} messages"
            seen += map(_seen, arrived[place])
        consumer.close()
        return seen


class Kcat:
    """kcat, the command line over an older librdkafka. It gives all messages of a run the same headers."""

    name = "kcat"
    codecs = CODECS
    sets_timestamps = False

    def write(
        self, servers: str, topic: str, messages: Sequence[Message], *, codec: str = "none", acks: int | str = "all"
    ) -> list[int]:
        (headers,) = {message.headers for message in messages}
        options = [option for name, value in headers for option in ("-H", f"{name}={(value or b'').decode()}")]
        lines = b"".join(b"%b\t%b\n" % (message.key or b"", message.value or b"") for message in messages)
        run_kcat(
            *("-P", "-b", servers, "-t", topic, "-p", "0", "-K", "\t", "-Z", "-z", codec, *options),
            *("-X", f"acks={acks}", "-X", f"linger.ms={LINGER_MS}"),
            stdin=lines,
        )
        return list(range(len(messages)))

    def read(
        self, servers: str, topic: str, from_offset: int = 0, partition: int = 0, isolation: str = READ_UNCOMMITTED
    ) -> list[Seen]:
        output = run_kcat(
            *("-C", "-b", servers, "-t", topic, "-p", str(partition), "-o", str(from_offset), "-e", "-q", "-J"),
            *("-X", "check.crcs=true", "-X", f"isolation.level={isolation}"),
        )
        return [self._seen(json.loads(line)) for line in output.splitlines()]

    @staticmethod
    def _seen(record: dict[str, Any]) -> Seen:
        names_and_values = record.get("headers", [])
        headers = tuple(
            (name, None if value is None else value.encode())
            for name, value in zip(names_and_values[::2], names_and_values[1::2], strict=True)
        )
        value, key = (None if record[part] is None else record[part].encode() for part in ("payload", "key"))
        return Seen(record["offset"], Message(value, key, headers, record["ts"]))


def run_kcat(*arguments: str, stdin: bytes = b"") -> bytes:
    """What kcat prints. A failure shows what it complained about."""
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    done = subprocess.run(
        ["kcat", *arguments, *secured_run.kcat_options(arguments)],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def _seen(record: Any) -> Seen:
    """A record of aiokafka or kafka-python."""
    return Seen(record.offset, Message(record.value, record.key, tuple(record.headers), record.timestamp))


PYTHON_CLIENTS: tuple[Client, ...] = (Confluent(), Aiokafka(), KafkaPython())
CLIENTS: tuple[Client, ...] = (*PYTHON_CLIENTS, Kcat())


def client_name(client: Client) -> str:
    """For the ids of parametrised tests."""
    return client.name

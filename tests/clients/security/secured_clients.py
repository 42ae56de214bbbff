"""The clients that judge us, each told in its own spelling how to log in: write one record, read it back.

What a client raises when it cannot write becomes `NotLetIn`. Why that was some of them say in their log alone.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import aiokafka.errors
import kafka.errors
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from headrace.client.connections.cluster import ClusterSettings, system_cluster
from headrace.client.errors import AuthenticationFailed
from headrace.client.producing.producer import BatchingProducer
from headrace.client.reading.consumer import AssignedConsumer
from headrace.client.security.settings import parse_security
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.certificates import Held

PATIENCE_S: Final = 60.0
PATIENCE_MS: Final = 60_000
PAUSE_S: Final = 0.05  # between two records
TRIES_MS: Final = 3_000  # kafka-python logs in again and again until it gives up, and then does not say why


class NotLetIn(Exception):
    """Its text is what the client says."""


class Way(NamedTuple):
    """How to log in."""

    protocol: str
    ca: str
    mechanism: str = ""
    name: str = ""
    secret: str = ""
    """A password, or a token."""
    shown: Held | None = None
    """A certificate of its own."""

    def context(self) -> ssl.SSLContext | None:
        if not self.protocol.endswith("SSL"):
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.shown is not None:
            context.load_cert_chain(self.shown.certificate, self.shown.key)
        return context


class Client(Protocol):
    name: str

    def write(self, servers: str, way: Way, topic: str, value: bytes) -> None: ...

    def read(self, servers: str, way: Way, topic: str) -> bytes:
        """The first record."""
        ...


class Lasting(Client, Protocol):
    """A client that is no command."""

    renews: bool
    """Whether it logs in again on the same connection before its session ends."""

    def write_on(self, servers: str, way: Way, topic: str, is_enough: Callable[[], bool]) -> int:
        """One record after the other by the same producer; how many, each of which was acknowledged."""
        ...


class Ours:
    name = "headrace"
    renews = True

    def write(self, servers: str, way: Way, topic: str, value: bytes) -> None:
        asyncio.run(self._asked(servers, way, topic, value))

    def read(self, servers: str, way: Way, topic: str) -> bytes:
        return asyncio.run(self._asked(servers, way, topic, None))

    def write_on(self, servers: str, way: Way, topic: str, is_enough: Callable[[], bool]) -> int:
        return asyncio.run(self._write_on(servers, self._settings(way), topic, is_enough))

    async def _write_on(
        self, servers: str, settings: ClusterSettings, topic: str, is_enough: Callable[[], bool]
    ) -> int:
        count = 0
        async with system_cluster(servers, settings) as cluster, BatchingProducer(cluster) as producer:
            while not is_enough():
                await (await producer.send(topic, None, b"on and on"))
                count += 1
                await asyncio.sleep(PAUSE_S)
        return count

    def _settings(self, way: Way) -> ClusterSettings:
        settings = {"security.protocol": way.protocol}
        if way.protocol.endswith("SSL"):
            settings["ssl.ca.location"] = way.ca
        if way.shown is not None:
            settings["ssl.certificate.location"] = str(way.shown.certificate)
            settings["ssl.key.location"] = str(way.shown.key)
        if way.mechanism == "OAUTHBEARER":
            settings |= {"sasl.mechanism": way.mechanism, "sasl.oauthbearer.token": way.secret}
        elif way.mechanism:
            settings |= {"sasl.mechanism": way.mechanism, "sasl.username": way.name, "sasl.password": way.secret}
        return ClusterSettings(security=parse_security(settings))

    async def _asked(self, servers: str, way: Way, topic: str, value: bytes | None) -> bytes:
        try:
            async with system_cluster(servers, self._settings(way)) as cluster:
                if value is None:
                    return await self._first(AssignedConsumer(cluster), topic)
                async with BatchingProducer(cluster) as producer:
                    await (await producer.send(topic, None, value))
                return value
        except AuthenticationFailed as refused:
            raise NotLetIn(str(refused)) from refused

    async def _first(self, consumer: AssignedConsumer, topic: str) -> bytes:
        async with consumer:
            await consumer.assign({TopicPartition(topic, 0): 0})
            ((record,),) = (await consumer.poll(wait_s=PATIENCE_S)).values()
            assert record.value is not None
            return record.value


class Confluent:
    name = "confluent-kafka"
    renews = True

    def write(self, servers: str, way: Way, topic: str, value: bytes) -> None:
        troubles: list[KafkaError] = []
        producer = Producer(self._settings(servers, way, troubles))
        delivered: list[bool] = []
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: delivered.append(error is None))
        deadline_s = time.monotonic() + PATIENCE_S
        try:
            while not delivered and time.monotonic() < deadline_s:
                producer.poll(0.1)
                self._look_at(troubles)
            assert delivered == [True]
        finally:
            producer.purge()  # else it tries on, for as long as somebody looks at the error
            producer.close()

    def write_on(self, servers: str, way: Way, topic: str, is_enough: Callable[[], bool]) -> int:
        producer = Producer(self._settings(servers, way, []))
        delivered: list[bool] = []
        count = 0
        while not is_enough():
            producer.produce(topic, b"on and on", on_delivery=lambda error, _: delivered.append(error is None))
            count += 1
            producer.poll(PAUSE_S)
        assert producer.flush(PATIENCE_S) == 0
        assert delivered == [True] * count
        return count

    def read(self, servers: str, way: Way, topic: str) -> bytes:
        troubles: list[KafkaError] = []
        consumer = Consumer({**self._settings(servers, way, troubles), "group.id": "nobody"})
        consumer.assign([ConfluentPartition(topic, 0, 0)])
        message = consumer.poll(PATIENCE_S)
        consumer.close()
        self._look_at(troubles)
        assert message is not None
        assert message.error() is None, message.error()
        return bytes(message.value())

    def _settings(self, servers: str, way: Way, troubles: list[KafkaError]) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "security.protocol": way.protocol,
            "error_cb": troubles.append,
        }
        if way.protocol.endswith("SSL"):
            settings["ssl.ca.location"] = way.ca
        if way.shown is not None:
            settings |= {
                "ssl.certificate.location": str(way.shown.certificate),
                "ssl.key.location": str(way.shown.key),
            }
        if way.mechanism == "OAUTHBEARER":
            settings |= {"sasl.mechanism": way.mechanism, "oauth_cb": lambda _: (way.secret, time.time() + 3600)}
        elif way.mechanism:
            settings |= {"sasl.mechanism": way.mechanism, "sasl.username": way.name, "sasl.password": way.secret}
        return settings

    def _look_at(self, troubles: list[KafkaError]) -> None:
        for trouble in troubles:
            if trouble.code() in {KafkaError._AUTHENTICATION, KafkaError._SSL}:
                raise NotLetIn(trouble.str())


class _AiokafkaToken(AiokafkaTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class Aiokafka:
    name = "aiokafka"
    renews = False

    def write(self, servers: str, way: Way, topic: str, value: bytes) -> None:
        asyncio.run(self._write(servers, way, topic, value))

    def read(self, servers: str, way: Way, topic: str) -> bytes:
        return asyncio.run(self._read(servers, way, topic))

    async def _write(self, servers: str, way: Way, topic: str, value: bytes) -> None:
        producer = AIOKafkaProducer(**self._settings(servers, way))
        try:
            await producer.start()
            await producer.send_and_wait(topic, value, partition=0)
        except aiokafka.errors.KafkaError as error:
            raise NotLetIn(f"{error!r} {error.__cause__!r}") from error
        finally:
            await producer.stop()

    def write_on(self, servers: str, way: Way, topic: str, is_enough: Callable[[], bool]) -> int:
        return asyncio.run(self._write_on(servers, way, topic, is_enough))

    async def _write_on(self, servers: str, way: Way, topic: str, is_enough: Callable[[], bool]) -> int:
        count = 0
        async with AIOKafkaProducer(**self._settings(servers, way)) as producer:
            while not is_enough():
                await producer.send_and_wait(topic, b"on and on")
                count += 1
                await asyncio.sleep(PAUSE_S)
        return count

    async def _read(self, servers: str, way: Way, topic: str) -> bytes:
        async with AIOKafkaConsumer(**self._settings(servers, way)) as consumer:
            place = AiokafkaPartition(topic, 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            record = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
            return bytes(record.value)

    def _settings(self, servers: str, way: Way) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": servers, "security_protocol": way.protocol}
        settings["ssl_context"] = way.context()
        if way.mechanism == "OAUTHBEARER":
            settings |= {"sasl_mechanism": way.mechanism, "sasl_oauth_token_provider": _AiokafkaToken(way.secret)}
        elif way.mechanism:
            settings |= {"sasl_mechanism": way.mechanism, "sasl_plain_username": way.name}
            settings["sasl_plain_password"] = way.secret
        return settings


class _KafkaPythonToken(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


class KafkaPython:
    name = "kafka-python"
    renews = True

    def write(self, servers: str, way: Way, topic: str, value: bytes) -> None:
        try:
            producer = KafkaProducer(**self._settings(servers, way), bootstrap_timeout_ms=TRIES_MS)
            producer.send(topic, value, partition=0).get(PATIENCE_S)
        except kafka.errors.KafkaError as error:
            raise NotLetIn(repr(error)) from error
        producer.close()

    def write_on(self, servers: str, way: Way, topic: str, is_enough: Callable[[], bool]) -> int:
        producer = KafkaProducer(**self._settings(servers, way))
        count = 0
        while not is_enough():
            producer.send(topic, b"on and on").get(PATIENCE_S)
            count += 1
            time.sleep(PAUSE_S)
        producer.close()
        return count

    def read(self, servers: str, way: Way, topic: str) -> bytes:
        consumer = KafkaConsumer(**self._settings(servers, way))
        place = KafkaPythonPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        ((record, *_),) = consumer.poll(PATIENCE_MS).values()
        consumer.close()
        return bytes(record.value)

    def _settings(self, servers: str, way: Way) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": servers, "security_protocol": way.protocol}
        settings["ssl_context"] = way.context()
        if way.mechanism == "OAUTHBEARER":
            settings |= {"sasl_mechanism": way.mechanism, "sasl_oauth_token_provider": _KafkaPythonToken(way.secret)}
        elif way.mechanism:
            settings |= {"sasl_mechanism": way.mechanism, "sasl_plain_username": way.name}
            settings["sasl_plain_password"] = way.secret
        return settings


class Kcat:
    """Of a Linux distribution, over a librdkafka of 2023."""

    name = "kcat"

    def write(self, servers: str, way: Way, topic: str, value: bytes) -> None:
        self._run("-P", "-t", topic, "-p", "0", *self._settings(servers, way), stdin=value)

    def read(self, servers: str, way: Way, topic: str) -> bytes:
        return self._run("-C", "-q", "-e", "-D", "", "-t", topic, "-p", "0", *self._settings(servers, way))

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        if shutil.which("kcat") is None:
            pytest.skip("kcat is not installed")
        done = subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)
        if done.returncode != 0:
            raise NotLetIn(done.stderr.decode())
        return done.stdout

    def _settings(self, servers: str, way: Way) -> list[str]:
        if way.mechanism == "OAUTHBEARER":
            pytest.skip("kcat makes tokens of its own, which nobody has signed; it takes none from a file")
        settings = {"security.protocol": way.protocol}
        if way.protocol.endswith("SSL"):
            settings["ssl.ca.location"] = way.ca
        if way.shown is not None:
            settings["ssl.certificate.location"] = str(way.shown.certificate)
            settings["ssl.key.location"] = str(way.shown.key)
        if way.mechanism:
            settings |= {"sasl.mechanism": way.mechanism, "sasl.username": way.name, "sasl.password": way.secret}
        return ["-b", servers, *(part for name, value in settings.items() for part in ("-X", f"{name}={value}"))]


LASTING: tuple[Lasting, ...] = (Ours(), Confluent(), Aiokafka(), KafkaPython())
CLIENTS: tuple[Client, ...] = (*LASTING, Kcat())

"""The clients that have transactions, behind one small face: begin, send, commit or abort.

Nothing about the clients is changed; only their spelling differs. kcat has none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import InvalidProducerEpochError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.clients.nodes import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

TIMEOUT_MS = 60_000  # of a transaction, where a test does not wait for it


class TransactionalProducer(Protocol):
    """One that owns its transactional id as soon as it is made."""

    def begin(self) -> None: ...

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Send, and wait until all of it is written."""
        ...

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...

    def is_fencing(self, error: Exception) -> bool:
        """Whether a client says by this that another one has its id now, or that its time was over."""
        ...


class ConfluentProducer:
    """confluent-kafka, which is librdkafka."""

    def __init__(
        self, servers: str, transactional_id: str, *, codec: str = "none", timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self._servers = servers
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "compression.type": codec,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(PATIENCE_S)

    @staticmethod
    def is_fencing(error: Exception) -> bool:
        return isinstance(error, KafkaException) and error.args[0].code() in {
            KafkaError._FENCED,
            KafkaError.PRODUCER_FENCED,
            KafkaError.INVALID_PRODUCER_EPOCH,
        }

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                errors.append(error)

        for value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=delivered)
        try:
            assert self._producer.flush(PATIENCE_S) == 0
        except SystemError as misplaced:
            # A fatal error that arrives during `flush` is raised in the midst of another callback; Python wraps it.
            if isinstance(misplaced.__cause__, KafkaException):
                raise misplaced.__cause__ from None
            raise
        if errors:
            raise KafkaException(errors[0])

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": group})
        places = [ConfluentPartition(topic, partition, offset) for partition, offset in offsets.items()]
        try:
            self._producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), PATIENCE_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        """It goes with the last reference to it."""


class AiokafkaProducer:
    """In an event loop of its own, which stands still between two calls."""

    def __init__(
        self, servers: str, transactional_id: str, *, codec: str = "none", timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self._runner = asyncio.Runner()
        self._producer: Any = None
        self._run(lambda: self._start(servers, transactional_id, codec, timeout_ms))

    async def _start(self, servers: str, transactional_id: str, codec: str, timeout_ms: int) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            compression_type=None if codec == "none" else codec,
        )
        await self._producer.start()

    def _run(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def within_patience() -> None:
            await asyncio.wait_for(call(), PATIENCE_S)

        self._runner.run(within_patience())

    @staticmethod
    def is_fencing(error: Exception) -> bool:
        return isinstance(error, ProducerFenced)

    def begin(self) -> None:
        self._run(self._producer.begin_transaction)

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        async def send_all() -> None:
            sent = [await self._producer.send(topic, value, partition=partition) for value in values]
            await asyncio.gather(*sent)

        self._run(send_all)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        places = {AiokafkaPartition(topic, partition): offset for partition, offset in offsets.items()}
        self._run(lambda: self._producer.send_offsets_to_transaction(places, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction)

    def abort(self) -> None:
        self._run(self._producer.abort_transaction)

    def close(self) -> None:
        self._run(self._producer.stop)
        self._runner.close()


class KafkaPythonProducer:
    """kafka-python, which has transactions from version 2.1 on."""

    def __init__(
        self, servers: str, transactional_id: str, *, codec: str = "none", timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            compression_type=None if codec == "none" else codec,
        )
        self._producer.init_transactions()

    @staticmethod
    def is_fencing(error: Exception) -> bool:
        return isinstance(error, ProducerFencedError | InvalidProducerEpochError)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        sent = [self._producer.send(topic, value, partition=partition) for value in values]
        self._producer.flush(PATIENCE_S)
        for future in sent:
            future.get(PATIENCE_S)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        places = {
            KafkaPythonPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(places, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(PATIENCE_S)


PRODUCERS: dict[str, Callable[..., TransactionalProducer]] = {
    "confluent-kafka": ConfluentProducer,
    "aiokafka": AiokafkaProducer,
    "kafka-python": KafkaPythonProducer,
}

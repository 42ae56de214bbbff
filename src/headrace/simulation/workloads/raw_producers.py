"""Producers that speak the protocol themselves: five requests in flight, and requests that are tried only once.

The production client keeps one batch per partition under way and tries again until it is sure. Other clients do not,
and the node must keep its promises to them too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.client.connections.connection import Connection
from headrace.client.errors import ClientError, refuse_unless_ok
from headrace.model.errors import ErrorCode, Refusal
from headrace.simulation.history.history import ACKS_ALL_IDEMPOTENT, Promise
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

if TYPE_CHECKING:
    from random import Random

    from headrace.model.names import TopicPartition
    from headrace.runtime.world import World
    from headrace.simulation.history.history import Send
    from headrace.simulation.workloads.context import WorkloadContext

VERSION = 12  # the last that names topics
IN_FLIGHT_MAX = 5  # what Kafka's clients allow an idempotent producer
REQUEST_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 2.0
NODE_TIMEOUT_MS = 4_000
ACKS_ALL = -1
TRANSACTION_TIMEOUT_MS = 60_000
LAST_WORDS_S = 10.0  # how long a producer still waits for answers once the run is over

_PERHAPS_WRITTEN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # said too by one that led and wrote it; the next leader may have it
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # also from a leader that has written it, and waited when another took over
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


class _IdentityLost(Exception):
    """The node does not know how to go on with this producer; only a new one can."""


@dataclass(slots=True, eq=False)
class _Batch:
    encoded: bytearray
    sends: list[Send]

    def ok(self, base_offset: int) -> None:
        for place, send in enumerate(self.sends):
            send.ok(base_offset + place if base_offset >= 0 else -1)


async def produce_pipelined(context: WorkloadContext, name: str) -> None:
    """An idempotent producer with five requests in flight; after trouble it sends all that is unanswered again."""
    producer: _PipeliningProducer | None = None
    while not context.is_over() or (producer is not None and producer.may_still_finish):
        try:
            wanted = context.open_partitions[0] if producer is None else producer.partition
            connection = await _connect(context, name, wanted)
        except (ClientError, Refusal):
            await asyncio.sleep(context.poll_s(0.2))
            continue
        try:
            if producer is None:
                producer = await _new_producer(context, name, connection)
            await producer.run(connection)
            producer = None
        except _IdentityLost:
            producer = None
        except (ClientError, Refusal):
            await asyncio.sleep(context.poll_s(0.1))
        finally:
            connection.close()


async def _new_producer(context: WorkloadContext, name: str, connection: Connection) -> _PipeliningProducer:
    answer = await connection.request(InitProducerIdRequest(None, TRANSACTION_TIMEOUT_MS), InitProducerIdResponse)
    refuse_unless_ok(answer.error_code, "InitProducerId")
    context.history.got_producer_id(answer.producer_id)
    partition = context.random(f"{name}/{answer.producer_id}").choice(context.open_partitions)
    return _PipeliningProducer(context, f"{name}.{answer.producer_id}", answer.producer_id, partition)


class _PipeliningProducer:
    """One identity's batches to one partition. It ends when it has sent enough, or the run is over."""

    def __init__(self, context: WorkloadContext, name: str, producer_id: int, partition: TopicPartition) -> None:
        self._context = context
        self._name = name
        self._producer_id = producer_id
        self.partition = partition
        self._chance = context.random(name)
        self._clock = context.world(name.split(".", maxsplit=1)[0]).clock
        self._next_sequence = 0
        self._batches_left = self._chance.randint(1, 150)
        self._unanswered: deque[_Batch] = deque()
        self._deadline_s: float | None = None

    @property
    def may_still_finish(self) -> bool:
        """Batches are under way, and it is not yet too late to learn what became of them."""
        if self._deadline_s is None:
            self._deadline_s = self._clock.monotonic_s() + LAST_WORDS_S
        return bool(self._unanswered) and self._clock.monotonic_s() < self._deadline_s

    async def run(self, connection: Connection) -> None:
        """Send and wait for answers until nothing is left. Trouble is raised, and the caller comes again."""
        unsent = deque(self._unanswered)
        in_flight: deque[tuple[_Batch, asyncio.Task[ProduceResponse]]] = deque()
        try:
            while True:
                while len(in_flight) < IN_FLIGHT_MAX and (unsent or self._has_more):
                    batch = unsent.popleft() if unsent else self._new_batch()
                    in_flight.append((batch, self._start(connection, batch)))
                    if self._chance.random() < 0.1 * self._context.pace:
                        await asyncio.sleep(self._chance.choice((0.2, 1.0, 2.0)))
                if not in_flight:
                    return
                batch, asked = in_flight.popleft()
                await self._settle(batch, await asked)
        finally:
            for _, asked in in_flight:
                asked.cancel()

    @property
    def _has_more(self) -> bool:
        return self._batches_left > 0 and not self._context.is_over()

    def _new_batch(self) -> _Batch:
        self._batches_left -= 1
        history = self._context.history
        sends = []
        for _ in range(self._chance.randint(1, 4)):
            value = self._context.value(self._name, self._chance)
            number = history.next_number(self._name)
            sends.append(history.begin(self._name, self.partition, number, value, ACKS_ALL_IDEMPOTENT))
        now_ms = self._clock.wall_ms()
        encoded = encode_batch(
            [(now_ms, None, send.value, ()) for send in sends],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._next_sequence,
        )
        self._next_sequence += len(sends)
        batch = _Batch(encoded, sends)
        self._unanswered.append(batch)
        return batch

    def _start(self, connection: Connection, batch: _Batch) -> asyncio.Task[ProduceResponse]:
        return _ask(connection, _request({self.partition: batch.encoded}, ACKS_ALL))

    async def _settle(self, batch: _Batch, answer: ProduceResponse) -> None:
        result = answer.responses[0].partition_responses[0]
        if result.error_code == ErrorCode.NONE:
            batch.ok(result.base_offset)
        elif result.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            batch.ok(-1)
        else:
            code = ErrorCode(result.error_code)
            # Answers come in order, so this is the first batch that is unanswered: nothing before it is missing.
            if not code.is_retriable:
                raise _IdentityLost(code.name)
            raise Refusal(code, "try again")
        self._unanswered.popleft()


async def produce_bluntly(context: WorkloadContext, name: str) -> None:
    """Requests for several partitions, tried once, whatever comes of them; two at a time."""
    chance = context.random(name)
    number = 0
    while not context.is_over():
        number += 1
        with suppress(ClientError, Refusal):
            wanted = context.open_partitions[number % len(context.open_partitions)]
            connection = await _connect(context, name, wanted)
            try:
                for _ in range(chance.randint(1, 30)):
                    if context.is_over():
                        break
                    await _try_once(context, f"{name}.{number}", connection)
                    await context.rest_between(chance.choice((0.05, 0.3, 1.0)))
            finally:
                connection.close()
        await context.rest(0.1)


async def _try_once(context: WorkloadContext, name: str, connection: Connection) -> None:
    chance = context.random(f"{name}/{context.history.next_number(name)}")
    acks = chance.choice((ACKS_ALL, ACKS_ALL, 1))
    promise = Promise(is_durable=acks == ACKS_ALL, is_idempotent=False, orders_unknown=False)
    now_ms = context.world(name.split(".", maxsplit=1)[0]).clock.wall_ms()
    exchanges: list[tuple[dict[TopicPartition, Send], asyncio.Task[ProduceResponse]]] = []
    for _ in range(2):
        sends: dict[TopicPartition, Send] = {}
        batches: dict[TopicPartition, bytearray] = {}
        for partition in _draw_partitions(context, chance):
            value = context.value(name, chance)
            sends[partition] = context.history.begin(name, partition, context.history.next_number(name), value, promise)
            batches[partition] = encode_batch([(now_ms, None, value, ())])
        exchanges.append((sends, _ask(connection, _request(batches, acks))))
    try:
        for sends, asked in exchanges:
            _note_outcomes(sends, await asked)
    finally:
        for _, asked in exchanges:
            asked.cancel()


def _draw_partitions(context: WorkloadContext, chance: Random) -> list[TopicPartition]:
    partitions = context.open_partitions
    return chance.sample(partitions, chance.randint(1, len(partitions)))


def _note_outcomes(sends: dict[TopicPartition, Send], answer: ProduceResponse) -> None:
    for topic in answer.responses:
        for result in topic.partition_responses:
            send = next(send for place, send in sends.items() if place == (topic.name, result.index))
            if result.error_code == ErrorCode.NONE:
                send.ok(result.base_offset)
            elif result.error_code not in _PERHAPS_WRITTEN:
                send.failed()


async def take_producer_ids(context: WorkloadContext, name: str) -> None:
    """No producer id is ever given to two."""
    chance = context.random(name)
    while not context.is_over():
        with suppress(ClientError, Refusal):
            connection = await _connect(context, name, context.open_partitions[0])
            try:
                for _ in range(chance.randint(1, 5)):
                    request = InitProducerIdRequest(None, TRANSACTION_TIMEOUT_MS)
                    answer = await connection.request(request, InitProducerIdResponse)
                    if answer.error_code == ErrorCode.NONE:
                        context.history.got_producer_id(answer.producer_id)
            finally:
                connection.close()
        await context.rest_between(chance.uniform(0.1, 3.0))


async def _connect(context: WorkloadContext, name: str, partition: TopicPartition) -> Connection:
    """To whoever leads `partition`, or so it is believed."""
    world: World = context.world(name)
    return await Connection.open(
        world.network,
        context.cluster.address_for(partition, context.random(f"{name}/{context.now_s}")),
        client_id=name,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        request_timeout_s=REQUEST_TIMEOUT_S,
    )


def _ask(connection: Connection, request: ProduceRequest) -> asyncio.Task[ProduceResponse]:
    """Sent in the order of the calls. The answer may be left alone: what comes of it is then unknown."""
    work = connection.request(request, ProduceResponse, version=VERSION)
    asked = asyncio.get_running_loop().create_task(work)
    asked.add_done_callback(lambda task: task.cancelled() or task.exception())
    return asked


def _request(batches: dict[TopicPartition, bytearray], acks: int) -> ProduceRequest:
    topics: dict[str, TopicProduceData] = {}
    for partition, encoded in batches.items():
        topic = topics.setdefault(partition.topic, TopicProduceData(partition.topic))
        topic.partition_data.append(PartitionProduceData(partition.partition, memoryview(encoded)))
    return ProduceRequest(None, acks, NODE_TIMEOUT_MS, list(topics.values()))

"""Copies messages from topic to topic, exactly once: the copies and the group's positions share a transaction."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from headrace.cli.messages.group_reading import (
    ASSIGNMENT_OVER,
    complain_of_rest,
    ends_of,
    in_order,
    is_finished,
    member,
    share_of,
    wait_s,
)
from headrace.cli.messages.leaderless import LeaderWatch
from headrace.cli.terminal.output import plural, talk
from headrace.client.errors import ClientError, TransactionAborted
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.client.producing.transactions import Outcome
from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.tasks import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.cli.messages.consume import Membership
    from headrace.cli.messages.deduplication import Batch
    from headrace.cli.messages.partition_reading import Reading, Tally
    from headrace.client.connections.cluster import Cluster
    from headrace.client.groups.group_consumer import GroupConsumer
    from headrace.model.names import TopicPartition

TRANSACTION_TIMEOUT_MS = 10_000  # a poll's worth is copied in far less; a copier that died holds up nobody for longer

WORTH_ANOTHER = {*ASSIGNMENT_OVER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
"""Why a transaction may be aborted without anything being wrong: the group was shared out anew, or it took too long."""


class Undone(Exception):
    """A transaction was aborted. Its messages are read again from the positions that the group has."""


async def copy_in_group(cluster: Cluster, reading: Reading, membership: Membership, tally: Tally) -> None:
    assert membership.to_topic is not None
    if membership.to_topic == reading.topic:
        raise click.UsageError(
            f"--to-topic {reading.topic} is where the messages come from: the copies would be copied"
        )
    await cluster.topic(membership.to_topic)  # a wrong name is told before anybody joins a group
    ends = await ends_of(cluster, reading)
    watch = LeaderWatch(cluster)
    settings = ProducerSettings(
        transactional_id=membership.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )
    async with BatchingProducer(cluster, settings) as producer:
        is_done = False
        while not is_done:
            try:
                async with member(cluster, reading, membership) as consumer:
                    copying = Copying(cluster, producer, consumer, membership.to_topic, tally)
                    while tally.left > 0 and not is_finished(consumer, ends, watch):
                        await copying.copy_next(min(reading.poll_records, tally.left), wait_s(reading))
                        await watch.look(share_of(consumer))
                is_done = True
            except Undone as undone:
                talk(f"a transaction was aborted, and what it copied is read again: {undone}")
    if tally.left > 0:
        complain_of_rest(cluster, reading, ends, watch)


class Copying:
    """One membership's worth: poll, copy, store, until it ends or a transaction is aborted."""

    def __init__(
        self, cluster: Cluster, producer: BatchingProducer, consumer: GroupConsumer, to_topic: str, tally: Tally
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._consumer = consumer
        self._to_topic = to_topic
        self._tally = tally
        self._stored: dict[TopicPartition, int] = {}

    async def copy_next(self, max_records: int, poll_wait_s: float) -> None:
        taken = await self._consumer.poll(max_records, poll_wait_s)
        # Also without messages: a position steps over the marks that transactions leave in a log.
        moved = {name: place for name, place in self._consumer.assignment.items() if self._stored.get(name) != place}
        if moved:
            await uninterrupted(self._copy(in_order(taken), moved), self._cluster.hurry)

    async def _copy(self, batch: Batch, positions: Mapping[TopicPartition, int]) -> None:
        fresh = self._tally.fresh(batch)
        try:
            async with self._producer.transaction():
                for _, record in fresh:
                    await self._producer.send(
                        self._to_topic,
                        record.key,
                        record.value,
                        headers=record.headers,
                        timestamp_ms=record.timestamp,
                    )
                await self._producer.send_offsets(positions, self._consumer.group_metadata)
        except TransactionAborted as aborted:
            cause = aborted.__cause__
            if cause is None or not self._is_worth_another(cause):
                raise
            if self._tally.repeats is not None:
                self._tally.repeats.take_back()
            raise Undone(str(cause)) from aborted
        finally:  # also whoever is stopped in the middle says what was copied
            self._count(len(fresh))
        self._stored.update(positions)

    def _is_worth_another(self, cause: BaseException) -> bool:
        """Also if it was lost to nodes that are waited for as long as it takes: a producer does not wait for ever."""
        if isinstance(cause, Refusal):
            return cause.code in WORTH_ANOTHER
        cluster = self._cluster
        return (
            isinstance(cause, ClientError) and cluster.is_retriable(cause) and cluster.retry_limit_s(cause) == math.inf
        )

    def _count(self, message_count: int) -> None:
        match self._producer.transaction_outcome:
            case Outcome.COMMITTED:
                self._tally.count += message_count
            case Outcome.UNKNOWN:
                talk(
                    f"whether the last {plural(message_count, 'message')} were copied is not known; if they were, the "
                    "group's positions have moved with them, so the next run neither loses nor repeats any"
                )
            case Outcome.NOT_COMMITTED:
                pass

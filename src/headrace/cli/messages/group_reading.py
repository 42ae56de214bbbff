"""Prints what a group hands to this member, with positions stored before (at most once) or after (at least once).

Printing and storing are one step that Ctrl-C waits for: whoever stops in an orderly way neither loses nor repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.messages.leaderless import LeaderWatch, is_leaderless, not_read
from headrace.cli.messages.partition_reading import POLL_WAIT_S
from headrace.cli.terminal.delivery import Delivery
from headrace.cli.terminal.output import plural, talk
from headrace.client.groups.group_consumer import GroupConsumer, GroupConsumerSettings
from headrace.client.reading.consumer import ConsumerSettings
from headrace.client.reading.offsets import find_bounds
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.runtime.tasks import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.cli.messages.consume import Membership
    from headrace.cli.messages.deduplication import Batch
    from headrace.cli.messages.partition_reading import Printing, Reading
    from headrace.client.connections.cluster import Cluster
    from headrace.wire.batches.records import Record

    Taken = Mapping[TopicPartition, list[Record]]

LAST_POLL_WAIT_S = 0.05

ASSIGNMENT_OVER = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
}
"""The group shares out its partitions anew. What was read meanwhile is another member's by now, or ours again."""


async def read_in_group(cluster: Cluster, reading: Reading, membership: Membership, printing: Printing) -> None:
    ends = await ends_of(cluster, reading)
    watch = LeaderWatch(cluster)
    step = _store_then_print if membership.delivery is Delivery.AT_MOST_ONCE else _print_then_store
    async with member(cluster, reading, membership) as consumer:
        while printing.tally.left > 0 and not is_finished(consumer, ends, watch):
            taken = await consumer.poll(min(reading.poll_records, printing.tally.left), wait_s(reading))
            # Also without messages: a position steps over the marks that transactions leave in a log.
            await uninterrupted(step(consumer, taken, printing), cluster.hurry)
            await watch.look(share_of(consumer))
    if printing.tally.left > 0:
        complain_of_rest(cluster, reading, ends, watch)


async def _store_then_print(consumer: GroupConsumer, taken: Taken, printing: Printing) -> None:
    """What no stored position covers is not printed: it comes again, here or at another member."""
    if await _is_stored(consumer):
        printing.print(in_order(taken))


async def _print_then_store(consumer: GroupConsumer, taken: Taken, printing: Printing) -> None:
    printing.print(in_order(taken))
    if not await _is_stored(consumer) and taken:
        count = plural(sum(map(len, taken.values())), "message")
        talk(f"the group was rebalanced before positions were stored: up to {count} may be printed again")


async def _is_stored(consumer: GroupConsumer) -> bool:
    """False if the partitions are not ours any more."""
    try:
        await consumer.commit()
    except Refusal as refusal:
        if refusal.code not in ASSIGNMENT_OVER:
            raise
        return False
    return True


# What copying shares with printing.


def member(cluster: Cluster, reading: Reading, membership: Membership) -> GroupConsumer:
    settings = GroupConsumerSettings(
        start=reading.edge,
        isolation=reading.isolation,
        instance_id=membership.instance_id,
        reading=ConsumerSettings(waits_for_leaders=True),
    )
    return GroupConsumer(cluster, membership.group_id, [reading.topic], settings)


async def ends_of(cluster: Cluster, reading: Reading) -> dict[TopicPartition, int] | None:
    """How far to read: to the ends as they are now, or, whoever follows, for ever. One without a leader has none."""
    topic = await cluster.topic(reading.topic)  # a wrong name is told before anybody joins a group
    if reading.is_following:
        return None
    names = [TopicPartition(topic.name, part.index) for part in topic.partitions]
    try:
        bounds = await find_bounds(cluster, names, reading.isolation)
    except Refusal as refusal:
        led = [name for name in names if not is_leaderless(cluster, name)]
        if refusal.code is not ErrorCode.LEADER_NOT_AVAILABLE or not led:
            raise
        bounds = await find_bounds(cluster, led, reading.isolation)
    return {name: end for name, (_, end) in bounds.items()}


def is_finished(consumer: GroupConsumer, ends: Mapping[TopicPartition, int] | None, watch: LeaderWatch) -> bool:
    """True if this member has read all that it was given up to the ends. Another member's share is not waited for."""
    if ends is None or not consumer.is_joined:
        return False
    left = [name for name, position in consumer.assignment.items() if position < ends.get(name, 0)]
    return set(left) <= set(watch.given_up)


def share_of(consumer: GroupConsumer) -> list[TopicPartition]:
    return [*consumer.assignment, *consumer.without_leader]


def complain_of_rest(
    cluster: Cluster, reading: Reading, ends: Mapping[TopicPartition, int] | None, watch: LeaderWatch
) -> None:
    """Raises unless everything has a leader, at the end of all that could be read."""
    topic = cluster.view.topics.get(reading.topic)
    if ends is None or topic is None:
        return
    names = [TopicPartition(topic.name, part.index) for part in topic.partitions]
    rest = {name for name in names if name not in ends} | set(watch.given_up)
    if rest:
        raise not_read(rest)


def wait_s(reading: Reading) -> float:
    """Whether all was read is looked at between two polls, so whoever stops then must not wait long for more."""
    return POLL_WAIT_S if reading.is_following else LAST_POLL_WAIT_S


def in_order(taken: Taken) -> Batch:
    return [(name, record) for name, records in taken.items() for record in records]

"""Who is to own which partition: the assignors that KIP-848 groups may choose from.

An assignor sees the members, what they subscribe to and what they were to own before, and says what they are to own
next. It decides from its arguments alone and in a fixed order, so that every node would come to the same result.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.model.names import LogId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.model.names import TopicId


class Subscriber(NamedTuple):
    """A member, as far as an assignor needs to know it."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[TopicId]
    """Of topics that exist."""
    held: frozenset[LogId]
    """What it was to own before. It may name topics that are gone or no longer subscribed to."""


Assignment = dict[str, frozenset[LogId]]
"""What each member is to own, by member id."""


def assign_range(subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]) -> Assignment:
    """Each topic is cut into neighbouring ranges, one per subscriber.

    Topics with the same subscribers and as many partitions are cut alike, which is what joins of topics need. Static
    members come first, by instance id: their place in the order survives a restart.
    """
    shares: dict[str, set[LogId]] = {subscriber.member_id: set() for subscriber in subscribers}
    for audience in _audiences(sorted(subscribers, key=_place_in_order)):
        for topic_id in audience.topic_ids:
            least, extra = divmod(partition_counts[topic_id], len(audience.members))
            first = 0
            for place, member_id in enumerate(audience.members):
                end = first + least + (place < extra)
                if first == end:
                    break  # the others get nothing either
                shares[member_id].update(LogId(topic_id, partition) for partition in range(first, end))
                first = end
    return _frozen(shares)


def assign_uniformly(subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]) -> Assignment:
    """As many partitions for each member as for the others, and as few moves as that takes.

    With equal subscriptions no member gets more than one partition more than another. With others, none could give one
    of its partitions to a subscriber that has at least two fewer.
    """
    shares = _kept(subscribers, partition_counts)
    audiences = _audiences(sorted(subscribers))
    taken = set().union(*shares.values())
    for audience in sorted(audiences, key=lambda audience: len(audience.members)):
        orphans = [
            log_id
            for topic_id in audience.topic_ids
            for log_id in (LogId(topic_id, partition) for partition in range(partition_counts[topic_id]))
            if log_id not in taken
        ]
        _hand_out(orphans, audience, shares)
    has_moved = True
    while has_moved and not _is_even(shares):
        has_moved = False
        for audience in audiences:  # what one of them moves may allow others to move more
            has_moved |= _even_out(audience, shares)
    return _frozen(shares)


ASSIGNORS: Final[dict[str, Callable[[Sequence[Subscriber], Mapping[TopicId, int]], Assignment]]] = {
    "uniform": assign_uniformly,
    "range": assign_range,
}
DEFAULT_ASSIGNOR: Final = "uniform"


def _place_in_order(subscriber: Subscriber) -> tuple[bool, str]:
    is_dynamic = subscriber.instance_id is None
    return is_dynamic, subscriber.instance_id or subscriber.member_id


class _Audience(NamedTuple):
    """Topics that have the same subscribers, and those subscribers. Mostly there is one audience: everybody."""

    topic_ids: tuple[TopicId, ...]
    members: tuple[str, ...]


def _audiences(subscribers: Sequence[Subscriber]) -> list[_Audience]:
    """Members in the order given, topics in the order of their ids."""
    places: dict[frozenset[TopicId], list[int]] = {}
    for place, subscriber in enumerate(subscribers):
        places.setdefault(subscriber.topic_ids, []).append(place)
    subscriptions_with: dict[TopicId, list[frozenset[TopicId]]] = {}
    for subscription in places:
        for topic_id in subscription:
            subscriptions_with.setdefault(topic_id, []).append(subscription)
    topics: dict[tuple[frozenset[TopicId], ...], list[TopicId]] = {}
    for topic_id in sorted(subscriptions_with):
        topics.setdefault(tuple(subscriptions_with[topic_id]), []).append(topic_id)
    return [
        _Audience(
            tuple(topic_ids),
            tuple(
                subscribers[place].member_id
                for place in sorted(place for subscription in subscriptions for place in places[subscription])
            ),
        )
        for subscriptions, topic_ids in topics.items()
    ]


def _kept(subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]) -> dict[str, set[LogId]]:
    """What members may keep of what they held."""
    shares: dict[str, set[LogId]] = {}
    taken: set[LogId] = set()
    for subscriber in sorted(subscribers):
        kept = {
            held
            for held in subscriber.held
            if held.topic_id in subscriber.topic_ids and held.partition < partition_counts[held.topic_id]
        } - taken
        taken |= kept
        shares[subscriber.member_id] = kept
    return shares


def _hand_out(orphans: Iterable[LogId], audience: _Audience, shares: dict[str, set[LogId]]) -> None:
    """Each orphan goes to the member with the least."""
    heap = [(len(shares[member_id]), member_id) for member_id in audience.members]
    heapify(heap)
    for log_id in orphans:
        size, member_id = heap[0]
        shares[member_id].add(log_id)
        heapreplace(heap, (size + 1, member_id))


def _is_even(shares: dict[str, set[LogId]]) -> bool:
    sizes = [len(share) for share in shares.values()]
    return not sizes or max(sizes) - min(sizes) <= 1


def _even_out(audience: _Audience, shares: dict[str, set[LogId]]) -> bool:
    """Who owns partitions of these topics gives some to who has at least two fewer. True if anything moved.

    Every move makes the sum of the squares of all shares smaller, so this comes to an end.
    """
    topic_ids = frozenset(audience.topic_ids)
    takers = [(len(shares[member_id]), member_id) for member_id in audience.members]
    least, _ = min(takers)
    givers = [(-size, member_id) for size, member_id in takers if size > least + 1]
    to_give = {
        member_id: sorted(log_id for log_id in shares[member_id] if log_id.topic_id in topic_ids)
        for _, member_id in givers
    }
    heapify(takers)
    heapify(givers)
    has_moved = False
    while givers:
        minus_size, giver = heappop(givers)
        size, taker = takers[0]
        if -minus_size < size + 2:
            break
        if to_give[giver]:
            log_id = to_give[giver].pop()
            shares[giver].remove(log_id)
            shares[taker].add(log_id)
            heapreplace(takers, (size + 1, taker))
            heappush(givers, (minus_size + 1, giver))
            has_moved = True
    return has_moved


def _frozen(shares: dict[str, set[LogId]]) -> Assignment:
    return {member_id: frozenset(share) for member_id, share in shares.items()}

"""How fast replicas that are not in sync may be copied: Kafka's replication throttles, as this node obeys them.

There is one bucket for what a node sends as a leader, and one for what it takes in as a follower. Both are for the
replicas alone that a topic's settings name, and only for as long as they are not in sync: one that is in sync holds
producers up if it is slow, and would soon be in sync no longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.replication.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.partitions.partition import Partition
    from headrace.model.names import LogId, NodeId
    from headrace.runtime.clock import Clock

PORTION_S: Final = 0.1  # a throttled follower asks for as much of a partition as flows in that time
PORTION_MIN: Final = 16 << 10
HELD_MAX_S: Final = 0.5  # then somebody looks again: the rate, or who is in sync, may have changed


class Throttle:
    """One direction. The rate is asked for each time: it may change while replicas move."""

    __slots__ = ("_bucket", "_clock", "_rate")

    def __init__(self, clock: Clock, rate: Callable[[], int]) -> None:
        self._clock = clock
        self._rate = rate
        self._bucket: TokenBucket | None = None

    def room(self) -> int:
        return self._now().room(self._clock.monotonic_s())

    def took(self, count: int) -> None:
        self._now().took(count, self._clock.monotonic_s())

    def ready_in_s(self) -> float:
        return min(self._now().ready_in_s(self._clock.monotonic_s()), HELD_MAX_S)

    def portion(self, most: int) -> int:
        return max(PORTION_MIN, min(most, int(self._now().rate * PORTION_S)))

    def _now(self) -> TokenBucket:
        rate = self._rate()
        if self._bucket is None:
            self._bucket = TokenBucket(rate, self._clock.monotonic_s())
        elif self._bucket.rate != rate:
            self._bucket.change_rate(rate, self._clock.monotonic_s())
        return self._bucket


class Pacing:
    """Which replicas here are fetched at a limited rate."""

    def __init__(self, node_id: NodeId, throttle: Throttle, is_in_sync: Callable[[LogId], bool]) -> None:
        self._node_id = node_id
        self._throttle = throttle
        self._is_in_sync = is_in_sync

    def throttle_of(self, partition: Partition) -> Throttle | None:
        if not partition.settings.throttles_follower(partition.index, self._node_id):
            return None
        return None if self._is_in_sync(partition.log_id) else self._throttle

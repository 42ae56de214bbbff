"""Rates, as buckets of tokens that fill with time.

Whoever uses something takes its tokens, also those that are not there yet: what is missing is a debt, and says how long
to wait. So one request may be larger than any bucket, and the rate holds on average all the same. Time is handed in,
and is a steady clock's.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

SIZE_MAX: Final = 10_000
"""Buckets in one table, some 300 bytes each. Who invents a name for each request cannot have more."""


class QuotaWindow(NamedTuple):
    """Kafka measures a rate over so many samples of so many seconds."""

    samples: int
    sample_s: int

    @property
    def total_s(self) -> float:
        return float(self.samples * self.sample_s)


class Bucket:
    """Holds what flows in `holds_s`, so that whoever was away for a moment has missed nothing."""

    __slots__ = ("_holds_s", "_level", "_rate", "_since_s")

    def __init__(self, rate: float, holds_s: float, now_s: float, *, is_full: bool = False) -> None:
        self._rate = rate
        self._holds_s = holds_s
        self._level = self._most if is_full else 0.0
        self._since_s = now_s

    @property
    def rate(self) -> float:
        return self._rate

    def change_rate(self, rate: float, now_s: float) -> None:
        """From now on. Whoever gets more does not wait for what was owed before."""
        self._fill(now_s)
        if rate > self._rate:
            self._level = max(self._level, 0.0)
        self._rate = rate
        self._level = min(self._level, self._most)

    def take(self, count: float, now_s: float) -> float:
        """Returns for how many seconds whoever took it should wait."""
        self._fill(now_s)
        self._level -= count
        return max(-self._level / self._rate, 0.0)

    def owed_s(self, now_s: float) -> float:
        """For how long nothing should be taken."""
        self._fill(now_s)
        return max(-self._level / self._rate, 0.0)

    def saved(self, now_s: float) -> float:
        """How much can be taken without a wait; negative where some is owed."""
        self._fill(now_s)
        return self._level

    @property
    def _most(self) -> float:
        return max(self._rate * self._holds_s, 1.0)

    def _fill(self, now_s: float) -> None:
        self._level = min(self._level + (now_s - self._since_s) * self._rate, self._most)
        self._since_s = now_s


KeyT = TypeVar("KeyT", bound="Hashable")


class Buckets(Generic[KeyT]):
    """One for each of those that use something. Whoever has used nothing for longest is forgotten when there are too
    many; what they owe is forgotten with them."""

    def __init__(self, holds_s: float, *, are_full: bool = False, size_max: int = SIZE_MAX) -> None:
        self._holds_s = holds_s
        self._are_full = are_full
        self._size_max = size_max
        self._buckets: OrderedDict[KeyT, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, key: KeyT, rate: float, now_s: float) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= self._size_max:
                self._buckets.popitem(last=False)
            bucket = self._buckets[key] = Bucket(rate, self._holds_s, now_s, is_full=self._are_full)
        else:
            self._buckets.move_to_end(key)
            if bucket.rate != rate:
                bucket.change_rate(rate, now_s)
        return bucket

"""Mappings that never change, and share almost everything with the mapping that they were made from.

The entries lie in buckets, which are plain dicts. A change copies one bucket and the list of them; a run of changes
copies each bucket that it touches once, see `OpenMap`. No order is promised: it follows hashes, as that of a set does.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Final, Generic, TypeVar, overload

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Other = TypeVar("Other")

BUCKET_ENTRIES: Final = 32  # at most, on average; a bucket is copied in half a microsecond then


class Map(Mapping[Key, Value]):
    __slots__ = ("_buckets", "_hash", "_size")

    def __init__(self, entries: Mapping[Key, Value] | None = None) -> None:
        entries = entries or {}
        bucket_count = 1
        while len(entries) > bucket_count * BUCKET_ENTRIES:
            bucket_count *= 2
        self._become(_spread(entries.items(), bucket_count), len(entries))

    def _become(self, buckets: list[dict[Key, Value]], size: int) -> None:
        self._buckets = tuple(buckets)
        self._size = size
        self._hash: int | None = None

    def open(self) -> OpenMap[Key, Value]:
        """For a run of changes. This map stays as it is."""
        return OpenMap(self._buckets, self._size)

    def set(self, key: Key, value: Value) -> Map[Key, Value]:
        opened = self.open()
        opened[key] = value
        return opened.close()

    def delete(self, key: Key) -> Map[Key, Value]:
        """Raises KeyError if it is not there."""
        opened = self.open()
        del opened[key]
        return opened.close()

    def keys_not_in(self, other: Map[Key, Value]) -> Iterator[Key]:
        """What two maps share is not looked at: after a few changes these are a few buckets."""
        if len(self._buckets) == len(other._buckets):
            pairs = zip(self._buckets, other._buckets, strict=True)
            return (key for mine, others in pairs if mine is not others for key in mine if key not in others)
        return (key for key in self if key not in other)

    # ---- reading: what Mapping would do through __getitem__, bucket by bucket

    def __getitem__(self, key: Key) -> Value:
        buckets = self._buckets
        return buckets[hash(key) & (len(buckets) - 1)][key]

    def __contains__(self, key: object) -> bool:
        buckets = self._buckets
        return key in buckets[hash(key) & (len(buckets) - 1)]

    @overload
    def get(self, key: Key, /) -> Value | None: ...
    @overload
    def get(self, key: Key, /, default: Value | Other) -> Value | Other: ...
    def get(self, key: Key, /, default: Value | Other | None = None) -> Value | Other | None:
        buckets = self._buckets
        return buckets[hash(key) & (len(buckets) - 1)].get(key, default)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(self._buckets)

    def items(self) -> ItemsView[Key, Value]:
        return _Items(self)

    def values(self) -> ValuesView[Value]:
        return _Values(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Map):
            return NotImplemented
        if len(self._buckets) == len(other._buckets):
            return self._buckets == other._buckets  # shared ones are the same object, and not looked into
        return self._size == other._size and dict(self.items()) == dict(other.items())

    def __hash__(self) -> int:
        """Remembered: settings are looked up by the maps that they follow from, over and over."""
        if self._hash is None:
            self._hash = hash(frozenset(self.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Map({dict(self.items())})"


class _Items(ItemsView[Key, Value]):
    _mapping: Map[Key, Value]

    def __iter__(self) -> Iterator[tuple[Key, Value]]:
        return chain.from_iterable(bucket.items() for bucket in self._mapping._buckets)


class _Values(ValuesView[Value]):
    _mapping: Map[Hashable, Value]

    def __iter__(self) -> Iterator[Value]:
        return chain.from_iterable(bucket.values() for bucket in self._mapping._buckets)


class OpenMap(Generic[Key, Value]):
    """A map on its way to the next one. Buckets are copied when they are first written to."""

    __slots__ = ("_buckets", "_own", "_size")

    def __init__(self, buckets: tuple[dict[Key, Value], ...], size: int) -> None:
        self._buckets = list(buckets)
        self._own: set[int] = set()
        """Which buckets are copies already."""
        self._size = size

    def close(self) -> Map[Key, Value]:
        """What it holds now. It may go on: what it changes then it copies again."""
        closed: Map[Key, Value] = Map.__new__(Map)
        closed._become(self._buckets, self._size)
        self._own.clear()
        return closed

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: Key) -> bool:
        return key in self._buckets[self._place(key)]

    def __getitem__(self, key: Key) -> Value:
        return self._buckets[self._place(key)][key]

    @overload
    def get(self, key: Key, /) -> Value | None: ...
    @overload
    def get(self, key: Key, /, default: Value | Other) -> Value | Other: ...
    def get(self, key: Key, /, default: Value | Other | None = None) -> Value | Other | None:
        return self._buckets[self._place(key)].get(key, default)

    def __setitem__(self, key: Key, value: Value) -> None:
        bucket = self._writable(key)
        before = len(bucket)
        bucket[key] = value
        self._size += len(bucket) - before
        if self._size > len(self._buckets) * BUCKET_ENTRIES:
            self._buckets = _spread(chain.from_iterable(it.items() for it in self._buckets), len(self._buckets) * 2)
            self._own = set(range(len(self._buckets)))

    def __delitem__(self, key: Key) -> None:
        del self._writable(key)[key]
        self._size -= 1

    def pop(self, key: Key) -> Value:
        """Raises KeyError if it is not there."""
        value = self[key]
        del self[key]
        return value

    def discard(self, key: Key) -> None:
        """If it is there."""
        if key in self:
            del self[key]

    def _writable(self, key: Key) -> dict[Key, Value]:
        place = self._place(key)
        if place not in self._own:
            self._buckets[place] = self._buckets[place].copy()
            self._own.add(place)
        return self._buckets[place]

    def _place(self, key: Key) -> int:
        return hash(key) & (len(self._buckets) - 1)


def _spread(entries: Iterable[tuple[Key, Value]], bucket_count: int) -> list[dict[Key, Value]]:
    """`bucket_count` is a power of two, so that the lowest bits of a hash say which."""
    buckets: list[dict[Key, Value]] = [{} for _ in range(bucket_count)]
    for key, value in entries:
        buckets[hash(key) & (bucket_count - 1)][key] = value
    return buckets

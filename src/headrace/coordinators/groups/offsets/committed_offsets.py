"""The offsets that groups have committed, and those that wait for the end of a transaction.

The order of the log decides, not the order in which transactions end: an offset committed in a transaction does not
replace one that was written after it, even if the transaction ends last. A reload must come to the same result from a
compacted log, which has kept only the last record of each key.

A node may hold a million offsets. So each is one `bytes` object, which costs a third of a tuple of its fields and which
the garbage collector never looks at; its fields are taken out when somebody asks.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.model.names import NO_EPOCH, NO_TIMESTAMP, Epoch, Millis, Offset, ProducerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

_FIXED: Final = Struct(">qiqq")
"""Offset, leader epoch, time of the commit, time of its end. The metadata follows as UTF-8."""

_TIMES: Final = Struct(">12xqq")
"""Only the two times of the above."""

_NO_PARTITIONS: Final[Mapping[int, bytes]] = {}
_NO_PLACES: Final[Mapping[TopicPartition, dict[ProducerId, bytes | None]]] = {}


class CommittedOffset(NamedTuple):
    offset: Offset
    leader_epoch: Epoch = NO_EPOCH
    committed_ms: Millis = NO_TIMESTAMP
    expires_ms: Millis = NO_TIMESTAMP
    """Only commits of old clients say how long they are to be kept."""
    metadata: str = ""


class CommittedOffsets:
    """Of all groups of one coordinator. A group without an offset, committed or waiting, leaves no trace."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, dict[int, bytes]]] = {}
        """By group, topic and partition."""
        self._waiting: dict[str, dict[TopicPartition, dict[ProducerId, bytes | None]]] = {}
        """By group and partition: what each open transaction would commit, in the order of the log. None marks an
        offset that a later one has overtaken: it will never count, yet its transaction is still open."""
        self._places: dict[ProducerId, dict[tuple[str, TopicPartition], None]] = {}
        """Where in `_waiting` a transaction has offsets."""

    # What records say

    def commit(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        self._keep(key.group, key.topic, key.partition, _packed(value))
        if key.group in self._waiting:
            self._overtake(key.group, TopicPartition(key.topic, key.partition), before=None)

    def commit_in_transaction(self, key: OffsetCommitKey, value: OffsetCommitValue, producer_id: ProducerId) -> None:
        place = TopicPartition(key.topic, key.partition)
        waiting = self._waiting.setdefault(key.group, {}).setdefault(place, {})
        waiting.pop(producer_id, None)  # a second commit of one transaction takes its place at the end of the order
        waiting[producer_id] = _packed(value)
        self._places.setdefault(producer_id, {})[key.group, place] = None

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        for group_id, place in self._places.pop(producer_id, {}):
            packed = self._waiting[group_id][place][producer_id]
            if is_commit and packed is not None:
                self._keep(group_id, place.topic, place.partition, packed)
                self._overtake(group_id, place, before=producer_id)
            del self._waiting[group_id][place][producer_id]
            self._drop_if_nobody_waits(group_id, place)

    def forget(self, key: OffsetCommitKey) -> None:
        """Also what open transactions would commit there, as Kafka does."""
        topics = self._kept.get(key.group)
        if topics is not None and (partitions := topics.get(key.topic)) is not None:
            partitions.pop(key.partition, None)
            if not partitions:
                del topics[key.topic]
                if not topics:
                    del self._kept[key.group]
        place = TopicPartition(key.topic, key.partition)
        waiting = self._waiting.get(key.group, _NO_PLACES).get(place)
        if waiting is not None:
            for producer_id in waiting:
                places = self._places[producer_id]
                del places[key.group, place]
                if not places:
                    del self._places[producer_id]
            waiting.clear()
            self._drop_if_nobody_waits(key.group, place)

    # Questions

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self._kept.get(group_id)
        packed = None if topics is None else topics.get(topic, _NO_PARTITIONS).get(partition)
        return None if packed is None else _unpacked(packed)

    def groups(self) -> Iterable[str]:
        """Everybody who has an offset, committed or waiting."""
        yield from self._kept
        yield from (group_id for group_id in self._waiting if group_id not in self._kept)

    def topic_names(self) -> set[str]:
        """Of all topics with an offset, committed or waiting."""
        names = {topic for topics in self._kept.values() for topic in topics}
        return names | {place.topic for places in self._waiting.values() for place in places}

    def groups_with(self, topics: frozenset[str]) -> Iterable[str]:
        """Those with an offset in one of the topics."""
        for group_id in self.groups():
            waiting = self._waiting.get(group_id, ())
            if not topics.isdisjoint(self._kept.get(group_id, ())) or any(place.topic in topics for place in waiting):
                yield group_id

    def has_any(self, group_id: str) -> bool:
        return group_id in self._kept or group_id in self._waiting

    def topics(self, group_id: str) -> list[str]:
        """With committed offsets."""
        return list(self._kept.get(group_id, ()))

    def times(self, group_id: str, topic: str) -> Iterator[tuple[int, Millis, Millis]]:
        """Of each partition, when its offset was committed and when it is to end, if that was said."""
        topics = self._kept.get(group_id)
        if topics is not None:
            for partition, packed in topics.get(topic, _NO_PARTITIONS).items():
                yield partition, *_TIMES.unpack_from(packed)

    def places(self, group_id: str, topics: frozenset[str] | None = None) -> dict[TopicPartition, None]:
        """Each partition (of `topics`, if given) with an offset, committed or waiting; once, in a steady order."""
        places = {
            TopicPartition(topic, partition): None
            for topic, partitions in self._kept.get(group_id, {}).items()
            if topics is None or topic in topics
            for partition in partitions
        }
        for place in self._waiting.get(group_id, ()):
            if topics is None or place.topic in topics:
                places[place] = None
        return places

    def has(self, group_id: str, place: TopicPartition) -> bool:
        topics = self._kept.get(group_id)
        is_kept = topics is not None and place.partition in topics.get(place.topic, _NO_PARTITIONS)
        return is_kept or self.is_unstable(group_id, place)

    def is_unstable(self, group_id: str, place: TopicPartition) -> bool:
        """An open transaction may still change this offset."""
        return place in self._waiting.get(group_id, _NO_PLACES)

    def has_pending(self, producer_id: ProducerId) -> bool:
        return producer_id in self._places

    def _keep(self, group_id: str, topic: str, partition: int, packed: bytes) -> None:
        topics = self._kept.get(group_id)
        if topics is None:
            topics = self._kept[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = packed

    def _overtake(self, group_id: str, place: TopicPartition, before: ProducerId | None) -> None:
        """Offsets that were written before this one's record will not count any more."""
        waiting = self._waiting[group_id].get(place)
        if waiting is not None:
            for producer_id in waiting:
                if producer_id == before:
                    break
                waiting[producer_id] = None

    def _drop_if_nobody_waits(self, group_id: str, place: TopicPartition) -> None:
        places = self._waiting[group_id]
        if not places[place]:
            del places[place]
            if not places:
                del self._waiting[group_id]


def _packed(value: OffsetCommitValue) -> bytes:
    fixed = _FIXED.pack(value.offset, value.leader_epoch, value.commit_timestamp, value.expire_timestamp)
    return fixed + value.metadata.encode() if value.metadata else fixed


def _unpacked(packed: bytes) -> CommittedOffset:
    offset, leader_epoch, committed_ms, expires_ms = _FIXED.unpack_from(packed)
    metadata = packed[_FIXED.size :].decode()
    return CommittedOffset(offset, leader_epoch, committed_ms, expires_ms, metadata)

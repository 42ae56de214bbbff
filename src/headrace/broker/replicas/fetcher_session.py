"""A follower's half of a fetch session (KIP-227): tell a leader only what changed since the last request.

Several requests may be under way. An answer counts for a partition only if its request was sent after the partition
was last begun: when it was added, cut, or failed to take what came. What answers before that say of it is void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.model.names import NO_EPOCH, LogId
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.broker.partitions.partition import Partition
    from headrace.model.names import TopicId

PARTITION_BYTES: Final = 1 << 20
NAMED_MAX: Final = 500  # partitions in one request: the leader looks at all of them in one turn, for some 10 ms
NO_SESSION: Final = 0
EPOCH_OPENS: Final = 0
EPOCH_MAX: Final = 2**31 - 1


class _Followed:
    __slots__ = ("begun_with", "partition", "told")

    def __init__(self, partition: Partition, begun_with: int) -> None:
        self.partition = partition
        self.begun_with = begun_with
        """The number of the first request whose answer counts."""
        self.told: FetchPartition | None = None
        """As the leader knows it; None if it is not part of the session there."""


class FetcherSession:
    """With one leader. `reset` begins it anew, with the same partitions."""

    def __init__(self, appetite: Callable[[Partition], int] | None = None) -> None:
        self._appetite = appetite
        """How much to ask for of each; with 0 it is only told how far that one is. None: a full portion of all."""
        self.request_number = 0
        """Of the last request; rises through all sessions."""
        self._session_id = NO_SESSION
        self._epoch = EPOCH_OPENS
        self._followed: dict[LogId, _Followed] = {}
        self._unsaid: dict[LogId, None] = {}
        """May have changed since the leader was told."""
        self._forgotten: dict[LogId, None] = {}

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def is_open(self) -> bool:
        """Whether the leader has named it: before, nothing more can be told."""
        return self._session_id != NO_SESSION

    @property
    def is_used_up(self) -> bool:
        """Its requests can be numbered no further."""
        return self._epoch > EPOCH_MAX

    @property
    def has_more_to_say(self) -> bool:
        """More than fitted into the last request."""
        return bool(self._unsaid)

    def reset(self) -> None:
        self._session_id, self._epoch = NO_SESSION, EPOCH_OPENS
        self._forgotten.clear()
        for log_id, followed in self._followed.items():
            self._begin(log_id, followed)

    # ---- what is followed

    def add(self, partition: Partition) -> None:
        log_id = partition.log_id
        self.remove(log_id)
        followed = self._followed[log_id] = _Followed(partition, 0)
        self._begin(log_id, followed)

    def remove(self, log_id: LogId) -> None:
        followed = self._followed.pop(log_id, None)
        self._unsaid.pop(log_id, None)
        if followed is not None and followed.told is not None:
            self._forgotten[log_id] = None

    def begin_again(self, partition: Partition) -> None:
        """Its log was cut: the leader has to read from elsewhere, and what is under way does not fit any more."""
        followed = self._followed.get(partition.log_id)
        if followed is not None and followed.partition is partition:  # another may have taken its place meanwhile
            self.add(partition)

    def may_have_changed(self, log_id: LogId) -> None:
        if log_id in self._followed:
            self._unsaid[log_id] = None

    def _begin(self, log_id: LogId, followed: _Followed) -> None:
        followed.begun_with = self.request_number + 1
        followed.told = None
        self._unsaid[log_id] = None

    # ---- requests and answers

    def request(self, unanswered: int) -> FetchRequest:
        """The next one, while so many before it are not answered yet."""
        self.request_number += 1
        request = FetchRequest(
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=_topics(self._news()),
            forgotten_topics_data=_forgotten_topics(self._forgotten),
            unanswered=unanswered,
        )
        self._forgotten.clear()
        if self._epoch != EPOCH_OPENS:
            self._epoch += 1
        return request

    def answered(self, session_id: int) -> bool:
        """Whether the leader keeps the session."""
        if self._epoch == EPOCH_OPENS:
            self._session_id, self._epoch = session_id, EPOCH_OPENS + 1
        return session_id == self._session_id != NO_SESSION

    def expects(self, log_id: LogId, request_number: int) -> Partition | None:
        """The partition, if an answer to that request still fits it."""
        followed = self._followed.get(log_id)
        return followed.partition if followed is not None and followed.begun_with <= request_number else None

    def _news(self) -> list[tuple[LogId, FetchPartition]]:
        news: list[tuple[LogId, FetchPartition]] = []
        while self._unsaid and len(news) < NAMED_MAX:
            log_id = next(iter(self._unsaid))
            del self._unsaid[log_id]
            followed = self._followed[log_id]
            wanted = _wanted(followed.partition)
            if self._appetite is not None:
                wanted.partition_max_bytes = self._appetite(followed.partition)
            if wanted != followed.told:
                followed.told = wanted
                news.append((log_id, wanted))
        return news


def _wanted(partition: Partition) -> FetchPartition:
    log = partition.log
    return FetchPartition(
        partition=partition.index,
        current_leader_epoch=partition.replica.leader_epoch,
        fetch_offset=log.next_offset,
        last_fetched_epoch=log.epochs.latest if log.next_offset > log.start_offset else NO_EPOCH,
        log_start_offset=log.start_offset,
        partition_max_bytes=PARTITION_BYTES,
        flushed_offset=log.flushed_offset,
    )


def _topics(wanted: Iterable[tuple[LogId, FetchPartition]]) -> list[FetchTopic]:
    topics: dict[TopicId, FetchTopic] = {}
    for log_id, part in wanted:
        topic = topics.get(log_id.topic_id)
        if topic is None:
            topic = topics[log_id.topic_id] = FetchTopic(topic_id=log_id.topic_id)
        topic.partitions.append(part)
    return list(topics.values())


def _forgotten_topics(log_ids: Iterable[LogId]) -> list[ForgottenTopic]:
    topics: dict[TopicId, ForgottenTopic] = {}
    for log_id in log_ids:
        topic = topics.get(log_id.topic_id)
        if topic is None:
            topic = topics[log_id.topic_id] = ForgottenTopic(topic_id=log_id.topic_id)
        topic.partitions.append(log_id.partition)
    return list(topics.values())

"""The client's half of a fetch session (KIP-227): tell a node only what changed since the last request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.client.reading.offsets import IsolationLevel
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.model.names import TopicId, TopicPartition

NO_SESSION = 0
OPENING_EPOCH = 0
EPOCH_MAX = 2**31 - 1


class Wanted(NamedTuple):
    """What to read next from a partition."""

    topic_id: TopicId
    offset: int
    leader_epoch: int
    bytes_max: int


class FetchSession:
    """A session with one node. Use `request` for each fetch, and tell it how that went."""

    def __init__(self, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> None:
        self._isolation = isolation
        self._session_id = NO_SESSION
        self._epoch = OPENING_EPOCH
        self._told: dict[TopicPartition, Wanted] = {}

    def request(
        self, wanted: Mapping[TopicPartition, Wanted], *, max_wait_ms: int, min_bytes: int, max_bytes: int
    ) -> FetchRequest:
        """The next request. What is asked for has `accepted` or `reset` called on its answer."""
        changed = {name: want for name, want in wanted.items() if self._told.get(name) != want}
        forgotten = {name: told for name, told in self._told.items() if name not in wanted}
        for name, told in self._told.items():
            want = wanted.get(name)
            if want is not None and want.topic_id != told.topic_id:
                forgotten[name] = told  # deleted and made again: another topic of the same name
        self._told = dict(wanted)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=self._isolation,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=_topics(changed),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def accepted(self, session_id: int) -> None:
        """The node answered. It gives no session if it has too many; then every request says everything."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._session_id = session_id
        self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """Start afresh: the connection broke, or the node knows nothing of the session."""
        self._session_id = NO_SESSION
        self._epoch = OPENING_EPOCH
        self._told = {}


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for name, want in wanted.items():
        topic = topics.get(name.topic)
        if topic is None:
            topic = topics[name.topic] = FetchTopic(name.topic, want.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=name.partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                partition_max_bytes=want.bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(told: Mapping[TopicPartition, Wanted]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for name, want in told.items():
        topic = topics.get(name.topic)
        if topic is None:
            topic = topics[name.topic] = ForgottenTopic(name.topic, want.topic_id)
        topic.partitions.append(name.partition)
    return list(topics.values())

"""The fetch sessions of a node (KIP-227): how many there may be, and who has to go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.partitions.fetch_session import FetchSession
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from headrace.broker.partitions.fetch_session import Reader
    from headrace.broker.partitions.throttling import Throttle
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.model.names import NodeId
    from headrace.runtime.clock import Clock
    from headrace.runtime.entropy import Entropy

EVICTABLE_AFTER_S: Final = 120.0  # a session in use is not taken away from its consumer
SESSION_PARTITIONS_MAX: Final = 500_000  # of all sessions together: some 100 MB, whatever clients pretend to want
SESSION_ID_MAX: Final = 2**31 - 1

EPOCH_OPENS: Final = 0
EPOCH_CLOSES: Final = -1


class SessionCache:
    """The sessions of a node: bounded, the longest unused goes first."""

    def __init__(
        self, topics: TopicTable, clock: Clock, entropy: Entropy, *, slots: int, throttle: Throttle | None = None
    ) -> None:
        self._topics = topics
        self._throttle = throttle
        self._slots = slots
        self._clock = clock
        self._entropy = entropy
        self._sessions: dict[int, FetchSession] = {}
        self._of_followers: dict[NodeId, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def passing(self) -> FetchSession:
        """A session for one request."""
        return FetchSession(self._topics)

    def open(self, partition_count: int, *, uses_topic_ids: bool) -> FetchSession:
        """A new session, or one that lives for a single request if no place is free."""
        if not self._has_room() or self._partition_count() + partition_count > SESSION_PARTITIONS_MAX:
            return self.passing()
        return self._open(uses_topic_ids=uses_topic_ids)

    def open_for_follower(self, node_id: NodeId) -> FetchSession:
        """Always has room: there are no more of them than nodes. One that this node had before is over."""
        before = self._of_followers.get(node_id)
        if before is not None:
            self.close(before)
        session = self._open(uses_topic_ids=True)
        session.throttle = self._throttle
        self._of_followers[node_id] = session.session_id
        return session

    def _open(self, *, uses_topic_ids: bool) -> FetchSession:
        session_id = self._free_id()
        session = FetchSession(self._topics, session_id=session_id, uses_topic_ids=uses_topic_ids)
        session.last_used_s = self._clock.monotonic_s()
        self._sessions[session_id] = session
        return session

    def resume(
        self, session_id: int, epoch: int, *, uses_topic_ids: bool, reader: Reader | None = None
    ) -> FetchSession:
        session = self._sessions.get(session_id)
        if session is None or not _is_of(session, reader):
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {session_id}")
        del self._sessions[session_id]
        self._sessions[session_id] = session  # now the most recently used
        if epoch != session.epoch:
            raise Refusal(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} expects epoch {session.epoch}, not {epoch}",
            )
        if uses_topic_ids != session.uses_topic_ids:
            raise Refusal(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} mixes topic names and topic ids"
            )
        session.epoch = 1 if session.epoch == SESSION_ID_MAX else session.epoch + 1
        session.last_used_s = self._clock.monotonic_s()
        return session

    def check_size(self, session: FetchSession) -> None:
        """A session has grown. If all of them are too large, its consumer goes on without one."""
        if self._partition_count() > SESSION_PARTITIONS_MAX:
            self.close(session.session_id)
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session.session_id} is too large")

    def _partition_count(self) -> int:
        return sum(map(len, self._sessions.values()))

    def close_for(self, session_id: int, reader: Reader | None) -> None:
        """If it is theirs who ask for it."""
        session = self._sessions.get(session_id)
        if session is not None and _is_of(session, reader):
            self.close(session_id)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            if session.on_change is not None:
                session.on_change.hurry()  # nothing will ever wake it, and later answers wait in line behind it
            session.close()

    def _has_room(self) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if self._clock.monotonic_s() - oldest.last_used_s < EVICTABLE_AFTER_S:
            return False
        self.close(oldest.session_id)
        return True

    def _free_id(self) -> int:
        while True:
            session_id = 1 + int(self._entropy.fraction() * (SESSION_ID_MAX - 1))
            if session_id not in self._sessions:
                return session_id


def _is_of(session: FetchSession, reader: Reader | None) -> bool:
    """Nobody hears what somebody else reads by guessing a number."""
    before = session.reader
    return before is None or (reader is not None and before.identity == reader.identity)

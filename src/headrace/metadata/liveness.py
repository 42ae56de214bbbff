"""Which nodes are there: the controller's view, by their heartbeats. Time is the steady clock's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from headrace.model.names import NodeId


SESSION_MS: Final = 2000  # several heartbeats: one that is late must not cost a node its leaderships
LEASE_PART: Final = 0.6  # of a session: a lease that lapses costs a node a heartbeat, a session its leaderships
GRACE: Final = 1.1  # clocks of two machines may differ in speed a little


def lease_ms(session_ms: int) -> int:
    """For how long a node with such sessions leads without an answer, counted on its own clock."""
    return int(session_ms * LEASE_PART)


class _Session(NamedTuple):
    heard_ms: int
    session_ms: int
    is_suspect: bool = False
    is_unanswering: bool = False

    @property
    def end_ms(self) -> int:
        is_short = self.is_suspect or self.is_unanswering
        silent_ms = lease_ms(self.session_ms) if is_short else self.session_ms
        return self.heard_ms + int(silent_ms * GRACE)


class Sessions:
    """Begins anew with each controller: every node that serves gets a whole session to be heard in. One that answers
    nothing at all is waited for no longer than it may lead: as a rule it is why there is a new controller.

    How long that is, each node has said when it registered. Its lease is a known part of it: for so long it goes on
    leading without an answer. So every controller, of whatever settings, waits long enough.
    """

    def __init__(self, sessions_ms: Mapping[NodeId, int], now_ms: int) -> None:
        self._sessions = {node_id: _Session(now_ms, session_ms) for node_id, session_ms in sessions_ms.items()}
        self._heard_ms: dict[NodeId, int] = {}

    def heard(self, node_id: NodeId, session_ms: int, now_ms: int) -> None:
        """It lives, whatever was suspected."""
        self._sessions[node_id] = _Session(now_ms, session_ms)
        self._heard_ms[node_id] = now_ms

    def is_heard_since(self, node_id: NodeId, since_ms: int) -> bool:
        """Whether it has said after that moment that it is there."""
        return self._heard_ms.get(node_id, -1) >= since_ms

    def is_heard(self, node_id: NodeId, now_ms: int) -> bool:
        """Whether it has said that it is there, and its session is not over."""
        session = self._sessions.get(node_id)
        return session is not None and node_id in self._heard_ms and session.end_ms > now_ms

    def suspect(self, node_id: NodeId) -> None:
        """Nobody listens there. Most likely its process has ended: then it is not waited for any longer than a process
        that lives behind a port that refuses may still lead. If it is heard again, all is well."""
        if node_id in self._sessions:
            self._sessions[node_id] = self._sessions[node_id]._replace(is_suspect=True)

    def not_answering(self, node_ids: Container[NodeId]) -> None:
        """Who of those that have not been heard yet answers none of the messages of this controller's election either.
        To be told anew whenever somebody may have answered. One that was heard is given its session again and again:
        it may stand still for a while."""
        for node_id, session in self._sessions.items():
            if node_id not in self._heard_ms and session.is_unanswering is not (node_id in node_ids):
                self._sessions[node_id] = session._replace(is_unanswering=not session.is_unanswering)

    def prolong(self, more_ms: int) -> None:
        """Nobody could be heard for so long."""
        self._sessions = {
            node_id: session._replace(heard_ms=session.heard_ms + more_ms)
            for node_id, session in self._sessions.items()
        }

    def forget(self, node_id: NodeId) -> None:
        self._sessions.pop(node_id, None)

    def next_end_ms(self) -> int | None:
        """When the next session lapses, if nobody is heard before."""
        return min((session.end_ms for session in self._sessions.values()), default=None)

    def lapsed(self, now_ms: int) -> list[NodeId]:
        """In the order of their ids: every controller would decide the same."""
        return sorted(node_id for node_id, session in self._sessions.items() if session.end_ms <= now_ms)


class Lease:
    """A node's own view: until when the others certainly believe that it is there.

    It counts from the moment a heartbeat was *sent*, the controller from the moment that it arrived, which is later. So
    the node stops before anybody takes over.
    """

    def __init__(self, session_ms: int) -> None:
        self.lease_ms = lease_ms(session_ms)
        self._end_ms: int | None = None

    def renewed(self, sent_ms: int) -> None:
        """A heartbeat that was sent then has been answered."""
        end_ms = sent_ms + self.lease_ms
        self._end_ms = end_ms if self._end_ms is None else max(self._end_ms, end_ms)

    def is_valid(self, now_ms: int) -> bool:
        return self._end_ms is not None and now_ms < self._end_ms

    @property
    def end_ms(self) -> int | None:
        return self._end_ms

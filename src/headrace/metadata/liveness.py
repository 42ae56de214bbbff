"""Which nodes are there: the controller's view, by their heartbeats. Time is the steady clock's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.model.names import NodeId


SESSION_MS: Final = 2000  # several heartbeats: one that is late must not cost a node its leaderships
GRACE: Final = 1.1  # clocks of two machines may differ in speed a little


class Sessions:
    """Begins anew with each controller: every node that serves gets a whole session to be heard in.

    How long that is, each node has said when it registered: for so long it goes on leading without an answer. So every
    controller, of whatever settings, waits long enough.
    """

    def __init__(self, sessions_ms: Mapping[NodeId, int], now_ms: int) -> None:
        self._ends_ms = {node_id: _session_end(session_ms, now_ms) for node_id, session_ms in sessions_ms.items()}
        self._heard: set[NodeId] = set()

    def heard(self, node_id: NodeId, session_ms: int, now_ms: int) -> None:
        self._ends_ms[node_id] = _session_end(session_ms, now_ms)
        self._heard.add(node_id)

    def is_heard(self, node_id: NodeId, now_ms: int) -> bool:
        """Whether it has said that it is there, and its session is not over."""
        return node_id in self._heard and self._ends_ms.get(node_id, 0) > now_ms

    def end(self, node_id: NodeId) -> None:
        """It is known to be gone: nobody need wait for its silence."""
        if node_id in self._ends_ms:
            self._ends_ms[node_id] = 0

    def prolong(self, more_ms: int) -> None:
        """Nobody could be heard for so long. Who is known to be gone stays so."""
        self._ends_ms = {node_id: end_ms + more_ms if end_ms else 0 for node_id, end_ms in self._ends_ms.items()}

    def forget(self, node_id: NodeId) -> None:
        self._ends_ms.pop(node_id, None)

    def lapsed(self, now_ms: int) -> list[NodeId]:
        """In the order of their ids: every controller would decide the same."""
        return sorted(node_id for node_id, end_ms in self._ends_ms.items() if end_ms <= now_ms)


def _session_end(session_ms: int, now_ms: int) -> int:
    return now_ms + int(session_ms * GRACE)


class Lease:
    """A node's own view: until when the others certainly believe that it is there.

    It counts from the moment a heartbeat was *sent*, the controller from the moment that it arrived, which is later. So
    the node stops before anybody takes over.
    """

    def __init__(self, session_ms: int) -> None:
        self._session_ms = session_ms
        self._end_ms: int | None = None

    def renewed(self, sent_ms: int) -> None:
        """A heartbeat that was sent then has been answered."""
        end_ms = sent_ms + self._session_ms
        self._end_ms = end_ms if self._end_ms is None else max(self._end_ms, end_ms)

    def is_valid(self, now_ms: int) -> bool:
        return self._end_ms is not None and now_ms < self._end_ms

    @property
    def end_ms(self) -> int | None:
        return self._end_ms

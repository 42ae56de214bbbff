"""Which nodes are there: the controller's view, by their heartbeats. Time is the steady clock's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.model.names import NodeId


class Sessions:
    """Begins anew with each controller: every node that serves gets a whole session to be heard in."""

    def __init__(self, node_ids: Iterable[NodeId], now_ms: int, session_ms: int) -> None:
        self._session_ms = session_ms
        self._ends_ms = dict.fromkeys(node_ids, now_ms + session_ms)

    def heard(self, node_id: NodeId, now_ms: int) -> None:
        self._ends_ms[node_id] = now_ms + self._session_ms

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

    def next_end_ms(self) -> int | None:
        return min(self._ends_ms.values(), default=None)


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

"""What a leader knows of the other replicas: how far each has come, and which of them keep up.

A follower is caught up while each of its fetches begins at, or after, the end that our log had at its fetch before. A
partition where it has everything is left out of its fetches: there it is caught up for as long as the node fetches
anything at all. One that has not been caught up for `lag_max_ms` is too slow, or gone. Time is the steady clock's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.model.names import NO_OFFSET, NodeId, Offset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LONG_HENCE_MS: Final = 2**63 - 1


@dataclass(slots=True)
class RemoteReplica:
    broker_epoch: int
    """The node's registration: after another one it may have another disk."""
    written: Offset = NO_OFFSET
    flushed: Offset = NO_OFFSET
    caught_up_ms: int = 0
    fetched_ms: int = 0
    end_at_fetch: Offset = NO_OFFSET
    """Where our log ended when it last fetched."""
    log_start: Offset = NO_OFFSET


class RemoteReplicas:
    """Begins anew with each leader epoch: what was true under another leader need not be so here."""

    def __init__(self, node_ids: Iterable[NodeId] = (), now_ms: int = 0) -> None:
        # Nobody has fetched yet, but everybody has the time of one lag to do so.
        self._known = {node_id: RemoteReplica(-1, caught_up_ms=now_ms, fetched_ms=now_ms) for node_id in node_ids}

    def fetched(
        self,
        node_id: NodeId,
        broker_epoch: int,
        written: Offset,
        flushed: Offset,
        end: Offset,
        now_ms: int,
        log_start: Offset = NO_OFFSET,
    ) -> None:
        """A follower asks for what follows `written`, and says how much of it is on its disk. Our log ends at `end`."""
        follower = self._known.get(node_id)
        if follower is not None and broker_epoch < follower.broker_epoch:
            return  # sent before the node started anew: it was long on the way
        if follower is None or follower.broker_epoch not in {-1, broker_epoch}:
            follower = self._known[node_id] = RemoteReplica(broker_epoch)
        follower.broker_epoch = broker_epoch
        if written >= end:
            follower.caught_up_ms = now_ms
        elif written >= follower.end_at_fetch >= 0:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.written, follower.flushed, follower.log_start = written, flushed, log_start
        follower.fetched_ms, follower.end_at_fetch = now_ms, end

    def reached(self, node_id: NodeId, *, counts_written: bool) -> Offset:
        """How much of our log is safe there; NO_OFFSET if it has not fetched from us yet."""
        follower = self._known.get(node_id)
        if follower is None:
            return NO_OFFSET
        return follower.written if counts_written else follower.flushed

    def log_start(self, node_id: NodeId) -> Offset:
        """NO_OFFSET if it has not fetched from us yet."""
        follower = self._known.get(node_id)
        return NO_OFFSET if follower is None else follower.log_start

    def broker_epoch(self, node_id: NodeId) -> int:
        follower = self._known.get(node_id)
        return -1 if follower is None else follower.broker_epoch

    def heard(self, heard_ms: Mapping[NodeId, int], end: Offset) -> int:
        """When each node last fetched anything at all. Returns since when somebody is not known to be caught up.

        To be noted every now and then: what is written next must not make a quiet follower look slow.
        """
        oldest_ms = LONG_HENCE_MS
        for node_id, follower in self._known.items():
            if follower.written >= end:
                follower.caught_up_ms = max(follower.caught_up_ms, heard_ms.get(node_id, 0))
            oldest_ms = min(oldest_ms, follower.caught_up_ms)
        return oldest_ms

    def too_slow(self, in_sync: Iterable[NodeId], now_ms: int, lag_max_ms: int) -> set[NodeId]:
        known = self._known
        return {it for it in in_sync if it in known and now_ms - known[it].caught_up_ms > lag_max_ms}

    def caught_up(self, node_id: NodeId, committed: Offset, log_start: Offset, now_ms: int, lag_max_ms: int) -> bool:
        """Whether one that is not in sync may be so again: its disk has all that may be committed and nothing that is
        deleted here, and it keeps up. Deletions do not wait for replicas that are not in sync: if one of them led
        before it has deleted the same, the records would come back."""
        follower = self._known.get(node_id)
        return (
            follower is not None
            and follower.broker_epoch >= 0
            and follower.flushed >= committed
            and follower.log_start >= log_start
            and now_ms - follower.caught_up_ms <= lag_max_ms
        )

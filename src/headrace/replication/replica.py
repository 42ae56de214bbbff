"""The mind of one replica: who leads, what is written, what is flushed, what is safe.

    log start ≤ high watermark ≤ flushed ≤ written        (with durability "written": high watermark ≤ written)

All four are next offsets, so exclusive. The high watermark is the least flushed offset over the in-sync replicas, and
whoever else may be elected: what lies below survives the loss of any of them and of the power, and only that is
acknowledged and shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, NO_NODE, NO_OFFSET, Epoch, NodeId, Offset
from headrace.replication.remote_replicas import RemoteReplicas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Durability = Literal["flushed", "written"]
"""What counts as safe on one replica: bytes on its device, or (weaker, faster) bytes in its page cache."""

ACKS_ALL: Final = -1
_UNBOUNDED: Final = Offset(2**63 - 1)


class Replica:
    """State changes come in as `on_…`, `become_…`, `set_…`; those that can move the high watermark return it.

    `on_written`, `on_flushed` and the checks run for every request and allocate nothing.
    """

    __slots__ = (
        "_counts_written",
        "_epoch_start",
        "_in_doubt",
        "_in_sync_needed",
        "_is_leased",
        "_is_short_of_replicas",
        "_leads",
        "_min_insync",
        "_others_reached",
        "_proposed",
        "_remote_replicas",
        "eligible",
        "flushed",
        "high_watermark",
        "in_sync",
        "is_leader",
        "leader",
        "leader_epoch",
        "node_id",
        "replicas",
        "written",
    )

    def __init__(
        self,
        node_id: NodeId,
        *,
        log_start: Offset,
        written: Offset,
        flushed: Offset,
        high_watermark: Offset,
        durability: Durability = "flushed",
        min_insync: int = 1,
    ) -> None:
        """`high_watermark` is the last one noted on disk: it may lag behind, or be ahead of what survived a crash."""
        assert log_start <= flushed <= written, f"{log_start=} {flushed=} {written=}"
        self.node_id = node_id
        self.written = written
        self.flushed = flushed
        self.high_watermark = max(log_start, min(high_watermark, flushed))
        self.leader_epoch: Epoch = NO_EPOCH
        self.is_leader = False
        """It leads, and may act on it."""
        self._leads = False
        self._is_leased = True
        self.leader: NodeId = NO_NODE
        self.replicas: tuple[NodeId, ...] = (node_id,)
        self.in_sync: tuple[NodeId, ...] = ()
        """As the controller has agreed to it."""
        self.eligible: tuple[NodeId, ...] = ()
        """Not in sync, and may be elected all the same: nothing may be committed that one of them lacks."""
        self._proposed: tuple[NodeId, ...] | None = None
        self._in_doubt: tuple[NodeId, ...] = ()
        """Of earlier proposals whose outcome is not known."""
        self._remote_replicas = RemoteReplicas()
        self._epoch_start = NO_OFFSET
        """Where our log ended when we began to lead: what was committed before lies below."""
        self._counts_written = durability == "written"
        self._min_insync = min_insync
        self._review_in_sync()

    # ---- leadership

    def become_leader(
        self,
        epoch: Epoch,
        in_sync: Iterable[NodeId],
        replicas: Iterable[NodeId] | None = None,
        now_ms: int = 0,
        eligible: Iterable[NodeId] = (),
    ) -> Offset:
        """Lead from `epoch` on. What followers have is unknown until they fetch, so none of it counts yet."""
        assert epoch > self.leader_epoch, f"epoch {epoch} after {self.leader_epoch}"
        self.leader_epoch = epoch
        self.leader = self.node_id
        self._epoch_start = self.written
        self._leads = True
        self.is_leader = self._is_leased
        self._proposed, self._in_doubt = None, ()
        self.replicas = tuple(in_sync if replicas is None else replicas)
        self._remote_replicas = RemoteReplicas(
            (node_id for node_id in self.replicas if node_id != self.node_id), now_ms
        )
        return self.set_in_sync(in_sync, eligible)

    def become_follower(self, epoch: Epoch, leader: NodeId, replicas: Iterable[NodeId]) -> None:
        """Follow another from `epoch` on, or nobody while `leader` is NO_NODE."""
        assert epoch >= self.leader_epoch, f"epoch {epoch} after {self.leader_epoch}"
        self.leader_epoch = epoch
        self.leader = leader
        self.replicas = tuple(replicas)
        self.resign()

    def resign(self) -> None:
        """Lead no longer: another does, or the partition is gone."""
        self._leads = self.is_leader = False
        self._proposed = None

    def set_leased(self, is_leased: bool) -> Offset:
        """Without a lease others may lead by now: a leader takes and shows nothing until it is renewed."""
        self._is_leased = is_leased
        self.is_leader = is_leased and self._leads
        return self._advance()

    # ---- the in-sync set

    def set_in_sync(self, in_sync: Iterable[NodeId], eligible: Iterable[NodeId] = ()) -> Offset:
        """The controller has agreed to this in-sync set. One that loses its slowest member may commit more."""
        self.in_sync, self.eligible = tuple(sorted(in_sync)), tuple(sorted(eligible))
        assert self.node_id in self.in_sync, f"leader {self.node_id} is not in its own in-sync set {self.in_sync}"
        self._proposed, self._in_doubt = None, ()
        self._review_in_sync()
        return self._advance()

    def is_unsettled(self, is_here: Callable[[NodeId], bool]) -> bool:
        """Whether another in-sync set may soon be right: somebody returns, or what was decided is not known."""
        return bool(self._in_doubt or self._returning(is_here))

    def _returning(self, is_here: Callable[[NodeId], bool]) -> tuple[NodeId, ...]:
        """Who is not in sync, and may come to be: nobody has to look out for those who are away."""
        if len(self.in_sync) == len(self.replicas):
            return ()
        return tuple(node_id for node_id in self.replicas if node_id not in self.in_sync and is_here(node_id))

    def wanted_in_sync(
        self,
        now_ms: int,
        lag_max_ms: int,
        heard_ms: Mapping[NodeId, int],
        is_here: Callable[[NodeId], bool],
        log_start: Offset,
    ) -> tuple[NodeId, ...] | None:
        """The in-sync set that this leader would propose; None if it has the right one, or waits for an answer.
        Our log begins at `log_start`."""
        if not self.is_leader or self._proposed is not None:
            return None
        oldest_ms = self._remote_replicas.heard(heard_ms, self.written)
        returning = self._returning(is_here)
        if now_ms - oldest_ms <= lag_max_ms and not returning and not self._in_doubt:
            return None  # as nearly always, for nearly all partitions
        slow = self._remote_replicas.too_slow(self.in_sync, now_ms, lag_max_ms)
        # A new leader does not know the high watermark of the one before, only that it has all that lies below.
        committed = max(self.high_watermark, self._epoch_start)
        back = {
            node_id
            for node_id in returning
            if self._remote_replicas.caught_up(node_id, committed, log_start, now_ms, lag_max_ms)
        }
        wanted = tuple(sorted((set(self.in_sync) - slow) | back))
        if wanted == self.in_sync and set(self._in_doubt) <= set(wanted):
            return None
        return wanted  # also the present set: a replica in doubt that is gone by now would hold up every commit

    def propose_in_sync(self, proposed: tuple[NodeId, ...]) -> None:
        """The controller is asked for it. Before it answers it may have agreed: whoever enters counts at once."""
        assert self._leads
        self._proposed = proposed
        self._review_in_sync()

    def proposal_ended(self, *, is_refused: bool) -> None:
        """The controller has not agreed, or it is not known whether it has: then whoever was to enter still counts.

        A refusal is about this proposal alone: an earlier one may still be on its way, and be agreed to later.
        """
        if self._proposed is None:
            return  # the partition has changed meanwhile, and with it everything that was asked for is decided
        if not is_refused:
            self._in_doubt = tuple(sorted({*self._in_doubt, *self._proposed}))
        self._proposed = None
        self._review_in_sync()

    def broker_epoch_of(self, node_id: NodeId) -> int:
        """The broker epoch with which a follower has last fetched here; -1 if it never has."""
        return self._remote_replicas.broker_epoch(node_id)

    def begins_everywhere_at(self, offset: Offset) -> bool:
        """Whether no other replica that may lead has anything before `offset`, for good."""
        return all(self._remote_replicas.log_start(it) >= offset for it in self._members if it != self.node_id)

    @property
    def _members(self) -> set[NodeId]:
        """Whom the controller could elect: in sync or eligible; or only proposed, for it may have agreed already."""
        return {*self.in_sync, *self.eligible, *(self._proposed or ()), *self._in_doubt}

    def set_policy(self, *, durability: Durability, min_insync: int) -> Offset:
        self._counts_written = durability == "written"
        self._min_insync = min_insync
        self._review_in_sync()
        return self._advance()

    # ---- progress

    def on_written(self, next_offset: Offset) -> Offset:
        """Our log now ends at `next_offset`, in the page cache at least."""
        assert next_offset >= self.written, f"written went back from {self.written} to {next_offset}"
        self.written = next_offset
        return self._advance() if self._counts_written else self.high_watermark

    def on_flushed(self, next_offset: Offset) -> Offset:
        """Our log is on the device up to `next_offset`."""
        assert self.flushed <= next_offset <= self.written, f"{self.flushed=} {next_offset=} {self.written=}"
        self.flushed = next_offset
        return self._advance()

    def on_follower_fetched(
        self,
        node_id: NodeId,
        broker_epoch: int,
        written: Offset,
        flushed: Offset,
        now_ms: int,
        log_start: Offset = NO_OFFSET,
    ) -> Offset:
        """A follower asks for what follows `written`; of that, everything before `flushed` is on its device."""
        self._remote_replicas.fetched(node_id, broker_epoch, written, flushed, self.written, now_ms, log_start)
        self._review_in_sync()
        return self._advance()

    def on_leader_said(self, high_watermark: Offset) -> Offset:
        """As a follower: what the leader knows to be safe. We know it for as much as we have."""
        assert not self.is_leader
        self.high_watermark = max(self.high_watermark, min(high_watermark, self.flushed))
        return self.high_watermark

    def on_truncated(self, next_offset: Offset) -> None:
        """As a follower: our log went another way than the leader's from there on."""
        assert not self.is_leader
        self.written = min(self.written, next_offset)
        self.flushed = min(self.flushed, next_offset)
        self.high_watermark = min(self.high_watermark, next_offset)

    def _advance(self) -> Offset:
        if self.is_leader:
            reached = self.written if self._counts_written else self.flushed
            # Never back: a replica may join the in-sync set without our knowing yet how far it is, or report less after
            # a restart, and what was shown once stays shown.
            self.high_watermark = max(self.high_watermark, min(reached, self._others_reached))
        return self.high_watermark

    def _review_in_sync(self) -> None:
        """Work out once, when something changes, what the hot path needs to know about the other replicas."""
        self._in_sync_needed = min(self._min_insync, len(self.replicas))
        self._is_short_of_replicas = len(self.in_sync) < self._in_sync_needed
        if self._is_short_of_replicas:
            # As Kafka since KIP-966: with too few replicas nothing new becomes safe, acks=1 writes included.
            self._others_reached: Offset = NO_OFFSET
            return
        others = self._members - {self.node_id}
        reached = (self._remote_replicas.reached(node_id, counts_written=self._counts_written) for node_id in others)
        self._others_reached = min(reached, default=_UNBOUNDED)

    # ---- checks

    def check_write(self, acks: int) -> None:
        if not self.is_leader:
            raise _not_leader(self)
        if acks == ACKS_ALL and self._is_short_of_replicas:
            raise Refusal(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.in_sync)} replicas are in sync, acks=all needs {self._in_sync_needed}",
            )

    def check_read(self) -> None:
        if not self.is_leader:
            raise _not_leader(self)

    def check_epoch(self, client_epoch: Epoch) -> None:
        """Refuse a client that knows an older leader than us, or a newer one; it need not name any."""
        if client_epoch == NO_EPOCH:
            return
        if client_epoch < self.leader_epoch:
            raise Refusal(
                ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {client_epoch} is over, expected {self.leader_epoch}"
            )
        if client_epoch > self.leader_epoch:
            raise Refusal(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"leader epoch {client_epoch} is not known here yet, expected {self.leader_epoch}",
            )


def _not_leader(replica: Replica) -> Refusal:
    return Refusal(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"node {replica.node_id} does not lead this partition (its last known leader epoch is {replica.leader_epoch})",
    )

"""Whatever happens in whatever order: the high watermark is the least safe offset over the in-sync replicas.

Those count, too, that may have entered the set without the leader having heard of it.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.model.names import Epoch, NodeId, Offset
from headrace.replication.replica import Durability, Replica

ME = NodeId(1)
REPLICAS = (NodeId(1), NodeId(2), NodeId(3))
FOLLOWERS = [NodeId(2), NodeId(3)]
steps = st.integers(0, 5)
durabilities = st.sampled_from(["flushed", "written"])
follower_sets = st.sets(st.sampled_from(FOLLOWERS))


class HighWatermark(RuleBasedStateMachine):
    @initialize(durability=durabilities, min_insync=st.integers(1, 3), followers=follower_sets)
    def start(self, durability: Durability, min_insync: int, followers: set[NodeId]) -> None:
        zero = Offset(0)
        self.replica = Replica(
            ME,
            log_start=zero,
            written=zero,
            flushed=zero,
            high_watermark=zero,
            min_insync=min_insync,
            durability=durability,
        )
        self.durability, self.min_insync, self.followers = durability, min_insync, followers
        self.written = self.flushed = self.highest_expected = 0
        self.reported: dict[NodeId, tuple[int, int]] = {}
        self.proposed: set[NodeId] | None = None
        self.in_doubt: set[NodeId] = set()
        self.last_seen = self.replica.become_leader(Epoch(0), {ME, *followers}, REPLICAS)

    def expect(self, returned: Offset) -> None:
        """By brute force: what may count now, and nothing that was ever counted is lost."""
        own = self.written if self.durability == "written" else self.flushed
        if 1 + len(self.followers) >= self.min_insync:
            members = self.followers | (self.proposed or set()) | self.in_doubt
            least = min([own, *(self.reported.get(node, (0, 0))[self.durability == "flushed"] for node in members)])
            self.highest_expected = max(self.highest_expected, least)
        assert returned == self.replica.high_watermark == self.highest_expected

    @rule(step=steps)
    def write(self, step: int) -> None:
        self.written += step
        self.expect(self.replica.on_written(Offset(self.written)))

    @rule(step=steps)
    def flush(self, step: int) -> None:
        self.flushed = min(self.flushed + step, self.written)
        self.expect(self.replica.on_flushed(Offset(self.flushed)))

    @rule(node=st.sampled_from(FOLLOWERS), behind=steps, unflushed=steps)
    def fetch(self, node: NodeId, behind: int, unflushed: int) -> None:
        written = max(0, self.written - behind)
        flushed = max(0, written - unflushed)
        self.reported[node] = (written, flushed)
        self.expect(self.replica.on_follower_fetched(node, 1, Offset(written), Offset(flushed), now_ms=0))

    @rule(followers=follower_sets)
    def propose(self, followers: set[NodeId]) -> None:
        self.proposed = followers
        self.replica.propose_in_sync((ME, *sorted(followers)))

    @rule(is_refused=st.booleans())
    def hear_that_it_is_refused_or_hear_nothing(self, is_refused: bool) -> None:
        if self.proposed is not None and not is_refused:  # an earlier one, not heard of, may still be agreed to
            self.in_doubt |= self.proposed
        self.proposed = None
        self.replica.proposal_ended(is_refused=is_refused)

    @rule(followers=follower_sets)
    def change_in_sync(self, followers: set[NodeId]) -> None:
        self.followers, self.proposed, self.in_doubt = followers, None, set()
        self.expect(self.replica.set_in_sync({ME, *followers}))

    @rule(durability=durabilities, min_insync=st.integers(1, 3))
    def change_policy(self, durability: Durability, min_insync: int) -> None:
        self.durability, self.min_insync = durability, min_insync
        self.expect(self.replica.set_policy(durability=durability, min_insync=min_insync))

    @rule()
    def be_elected_again(self) -> None:
        self.reported.clear()
        self.proposed, self.in_doubt = None, set()
        epoch = Epoch(self.replica.leader_epoch + 1)
        self.expect(self.replica.become_leader(epoch, {ME, *self.followers}, REPLICAS))

    @invariant()
    def never_falls_and_never_passes_what_is_written(self) -> None:
        if hasattr(self, "replica"):
            assert self.last_seen <= self.replica.high_watermark <= self.written
            self.last_seen = self.replica.high_watermark


TestHighWatermark = HighWatermark.TestCase

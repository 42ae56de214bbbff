"""What the controller does besides deciding commands: it watches who is there, and keeps leaders where they belong.

Only the leader of the metadata log is the controller; on every other node this is asleep.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.broker.metadata.voters import Voters
from headrace.metadata.commands.node_commands import NOT_YET, drain_node, fence_node, unfence_node
from headrace.metadata.commands.partition_commands import unclean_election
from headrace.metadata.commands.upkeep import end_of_move, taken_from_absent, widen_internal_topics
from headrace.metadata.elections.eligible_replicas import review_of_eligible
from headrace.metadata.elections.partition_leaders import LeaderBalance, led_again, moved_from_draining
from headrace.metadata.liveness import Sessions
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.broker.metadata.quorum import Quorum, Response
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.metadata.decisions.decision import Decision
    from headrace.metadata.image.cluster_image import ClusterImage, Node
    from headrace.metadata.image.effective_configs import NodeConfigs
    from headrace.model.names import NodeId, Offset
    from headrace.raft.log import Term
    from headrace.runtime.clock import Clock

log = logging.getLogger(__name__)

LOOK_S: Final = 0.1
LOOK_LEAST_S: Final = 0.005
IDLE_LOOK_S: Final = 2.0  # where another node decides: the quorum tells when that changes
UPKEEP_S: Final = 2.0  # where anything has changed it walks over all partitions, a millisecond for a thousand
NEAR: Final = 100  # records: under steady changes nobody is ever quite up to date


class Controller:
    def __init__(
        self, quorum: Quorum, clock: Clock, configs: NodeConfigs, settings: Callable[[], NodeSettings]
    ) -> None:
        self._quorum = quorum
        self._clock = clock
        self._configs = configs
        self._settings = settings
        self._sessions: Sessions | None = None
        self._leaving: Counter[NodeId] = Counter()
        """Nodes that others are taking over from, and by how many hands: they are not let in meanwhile."""
        self._kept_up: ClusterImage | None = None
        """An image in which nothing is left to be seen to."""
        self._must_know: dict[NodeId, Offset] = {}
        """Up to where a fenced node has to know the metadata before it is let in."""
        self._returned_ms: dict[NodeId, int] = {}
        """Nodes that have asked to begin another life, since when, and have not begun it yet."""
        self._term: Term | None = None
        self._balanced_s = self._kept_up_s = 0.0
        self._awake_by_s = 0.0
        """When this process should be heard of again, by itself."""
        self.voters = Voters(quorum, clock)
        self._news = asyncio.Event()
        self.on_leaderless: Callable[[], None] = lambda: None
        """Set by whoever compares logs: there are partitions that nobody leads."""
        quorum.on_decided = self._begin_if_in_charge

    def _begin_if_in_charge(self) -> None:
        if self._term != self._quorum.raft.term:
            self._news.set()

    async def run(self) -> None:
        while True:
            await self._wait_for_news()
            with self._watched():
                try:
                    await self._look()
                except Refusal as refusal:
                    if refusal.code is not ErrorCode.NOT_CONTROLLER:  # another one is now, and looks as well
                        raise

    async def _wait_for_news(self) -> None:
        wait_s = IDLE_LOOK_S if self._sessions is None else self._look_in_s(self._sessions)
        self._awake_by_s = self._clock.monotonic_s() + wait_s
        try:
            async with asyncio.timeout(wait_s):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()
        self._allow_for_standstill()

    def _look_in_s(self, sessions: Sessions) -> float:
        """Sooner if a session is about to lapse: its partitions wait for it."""
        end_ms = sessions.next_end_ms()
        left_s = LOOK_S if end_ms is None else (end_ms - self._now_ms()) / 1000
        return min(max(left_s, LOOK_LEAST_S), LOOK_S)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """While it looks, which may take long for other reasons than a standstill."""
        loop = asyncio.get_running_loop()
        next_watch: asyncio.TimerHandle

        def watch() -> None:
            nonlocal next_watch
            self._allow_for_standstill()
            next_watch = loop.call_later(LOOK_S, watch)

        watch()
        try:
            yield
        finally:
            next_watch.cancel()

    def _allow_for_standstill(self) -> None:
        """If this process stood still, it could hear nobody. Their heartbeats may lie in its sockets, unread."""
        now_s = self._clock.monotonic_s()
        held_up_s, self._awake_by_s = now_s - self._awake_by_s, now_s + LOOK_S
        if held_up_s > LOOK_S and self._sessions is not None:
            self._sessions.prolong(int(held_up_s * 1000))

    async def _look(self) -> None:
        if not self._is_in_charge():
            return
        while lapsed := self._lapsed():  # anew each time: to fence them takes a while
            for node_id in lapsed:
                log.warning("node %d is gone, or was not heard for its session; others take over", node_id)
            await self._fence(*lapsed)
            if not self._is_in_charge():
                return
        if self._quorum.image.leaderless:
            self.on_leaderless()
        await self.voters.look()
        if not self._is_in_charge():
            return
        if self._clock.monotonic_s() - self._kept_up_s > UPKEEP_S:
            self._kept_up_s = self._clock.monotonic_s()
            await self._keep_up()
        settings = self._settings()
        if self._clock.monotonic_s() - self._balanced_s > settings.leader_imbalance_check_interval_seconds:
            self._balanced_s = self._clock.monotonic_s()
            if settings.auto_leader_rebalance_enable:
                await self._return_leaders(settings.leader_imbalance_per_broker_percentage / 100)

    def _lapsed(self) -> list[NodeId]:
        assert self._sessions is not None
        self._allow_for_standstill()
        raft = self._quorum.raft
        self._sessions.not_answering({*raft.membership.everybody} - raft.followers().keys() - {raft.me.node_id})
        return self._sessions.lapsed(self._now_ms())

    async def _return_leaders(self, tolerated: float) -> None:
        balance = LeaderBalance(tolerated)
        await self._quorum.sweep(balance.count)
        count = await self._quorum.sweep(balance.give_back)
        if count:
            log.info("%d partitions are led by their preferred replicas again", count)

    async def _keep_up(self) -> None:
        image = self._quorum.image
        if self._kept_up is image:
            return  # nothing has changed since
        await self._finish_taking_over()
        ended = await self._quorum.sweep(end_of_move)
        if ended:
            log.info("%d moves of replicas have ended", ended)
        widened = await self._quorum.submit(widen_internal_topics)
        if widened:
            log.info("%d partitions of internal topics get more replicas", widened)
        await self._quorum.sweep(review_of_eligible(self._configs))
        given_up = await self._quorum.sweep(unclean_election(self._configs))
        if given_up:
            log.warning("%d partitions are led by replicas that may lack records (unclean leader election)", given_up)
        self._kept_up = image

    async def _finish_taking_over(self) -> None:
        """What another controller has begun, and was lost before it had come to the last partition."""
        absent = [node.node_id for node in self._quorum.image.nodes.values() if node.is_fenced]
        with self._kept_out(*absent):
            taken = await self._quorum.sweep(taken_from_absent)
        led = await self._quorum.sweep(led_again) + await self._quorum.sweep(moved_from_draining)
        if taken or led:
            log.info("%d partitions were left to absent nodes, and %d to nobody; others lead them now", taken, led)

    def _is_in_charge(self) -> bool:
        """With each term of its own it begins anew: what it knew from an earlier one is old."""
        if not self._quorum.is_in_charge:
            self._sessions = self._term = None
            return False
        if self._term != self._quorum.raft.term:
            self._term = self._quorum.raft.term
            self._balanced_s, self._kept_up_s = self._clock.monotonic_s(), -math.inf
            self._kept_up = None
            here = {node.node_id: node.session_ms for node in self._quorum.image.sorted_nodes()}
            self._sessions = Sessions(here, self._now_ms())
            self._must_know.clear()
            self._returned_ms.clear()
        return True

    def suspect(self, node_id: NodeId) -> None:
        """Nobody listens where it is. That is no proof that its process has ended, so its lease is waited for."""
        if self._sessions is not None:
            self._sessions.suspect(node_id)
            self._news.set()

    def is_heard(self, node_id: NodeId) -> bool:
        """Whether the process that is known as this node says that it is there."""
        return self._sessions is not None and self._sessions.is_heard(node_id, self._now_ms())

    async def heartbeat(
        self, node_id: NodeId, broker_epoch: int, applied_end: Offset, *, wants_fence: bool, wants_stop: bool
    ) -> bool:
        """Whether the node may serve. Raises Refusal NOT_CONTROLLER, or STALE_BROKER_EPOCH to a life that is over."""
        node = self._living(node_id, broker_epoch)
        if wants_stop and not node.is_draining:
            await self._quorum.submit(lambda image: drain_node(image, node_id, broker_epoch))
            node = self._living(node_id, broker_epoch)
        if wants_fence:
            await self._fence(node_id)
            return False
        if node.is_fenced:
            if wants_stop:
                return False  # it was let go already
            if self._leaving[node_id]:
                return False  # what it has to know is still being decided
            if self._quorum.raft.membership.is_voter_with_any_disk(node_id):
                return False  # first it is tied to its disk, so that nothing is ever decided by one that lost its own
            if not self._knows_enough(node_id, applied_end):
                return False
            await self._quorum.submit(lambda image: unfence_node(image, node_id, broker_epoch))
            self._must_know.pop(node_id, None)
        # Nobody had taken over before this moment, so nobody fences the node before a session that begins now is over.
        await self._quorum.confirm_leadership()
        if self._living(node_id, broker_epoch).is_fenced or self._leaving[node_id]:
            return False  # it was silent for so long that others take over already
        assert self._sessions is not None
        self._sessions.heard(node_id, node.session_ms, self._now_ms())
        return True

    def _living(self, node_id: NodeId, broker_epoch: int) -> Node:
        """The node, if it still is in this life, and this controller in charge: whoever has waited looks again."""
        if not self._is_in_charge():
            raise Refusal(ErrorCode.NOT_CONTROLLER, "this node is not the controller")
        node = self._quorum.image.nodes.get(node_id)
        if node is None or node.broker_epoch != broker_epoch:
            raise Refusal(ErrorCode.STALE_BROKER_EPOCH, f"another process has registered as node {node_id} since")
        return node

    async def _fence(self, *node_ids: NodeId) -> None:
        assert self._sessions is not None
        for node_id in node_ids:
            self._sessions.forget(node_id)
        with self._kept_out(*node_ids):
            await self._quorum.submit(lambda image: fence_node(image, *node_ids))

    async def register(self, node_id: NodeId, decide: Callable[[ClusterImage], Decision[Response]]) -> Response:
        """Let a node begin a life: `register_node` or `admit_node`, until what its last one had is taken from it."""
        await self._call_the_roll(node_id)
        with self._kept_out(node_id):
            while True:
                response = await self._quorum.submit(decide)
                if response not in {NOT_YET, ""}:
                    self._returned_ms.pop(node_id, None)
                    return response

    async def _call_the_roll(self, node_id: NodeId) -> None:
        """When several have crashed they come back one after the other. To take each by itself out of its in-sync sets
        would look as if the others had gone on without it, though nobody had. So a node is registered only once it is
        known of all others whether they are still here; and those whose last life is over are taken out together.
        Raises Refusal until it is known: that takes a heartbeat, or a session."""
        if not self._quorum.is_leader:
            return  # nothing can be decided here, and whoever tries to is told who does
        if not self._is_in_charge():
            raise Refusal(ErrorCode.NOT_CONTROLLER, "this node is not the controller yet; try again in a moment")
        if node_id not in self._quorum.image.nodes:
            return  # it was never here, so that nothing is to be taken from it
        sessions = self._sessions
        assert sessions is not None
        asked_ms = self._returned_ms.setdefault(node_id, self._now_ms())
        unheard = [it for it in self._quorum.image.live_nodes() if not sessions.is_heard_since(it, asked_ms)]
        silent = [it for it in unheard if it not in self._returned_ms]
        if silent:
            raise Refusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"whether node {silent[0]} is still here is not known yet; that takes a moment: try again",
            )
        if len(unheard) > 1:
            await self._fence(*unheard)

    @contextmanager
    def _kept_out(self, *node_ids: NodeId) -> Iterator[None]:
        """While others take over from a node it is not let in. It would lead on where it has not heard of them yet."""
        self._leaving.update(node_ids)
        try:
            yield
        finally:
            self._leaving.subtract(node_ids)
            for node_id in node_ids:
                self._must_know.pop(node_id, None)

    def _knows_enough(self, node_id: NodeId, applied_end: Offset) -> bool:
        """It knows all that was decided when it first asked: its fence is part of that, and who leads since then.
        Otherwise it would lead on where others do. Of what came later, it may still lack a little."""
        raft_log = self._quorum.raft.log
        must_know = self._must_know.setdefault(node_id, raft_log.end)
        return must_know <= applied_end and raft_log.commit_end - applied_end < NEAR

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)

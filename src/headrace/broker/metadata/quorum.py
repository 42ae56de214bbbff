"""The metadata log of a cluster: decide, append, agree, apply.

A command is decided by the controller, which is the leader of the metadata log, against the *pending* image: everything
appended so far. It is answered once its records are agreed on and the *committed* image holds them. One node alone is a
cluster with one voter, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from headrace.broker.metadata.entries import decided_batch, records_of
from headrace.broker.metadata.found_log import BYTES_UNLIMITED
from headrace.broker.metadata.snapshots import building, image_payload
from headrace.metadata.decisions.decision import Decision
from headrace.metadata.decisions.slices import SlicedChange
from headrace.metadata.elections.eligible_replicas import with_eligible
from headrace.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, Draft
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Offset
from headrace.raft.log import Snapshot
from headrace.raft.membership import ReplicaKey
from headrace.raft.node import RaftNode
from headrace.raft.ready import Role
from headrace.raft.timing import Timing
from headrace.runtime.tasks import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.broker.metadata.found_log import FoundLog
    from headrace.broker.metadata.store import MetadataStore
    from headrace.metadata.decisions.slices import PartitionChange
    from headrace.metadata.image.effective_configs import NodeConfigs
    from headrace.metadata.image.records import MetadataRecord
    from headrace.model.names import NodeId
    from headrace.raft.log import Entry, Term
    from headrace.raft.membership import Membership
    from headrace.raft.messages import Message, OutboundMessage
    from headrace.raft.ready import Ready
    from headrace.raft.view import RaftView
    from headrace.runtime.world import World

Response = TypeVar("Response")

SNAPSHOT_EVERY: Final = 20_000  # records: a start reads at most twice as many, in a tenth of a second each
SLICES_UNDER_WAY_MAX: Final = 8  # of a sweep: enough to keep the disks busy, and not too much for one who takes over
APPLIED_AT_ONCE: Final = 200  # records, in a turn: 5 ms
UNAPPLIED_MAX: Final = 1000  # times that something was agreed on; after that, the log waits for the image
SNAPSHOT_RETRY_MS: Final = 60_000  # on a full disk: the whole image is written in vain each time

log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """A command whose answer waits until everything before `end` is agreed on, as it was written in `term`."""

    end: Offset
    term: Term
    agreed: asyncio.Future[None]


class ImageListener(Protocol):
    """Who follows the image of what is agreed on."""

    def committed(self, before: ClusterImage, records: Sequence[MetadataRecord]) -> None:
        """Records were applied: each run of them is told once, in order, in the turn in which the image changes."""
        ...

    def jumped(self, before: ClusterImage, after: ClusterImage) -> None:
        """A snapshot took the place of records that this node has missed."""
        ...


# size: the pending image, what is agreed on, and who waits for either change together, in the order of the log
class Quorum:
    """One voter's part."""

    def __init__(
        self,
        store: MetadataStore,
        me: ReplicaKey,
        world: World,
        found: FoundLog,
        *,
        configs: NodeConfigs,
        election_timeout_ms: int,
    ) -> None:
        """If nobody votes in the log that was found, this node has to be told who does, or waits for `found`."""
        self.image: ClusterImage = found.agreed_image
        """What is agreed on: the only image that may be shown to anybody."""
        self.applied_end: Offset = found.raft_log.snapshot.end
        """Up to where `image` holds it. More may be agreed on already."""
        self.found_image: ClusterImage = found.image
        """What the log said at the start, agreed on or not: good enough to know where others listen."""
        self.deleted_topics = found.deleted_topics
        """Topics that the log said were deleted, at the start. Their data may be removed; no other may."""
        self.on_decided: Callable[[], None] = lambda: None
        """Called where it leads, whenever something was agreed on: so that nobody has to ask all the time."""
        self._store = store
        self._me = me
        self._world = world
        self._listeners: tuple[ImageListener, ...] = ()
        self._configs = configs
        self.send: Callable[[OutboundMessage], None] = _nobody
        """Carries what Raft has to say to another node. Set by whoever knows the others, before it runs."""
        self._raft = RaftNode(
            me,
            found.raft_log,
            found.hard_state,
            now_ms=self._now_ms(),
            chance=world.entropy.fraction,
            timing=Timing.of(election_timeout_ms),
        )
        self._pending_image: ClusterImage = EMPTY_IMAGE
        self._pending_term: Term | None = None
        """The term of our own leadership that `_pending_image` belongs to."""
        self._waiting: list[_Waiting] = []
        self._unapplied: asyncio.Queue[Ready] = asyncio.Queue(UNAPPLIED_MAX)
        """What is agreed on, and not in `image` yet."""
        self._pace = Pace(APPLIED_AT_ONCE)
        self._wake = asyncio.Event()
        self._agreed_once = asyncio.Event()
        self._advanced: asyncio.Future[None] | None = None
        """For those who wait for the image to hold more than it does."""
        self._confirming: dict[asyncio.Future[None], None] = {}
        self._no_snapshot_before_ms = 0
        """The disk had no room for the last one."""
        self._failure: Exception | None = None
        self._lead_if_alone()

    def listen(self, listener: ImageListener) -> None:
        """From now on. What the image holds already is for the listener to look up."""
        self._listeners = (*self._listeners, listener)

    def found(self, membership: Membership) -> None:
        """Begin a cluster. If another founder was faster, its log is here already, and says all."""
        if self.has_log:
            return
        self._raft.bootstrap(membership)
        self._lead_if_alone()
        self._wake.set()

    def forget_votes(self, directory: bytes) -> None:
        """What this disk has promised is not known any more. So it is taken for another, which has promised nothing."""
        self._me = ReplicaKey(self._me.node_id, directory)
        self._raft.forget_votes(self._me, self._now_ms())
        self._wake.set()

    def _lead_if_alone(self) -> None:
        if self._raft.membership.voter_ids == (self._me.node_id,):
            self._raft.tick(self._raft.next_deadline_ms())  # nobody else can lead, so nobody need be waited for

    def close(self) -> None:
        self._store.close()

    @property
    def has_company(self) -> bool:
        """Whether there are other nodes, or must be: this one alone does not decide."""
        return self._raft.membership.everybody != (self._me.node_id,)

    @property
    def has_log(self) -> bool:
        """Whether this node has taken part in deciding anything, or was told of it."""
        return self._raft.log.end > 0

    # ---- who decides

    @property
    def is_leader(self) -> bool:
        return self._raft.role is Role.LEADER

    @property
    def is_in_charge(self) -> bool:
        """It leads, its image holds everything that was agreed on before it did, and nobody is to take over: who hands
        over decides nothing and answers nobody, so what it misses meanwhile says nothing about the others."""
        if not self.is_leader or self._raft.is_transferring_leadership:
            return False
        return self._raft.log.term_before(self.applied_end) == self._raft.term

    def get_leader(self) -> NodeId | None:
        return self._raft.get_leader()

    @property
    def raft(self) -> RaftView:
        """To look at; whatever changes it goes through this class."""
        return self._raft

    # ---- deciding

    async def submit(self, decide: Callable[[ClusterImage], Decision[Response]]) -> Response:
        """Decide a command, let it be agreed on, apply it, then answer.

        Raises Refusal NOT_CONTROLLER if another node decides, or took over meanwhile: then it is not known whether the
        command counts. DiskFailure if nothing can be decided any more.
        """
        await self._ready_to_decide()
        try:
            decision = with_eligible(self._pending_image, decide(self._pending_image), self._configs)
        except Refusal:
            await self._state_confirmed()
            raise
        if decision.records:
            self._append(decision.records)
            await self._agreed(self._raft.log.end)
        else:
            await self._state_confirmed()
        for change in decision.rest:
            await self.sweep(change, decision.loser)
        return decision.response

    async def sweep(self, change: PartitionChange, loser: NodeId = NO_NODE) -> int:
        """PartitionChange all partitions that need it, a slice in each turn. How many, once that is agreed on.

        Raises Refusal NOT_CONTROLLER if another node takes over on the way. Then it is for that one to go on.
        """
        await self._ready_to_decide()
        sweep, count = SlicedChange(self._pending_image, change), 0
        under_way: deque[Offset] = deque()
        term = self._raft.term
        while not sweep.is_over:
            records = tuple(sweep.next_slice(self._pending_image))
            if records:
                decision = Decision(records, None, loser)
                self._append(with_eligible(self._pending_image, decision, self._configs).records)
                under_way.append(self._raft.log.end)
                count += len(records)
            await (self._agreed(under_way.popleft()) if len(under_way) >= SLICES_UNDER_WAY_MAX else asyncio.sleep(0))
            await self._ready_to_decide(term)
        if under_way:
            await self._agreed(under_way[-1])
        return count

    async def _ready_to_decide(self, term: Term | None = None) -> None:
        """Until the pending image is that of this node's leadership, in this term if it goes on with something."""
        while True:
            if self._failure is not None:
                raise self._failure
            if not self.is_leader or term not in {None, self._raft.term}:
                raise self._not_controller()
            behind = self._raft.log.commit_end
            if self._pending_term == self._raft.term or self.applied_end >= behind:
                break
            await self.applied_up_to(behind)  # not all of it in this turn
        self._follow_own_leadership()

    async def _state_confirmed(self) -> None:
        """An answer that changes nothing still tells of a state: it must be agreed on, and the latest there is.

        One who was paused, or is cut off, may think that it leads while others have decided more.
        """
        await self._agreed(self._raft.log.end)
        if self._raft.membership.voter_ids != (self._me.node_id,):  # nobody takes over from a lone voter
            await self.confirm_leadership()

    async def confirm_leadership(self) -> None:
        """Wait until it is certain that nobody else had taken over when this was called.

        Raises Refusal NOT_CONTROLLER if somebody had, or nobody knows.
        """
        if not self.is_leader:
            raise self._not_controller()
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._confirming[confirmed] = None
        try:
            self._raft.read(confirmed, self._now_ms())
            self._wake.set()
            await confirmed
        finally:
            self._confirming.pop(confirmed, None)

    async def change_membership(self, membership: Membership) -> None:
        """Let the voters agree on who takes part. Raises Refusal if it is not safe, or another change is under way."""
        end = self._raft.change_membership(membership, self._now_ms())
        self._wake.set()
        await self._agreed(end)

    def hand_over(self, heir: NodeId) -> None:
        """Let another voter decide from now on. Raises Refusal if this node does not."""
        self._raft.transfer_leadership(heir, self._now_ms())
        self._wake.set()

    @property
    def knows_agreed(self) -> bool:
        """Whether it is known what was agreed on before this node started."""
        return self._agreed_once.is_set()

    async def agreed_start(self) -> None:
        """Wait until it is known what was agreed on before this node started."""
        await self._agreed_once.wait()
        if self._failure is not None:
            raise self._failure

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        raft = self._raft
        batch = decided_batch(records, raft.log.end, raft.term, self._world.clock.wall_ms())
        raft.propose(batch, len(records))
        self._pending_image = self._pending_image.apply_all(records)
        self._wake.set()

    async def _agreed(self, end: Offset) -> None:
        if end <= self.applied_end:
            return
        agreed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(end, self._raft.term, agreed))
        await agreed

    def _follow_own_leadership(self) -> None:
        """A new leader's pending image holds what earlier ones wrote and nobody has agreed on yet."""
        raft = self._raft
        if self._pending_term == raft.term:
            return
        self._pending_image = self.image
        for entry in raft.log.entries_from(self.applied_end, BYTES_UNLIMITED):
            self._pending_image = self._pending_image.apply_all(records_of(entry))
        self._pending_term = raft.term

    def _not_controller(self) -> Refusal:
        leader = self._raft.get_leader()
        if leader is None:
            return self.no_controller()
        return Refusal(ErrorCode.NOT_CONTROLLER, f"node {self._me.node_id} is not the controller; node {leader} is")

    def no_controller(self) -> Refusal:
        voters = self._raft.membership.voter_ids
        needed = f"{len(voters) // 2 + 1} of the voters {', '.join(map(str, voters))} must be there to elect one"
        return Refusal(
            ErrorCode.NOT_CONTROLLER,
            f"nobody is the controller as far as node {self._me.node_id} knows: "
            f"{needed if voters else 'it was not let into a cluster yet'}",
        )

    async def applied_up_to(self, end: Offset) -> None:
        """Wait until the image holds everything before `end`. DiskFailure if it never will."""
        while self.applied_end < end:
            if self._failure is not None:
                raise self._failure
            self._advanced = self._advanced or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._advanced)

    # ---- living

    def receive(self, message: Message) -> None:
        """From another voter."""
        self._raft.step(message, self._now_ms())
        self._wake.set()

    def suspect(self, node_id: NodeId) -> None:
        """Its process has ended."""
        self._raft.suspect(node_id, self._now_ms())
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled. A failed flush ends the node."""
        applying = asyncio.get_running_loop().create_task(self._apply_all(), name="apply the metadata log")
        applying.add_done_callback(lambda _: self._wake.set())
        try:
            await self._store.repair()
            while not applying.done():
                await self._work_off()
                await self._wait()
                self._wake.clear()
                await self._tick()
            applying.result()  # it ends only if it fails
        except Exception as failure:
            self.give_up(failure)
            raise
        finally:
            applying.cancel()
            await asyncio.gather(applying, return_exceptions=True)

    async def _wait(self) -> None:
        left_s = (self._raft.next_deadline_ms() - self._now_ms()) / 1000
        if left_s <= 0:
            return
        try:
            async with asyncio.timeout(left_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _tick(self) -> None:
        now_ms = self._now_ms()
        if now_ms < self._raft.next_deadline_ms():
            return
        # If the loop was held up, a heartbeat may lie unread in a socket: look before an election is called.
        await asyncio.sleep(0)
        self._raft.tick(now_ms)

    async def _work_off(self) -> None:
        while (ready := self._raft.ready()) is not None:
            for message in ready.messages:
                self.send(message)
            await self._unapplied.put(ready)
            if not ready.saving.is_empty:
                await self._store.save(ready.saving)
                self._raft.flushed(ready.saving, self._now_ms())
        await self._compact_if_long()

    async def _compact_if_long(self) -> None:
        """What came since the snapshot before is kept: a node that was away for a while need not begin anew."""
        raft_log = self._raft.log
        is_long = self.applied_end - raft_log.snapshot.end >= SNAPSHOT_EVERY
        if not is_long or self._now_ms() < self._no_snapshot_before_ms:
            return
        # All of it as it is now: while the image is written, the leader's own snapshot may take the place of this log.
        image, end = self.image, self.applied_end
        term, membership = raft_log.term_before(end), raft_log.membership_at(end)
        keep_from = max(raft_log.snapshot.end, raft_log.start)
        assert term is not None
        payload = await self._world.threads.run(lambda: image_payload(image))
        snapshot = Snapshot(end, term, membership, payload)
        try:
            await self._store.compact(snapshot, keep_from)
        except Refusal as refusal:
            self._no_snapshot_before_ms = self._now_ms() + SNAPSHOT_RETRY_MS
            log.warning("the metadata log stays as long as it is: %s", refusal.message)
            return
        self._raft.compact(snapshot, keep_from)

    async def _apply_all(self) -> None:
        """In slices, and beside everything else: whoever has much to apply still answers the leader meanwhile."""
        while True:
            await self._apply(await self._unapplied.get())

    async def _apply(self, ready: Ready) -> None:
        if ready.installed is not None:
            await self._install(ready.installed)
        for entry in ready.committed:
            await self._apply_entry(entry)
        for node_id in ready.regressed:
            log.error(
                "node %d lacks metadata that it had confirmed to have on disk, as if an older copy of its data "
                "directory had been put back; it is sent all of it again. Its partitions may lack records too: stop "
                "it, and start it with an empty data directory",
                node_id,
            )
        for read_state in ready.read_states:
            _settle(read_state.token)
        for token in ready.lost_reads:
            _settle(token, self._not_controller())
        if ready.committed or ready.installed is not None:  # the first commit of a term tells of all before it
            self._agreed_once.set()
            self._wake_waiting()
        if ready.role is not Role.LEADER:
            self._lose_leadership()
        elif ready.committed:
            self.on_decided()

    async def _install(self, snapshot: Snapshot) -> None:
        draft = Draft(EMPTY_IMAGE)
        for _ in building(draft, snapshot.payload):
            await self._pace.step()
        before, self.image = self.image, draft.finish()
        self.applied_end = snapshot.end
        for listener in self._listeners:
            listener.jumped(before, self.image)

    async def _apply_entry(self, entry: Entry) -> None:
        """Nobody sees a part of it."""
        draft, records = Draft(self.image), []
        for record in records_of(entry):
            draft.apply(record)
            records.append(record)
            await self._pace.step()
        self.applied_end = entry.end
        if records:
            before, self.image = self.image, draft.finish()
            for listener in self._listeners:
                listener.committed(before, records)
        self._answer(entry)

    def _wake_waiting(self) -> None:
        if self._advanced is not None:
            self._advanced.set_result(None)
            self._advanced = None

    def _answer(self, entry: Entry) -> None:
        due = [waiting for waiting in self._waiting if waiting.end <= entry.end]
        if not due:
            return
        self._waiting = [waiting for waiting in self._waiting if waiting.end > entry.end]
        for waiting in due:
            _settle(waiting.agreed, None if waiting.term == entry.term else self._not_controller())

    def _lose_leadership(self) -> None:
        self._pending_term = None
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            _settle(one.agreed, self._not_controller())

    def give_up(self, failure: Exception) -> None:
        """Nothing will be agreed on any more: nobody may wait for it, a starting node least of all."""
        self._failure = failure
        self._agreed_once.set()
        self._wake_waiting()
        for future in (*(waiting.agreed for waiting in self._waiting), *self._confirming):
            _settle(future, failure)

    def _now_ms(self) -> int:
        return int(self._world.clock.monotonic_s() * 1000)


def _settle(future: object, error: Exception | None = None) -> None:
    assert isinstance(future, asyncio.Future)
    if future.done():
        return  # whoever asked has gone
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _nobody(message: OutboundMessage) -> None:
    raise AssertionError(f"a node without peers has a message for {message.target}")

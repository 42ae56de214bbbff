"""Fetch (key 1): long polling, fetch sessions, answers by `sendfile`.

Followers fetch here as consumers do. They are shown what is not safe yet, and say how much of it they have.

Not yet: reading from the nearest replica.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.access.operations import Operation, ResourceType
from headrace.broker.partitions.fetch_session import (
    NO_SESSION,
    FetchingFollower,
    FetchSession,
    PartitionFetch,
    by_topic,
)
from headrace.broker.partitions.session_cache import EPOCH_CLOSES, EPOCH_OPENS
from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.model.names import Epoch, NodeId, Offset
from headrace.runtime.disk import ReadFault
from headrace.servers.kafka.rights import Right, Rights
from headrace.wire.fetch import TOPIC_IDS_FROM, encode_fetch_response

if TYPE_CHECKING:
    from headrace.broker.access.client_quotas import ClientUsage
    from headrace.broker.health import Health
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.counters import Counters
    from headrace.broker.partitions.fetch_session import Collected
    from headrace.broker.partitions.session_cache import SessionCache
    from headrace.broker.replicas.heard_followers import HeardFollowers
    from headrace.runtime.disk import FileSlice
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request
    from headrace.servers.kafka.record_rights import RecordRights
    from headrace.servers.kafka.slot import Slot
    from headrace.wire.messages.fetch import FetchRequest

READ_COMMITTED = 1
REPLICA_STATE_FROM = 15
WAIT_MAX_MS = 60_000  # a client that wants to wait longer asks again
REST_FACTOR = 10  # after a look that found too little, rest ten times as long, and longer each time: where many
# partitions grow in small steps, each of them may be the one that was lacking


class FetchParts(NamedTuple):
    """The parts of a node that Fetch uses: looked up once for all requests."""

    view: MetadataView
    sessions: SessionCache
    heard_followers: HeardFollowers
    counters: Counters
    health: Health
    world: World


RIGHTS = Rights(inside=(Right(Operation.READ, ResourceType.TOPIC, "topics"),))


def begin(parts: FetchParts, message: FetchRequest, request: Request, slot: Slot) -> PendingFetch | None:
    """Answer at once if there is enough; otherwise leave a wait behind."""
    try:
        session, is_full = _session(parts, message, request)
    except Refusal as refusal:
        chunks = encode_fetch_response(request.correlation_id, request.version, (), error_code=refusal.code)
        request.connection.fill_with_slices(slot, chunks)
        return None
    usage = request.connection.meter.usage_of(request) if request.connection.is_metered else None
    if usage is not None and (owed_s := usage.fetch_owed_s()) > 0:
        throttle_ms = request.connection.meter.mute(owed_s)
        _answer_without_records(parts, request, slot, session, throttle_ms, is_full=is_full)
        return None
    pending = PendingFetch(parts, message, request, slot, session, is_full=is_full)
    if usage is not None:
        pending.keep_to(usage)
    return None if pending.attempt() else pending


def _answer_without_records(
    parts: FetchParts, request: Request, slot: Slot, session: FetchSession, throttle_ms: int, *, is_full: bool
) -> None:
    """Whoever owes something is told at once, as in Kafka. A session that was to begin has not."""
    session_id = NO_SESSION if is_full else session.session_id
    if is_full and session.session_id != NO_SESSION:
        parts.sessions.close(session.session_id)
    chunks = encode_fetch_response(
        request.correlation_id, request.version, (), session_id=session_id, throttle_ms=throttle_ms
    )
    if session.session_id == NO_SESSION:
        session.close()
    request.connection.fill_with_slices(slot, chunks)


def _session(parts: FetchParts, message: FetchRequest, request: Request) -> tuple[FetchSession, bool]:
    """The session a request belongs to, brought up to date; and whether its answer names every partition."""
    sessions = parts.sessions
    follower = _follower(message, request)
    uses_ids = request.version >= TOPIC_IDS_FROM
    rights = request.connection.rights
    is_full = message.session_epoch in {EPOCH_CLOSES, EPOCH_OPENS}
    if is_full:
        session = _new_session(sessions, message, follower, rights, uses_topic_ids=uses_ids)
    else:
        session = sessions.resume(message.session_id, message.session_epoch, uses_topic_ids=uses_ids, reader=rights)
        if session.on_change is not None:
            session.on_change.hurry()
    session.begin_request(message.unanswered)
    for gone in message.forgotten_topics_data:
        for index in gone.partitions:
            session.forget(gone.topic_id if uses_ids else gone.topic, index)
    size_before = len(session)
    session.follower, session.reader = follower, rights
    for topic in message.topics:
        key = topic.topic_id if uses_ids else topic.topic
        for part in topic.partitions:
            fetch = PartitionFetch(
                Offset(part.fetch_offset),
                part.partition_max_bytes,
                Epoch(part.current_leader_epoch),
                Epoch(part.last_fetched_epoch),
                Offset(part.flushed_offset),
                Offset(part.log_start_offset),
            )
            session.want(key, part.partition, fetch)
            if follower is not None:
                session.note_progress(key, part.partition, fetch)
    if follower is not None:
        parts.heard_followers.note(follower.node_id)
    elif not is_full and len(session) > size_before:
        sessions.check_size(session)
    return session, is_full


def _new_session(
    sessions: SessionCache,
    message: FetchRequest,
    follower: FetchingFollower | None,
    rights: RecordRights | None,
    *,
    uses_topic_ids: bool,
) -> FetchSession:
    if message.session_id != NO_SESSION:
        sessions.close_for(message.session_id, rights)
    if message.session_epoch != EPOCH_OPENS or not message.topics:
        return sessions.passing()
    if follower is not None:
        return sessions.open_for_follower(follower.node_id)
    return sessions.open(sum(len(topic.partitions) for topic in message.topics), uses_topic_ids=uses_topic_ids)


def _follower(message: FetchRequest, request: Request) -> FetchingFollower | None:
    """The follower that asks; None for a consumer. Raises Refusal for one that pretends to be a follower."""
    state = message.replica_state
    has_state = request.version >= REPLICA_STATE_FROM
    if (state.replica_id if has_state else message.replica_id) < 0:
        return None
    if not request.server.is_for_nodes:  # what a follower says counts as safe, so only nodes may be one
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "followers fetch where nodes listen")
    if not has_state:
        return None  # followers of our kind speak the newest version
    return FetchingFollower(NodeId(state.replica_id), state.replica_epoch)


class PendingFetch:
    """A fetch from its request to its answer. A `fetch_session.WaitingFetch`."""

    def __init__(
        self,
        parts: FetchParts,
        message: FetchRequest,
        request: Request,
        slot: Slot,
        session: FetchSession,
        *,
        is_full: bool,
    ) -> None:
        self._parts = parts
        self._request = request
        self._clock = parts.world.clock
        self._slot = slot
        self._session = session
        self._number = session.request_number
        self._is_full = is_full
        self._is_committed_only = message.isolation_level == READ_COMMITTED
        self._max_bytes = min(message.max_bytes, parts.view.settings.fetch_max_bytes)
        self._min_bytes = message.min_bytes
        self._max_wait_ms = min(message.max_wait_ms, WAIT_MAX_MS)
        self._usage: ClientUsage | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._held: asyncio.TimerHandle | None = None
        self._is_news_missed = False
        self._is_woken = False
        self._looks = 0
        self._is_done = False

    def keep_to(self, usage: ClientUsage) -> None:
        """The answer is no larger than what this client may fetch about now."""
        self._usage = usage
        self._max_bytes = usage.fetch_room(self._max_bytes)
        self._min_bytes = min(self._min_bytes, self._max_bytes)

    @property
    def unkept_partitions(self) -> int:
        """Partitions that are remembered for as long as this fetch waits, and no longer."""
        return len(self._session) if self._session.session_id == NO_SESSION else 0

    def attempt(self) -> bool:
        """First look. False: the fetch waits, and will answer by itself."""
        collected = self._collect()
        gather_s = self._session.gather_s(collected, self._clock.monotonic_s())
        if self._max_wait_ms <= 0 or (gather_s <= 0 and self._is_enough(collected)) or not self._may_park():
            return self._answer(collected, is_first_turn=True)
        collected.release()
        self._session.on_change = self
        self._await_bytes(collected)
        self._await_throttle(collected)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._max_wait_ms / 1000, self.hurry)
        if gather_s > 0:
            self._is_news_missed = self._is_enough(collected)
            self._rest = loop.call_later(gather_s, self._end_rest)
        return False

    def session_changed(self) -> None:
        if self._rest is not None:
            self._is_news_missed = True
        elif self._session.follower is not None:
            self._look()  # a follower: there are few of them, and producers wait for it
        elif not self._is_woken:
            self._is_woken = True
            self._request.server.woken.wake(self)

    def look(self) -> None:
        """What it was woken for may be gone by now, and itself as well."""
        self._is_woken = False
        self._look()

    def hurry(self) -> None:
        """Answer with what there is: time is up, or the consumer has asked again."""
        self._look(is_last=True)

    def _look(self, *, is_last: bool = False) -> None:
        """Called in somebody else's turn: whatever goes wrong stays with this connection."""
        if self._is_done:
            return
        try:
            began_s = self._clock.monotonic_s()
            collected = self._collect()
            if is_last or self._is_enough(collected):
                self._answer(collected, is_first_turn=False)
            else:
                collected.release()
                self._await_bytes(collected)
                self._await_throttle(collected)
                self._looks += 1
                rest_s = REST_FACTOR * self._looks * (self._clock.monotonic_s() - began_s)
                self._rest = asyncio.get_running_loop().call_later(rest_s, self._end_rest)
        except DiskFailure as failure:
            self._parts.health.failure.fail(failure)
        except Exception:  # noqa: BLE001 - a bug met by one client must not reach the others
            self.cancel()
            self._request.connection.met_a_bug("a fetch")

    def _may_park(self) -> bool:
        return self._request.server.parked.has_room(self.unkept_partitions)

    def _await_bytes(self, collected: Collected) -> None:
        """Whoever wants one byte is told by the next of its partitions to grow; and followers of everything."""
        if self._min_bytes > 1 and self._session.follower is None and not self._is_enough(collected):
            self._session.await_bytes(self._min_bytes - collected.bytes_read)

    def _await_throttle(self, collected: Collected) -> None:
        """What may not be sent yet makes nobody speak up: look again when it may."""
        held_s = self._session.held_back_s(collected)
        if held_s is not None and self._held is None:
            self._held = asyncio.get_running_loop().call_later(held_s, self._end_hold)

    def _end_hold(self) -> None:
        self._held = None
        self.session_changed()

    def _end_rest(self) -> None:
        self._rest = None
        if self._is_news_missed:
            self._is_news_missed = False
            self._look()

    def cancel(self) -> None:
        """The connection is gone."""
        self._is_done = True
        self._settle()

    def _collect(self) -> Collected:
        return self._session.collect(self._max_bytes, is_full=self._is_full, is_committed_only=self._is_committed_only)

    def _is_enough(self, collected: Collected) -> bool:
        return collected.has_error or collected.bytes_read >= self._min_bytes or not len(self._session)

    def _answer(self, collected: Collected, *, is_first_turn: bool) -> bool:
        """Send it; or, if some of it is not in memory, fetch that in a thread first. True if the slot is filled."""
        self._is_done = True
        if collected.has_error:
            self._note_refusals(collected)
        self._session.note_told(collected, self._number, self._clock.monotonic_s())
        cold = [piece for piece in collected.slices() if not piece.file.is_cached(piece.position, piece.size)]
        if cold:
            self._settle_timer()
            self._request.server.tasks.start(self._warm_and_send(collected, cold), "warm a fetch")
            return False
        self._send(collected, is_first_turn=is_first_turn)
        return True

    def _note_refusals(self, collected: Collected) -> None:
        rights = self._request.connection.rights
        if rights is not None:
            refused = (part for part, it in collected.results if it.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for topic in dict.fromkeys(part.topic for part in refused):
                rights.no_read(topic)

    async def _warm_and_send(self, collected: Collected, cold: list[FileSlice]) -> None:
        try:
            while cold:
                try:
                    await self._parts.world.threads.run(partial(_warm, cold))
                except ReadFault as fault:
                    unreadable = cold.pop()
                    unreadable.failed(fault)
                    collected.give_up(unreadable)
        except BaseException:
            collected.release()
            raise
        if self._request.connection.is_gone:
            collected.release()
            self._settle()
        else:
            self._send(collected, is_first_turn=False)

    def _send(self, collected: Collected, *, is_first_turn: bool) -> None:
        self._parts.counters.bytes_out += collected.bytes_read
        throttle_ms = 0
        if self._usage is not None:
            throttle_ms = self._request.connection.meter.mute(self._usage.fetched(collected.bytes_read))
        chunks = encode_fetch_response(
            self._request.correlation_id,
            self._request.version,
            by_topic(collected.results),
            session_id=self._session.session_id,
            throttle_ms=throttle_ms,
        )
        self._settle()
        if is_first_turn:
            self._request.connection.fill_with_slices(self._slot, chunks)
        else:
            self._request.connection.answer_later(self._slot, chunks)

    def _settle_timer(self) -> None:
        for timer in (self._timer, self._rest, self._held):
            if timer is not None:
                timer.cancel()
        if self._session.on_change is self:
            self._session.on_change = None
            self._session.stop_waiting()

    def _settle(self) -> None:
        self._settle_timer()
        self._request.connection.unpark(self)
        if self._session.session_id == NO_SESSION:
            self._session.close()


def _warm(cold: list[FileSlice]) -> None:
    """In a thread: each that is warm leaves the list. ReadFault if the last one left cannot be read."""
    while cold:
        piece = cold[-1]
        piece.file.warm(piece.position, piece.size)
        cold.pop()

"""One client's connection: frames in, answers out, in the order of the requests.

A request is begun the moment its frame is whole. Produce and Fetch have two stages: the first runs at once, in order,
and may leave a wait behind (`acks=all`, a long poll) while the next request begins. Every other request is served to
its end before the next one is looked at, as Kafka does. Answers wait in line in their slots.

Batches of all Produce requests that arrived in one read are staged and leave as one write per partition at the end of
the turn. No view of the receive buffer outlives the turn.

A connection takes no more than a bounded share of the node, whatever its client does: requests in flight, long polls,
bytes of answers that wait, and the length of a turn are limited. At a limit it stops reading, and TCP tells the client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from inspect import iscoroutine
from struct import Struct
from typing import TYPE_CHECKING, Any

from headrace.access.identity import ANONYMOUS, NOBODY, Identity
from headrace.model.errors import DiskFailure
from headrace.runtime.disk import FileSlice
from headrace.runtime.network import release_slices
from headrace.servers.kafka.apis import unsupported_version_answer
from headrace.servers.kafka.connections.connection_table import host_of
from headrace.servers.kafka.connections.frame_sizes import FRAME_MIN, check_frame_size
from headrace.servers.kafka.connections.meter import Meter
from headrace.servers.kafka.connections.muting import Muting
from headrace.servers.kafka.connections.receive_buffer import ReceiveBuffer
from headrace.servers.kafka.connections.slow_requests import SlowRequests
from headrace.servers.kafka.handlers.records import fetch, produce
from headrace.servers.kafka.interfaces import Request
from headrace.servers.kafka.limits.answer_memory import Unread
from headrace.servers.kafka.slot import Slot
from headrace.wire.frames import decode_request_header, encode_response
from headrace.wire.primitives import Malformed, Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.network import Chunk, Link
    from headrace.servers.kafka.connections.connection_login import ConnectionLogin
    from headrace.servers.kafka.connections.listener import ConnectionListener
    from headrace.servers.kafka.interfaces import ParkedFetch
    from headrace.servers.kafka.record_rights import RecordRights

IN_FLIGHT_MAX = 1024  # requests without an answer; a slow disk must slow its clients, not fill our memory
TURN_S = 0.005  # everybody else waits for as long as one connection's turn takes
TURN_CHECK = 16  # requests between two looks at the clock, which costs a hundredth of a small Produce
ELEMENTS_MAX = 50_000  # array elements in one request: each may cost 10 µs on the loop; 10,000 partitions must fit
LARGE_REQUEST = 64 << 10  # bytes: what is larger is read beside the loop

PRODUCE = 0
PRODUCE_MIN, PRODUCE_MAX = produce.VERSIONS
FETCH = 1

_LENGTH = Struct(">i")
_START = Struct(">ihhih")  # length, api key, version, correlation id, size of the client id


# size: every request changes its answers and its pace; apart, these would call each other for each of them
class Connection:
    """Implements `runtime.network.Receiver`."""

    def __init__(self, server: ConnectionListener) -> None:
        self.server = server
        # What each request touches is looked up once for all of them.
        parts, self._apis = server.parts, server.apis
        self.clock, self._counters, self._stage = parts.world.clock, parts.counters, parts.stage
        self._registration, self._failure = parts.registration, parts.health.failure
        self._node_failed = self._failure.failed
        self._produce_parts, self._fetch_parts = parts.produce, parts.fetch
        self.link: Link
        self._identity = NOBODY
        self.rights: RecordRights | None = None
        """What it may do with records; None where nobody is asked."""
        self.login: ConnectionLogin | None = None
        """None on listeners where nobody logs in."""
        self.kept_out_by: ConnectionLogin | None = None
        """Not None while nothing but logging in is allowed."""
        self.address = ""
        """Who may be behind it, where everybody gets the same: see `host_of`."""
        self.is_gone = False
        self._holding = server.requests.holding(self)
        self._buffer = ReceiveBuffer(self._holding.release)
        self._slots: deque[Slot] = deque()
        self._waiting_bytes = 0
        self._unread = Unread(server.answers)
        self._produces: list[produce.PendingProduce] = []
        self._has_staged = False
        self._parked: dict[ParkedFetch, int] = {}
        """With the partitions that each remembers."""
        self._slow = SlowRequests(self)
        self.muting = Muting(self)
        self._quotas = None if server.is_for_nodes else parts.client_quotas
        self.meter = Meter(self, self._quotas)
        self.is_metered = False
        """Whether what this turn's requests use is counted."""
        self._is_paused = False
        self._is_going_on = False
        self._is_serving = False
        self._is_leaving = False
        self._linger_s = 0.0
        self._is_about_to_send = False
        self._turn_began_s = 0.0
        self._unread_bytes = 0
        self.last_active_s = 0.0
        self.has_asked = False

    @property
    def identity(self) -> Identity:
        """Who asks, as far as that is known by now."""
        return self._identity

    @identity.setter
    def identity(self, identity: Identity) -> None:
        self._identity = identity
        self.rights = self.server.rights_of(identity)

    # ---- what the network calls

    def connected(self, link: Link) -> None:
        self.link = link
        self.address = host_of(link.peer.host)
        self.identity = Identity(ANONYMOUS, link.peer.host)
        self.last_active_s = self.clock.monotonic_s()
        self.server.opened(self)

    def buffer(self) -> memoryview:
        return self._buffer.room()

    def received(self, count: int) -> None:
        self._buffer.filled(count)
        self.last_active_s = self.clock.monotonic_s()
        self._counters.bytes_in += count
        if not self._buffer.is_inside_a_frame:
            self._take_turn(self.last_active_s)
        elif self._buffer.is_full:
            self.keep_pace()

    def drained(self) -> None:
        self.keep_pace()

    def disconnected(self, error: Exception | None) -> None:  # noqa: ARG002 - why the peer left does not matter
        self.is_gone = True
        self.muting.end()
        for pending in list(self._parked):
            pending.cancel()
        for slot in self._slots:
            release_slices(slot.chunks or ())
        self._slots.clear()
        self._unread.forget()
        if self._slow.produce_task is None:
            self.let_go_of_memory()
        elif not self.server.may_be_left_behind(self):
            self._slow.produce_task.cancel()
        self.server.closed(self)

    def let_go_of_memory(self) -> None:
        """A request that still waits for the disk holds this connection, and need not hold that."""
        self._buffer.forget()
        self._holding.release()

    # ---- what the server calls

    def close_if_idle(self) -> None:
        """Nothing came for long. A client that waits for an answer, reads one, or was told to be silent is not idle."""
        unread_before, self._unread_bytes = self._unread_bytes, self.link.queued_bytes
        if self._unread_bytes and self._unread_bytes == unread_before:
            self.link.abort()  # it stopped reading, so what is queued would wait for ever
        elif not self._slots and not self._unread_bytes and not self._slow.is_one_under_way and not self.muting.is_on:
            self.link.close()

    def close_if_deaf(self) -> None:
        if self._unread.is_deaf(self.link.queued_bytes):
            self.refuse("answers that nobody reads take too much memory, and it has read nothing for seconds")

    def shrink(self) -> None:
        if not self._slow.is_one_under_way:  # a request that waits may lie in the buffer
            self._buffer.shrink()

    def leave(self, linger_s: float = 0.0) -> None:
        """Take no more requests, answer those under way, then close: the node stops, or somebody is not let in."""
        self._is_leaving, self._linger_s = True, linger_s
        self.keep_pace()
        for pending in list(self._parked):
            pending.hurry()
        self.send_ready()

    # ---- what the budget for requests calls: see `request_memory.Owner`

    @property
    def unfinished_bytes(self) -> int:
        return self._buffer.end - self._buffer.start

    @property
    def is_held_up(self) -> bool:
        return self._is_paused and not self.link.queued_bytes

    def give_back_idle(self) -> None:
        # This may be the middle of its own turn, whose answers have let others go on; or a request waits in the buffer.
        if not self._is_serving and not self._slow.is_one_under_way:
            self._buffer.shrink_if_idle()

    def memory_granted(self) -> None:
        self.keep_pace()

    # ---- requests

    def _take_turn(self, now_s: float) -> None:
        """Begin every request whose frame is whole, then write what they staged and send what is ready."""
        if self._node_failed.done():
            self._cut()  # what the disk refused is not known to be anywhere; nothing may be built on it
            return
        self._registration.look_at_lease(now_s)
        self._turn_began_s = now_s
        quotas = self._quotas
        self.is_metered = quotas is not None and quotas.are_any and self.meter.begins_turn(now_s)
        self._is_serving = True
        try:
            try:
                self._begin_requests()
            finally:
                self._commit_produces()
        except Malformed as error:
            self.refuse(str(error))
        except DiskFailure as failure:
            self._failure.fail(failure)
            self._cut()
        except Exception:  # noqa: BLE001 - a bug met by one client must not reach the others
            self.met_a_bug("a request")
        self._is_serving = False
        if self.is_metered:
            self.meter.ends_turn()
        if not self.has_asked and self._buffer.start > 0 and self.kept_out_by is None:
            self.has_asked = True
            self.server.connections.asked(self)
        self.send_ready()
        self.keep_pace()

    def _begin_requests(self) -> None:
        buffer, slots, kept_out_by = self._buffer, self._slots, self.kept_out_by
        frame_max_bytes = self.server.frame_max_bytes if kept_out_by is None else kept_out_by.frame_max_bytes
        raw, end, is_metered = buffer.raw, buffer.end, self.is_metered
        served = 0
        while not (self._is_paused or self.is_gone):
            start = buffer.start
            if end - start < _START.size:
                if end - start >= _LENGTH.size:
                    check_frame_size(_LENGTH.unpack_from(raw, start)[0], frame_max_bytes)
                break
            size, api_key, version, correlation_id, client_id_size = _START.unpack_from(raw, start)
            if not FRAME_MIN <= size <= frame_max_bytes:
                check_frame_size(size, frame_max_bytes)
            if kept_out_by is not None:  # for all of the turn: who lets somebody in is a request that waits
                kept_out_by.look_at(api_key)
            frame_end = start + 4 + size
            if frame_end > end:
                break
            buffer.start = frame_end
            if api_key == PRODUCE and PRODUCE_MIN <= version <= PRODUCE_MAX:
                self._has_staged = True
                body = start + 14 + (client_id_size if client_id_size > 0 else 0)  # noqa: FURB136 - max() is slower
                pending = produce.begin(
                    self._produce_parts, self.rights, buffer, body, frame_end, version, correlation_id
                )
                if is_metered:
                    pending = self.meter.staged(pending, raw[start + 14 : body], size + 4)
                if isinstance(pending, produce.Frame):
                    self._slow.begin_produce(pending)
                else:
                    self._produces.append(pending)
                    if pending.acks:
                        slots.append(pending)
            else:
                self._begin_other(api_key, version, correlation_id, start + 4, frame_end)
            served += 1
            if len(slots) >= IN_FLIGHT_MAX or (served % TURN_CHECK == 0 and self._is_turn_over()):
                self.pause()
        self._counters.requests += served

    def _is_turn_over(self) -> bool:
        return self.clock.monotonic_s() - self._turn_began_s > TURN_S

    def _begin_other(self, api_key: int, version: int, correlation_id: int, position: int, end: int) -> None:
        self._commit_produces()  # what was pipelined before must be in the log before this request looks
        self._look_at_other(api_key, version, correlation_id, position, end)
        if not self._has_room() or self._is_turn_over():
            self.pause()

    def _look_at_other(self, api_key: int, version: int, correlation_id: int, position: int, end: int) -> None:
        api = self._apis.find(api_key, version)
        if api is None:
            answer = unsupported_version_answer(api_key, correlation_id)
            if answer is None:
                raise Malformed(f"api key {api_key} version {version} is not served here")
            self.fill(self.reserve(), answer)
            return
        reader = Reader(self._buffer.raw, position, end, ELEMENTS_MAX)
        header = decode_request_header(reader)
        request = Request(self, header.client_id, version, correlation_id)
        outcome: Any
        if end - position > LARGE_REQUEST and api_key != FETCH and not self.server.is_for_nodes:
            slot, outcome = self.reserve(), self._slow.handle_large(api, reader, request)
        else:
            message = api.request.decode(reader, version)
            slot = self.reserve()
            if api_key == FETCH:
                self._begin_fetch(message, request, slot)
                return
            outcome = api.handle(message, request)
        if iscoroutine(outcome):
            self._slow.begin(slot, outcome, api.name, api_key, request)
        else:
            if self.is_metered:
                outcome = self.meter.handled(outcome, request)
            self.fill(slot, encode_response(correlation_id, api_key, version, outcome))

    def _begin_fetch(self, message: Any, request: Request, slot: Slot) -> None:
        pending = fetch.begin(self._fetch_parts, message, request, slot)
        if pending is not None:
            self._parked[pending] = pending.unkept_partitions
            self.server.parked.add(self._parked[pending])

    def unpark(self, pending: ParkedFetch) -> None:
        partitions = self._parked.pop(pending, None)
        if partitions is not None:
            self.server.parked.remove(partitions)

    def _commit_produces(self) -> None:
        """Write what is staged, and go on with the requests that it belongs to."""
        if not self._has_staged:
            return
        self._has_staged = False
        produces, self._produces = self._produces, []
        self._stage.commit()
        if self.is_metered:
            self.meter.wrote(produces)
        for pending in produces:
            pending.finish(self)

    # ---- answers

    def reserve(self) -> Slot:
        slot = Slot()
        self._slots.append(slot)
        return slot

    def stand_in_line(self, slot: Slot) -> None:
        """The place of an answer that was not reserved when its request came: nothing has overtaken that."""
        self._slots.append(slot)

    def fill(self, slot: Slot, answer: bytes) -> None:
        """Answer in the turn that reserved the slot; it leaves at the end of the turn."""
        slot.chunks = (answer,)
        slot.size = len(answer)
        self._waiting_bytes += slot.size
        self._unread.made += slot.size

    def fill_with_slices(self, slot: Slot, chunks: Sequence[Chunk]) -> None:
        slot.chunks = chunks
        slot.size = sum(chunk.size if isinstance(chunk, FileSlice) else len(chunk) for chunk in chunks)
        self._waiting_bytes += slot.size

    def answer_later(self, slot: Slot, chunks: Sequence[Chunk]) -> None:
        """Fill a slot outside the turn that reserved it."""
        if self.is_gone:
            release_slices(chunks)
            return
        if len(chunks) == 1 and isinstance(chunks[0], bytes):
            self.fill(slot, chunks[0])
        else:
            self.fill_with_slices(slot, chunks)
        self.send_ready()
        self.keep_pace()

    def answer_together(self, slot: Slot, answer: bytes) -> None:
        """`answer_later`, with whatever else is answered in this turn of the loop: one flush commits many requests."""
        self.fill(slot, answer)
        if not self._is_about_to_send:
            self._is_about_to_send = True
            asyncio.get_running_loop().call_soon(self._send_together)

    def _send_together(self) -> None:
        self._is_about_to_send = False
        self.send_ready()
        self.keep_pace()

    def send_ready(self) -> None:
        """Send every answer that has no unanswered request before it."""
        if self._is_serving or self.is_gone:
            return  # at the end of the turn they leave together
        slots = self._slots
        ready: list[Chunk] = []
        while slots and (chunks := slots[0].chunks) is not None:
            self._waiting_bytes -= slots.popleft().size
            ready += chunks
        if ready:
            self.link.send(ready)
        if self._is_leaving and not slots and self._slow.produce_task is None:
            if self._linger_s:
                asyncio.get_running_loop().call_later(self._linger_s, self.link.close)
            else:
                self.link.close()

    def refuse(self, reason: str) -> None:
        """Nothing sensible can follow on this connection."""
        if not self.is_gone:
            self.server.log_refusal(self, reason)
            self._cut()

    def met_a_bug(self, what: str) -> None:
        """Called while an exception is handled that nobody foresaw. It costs this client its connection, no more."""
        self.server.log_bug(self, what)
        self._cut()

    def _cut(self) -> None:
        self.is_gone = True
        self.link.abort()

    # ---- pace

    def _has_room(self) -> bool:
        return (
            len(self._slots) < IN_FLIGHT_MAX
            and not self._slow.is_one_under_way
            and not self.muting.is_on
            and len(self._parked) < self.server.parked.allowance
            and self._waiting_bytes + self.link.queued_bytes <= self.server.answers.allowance
            and not self._is_leaving
        )

    def pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self.link.pause_reading()

    def keep_pace(self) -> None:
        """Stop reading at a limit, and go on once nothing speaks against it any more."""
        if self._is_serving or self.is_gone:
            return
        if self._unread.made:
            self._count_unread()
        if not self._has_room() or (self._buffer.is_full and not self._holding.reserve(self._buffer.frame_beyond())):
            self.pause()
        elif self._is_paused and not self._is_going_on:
            self._is_going_on = True
            # In a turn of its own: this may be the middle of another connection's, whose write woke a long poll here.
            asyncio.get_running_loop().call_soon(self._go_on)

    def _count_unread(self) -> None:
        if not self.link.queued_bytes:
            self._unread.made = self._waiting_bytes
        self._unread.count()

    def _go_on(self) -> None:
        self._is_going_on = False
        if self._is_paused and not self.is_gone and self._has_room():
            self._is_paused = False
            self.link.resume_reading()
            self._take_turn(self.clock.monotonic_s())

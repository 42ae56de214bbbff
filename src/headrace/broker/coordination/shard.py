"""One partition of a coordinators' log on this node: the mind that was built from it, and those who wait for answers.

Whatever a mind decides is appended to the partition, then applied, and answered once it is committed. If it cannot be
appended, the mind may already count on it: so it is thrown away and loaded anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from headrace.broker.partitions.pending_appends import PendingAppend
from headrace.coordinators.effects import Now, Reply
from headrace.coordinators.records import UnreadableRecord, decode, encode
from headrace.model.errors import ErrorCode, Reason, Refusal
from headrace.model.names import NO_PRODUCER, NO_TIMESTAMP, Offset, ProducerId
from headrace.runtime.tasks import Breather
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.read_faults import reads_log
from headrace.wire.batches.header import CorruptBatch, read_header
from headrace.wire.batches.markers import is_commit_marker
from headrace.wire.batches.records import decode_records, encode_batch, keys_and_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.broker.partitions.partition import Partition
    from headrace.coordinators.effects import Effects, Token
    from headrace.coordinators.records import Kinds, LogRecord
    from headrace.runtime.world import World
    from headrace.wire.batches.header import BatchHeader

log = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 20
INFLATE_MAX: Final = 64 << 20  # our own batches are not compressed; those of another writer may be
LATEST_MAX: Final = 50_000  # records that wait to be applied while a log is loaded: some 20 MB
NOTED_IN_A_STEP: Final = 64  # records: to look at the clock after each would take as long as the work
COMMIT_S_MAX: Final = 30.0  # until then in-sync replicas are back, or were taken out of the set
PRODUCERS_FAULT: Final = {ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
"""A transaction that is over cannot take offsets any more; the log and its mind are well."""
TRY_AGAIN_S: Final = 2.0  # between loads of a log that could not be loaded


class Mind(Protocol):
    def apply(self, record: LogRecord, producer_id: ProducerId = NO_PRODUCER) -> None: ...

    def apply_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None: ...

    def loaded(self, now: Now) -> Effects: ...

    def tick(self, now: Now) -> Effects: ...

    def expire(self, now: Now) -> Effects: ...

    def next_deadline_ms(self) -> int | None: ...


MindT = TypeVar("MindT", bound=Mind)
StepT = TypeVar("StepT")


# size: two arguments say what kind of mind it is, three are its owner's ears
class Shard(Generic[MindT]):
    """`load` it once this node leads the partition; `close` it when it does not any more."""

    def __init__(
        self,
        partition: Partition,
        world: World,
        *,
        new_mind: Callable[[], MindT],
        kinds: Kinds,
        load_turn: asyncio.Lock,
        on_effects: Callable[[Shard[MindT], MindT, Effects], None] | None = None,
        on_unreadable: Callable[[Partition, str], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.partition = partition
        self._world = world
        self._new_mind = new_mind
        self._kinds = kinds
        self._load_turn = load_turn
        self._on_effects = on_effects
        self._on_unreadable = on_unreadable
        self._on_failure = on_failure
        self._mind: MindT | None = None
        self.is_closed = False
        self._asking: dict[asyncio.Future[Any], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._needs_load = asyncio.Event()
        self._owed: deque[Callable[[MindT, Now], Effects]] = deque()
        """What must be decided before anybody is answered: see `insist`."""

    # ---- life

    async def run(self) -> None:
        """Load, and load again whenever a write failed, until cancelled."""
        while True:
            try:
                # One after the other: fifty loads at once would each take their slice of every turn of the loop.
                async with self._load_turn:
                    await self._load()
            except (UnreadableRecord, CorruptBatch, DamagedLog) as problem:
                self._on_unreadable(self.partition, str(problem))
                return
            except Refusal as refusal:  # what was to be read next has been deleted meanwhile
                log.info("%s is loaded anew: %s", self.partition.name, refusal.message)
                self._needs_load.set()
            await self._needs_load.wait()
            self._needs_load.clear()
            await asyncio.sleep(TRY_AGAIN_S)

    def close(self) -> None:
        """This node no longer coordinates here. Everybody who waits looks for the one that does."""
        self.is_closed = True
        self._drop(Reason(ErrorCode.NOT_COORDINATOR, f"{self.partition.name} is led by another node"))

    async def _load(self) -> None:
        """Apply the log from its first record to its last, in slices that leave the loop to others."""
        mind = self._new_mind()
        breather = Breather(self._world.clock)
        replay = _Replay(mind, self._kinds, breather)
        partition_log = self.partition.log
        offset = partition_log.start_offset
        while offset < partition_log.next_offset:
            piece = partition_log.read(offset, READ_BYTES, partition_log.next_offset, at_least_one=True)
            assert piece is not None, f"{self.partition.name} ends at {offset}, not at {partition_log.next_offset}"
            try:
                raw = memoryview(await self._world.threads.run(reads_log(piece.read)))
            finally:
                piece.release()
            offset = await self._replay(raw, replay)
            if offset >= partition_log.next_offset:
                await replay.settle()  # which takes a while: a marker may have come after what was read
        self._mind = mind
        self._perform(mind, mind.loaded(self._now()))
        self._settle_debts()

    async def _replay(self, raw: memoryview, replay: _Replay) -> int:
        """Whole batches; the offset after them."""
        position = 0
        while position < len(raw):
            header = read_header(raw, position)
            await replay.add(raw[position : position + header.size], header)
            position += header.size
        return header.next_offset

    # ---- asking

    async def ask(self, decide: Callable[[MindT, Token, Now], Effects]) -> Any:
        """Let the mind decide; its answer, once that is committed. Raises Refusal if nobody can decide here now."""
        mind = self.mind()
        token: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        effects = self._soundly(lambda: decide(mind, token, self._now()))
        self._asking[token] = None
        try:
            self._perform(mind, effects)
            return await token
        finally:
            self._asking.pop(token, None)

    def _soundly(self, step: Callable[[], StepT]) -> StepT:
        """A refusal changes nothing. Any other error may leave half a decision behind: such a mind is not kept."""
        try:
            return step()
        except Refusal:
            raise
        except Exception:
            self._start_anew(Reason(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator met a bug; try again"))
            raise

    async def look(self, read: Callable[[MindT], Any]) -> Any:
        """What `read` finds, once everything that it may have seen is committed. Raises Refusal as `ask` does."""
        mind = self.mind()
        token: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reply = Reply(token, read(mind))
        self._when_settled(lambda refused: self._reply([reply], refused))
        return await token

    def tell(self, decide: Callable[[MindT, Now], Effects]) -> None:
        """For what nobody waits for. A mind that is not loaded yet finds it in the log or the image."""
        mind = self._mind
        if mind is not None:
            self._try_to_perform(mind, lambda: decide(mind, self._now()))

    def insist(self, decide: Callable[[MindT, Now], Effects]) -> None:
        """As `tell`, for what is to be found nowhere later: a mind that is not loaded decides it first of all, and if
        it cannot be written, the next one does."""
        self._owed.append(decide)
        self._settle_debts()

    def _settle_debts(self) -> None:
        mind = self._mind
        while self._owed and mind is not None:
            self._try_to_perform(mind, partial(self._owed[0], mind, self._now()))
            if self._mind is not mind:
                return  # it could not be written: the next mind does it
            self._owed.popleft()

    def configure(self, change: Callable[[MindT], None]) -> None:
        """Settings have changed. A mind that is not loaded begins with the new ones."""
        if self._mind is not None:
            change(self._mind)

    def write_marker(
        self, producer_id: ProducerId, epoch: int, *, is_commit: bool, coordinator_epoch: int, transaction_version: int
    ) -> PendingAppend:
        """End a transaction in this partition. While it is loading, the mind finds the marker in the log."""
        append = self.partition.writer.write_marker(
            producer_id,
            epoch,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        if self._mind is not None:
            self._mind.apply_marker(producer_id, is_commit=is_commit)
        return append

    @property
    def loaded_mind(self) -> MindT | None:
        return self._mind

    def mind(self) -> MindT:
        if self.is_closed:
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"{self.partition.name} is led by another node")
        if not self.partition.replica.is_leader:
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"another node may lead {self.partition.name} by now")
        if self._mind is None:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.partition.name} is being loaded; try again")
        return self._mind

    # ---- doing

    def _perform(self, mind: MindT, effects: Effects) -> None:
        for records in effects.batches():
            try:
                self._write(mind, records, effects.producer)
            except Refusal as refusal:
                if effects.producer[0] != NO_PRODUCER and refusal.code in PRODUCERS_FAULT:
                    self._answer_all(effects.replies, refusal.reason)  # the mind counts on nothing
                else:
                    log.warning("%s cannot be written: %s", self.partition.name, refusal.message)
                    self._start_anew(refusal.reason)
                return
        if effects.replies or self._on_effects is not None:
            self._when_settled(lambda refused: self._settled(mind, effects, refused))
        self._set_timer(mind)

    def _write(self, mind: MindT, records: Sequence[LogRecord], producer: tuple[ProducerId, int]) -> None:
        batch = self._soundly(lambda: self._batch(records, producer))
        self.partition.writer.append(batch, needs_grant=producer[0] != NO_PRODUCER)
        for record in records:
            mind.apply(record, producer[0])

    def _try_to_perform(self, mind: MindT, decide: Callable[[], Effects]) -> None:
        try:
            self._perform(mind, self._soundly(decide))
        except Exception as failure:  # noqa: BLE001 - nobody else would hear of it
            self._on_failure(failure)

    def _batch(self, records: Sequence[LogRecord], producer: tuple[ProducerId, int]) -> bytearray:
        now_ms = self._world.clock.wall_ms()
        producer_id, producer_epoch = producer
        return encode_batch(
            [(now_ms, *encode(record), ()) for record in records],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=producer_id != NO_PRODUCER,
        )

    def _when_settled(self, then: Callable[[Reason | None], None]) -> None:
        """Call `then` once all that is in the partition now is committed: at once if it is."""
        written = Offset(self.partition.log.next_offset)
        everything = PendingAppend(self.partition, None, written, written, NO_TIMESTAMP)
        deadline_s = self._world.clock.monotonic_s() + COMMIT_S_MAX
        if not everything.when_settled(lambda: then(everything.refusal), deadline_s):
            then(None)

    def _settled(self, mind: MindT, effects: Effects, refused: Reason | None) -> None:
        self._reply(effects.replies, refused)
        if self._on_effects is None or self.is_closed or self._mind is not mind:
            return  # a mind that is loaded anew orders for itself what is still to be done
        if refused is None:
            self._on_effects(self, mind, effects)
        elif effects.has_orders:  # whoever asked waits no longer; the mind does, and nobody orders it a second time
            self._when_settled(lambda later: self._settled(mind, effects, later))

    def _reply(self, replies: Sequence[Reply], refused: Reason | None) -> None:
        """Once the partition has committed what they tell of, or has refused to."""
        self._answer_all(replies, None if refused is None else self._unavailable(refused))

    def _answer_all(self, replies: Sequence[Reply], refused: Reason | None) -> None:
        for token, response in replies:
            assert isinstance(token, asyncio.Future)
            _answer(token, response, refused)

    def _unavailable(self, reason: Reason) -> Reason:
        """What clients understand and act upon: whatever it is, they come back."""
        if reason.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return Reason(ErrorCode.NOT_COORDINATOR, reason.message)
        return Reason(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason.message)

    def _start_anew(self, reason: Reason) -> None:
        self._drop(self._unavailable(reason))
        if not self.is_closed:
            self._needs_load.set()

    def _drop(self, reason: Reason) -> None:
        self._mind = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for token in list(self._asking):
            _answer(token, None, reason)

    # ---- time

    def _now(self) -> Now:
        clock = self._world.clock
        return Now(int(clock.monotonic_s() * 1000), clock.wall_ms())

    def _set_timer(self, mind: MindT) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = mind.next_deadline_ms()
        if due_ms is not None and self._mind is mind:
            # A millisecond more: the clock is read in whole ones, and a timer that fires early would fire twice.
            delay_s = max(0, due_ms - self._now().steady_ms + 1) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        mind = self._mind
        if mind is not None:
            self._try_to_perform(mind, lambda: mind.tick(self._now()))


def _answer(token: asyncio.Future[Any], response: Any, refused: Reason | None) -> None:
    if token.done():
        return  # whoever asked has gone
    if refused is None:
        token.set_result(response)
    else:
        token.set_exception(refused.refusal())


class _Replay:
    """Applies a log to a mind as if it had just been compacted: of plain records, only the last of each key.

    Most records of a busy log are commits that later ones have replaced. To read such a record takes a third of the
    time that it takes to understand and apply it. What belongs to transactions is applied one by one, in its order.
    """

    def __init__(self, mind: Mind, kinds: Kinds, breather: Breather) -> None:
        self._mind = mind
        self._kinds = kinds
        self._breather = breather
        self._latest: dict[bytes, bytes | None] = {}
        """By key, in the order of the log: the last value that is not applied yet."""

    async def add(self, batch: memoryview, header: BatchHeader) -> None:
        is_plain = not header.is_control and not header.is_transactional
        if not is_plain or len(self._latest) >= LATEST_MAX:
            await self.settle()
        try:
            if not is_plain:
                await self._apply_now(batch, header)
            else:
                await self._note(batch)
        except (UnreadableRecord, CorruptBatch) as problem:
            raise UnreadableRecord(f"in the batch at offset {header.base_offset}: {problem}") from problem

    async def _note(self, batch: memoryview) -> None:
        latest = self._latest
        for number, (key, value) in enumerate(keys_and_values(batch, inflate_max=INFLATE_MAX)):
            if key is not None:
                latest.pop(key, None)  # it takes its place at the end
                latest[key] = value
            if number % NOTED_IN_A_STEP == 0:
                await self._breather.breathe()

    async def _apply_now(self, batch: memoryview, header: BatchHeader) -> None:
        producer_id = ProducerId(header.producer_id)
        for record in decode_records(batch, inflate_max=INFLATE_MAX):
            if header.is_control:
                self._mind.apply_marker(producer_id, is_commit=is_commit_marker(record))
            elif record.key is not None:
                self._apply(record.key, record.value, producer_id)
            await self._breather.breathe()

    async def settle(self) -> None:
        """Apply what is not applied yet."""
        for key, value in self._latest.items():
            try:
                self._apply(key, value, NO_PRODUCER)
            except UnreadableRecord as problem:
                raise UnreadableRecord(f"in the last record with the key {bytes(key[:100])!r}: {problem}") from problem
            await self._breather.breathe()
        self._latest.clear()

    def _apply(self, key: bytes, value: bytes | None, producer_id: ProducerId) -> None:
        self._mind.apply(decode(self._kinds, key, value), producer_id)

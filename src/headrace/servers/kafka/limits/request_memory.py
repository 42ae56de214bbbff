"""Memory for requests on their way in: one budget for all clients of a node, whatever each of them announces.

Small frames need no leave. For a larger one its connection reserves the whole of it before it reads on, so whoever was
let in can always finish: nobody holds a part while it waits for the rest. Where the budget is exhausted a connection
stops reading and waits in line; lines go round by address. What idle connections keep of grown buffers counts too, and
is the first to be given back.

Large frames leave a share for those of usual size; and while a large one waits, these keep to that share. So neither
starves the other. While anybody waits, a client that sends too slowly for what it holds loses its connection.

Nothing here knows time or the loop: `look_for_slow` is to be called every `LOOK_S` while somebody waits.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

MIB: Final = 1 << 20
FREE_FRAME: Final = 64 << 10  # up to here nobody asks: what nearly all requests are, also while the budget is exhausted
LENGTH_BYTES: Final = 4  # before each frame, and in its buffer
LARGE_FRAME: Final = 4 * MIB  # no client's default comes near; a few of them fill a budget in which hundreds others fit
USUAL_SHARE: Final = 24 * MIB  # never taken by large frames: some twenty full batches of 1 MiB are always on their way
LOOK_S: Final = 1.0
PROGRESS_MIN: Final = MIB  # to be sent in `PATIENCE` looks: 1.6 Mbit/s, and the largest frame takes eight minutes
PATIENCE: Final = 5
PATIENCE_WITH_OURS: Final = 30  # looks, where the client cannot go on because of us: a disk that is slow, or this line
ADDRESSES_TRIED: Final = 16  # at a time, for one whose frame fits: a crowd in line must not make each return dear


class Owner(Protocol):
    """A connection, as the budget sees it."""

    @property
    def address(self) -> str: ...

    @property
    def unfinished_bytes(self) -> int:
        """What has come and is not served yet."""
        ...

    @property
    def is_held_up(self) -> bool:
        """True if we keep it from going on, and not its client."""
        ...

    def give_back_idle(self) -> None:
        """Release what is kept only for the next request."""
        ...

    def memory_granted(self) -> None:
        """What it waited for is reserved now."""
        ...

    def refuse(self, reason: str) -> None: ...


class Holding:
    """What one connection has of the budget."""

    __slots__ = (
        "_counted_from",
        "_last",
        "_memory",
        "is_large",
        "owner",
        "size",
        "slow_looks",
        "still_looks",
        "wanted",
    )

    def __init__(self, memory: RequestMemory, owner: Owner) -> None:
        self._memory = memory
        self.owner = owner
        self.size = 0
        self.is_large = False
        self.wanted = 0
        """The size that it waits for; 0 if it does not."""
        self.slow_looks = 0
        self.still_looks = 0
        self._last = 0
        """How much had come at the last look."""
        self._counted_from = 0
        """How much had come when it had last sent enough."""

    def reserve(self, size: int) -> bool:
        """Have at least so much. False: it waits in line, and its owner will be told."""
        if size <= self.size or size <= FREE_FRAME:
            return True
        return self.wanted == 0 and self._memory.reserve(self, size)

    def release(self) -> None:
        """Give all of it back, and leave the line."""
        self.slow_looks = self.still_looks = self._last = self._counted_from = 0
        if self.size or self.wanted:
            self._memory.release(self)

    def note_progress(self) -> None:
        unfinished = self.owner.unfinished_bytes
        self.still_looks = self.still_looks + 1 if unfinished == self._last else 0
        self._last = unfinished
        if unfinished < self._counted_from or unfinished >= self._counted_from + PROGRESS_MIN:
            self.slow_looks, self._counted_from = 0, unfinished
        else:
            self.slow_looks += 1


class _Line:
    """Those who wait, by address; each address in its turn."""

    __slots__ = ("_by_address",)

    def __init__(self) -> None:
        self._by_address: OrderedDict[str, deque[Holding]] = OrderedDict()

    def __len__(self) -> int:
        """How many addresses wait."""
        return len(self._by_address)

    def add(self, holding: Holding) -> None:
        self._by_address.setdefault(holding.owner.address, deque()).append(holding)

    def remove(self, holding: Holding) -> None:
        address = holding.owner.address
        waiting = self._by_address[address]
        waiting.remove(holding)
        if not waiting:
            del self._by_address[address]

    def heads(self) -> list[Holding]:
        """The first of each of the next addresses."""
        heads = []
        for waiting in self._by_address.values():
            heads.append(waiting[0])
            if len(heads) == ADDRESSES_TRIED:
                break
        return heads

    def take_first(self, fits: Callable[[Holding], bool]) -> Holding | None:
        for holding in self.heads():
            if fits(holding):
                address = holding.owner.address
                self.remove(holding)
                if address in self._by_address:
                    self._by_address.move_to_end(address)
                return holding
        return None


class RequestMemory:
    """The budget. `used` never exceeds `limit`."""

    def __init__(self, limit: int, frame_max: int, on_wait: Callable[[], None] = lambda: None) -> None:
        self.limit = max(limit, LENGTH_BYTES + frame_max + USUAL_SHARE) if limit >= 0 else sys.maxsize
        """The largest frame always fits beside the share of the others."""
        self.used = 0
        self._on_wait = on_wait
        self._used_by_large = 0
        self._used_by: dict[str, int] = {}
        self._holdings: dict[Holding, None] = {}
        self._usual, self._large = _Line(), _Line()

    @property
    def has_waiters(self) -> bool:
        return bool(self._usual or self._large)

    def holding(self, owner: Owner) -> Holding:
        return Holding(self, owner)

    def used_by(self, address: str) -> int:
        return self._used_by.get(address, 0)

    # ---- plain counting, for bytes that are copied for a while

    def try_take(self, size: int, address: str = "") -> bool:
        """Count so much more, if it fits and nobody waits for it. To be given back with the same arguments."""
        is_large = size > LARGE_FRAME
        if (self._large if is_large else self._usual) or not self._fits(size, size, is_large):
            return False
        self._count(size, size if is_large else 0, address)
        return True

    def give_back(self, size: int, address: str = "") -> None:
        self._count(-size, -size if size > LARGE_FRAME else 0, address)
        self._serve()

    # ---- holdings

    def reserve(self, holding: Holding, size: int) -> bool:
        line = self._large if size > LARGE_FRAME else self._usual
        holding.wanted = size
        if line or not self._may_have(holding):
            self._reclaim(holding)
        if line or not self._may_have(holding):
            line.add(holding)
            self._on_wait()
            return False
        self._grant(holding)
        return True

    def release(self, holding: Holding) -> None:
        if holding.wanted:
            (self._large if holding.wanted > LARGE_FRAME else self._usual).remove(holding)
            holding.wanted = 0
        if holding.size:
            self._count(-holding.size, -holding.size if holding.is_large else 0, holding.owner.address)
            holding.size, holding.is_large = 0, False
            del self._holdings[holding]
        self._serve()

    def look_for_slow(self) -> None:
        """Somebody waits: take from those who send too little, if idle ones have nothing to give."""
        first = [*self._large.heads(), *self._usual.heads()]
        for holding in first:
            self._reclaim(holding)
        self._serve()
        first = [holding for holding in first if holding.wanted]
        if not first:
            return
        for holding in self._holdings:
            holding.note_progress()
        missing = min(holding.wanted - holding.size for holding in first)
        slow = sorted((it for it in self._holdings if self._is_too_slow(it)), key=lambda it: -it.slow_looks)
        for holding in slow:
            if missing <= 0:
                break
            if holding not in first:
                missing -= holding.size
                holding.owner.refuse(
                    f"others wait for the {holding.size} bytes of memory that its request holds, of which it sent "
                    f"{holding.owner.unfinished_bytes}, and too slowly; queued.max.request.bytes has the limit"
                )

    def _is_too_slow(self, holding: Holding) -> bool:
        if not holding.owner.unfinished_bytes:
            return False
        if holding.wanted or holding.owner.is_held_up:
            return holding.slow_looks >= PATIENCE_WITH_OURS
        if holding.slow_looks >= PATIENCE:
            return True
        address = holding.owner.address
        is_greedy = self.used_by(address) > self.limit // 2
        return is_greedy and holding.still_looks > 0 and self._others_wait(address)

    def _others_wait(self, address: str) -> bool:
        return any(it.owner.address != address for it in (*self._usual.heads(), *self._large.heads()))

    def _may_have(self, holding: Holding) -> bool:
        is_large = holding.wanted > LARGE_FRAME
        more = holding.wanted - holding.size
        if not self._fits(more, more if holding.is_large else holding.wanted, is_large):
            return False
        address = holding.owner.address
        used = self.used_by(address)
        return used == 0 or used + more <= self.limit // 2 or not self._others_wait(address)

    def _fits(self, more: int, more_large: int, is_large: bool) -> bool:
        if self.used + more > self.limit:
            return False
        if is_large:
            return self._used_by_large + more_large <= self.limit - USUAL_SHARE
        return not self._large or self.used - self._used_by_large + more <= USUAL_SHARE

    def _grant(self, holding: Holding) -> None:
        size, holding.wanted = holding.wanted, 0
        is_large = size > LARGE_FRAME
        more_large = size - (holding.size if holding.is_large else 0) if is_large else 0
        self._count(size - holding.size, more_large, holding.owner.address)
        holding.size, holding.is_large = size, is_large
        holding.slow_looks = holding.still_looks = 0
        self._holdings[holding] = None

    def _count(self, more: int, more_large: int, address: str) -> None:
        self.used += more
        self._used_by_large += more_large
        used = self._used_by.get(address, 0) + more
        if used:
            self._used_by[address] = used
        else:
            self._used_by.pop(address, None)
        assert 0 <= self._used_by_large <= self.used <= self.limit, "the budget for requests does not add up"

    def _reclaim(self, for_whom: Holding) -> None:
        """Take what is only kept, from whoever has had it longest, until there is enough."""
        for holding in list(self._holdings):
            if self._may_have(for_whom):
                return
            if not holding.owner.unfinished_bytes:
                holding.owner.give_back_idle()

    def _serve(self) -> None:
        """Let in who fits now; large frames first, for which room is rarer."""
        for line in (self._large, self._usual):
            while line and (holding := line.take_first(self._may_have)) is not None:
                self._grant(holding)
                holding.owner.memory_granted()

"""A walk over every record inside a batch: can a reader take each of them apart? Which of them is of that time?

Every batch of every producer comes through here before it is acknowledged, so this is the hottest loop of a node. The
module is plain typed Python that mypyc compiles where a C compiler is at hand (`tools/compiling.py`); otherwise it runs
as it stands, some fifty times slower, and gives the same answers. To keep that so:

- it imports nothing of the house, and asks only for what both forms have;
- no `i64` can overflow: a number of 32 bits is read from at most 35, one of 64 bits is put together below the sign.

Most batches are plain, and there are short ways for what is. They never refuse: they say that something is sound, or
nothing. So there is one judge of everything else, and one place for each sentence that a producer hears.

The records are looked at through a window, a copy of some of their bytes: compiled code reads `bytes` twenty times as
fast as any other buffer. What lies in a value or a key is skipped, and is copied only if a window happens to hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

HEADERS_MAX: Final = (
    10_000  # of one record; each costs a reader an object, and two bytes on the wire are enough for one
)
KEYLESS_TOLD: Final = 100  # how many records without a key are told by number; a producer needs one to find its mistake
RECORD_LENGTH_MIN: Final = 6  # attributes, two deltas, key length, value length, header count: a byte each
WINDOW: Final = 32 * 1024
PLAIN_HEAD_MAX: Final = 16  # more than all numbers of a plain record take
PLAIN_RECORDS_MAX: Final = 0x2000  # the numbers of those that follow take three bytes
NEVER: Final = 1 << 62  # later than any time that a plain record has


class BadRecord(Exception):
    """No reader can take these records apart."""


# size: compiled, and a call for each number would take longer than all the rest
def _plain_records(  # noqa: C901, PLR0912, PLR0915 - see above
    window: bytes, here: i64, limit: i64, index: i64, stop: i64, needs_keys: bool
) -> tuple[i64, i64, i64, i64]:
    """Go over the plainest records, from number `index` up to `stop`: those that have small numbers and no headers.

    Returns where they end, the number of the record there, and their least and greatest time. Stops before the first
    other record, be it good or bad: `RecordWalk` is the judge, and takes ten times as long.

    Numbers stay as they are written: doubled, and odd if they are below zero. So 0x80 is the first that takes two
    bytes, and 0x4000 the first that takes three. What is known already is not read but compared: a record's own number,
    and the length of a value that fills the record.
    """
    last: i64 = limit - PLAIN_HEAD_MAX
    stop = min(stop, PLAIN_RECORDS_MAX)
    oldest: i64 = NEVER
    newest: i64 = -NEVER
    while index < stop and here <= last:
        at: i64 = here
        length: i64 = window[at]
        if length >= 0x80:
            at += 1
            second: i64 = window[at]
            length += (second << 7) - 0x80
        end: i64 = at + 1 + (length >> 1)
        if length >= 0x4000 or length & 1 or end > limit:
            break
        at += 2  # its attributes, which mean nothing yet
        time: i64 = window[at]
        if time >= 0x80:
            at += 1
            second = window[at]
            time += (second << 7) - 0x80
        at += 1
        delta: i64 = window[at]
        if index < 0x40:
            if delta != index << 1:
                break
        else:
            at += 1
            second = window[at]
            if delta < 0x80 or delta + (second << 7) != 0x80 + (index << 1):
                break
        at += 1
        key: i64 = window[at]
        if key >= 0x80:
            at += 1
            second = window[at]
            key += (second << 7) - 0x80
        at += 1
        if not key & 1:
            at += key >> 1
        elif key > 1 or needs_keys:
            break  # shorter than null, or null where that is worth a note
        size: i64 = end - at - 2  # of the value, between its length and the number of headers
        if size < 0 or time >= 0x4000 or key >= 0x4000:
            break
        value: i64 = window[at]
        if size < 0x40:
            if value != size << 1 and (value != 1 or size):
                break
        else:
            second = window[at + 1]
            if value < 0x80 or value + (second << 7) != 0x7E + (size << 1):
                break  # that length has two bytes, so there is one less to fill
        if window[end - 1]:
            break  # headers
        time = (time >> 1) ^ -(time & 1)
        if not oldest <= time <= newest:
            oldest = min(oldest, time)
            newest = max(newest, time)
        here = end
        index += 1
    return here, index, oldest, newest


@final
class RecordWalk:
    """Over the records in `body` from `start` to `end`. Afterwards it knows their times, and which of them have no key.

    `pause` is called after each `steps` records and headers: it may let others have the processor, or end the walk by
    an exception of its own.
    """

    def __init__(
        self,
        body: memoryview,
        start: int,
        end: int,
        pause: Callable[[], None],
        steps: int,
        window: bytes = b"",
        needs_keys: bool = True,
    ) -> None:
        """`window` is all of the body, where that is a `bytes` object: then nothing is copied. If nobody `needs_keys`,
        what is said of those that are missing is not complete."""
        self._body = body
        self._size: i64 = end
        self._needs_keys = needs_keys
        self._pause = pause
        self._steps_each: i64 = steps
        self._steps_left: i64 = steps
        self._steps: i64 = 0
        self._here: i64 = start
        self._window = window
        self._window_start: i64 = 0 if window else start
        self._window_end: i64 = end if window else start
        self._index: i64 = 0
        self._delta: i64 = 0
        self._time: i64 = 0
        self._oldest: i64 = 0
        self._newest: i64 = 0
        self.keyless: list[int] = []
        """The numbers of the first few records that have no key."""
        self.keyless_count = 0

    @property
    def oldest_delta(self) -> int:
        """Of the record with the lowest time, against the batch's base."""
        return self._oldest

    @property
    def newest_delta(self) -> int:
        return self._newest

    @property
    def steps(self) -> int:
        """How many records and headers it has seen."""
        return self._steps

    def run(self, count: int) -> None:
        """Raises BadRecord unless just `count` records fill the body, numbered 0, 1, 2… as a producer numbers them."""
        wanted: i64 = count
        while self._index < wanted:
            self._pass_plain_records(wanted)
            if self._index == wanted:
                break
            self._record()
            if self._delta != self._index:
                raise self._bad(f"has offset delta {self._delta}")
            self._note_time(self._time)
            self._index += 1
        if self._here != self._size:
            raise BadRecord(f"{self._size - self._here} bytes follow the last of {count} records")

    def find(self, count: int, time_delta: int, offset_delta: int) -> bool:
        """Walk to the first of `count` records that is not older, and not before that offset. False if none is."""
        wanted: i64 = count
        since: i64 = time_delta
        low: i64 = offset_delta
        while self._index < wanted:
            self._record()
            if self._time >= since and self._delta >= low:
                return True
            self._index += 1
        return False

    def go_on(self) -> None:
        """Past the record that was found."""
        self._index += 1

    @property
    def time_delta(self) -> int:
        """Of the record that the walk has come to."""
        return self._time

    @property
    def offset_delta(self) -> int:
        return self._delta

    def _record(self) -> None:
        self._count_step()
        length = self._number()
        end: i64 = self._here + length
        if length < RECORD_LENGTH_MIN or end > self._size:
            raise self._bad(f"says that it has {length} bytes; {self._size - self._here} follow")
        self._here += 1  # its attributes, which mean nothing yet
        self._time = self._long_number()
        self._delta = self._number()
        if self._skip_field(end) < 0:
            self._note_keyless()
        self._skip_field(end)
        headers = self._number()
        if headers:
            self._skip_headers(headers, end)
        # Reading only ever moves forward, so this one check also finds fields that reach into the next record.
        if self._here != end:
            raise self._bad(f"says that it has {length} bytes; its fields do not fill just these")

    def _pass_plain_records(self, wanted: i64) -> None:
        start = self._window_start
        stop: i64 = min(self._index + self._steps_left, wanted)
        here, index, oldest, newest = _plain_records(
            self._window, self._here - start, self._window_end - start, self._index, stop, self._needs_keys
        )
        passed: i64 = index - self._index
        if passed:
            self._here = start + here
            self._steps += passed
            self._steps_left -= passed
            self._note_time(oldest)
            self._index = index
            self._note_time(newest)

    def _note_time(self, delta: i64) -> None:
        if self._index == 0:
            self._oldest = self._newest = delta
        elif delta > self._newest:
            self._newest = delta
        elif delta < self._oldest:
            self._oldest = delta

    def _note_keyless(self) -> None:
        self.keyless_count += 1
        if self.keyless_count <= KEYLESS_TOLD:
            self.keyless.append(self._index)

    def _skip_headers(self, count: i64, end: i64) -> None:
        if count < 0 or count > HEADERS_MAX:
            raise self._bad(f"says that it has {count} headers; 0 to {HEADERS_MAX} are taken")
        while count > 0:
            self._count_step()
            if self._skip_field(end) < 0:
                raise self._bad("has a header without a key")
            self._skip_field(end)
            count -= 1

    def _skip_field(self, end: i64) -> i64:
        """Past a key or a value; its length, -1 if it is null."""
        length = self._number()
        if length > 0:
            self._here += length
            if self._here > end:
                raise self._bad(f"has a field of {length} bytes, which reaches past its end")
        elif length < -1:
            raise self._bad(f"has a field of {length} bytes")
        return length

    def _count_step(self) -> None:
        self._steps += 1
        self._steps_left -= 1
        if self._steps_left < 0:
            self._steps_left = self._steps_each
            self._pause()

    # ---- numbers

    def _number(self) -> i64:
        """The varint of 32 bits that comes next."""
        byte = self._byte()
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1)
        value: i64 = byte & 0x7F
        shift: i64 = 7
        while shift < 35:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise self._bad("has a number that is longer than 32 bits")

    def _long_number(self) -> i64:
        """The varint of 64 bits that comes next."""
        byte = self._byte()
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1)
        value: i64 = byte & 0x7F
        shift: i64 = 7
        while shift < 63:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        byte = self._byte()  # the tenth has room for one bit, which would be the sign of an i64 if it were put there
        if byte > 1:
            raise self._bad("has a number that is longer than 64 bits")
        return ((value >> 1) | (byte << 62)) ^ -(value & 1)

    def _byte(self) -> i64:
        here = self._here
        if here >= self._window_end:
            self._move_window()
        byte: i64 = self._window[here - self._window_start]
        self._here = here + 1
        return byte

    def _move_window(self) -> None:
        here = self._here
        if here >= self._size:
            raise self._bad("runs past the end of the batch")
        self._window = bytes(self._body[here : min(here + WINDOW, self._size)])
        self._window_start = here
        self._window_end = here + len(self._window)

    def _bad(self, what: str) -> BadRecord:
        return BadRecord(f"record {self._index} {what}")


_NOTHING: Final = memoryview(b"")


def times_in(
    memory: bytes, start: int, end: int, count: int, pause: Callable[[], None], steps: int
) -> tuple[int, int, int]:
    """Walk over plain records that lie in `memory`: the least and the greatest of their time deltas, and how many steps
    it took. What most batches need, in one call."""
    walk = RecordWalk(_NOTHING, start, end, pause, steps, memory, False)
    walk.run(count)
    return walk._oldest, walk._newest, walk._steps


def plain_times(memory: bytes, start: int, size: int, count_max: int) -> tuple[int, int] | None:
    """The oldest and the newest time in a whole batch that is of the plainest kind and, but for its CRC, sound. None of
    any other: `validation` and `examination` are its judges, and know what to say of it.

    Most batches are plain: no attributes, so neither compressed nor in a transaction; at most `count_max` records.
    """
    here: i64 = start
    if size < 61:
        return None
    high = _word(memory, here + 27)
    count = _word(memory, here + 57)
    if (
        memory[here + 16] != 2  # the format
        or memory[here + 21]
        or memory[here + 22]  # attributes
        or _word(memory, here)
        or _word(memory, here + 4)  # base offset
        or _word(memory, here + 8) + 12 != size  # what is before it does not count
        or _word(memory, here + 23) + 1 != count  # last offset delta
        or high >= 1 << 30  # base time: what is added to it cannot reach 64 bits
        or not 0 < count <= count_max
        or not _has_plain_producer(memory, here)
    ):
        return None
    end: i64 = here + size
    reached, index, oldest, newest = _plain_records(memory, here + 61, end, 0, count, False)
    if index != count or reached != end:
        return None
    base: i64 = (high << 32) + _word(memory, here + 31)
    return base + oldest, base + newest


def _has_plain_producer(memory: bytes, here: i64) -> bool:
    """Either none, or one whose id, epoch and sequence are not below zero."""
    if memory[here + 43] < 0x80:
        return memory[here + 51] < 0x80 and memory[here + 53] < 0x80
    return _word(memory, here + 43) == 0xFFFFFFFF and _word(memory, here + 47) == 0xFFFFFFFF


def _word(memory: bytes, at: i64) -> i64:
    """Four bytes as a number that is not below zero."""
    first: i64 = memory[at]
    second: i64 = memory[at + 1]
    third: i64 = memory[at + 2]
    fourth: i64 = memory[at + 3]
    return (first << 24) + (second << 16) + (third << 8) + fourth

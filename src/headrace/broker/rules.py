"""What a topic's settings allow clients to write, and what they make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.metadata.configs import LONG_MAX
from headrace.metadata.internal import is_internal
from headrace.metadata.settings import DEFAULT_TOPIC_SETTINGS
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TIMESTAMP
from headrace.wire.batches import read_header
from headrace.wire.produce import RecordError
from headrace.wire.validation import check_records, key_problem, rewrite_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.metadata.settings import TopicSettings
    from headrace.runtime.clock import Clock
    from headrace.wire.batches import BatchHeader
    from headrace.wire.validation import RecordProblem

INFLATE_MAX: Final = 64 << 20  # a compressed batch may open to this, on the loop; more is a bomb


class RefusedRecords(Refusal):
    """Single records of a batch that their topic cannot take; the producer is told which."""

    def __init__(self, problems: Sequence[RecordProblem]) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"{len(problems)} records are invalid: {problems[0].message}")
        self.record_errors = [RecordError(problem.batch_index, problem.message) for problem in problems]


class TopicRules:
    """For one partition. What most batches need not be asked is worked out once, when settings change."""

    __slots__ = (
        "_clock",
        "_topic",
        "has_oldest_time",
        "max_message_bytes",
        "plausible_until_ms",
        "rewrites",
        "settings",
    )

    def __init__(self, topic: str, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self.configure(DEFAULT_TOPIC_SETTINGS)

    def configure(self, settings: TopicSettings) -> None:
        self.settings = settings
        self.max_message_bytes = settings.max_message_bytes
        # Batches for internal topics take that way to be refused, so that all others need not be asked.
        self.rewrites = settings.opens_batches or settings.is_compacted or is_internal(self._topic)
        self.has_oldest_time = settings.message_timestamp_before_max_ms < LONG_MAX
        self.plausible_until_ms = 0
        """Times up to it were plausible when the clock was last read, and still are."""

    def check_times(self, base_ms: int, max_ms: int) -> None:
        """Refuse times that are too far from ours. The clock is read only if a batch could be too far ahead."""
        settings = self.settings
        if settings.is_log_append_time or max_ms == NO_TIMESTAMP:
            return
        now_ms = self._clock.wall_ms()
        self.plausible_until_ms = now_ms + settings.message_timestamp_after_max_ms
        if max_ms > self.plausible_until_ms or base_ms < now_ms - settings.message_timestamp_before_max_ms:
            raise Refusal(
                ErrorCode.INVALID_TIMESTAMP,
                f"the records are from {base_ms} to {max_ms}, our clock says {now_ms}; {self._topic} allows "
                f"{settings.message_timestamp_before_max_ms} ms before and "
                f"{settings.message_timestamp_after_max_ms} ms after it",
            )

    def too_large(self, size: int) -> Refusal:
        return Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes; {self._topic} allows max.message.bytes={self.max_message_bytes}",
        )

    def rewrite(self, batch: memoryview, header: BatchHeader) -> tuple[memoryview, BatchHeader, int]:
        """What the topic's settings ask for: keys, another codec, the time of append (-1 if it is the producer's)."""
        if is_internal(self._topic):
            raise Refusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{self._topic} is written by coordinators alone, not by clients"
            )
        settings = self.settings
        if settings.is_compacted:
            problems = check_records(batch, inflate_max=INFLATE_MAX, problem_of=key_problem)
            if problems:
                raise RefusedRecords(problems)
        now_ms = self._clock.wall_ms() if settings.is_log_append_time else None
        rewritten = memoryview(
            rewrite_batch(batch, header, codec=settings.codec, log_append_time_ms=now_ms, inflate_max=INFLATE_MAX)
        )
        return rewritten, read_header(rewritten), NO_TIMESTAMP if now_ms is None else now_ms

"""What a topic's settings allow clients to write, and what they make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.configs.config_keys import LONG_MAX
from headrace.metadata.configs.internal_topics import is_internal
from headrace.metadata.configs.settings import DEFAULT_TOPIC_SETTINGS
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TIMESTAMP
from headrace.wire.batches.examination import Demands
from headrace.wire.batches.header import TIMESTAMP_TYPE_BIT, repack, restamp

if TYPE_CHECKING:
    from headrace.metadata.configs.settings import TopicSettings
    from headrace.runtime.clock import Clock
    from headrace.wire.batches.header import BatchHeader, Buffer


class TopicRules:
    """For one partition. What most batches need not be asked is worked out once, when settings change."""

    __slots__ = (
        "_clock",
        "_topic",
        "demands",
        "has_oldest_time",
        "is_for_clients",
        "max_message_bytes",
        "plain_max_bytes",
        "plausible_until_ms",
        "settings",
        "stamps",
    )

    def __init__(self, topic: str, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self.is_for_clients = not is_internal(topic)
        self.configure(DEFAULT_TOPIC_SETTINGS)

    def configure(self, settings: TopicSettings) -> None:
        self.settings = settings
        self.max_message_bytes = settings.max_message_bytes
        self.demands = demands = Demands(
            settings.is_compacted, settings.codec, not settings.validate_compressed, settings.max_message_bytes
        )
        asks_nothing = self.is_for_clients and not demands.needs_keys and demands.codec is None
        self.plain_max_bytes = settings.max_message_bytes if asks_nothing else 0
        """So large may a plain batch be that nothing more is asked of."""
        self.stamps = settings.is_log_append_time
        """Every batch gets the time of its arrival."""
        self.has_oldest_time = settings.message_timestamp_before_max_ms < LONG_MAX
        self.plausible_until_ms = 0
        """Times up to it were plausible when the clock was last read, and still are."""

    def check_times(self, oldest_ms: int, newest_ms: int) -> None:
        """Refuse times that are too far from ours. The clock is read only if a batch could be too far ahead."""
        settings = self.settings
        if self.stamps or newest_ms == NO_TIMESTAMP:
            return
        now_ms = self._clock.wall_ms()
        self.plausible_until_ms = now_ms + settings.message_timestamp_after_max_ms
        is_too_old = oldest_ms != NO_TIMESTAMP and oldest_ms < now_ms - settings.message_timestamp_before_max_ms
        if newest_ms > self.plausible_until_ms or is_too_old:
            raise Refusal(
                ErrorCode.INVALID_TIMESTAMP,
                f"the records are from {oldest_ms} to {newest_ms}, our clock says {now_ms}; {self._topic} allows "
                f"{settings.message_timestamp_before_max_ms} ms before and "
                f"{settings.message_timestamp_after_max_ms} ms after it",
            )

    def no_client(self) -> Refusal:
        return Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{self._topic} is written by the cluster's own nodes alone, not by clients",
        )

    def too_large(self, size: int) -> Refusal:
        return Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes; {self._topic} allows max.message.bytes={self.max_message_bytes}",
        )

    def change(
        self, batch: memoryview, header: BatchHeader, newest_ms: int, repacked: Buffer | None
    ) -> tuple[memoryview, BatchHeader, int]:
        """What the topic's settings make of a batch: another codec, the time of append (-1 if it is the producer's).

        Times are changed where the batch lies. Also if the producer's own newest time is not the newest of the records,
        as some clients leave it unset: lookups by time and retention depend on it.
        """
        if repacked is not None:
            batch, header = repack(header, self.demands.codec or 0, repacked)
        if not self.stamps:
            if header.max_timestamp != newest_ms:
                header = restamp(batch, header.attributes, newest_ms)
            return batch, header, NO_TIMESTAMP
        now_ms = self._clock.wall_ms()
        return batch, restamp(batch, header.attributes | TIMESTAMP_TYPE_BIT, now_ms), now_ms

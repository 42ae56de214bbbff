"""What happens when records that were to be read are not there any more: the option `failOnDataLoss`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.names import topic_id_text

if TYPE_CHECKING:
    from headrace.model.names import TopicId, TopicPartition

log = logging.getLogger(__name__)


class DataLoss(Exception):
    """Records are gone that this query has not read. The message says which, and how to go on without them."""


class Bounds(NamedTuple):
    """What a partition holds now."""

    first: int
    end: int
    """Exclusive. For `read_committed` the last stable offset: what lies beyond is not decided yet."""


class LossPolicy(NamedTuple):
    """The option's value, and what follows from it."""

    is_fatal: bool

    def report(self, what: str) -> None:
        """Raise, or warn and let the caller skip what is not there."""
        if self.is_fatal:
            raise DataLoss(
                f"{what}. Records expired, or the topic was deleted, before they were read. "
                "To skip what is gone and go on, set the option 'failOnDataLoss' to 'false' (in a pipeline's file "
                "fail_on_data_loss = false)"
            )
        log.warning("%s; skipped, as the option 'failOnDataLoss' is 'false'", what)

    def report_missing(self, name: TopicPartition, wanted: str, bounds: Bounds) -> None:
        """A partition lacks `wanted`, such as 'offsets 3 to 9 are'. Raises DataLoss, or warns."""
        available = f"offsets {bounds.first} to {bounds.end - 1}" if bounds.first < bounds.end else "no records"
        self.report(
            f"topic {name.topic!r}, partition {name.partition}: {wanted} wanted, but it holds {available} "
            f"(the next one written gets {bounds.end})"
        )

    def report_gone(self, name: TopicPartition, next_offset: int) -> None:
        """A partition that was being read is no longer there. Raises DataLoss, or warns."""
        self.report(
            f"topic {name.topic!r}, partition {name.partition}: it was to be read from offset {next_offset}, "
            "but there is no such partition any more, or the options no longer choose it"
        )

    def report_made_anew(self, topic: str, before: TopicId, now: TopicId) -> None:
        """It has another id than when it was read last. Raise, or warn and let the caller begin at its first offset."""
        what = (
            f"topic {topic!r} was deleted and made anew since it was read last: its id was {topic_id_text(before)}, "
            f"now it is {topic_id_text(now)}"
        )
        if self.is_fatal:
            raise DataLoss(
                f"{what}. What was not read of the old one is gone, and offsets in it mean nothing in the new one. "
                "To go on at the beginning of the new topic, set the option 'failOnDataLoss' to 'false' (in a "
                "pipeline's file fail_on_data_loss = false)"
            )
        log.warning("%s; it is read from its beginning, as the option 'failOnDataLoss' is 'false'", what)

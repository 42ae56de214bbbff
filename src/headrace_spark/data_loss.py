"""What happens when records that were to be read are not there any more: the option `failOnDataLoss`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.model.names import TopicPartition

log = logging.getLogger(__name__)


class DataLoss(Exception):
    """Records are gone that this query has not read. The text says which."""


class Bounds(NamedTuple):
    """What a partition holds now."""

    first: int
    end: int
    """Exclusive. For `read_committed` the last stable offset: what lies beyond is not decided yet."""


class LossPolicy(NamedTuple):
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
        available = f"offsets {bounds.first} to {bounds.end - 1}" if bounds.first < bounds.end else "no records"
        self.report(
            f"topic {name.topic!r}, partition {name.partition}: {wanted} wanted, but it holds {available} "
            f"(the next one written gets {bounds.end})"
        )

    def report_gone(self, name: TopicPartition, next_offset: int) -> None:
        self.report(
            f"topic {name.topic!r}, partition {name.partition}: it was to be read from offset {next_offset}, "
            "but there is no such partition any more, or the options no longer choose it"
        )

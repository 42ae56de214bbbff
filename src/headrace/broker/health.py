"""Whether a node may be sent requests, in words: known from before its directory is opened until it has stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.failure import Failure


class Health:
    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        self.is_ready = False
        """It has started, and does not stop yet."""
        self.may_lead = False
        """It has a lease. Without one, others may lead what it led: it takes and shows nothing."""

    @property
    def why_not_serving(self) -> str | None:
        """Why this node must not be sent requests now; None if it may."""
        if self.failure.error is not None:
            return f"the node must stop: {self.failure.error}"
        if not self.is_ready:
            return "the node is starting or stopping"
        if not self.may_lead:
            return (
                "the node has no lease: no controller has confirmed it for too long, so others may lead what it led; "
                "it refuses reads and writes until one does"
            )
        return None

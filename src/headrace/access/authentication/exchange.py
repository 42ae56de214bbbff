"""What becomes of each message of somebody who logs in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Challenge(NamedTuple):
    """It goes on: the other side is to answer this."""

    message: bytes
    denied: Denied | None = None
    """Present if it is over, and the other side has only to say that it has heard so; some leave without."""


class Accepted(NamedTuple):
    """It is over, and they are who they say."""

    name: str
    message: bytes = b""
    ends_at_s: float | None = None
    """Until when what they showed is valid, by the wall clock; None if it has no end."""


class Denied(NamedTuple):
    """It is over, and they are not. The other side never hears why."""

    reason: str
    """For logs and the audit; without a secret."""
    name: str = ""
    """Whom they said they were, as far as that is known."""


class Work(NamedTuple):
    """Too much for the event loop: to be called in a thread."""

    call: Callable[[], Challenge | Accepted | Denied]


Step = Challenge | Accepted | Denied | Work


class Exchange(Protocol):
    """One attempt to log in, in one way. A new attempt is a new exchange."""

    def step(self, message: bytes) -> Step:
        """What follows from the next message. Not called again once it is over."""
        ...

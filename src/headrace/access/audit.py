"""What is written down of what people did: who, from where, what, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.access.identity import Identity


class Outcome(Enum):
    DONE = "done"
    REFUSED = "refused"
    """Not allowed to, or not who they said."""
    FAILED = "failed"
    """Allowed to, and it did not work."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    action: str
    """The API's name, as `CreateTopics`; `Login` for a login."""
    identity: Identity
    outcome: Outcome
    resource: str = ""
    """As `topic 'orders'`; empty where it is about nothing in particular."""
    detail: str = ""
    """Why, or what was changed; never a secret."""
    client_id: str = ""
    listener: str = ""


class AuditSink(Protocol):
    def note(self, event: AuditEvent) -> None:
        """Takes microseconds, and never waits: what does not fit is counted."""


class NoAudit:
    """Where nobody wants to know."""

    def note(self, event: AuditEvent) -> None:
        """Forget it."""

"""An audit that a test can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from headrace.access.audit import AuditEvent
    from tests.unit.servers.living_server import LivingServer


class Noted:
    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    @classmethod
    def of(cls, living: LivingServer) -> Self:
        """What its listener notes of logins."""
        living.server._logins._audit = noted = cls()
        return noted

    def note(self, event: AuditEvent) -> None:
        self.events.append(event)

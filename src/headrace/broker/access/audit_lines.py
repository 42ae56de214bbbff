"""An event of the audit as one line of JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.access.audit import AuditEvent
    from headrace.model.names import NodeId


class Noted(NamedTuple):
    """An event, and when and where it was noted."""

    event: AuditEvent
    wall_ms: int
    node_id: NodeId
    sequence: int
    """Of this node since its start: where one is missing, an event was lost."""
    times: int
    """How often it was repeated since it was noted first; 0 when it is."""


def line_of(noted: Noted) -> bytes:
    """Without a line's end. All but ASCII is escaped: nothing that a client makes up begins a line of its own, or moves
    a terminal's cursor."""
    event = noted.event
    principal, host = event.identity
    fields = {
        "time": _time(noted.wall_ms),
        "node": noted.node_id,
        "sequence": noted.sequence,
        "action": event.action,
        "outcome": event.outcome.value,
        "principal": str(principal),
        "host": host,
        "client_id": event.client_id,
        "listener": event.listener,
        "resource": event.resource,
        "detail": event.detail,
    }
    if noted.times:
        fields["repeated"] = noted.times
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode()


def _time(wall_ms: int) -> str:
    seconds, milliseconds = divmod(wall_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"

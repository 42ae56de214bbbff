"""Moments as people write them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_timestamp(text: str) -> int:
    """Milliseconds since 1970 from an ISO 8601 date; without an offset it is UTC. Raises ValueError.

    On the way to a node a time before 1970 would mean something else: the end, the beginning, or nothing at all.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    timestamp_ms = round(moment.timestamp() * 1000)
    if timestamp_ms < 0:
        raise ValueError("it lies before 1970")
    return timestamp_ms

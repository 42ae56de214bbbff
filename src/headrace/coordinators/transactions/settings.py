"""What transactions may do, and how long things are kept. Names and defaults are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    """Of one transaction: while it is open, nobody reads committed records past its first."""
    id_expiration_ms: int = 7 * 24 * 3_600_000
    """A transactional id that did nothing for this long is forgotten."""

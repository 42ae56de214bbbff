"""What groups may do, and how long things take.

Names and defaults are Kafka's, but for the heartbeat of the newer protocol: Kafka's 5 s is what a rebalance then takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class GroupSettings:
    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 2_000
    consumer_max_size: int = 2**31 - 1


class OwnTimes(NamedTuple):
    """What one group of the newer protocol has for itself, instead of the settings for all."""

    session_timeout_ms: int
    heartbeat_interval_ms: int

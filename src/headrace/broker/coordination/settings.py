"""What groups and transactions need of a node's settings, in their own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.coordinators.groups.settings import GroupSettings
from headrace.coordinators.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from headrace.metadata.configs.settings import NodeSettings


def group_settings(settings: NodeSettings) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        max_size=settings.group_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_max_size=settings.group_consumer_max_size,
    )


def transaction_settings(settings: NodeSettings) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=settings.transaction_max_timeout_ms,
        id_expiration_ms=settings.transactional_id_expiration_ms,
    )

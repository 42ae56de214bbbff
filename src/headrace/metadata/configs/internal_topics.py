"""The topics that the cluster keeps for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.metadata.configs.topic_configs import DAY_MS
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from headrace.metadata.configs.settings import NodeSettings, TopicSettings

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
AUDIT = "__audit"
CLUSTER_METADATA = "__cluster_metadata"
"""Not a topic that clients can reach: the name of the log that holds the metadata records."""

INTERNAL_REPLICAS = 3
"""As many replicas an internal topic has, if there are as many nodes: groups and transactions survive a lost one."""

SEGMENT_BYTES: Final = 2 << 20  # what is not sealed is not compacted, and a new coordinator reads all of it first
BATCH_BYTES_MAX: Final = 16 << 20  # one decision about the largest of groups must fit
INTERNAL_CONFIGS: Final = (
    ("cleanup.policy", "compact"),
    ("compression.type", "producer"),
    ("max.message.bytes", str(BATCH_BYTES_MAX)),
    ("segment.bytes", str(SEGMENT_BYTES)),
)
"""What a coordinators' topic is made with, whoever makes it and says nothing else."""

AUDIT_CONFIGS: Final = (
    ("cleanup.policy", "delete"),
    ("compression.type", "producer"),
    ("retention.bytes", str(1 << 30)),
    ("retention.ms", str(30 * DAY_MS)),
    ("segment.bytes", str(64 << 20)),
)
"""An operator may set others. Whoever is refused again and again must not fill a disk: hence a bound on bytes, too."""

COORDINATED = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, CLUSTER_METADATA})
"""Whoever leads a partition of these decides by what it holds: so their settings are not anybody's choice."""

INTERNAL = COORDINATED | {AUDIT}


def is_internal(name: str) -> bool:
    return name in INTERNAL


def usual_configs(name: str) -> tuple[tuple[str, str], ...]:
    """Of an internal topic that is created without saying otherwise."""
    return AUDIT_CONFIGS if name == AUDIT else INTERNAL_CONFIGS


def usual_partition_count(name: str, settings: NodeSettings) -> int:
    """Of a topic that is created without saying how many."""
    if name == CONSUMER_OFFSETS:
        return settings.offsets_topic_num_partitions
    if name == TRANSACTION_STATE:
        return settings.transaction_state_log_num_partitions
    if name == AUDIT:
        return 1  # what happened in the cluster, in one order
    return settings.num_partitions


def check_fit_for_coordinators(name: str, settings: TopicSettings) -> None:
    """Refuse settings with which a coordinator would lose what it was told, or could not write what it decides.

    All others are the operator's.
    """
    if name not in COORDINATED:
        return
    if settings.cleanup_policy != ("compact",):
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"{name} needs cleanup.policy=compact: what is committed there counts for as long as nothing replaces it",
        )
    if settings.max_message_bytes < BATCH_BYTES_MAX:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"{name} needs max.message.bytes of at least {BATCH_BYTES_MAX}: one decision may take that",
        )

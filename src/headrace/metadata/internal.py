"""The topics that the cluster keeps for itself."""

from __future__ import annotations

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
CLUSTER_METADATA = "__cluster_metadata"
"""Not a topic that clients can reach: the name of the log that holds the metadata records."""

INTERNAL_REPLICAS = 3
"""As many replicas an internal topic has, if there are as many nodes: groups and transactions survive a lost one."""

_INTERNAL = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, CLUSTER_METADATA})


def is_internal(name: str) -> bool:
    return name in _INTERNAL

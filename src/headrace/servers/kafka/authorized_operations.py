"""What can be done at all with a topic, a group or the cluster: a bit for each of Kafka's operations that it knows.

Where access rules are obeyed, the gate leaves of it what they allow.
"""

from __future__ import annotations

from typing import Final

from headrace.access.operations import Operation


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED_FOR: Final = -(2**31)
_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
ON_TOPIC: Final = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    *_CONFIGS,
)
ON_GROUP: Final = _bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS)
ON_CLUSTER: Final = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.IDEMPOTENT_WRITE,
    *_CONFIGS,
)


def operations(permitted: int, *, asked_for: bool) -> int:
    return permitted if asked_for else NOT_ASKED_FOR

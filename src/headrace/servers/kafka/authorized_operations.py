"""What a client may do with a topic, a group or the cluster: everything, as long as nothing forbids anything.

The answer is a set of bits, one for each of Kafka's operations, and only those that the kind of resource knows.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Operation(IntEnum):
    """Kafka's numbers (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


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

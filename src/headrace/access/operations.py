"""What can be done, and to what: Kafka's names and numbers."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class Number(IntEnum):
    """Rules and verdicts are found by these, many times in a request: hashed as numbers, and not by their names."""

    __hash__ = int.__hash__


class Operation(Number):
    """`AclOperation`."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(Number):
    """`ResourceType`."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(Number):
    """How the name in a rule is meant. `MATCH` and `ANY` only stand in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(Number):
    """`AclPermissionType`."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of the kind CLUSTER."""


class Resource(NamedTuple):
    kind: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name!r}"


CLUSTER: Final = Resource(ResourceType.CLUSTER, CLUSTER_NAME)

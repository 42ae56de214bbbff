"""What the controller makes of a command: records and an answer.

The commands are pure functions of the image, one file per family: `topic_commands`, `config_commands`, `node_commands`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.model.names import NO_NODE

if TYPE_CHECKING:
    from headrace.metadata.decisions.slices import PartitionChange
    from headrace.metadata.image.records import MetadataRecord
    from headrace.model.errors import Refusal
    from headrace.model.names import NodeId

Response_co = TypeVar("Response_co", covariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Response_co]):
    """Records to append, and the answer to give once they are committed. No records: nothing needs to change."""

    records: tuple[MetadataRecord, ...]
    response: Response_co
    loser: NodeId = NO_NODE
    """A node that has lost what it had of the partitions that the records change."""
    rest: tuple[PartitionChange, ...] = ()
    """What is to be done to all other partitions before the answer is given, in slices: see `slices`."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Answer_co]):
    """The fate of one item of a request, in the place where the item stood. One refusal does not touch the others."""

    name: str
    result: Answer_co | Refusal

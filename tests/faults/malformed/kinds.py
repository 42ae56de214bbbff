"""What a kind of malformed batch is, and short ways to make one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.model.errors import ErrorCode
from tests.faults.malformed.forge import PACKINGS, SOUND_COUNT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.faults.malformed.forge import Forge, Packing

    Make = Callable[[Forge], bytes | None]

OK = ErrorCode.NONE
CORRUPT = ErrorCode.CORRUPT_MESSAGE
INVALID = ErrorCode.INVALID_RECORD
TIME = ErrorCode.INVALID_TIMESTAMP
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
NO_SUCH_CODEC = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
NO_SUCH_TRANSACTION = ErrorCode.INVALID_TXN_STATE
NO_SUCH_PRODUCER = ErrorCode.INVALID_PRODUCER_ID_MAPPING

LEAST, GREATEST = -(2**63), 2**63 - 1
LEAST_INT, GREATEST_INT = -(2**31), 2**31 - 1
GARBAGE = bytes(range(251, 0, -3)) * 3

COMPACTED = {"cleanup.policy": "compact"}
STAMPED = {"message.timestamp.type": "LogAppendTime"}
GZIPPED = {"compression.type": "gzip"}


@dataclass(frozen=True)
class Kind:
    """One way to be malformed, or legal but odd: then it is to be taken, and read."""

    id: str
    what: str
    """What is the matter, for the page."""
    make: Make
    code: ErrorCode
    """What a node is to answer."""
    but: Mapping[str, ErrorCode] = field(default_factory=dict)
    """Where the answer hangs on the packing: by its name."""
    packings: tuple[Packing, ...] = PACKINGS
    configs: Mapping[str, str] = field(default_factory=dict)
    """The settings of the topic that it is sent to."""
    transactional_id: str | None = None
    """What the request says beside the batch."""
    is_heavy: bool = False
    """True if whoever opens it needs seconds and gigabytes: it is not read back."""

    def code_for(self, packing: Packing) -> ErrorCode:
        return self.but.get(packing.name, self.code)


@dataclass(frozen=True)
class Section:
    title: str
    kinds: tuple[Kind, ...]


def said(**header: Any) -> Make:
    """Sound records below a header that says something else."""
    return lambda forge: forge.batch(**header)


def holding(body: bytes, count: int = SOUND_COUNT, **header: Any) -> Make:
    """Any bytes in place of the records, packed as it should be."""
    return lambda forge: forge.batch(body, count, **header)


def flipped(original: bytes, index: int) -> bytes:
    changed = bytearray(original)
    changed[index] ^= 0xFF
    return bytes(changed)

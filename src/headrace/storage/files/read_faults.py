"""The one boundary at which a disk that cannot read becomes damage of one log.

A bad sector says nothing about other files, so it must not end the node, nor a connection that reads other partitions
as well. Whatever reads a log's batches passes by here on its way to those who asked: they know damage, and not the
disk. What can be made anew from the batches (an index, a snapshot of producers) is: there it counts as missing.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from headrace.runtime.disk import ReadFault
from headrace.storage.files import layout
from headrace.storage.files.damage import DamagedLog

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

ANYWHERE: Final = -1  # the offset of damage that the path does not tell: the whole log is to be looked at


def damage_by(fault: ReadFault) -> DamagedLog:
    base_offset = layout.offset_in(fault.path.rpartition("/")[2], layout.LOG)
    offset = ANYWHERE if base_offset is None else base_offset
    return DamagedLog(fault.path, fault.position, offset, f"the disk cannot read it: {fault.words}")


def reads_log(call: Callable[P, T]) -> Callable[P, T]:
    """For whatever reads batches: DamagedLog if the disk cannot."""

    @wraps(call)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except ReadFault as fault:
            raise damage_by(fault) from fault

    return guarded

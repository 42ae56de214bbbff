"""Who has written to what a watch looks at: if nobody has, there is nothing new to see.

A run has half a million turns, and most of them touch no partition. To compare all partitions after each would take a
tenth of the run. So the classes that a watch looks at note every assignment to their attributes, with the life that it
was made in. That is complete as long as the watch looks only at attributes whose values never change themselves.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.simulation.environment.life import LIFE

if TYPE_CHECKING:
    from headrace.simulation.environment.life import Life

_written: defaultdict[Life | None, set[object]] = defaultdict(set)
_noted: set[type] = set()


def note_writes_to(*kinds: type) -> None:
    """From now on, in this process. What was written before is forgotten: a watch begins."""
    _written.clear()
    for kind in kinds:
        if kind not in _noted:
            _noted.add(kind)
            kind.__setattr__ = _write_and_note  # type: ignore[method-assign,assignment]  # a class takes any function


def written_by(life: Life) -> set[object] | None:
    """What it has written to since this was last asked. Or by somebody outside of every life, whenever that was."""
    written = _written.pop(life, None)
    if None not in _written:
        return written
    return _written[None] if written is None else written | _written[None]


def _write_and_note(self: object, name: str, value: object) -> None:
    object.__setattr__(self, name, value)
    _written[LIFE.get()].add(self)

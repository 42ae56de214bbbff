"""Who has written to what a watch looks at: if nobody has, there is nothing new to see.

A run has half a million turns, and most of them touch no partition. To compare all partitions after each would take a
tenth of the run. So the classes that a watch looks at note every assignment to their attributes, with the life that it
was made in. That is complete as long as the watch looks only at attributes whose values never change themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.simulation.life import life_of

if TYPE_CHECKING:
    from headrace.simulation.life import Life

_writers: set[Life | None] = set()
_noted: set[type] = set()


def note_writes_to(*kinds: type) -> None:
    """From now on, in this process. What others have written before is forgotten: a watch begins."""
    _writers.clear()
    for kind in kinds:
        if kind not in _noted:
            _noted.add(kind)
            kind.__setattr__ = _write_and_note  # type: ignore[method-assign,assignment]  # a class takes any function


def has_written(life: Life) -> bool:
    """Whether it has since this was last asked; or somebody outside of every life, who may have written anywhere."""
    if life in _writers:
        _writers.remove(life)
        return True
    return None in _writers


def _write_and_note(self: object, name: str, value: object) -> None:
    object.__setattr__(self, name, value)
    _writers.add(life_of(None))

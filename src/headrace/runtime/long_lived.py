"""Keeps the garbage collector away from what lives as long as the node.

A full collection looks at every object that it knows. With 20,000 partitions that takes 0.4 s, in which nothing else
runs, and every fourth part that the node grows makes it due again. So whenever many partitions have come, or have
changed, all that lives is frozen: no collection looks at it again. It is freed all the same when nobody refers to it
any more; only objects that refer to each other are not, which is why they are looked at after all when as much has gone
as has stayed.

This is about the process as a whole, so only who owns the process may ask for it.
"""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_S: Final = 0.1  # in that time a node opens some 150 partitions
COME: Final = 200  # partitions have some fifty objects each: a collection of so many takes 3 ms
CHANGED: Final = 2000  # partitions; a change is a few objects that take the place of others
GONE: Final = 1000  # fewer are not worth a collection of all that has stayed
YOUNG: Final = 1  # the generation; what is garbage as soon as it is made does not get frozen


class LongLived:
    """`count` tells how many partitions there are, `changes` how often any has changed so far."""

    def __init__(self, count: Callable[[], int], changes: Callable[[], int]) -> None:
        self._count = count
        self._changes = changes
        self._kept = self._frozen = count()
        """How many there were at the last look that froze, and the most since the last collection of all."""
        self._changes_kept = changes()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        now, changes = self._count(), self._changes()
        if now >= self._kept + COME or changes >= self._changes_kept + CHANGED:
            gc.collect(YOUNG)
            gc.freeze()
            self._kept, self._frozen, self._changes_kept = now, max(self._frozen, now), changes
        elif self._frozen - now >= max(GONE, now):
            gc.unfreeze()
            self.freeze_all()
        else:
            self._kept = min(self._kept, now)

    def freeze_all(self) -> None:
        """After a look at everything."""
        gc.collect()
        gc.freeze()
        self._kept = self._frozen = self._count()

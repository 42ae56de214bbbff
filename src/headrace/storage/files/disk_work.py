"""Work on the disk, in threads. What has begun is finished, also if whoever asked for it is cancelled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.runtime.tasks import outlast
from headrace.runtime.threads import GENERAL
from headrace.storage.files.disk_errors import disk_trouble, replace_if_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.world import World

T = TypeVar("T")


class DiskWork:
    def __init__(self, world: World) -> None:
        self.disk = world.disk
        self._threads = world.threads

    async def run(self, call: Callable[[], T], *, lane: str = GENERAL) -> T:
        """In a thread, which goes on if the caller is cancelled: then so does the caller, with the locks it holds."""
        return await outlast(self._threads.run(call, lane=lane))

    async def change(self, step: Callable[[], None], what: str) -> None:
        """Raises Refusal while there is no room for it; the words say what could not be done."""
        await self.run(partial(_on_disk, step, what))

    async def replace(self, path: str, content: bytes) -> bool:
        """Replace a file durably; False if the disk is full, and the old one still stands."""
        return await self.run(partial(replace_if_room, self.disk, path, content))


def _on_disk(step: Callable[[], None], what: str) -> None:
    try:
        step()
    except OSError as error:
        raise disk_trouble(error, what) from error

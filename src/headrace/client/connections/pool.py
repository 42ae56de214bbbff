"""The connections of one client: for each address one that all share, and more for those who want one of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.client.connections.connection import Connection
    from headrace.runtime.network import Address

T = TypeVar("T")

MAIN_LANE = "main"


class ConnectionPool:
    """Opens connections when they are asked for, and anew when they were lost. Callers that come together share one.

    A *lane* is the name of connections apart from those that all share, which are those of `MAIN_LANE`.
    """

    def __init__(self, open_connection: Callable[[Address], Awaitable[Connection]]) -> None:
        self.reached: dict[Address, None] = {}
        """Addresses that have answered, ever."""
        self._open_connection = open_connection
        self._connections: dict[tuple[Address, str], Connection] = {}
        self._opening: dict[tuple[Address, str], asyncio.Task[Connection]] = {}
        self._lane_count = 0

    def close(self) -> None:
        """Close all. Requests under way fail with ConnectionLost."""
        for opening in list(self._opening.values()):
            opening.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def new_lane(self, purpose: str) -> str:
        """A name that nobody else uses."""
        self._lane_count += 1
        return f"{purpose} {self._lane_count}"

    def close_lane(self, lane: str) -> None:
        """Close those of one lane."""
        for key in [key for key in self._opening if key[1] == lane]:
            self._opening[key].cancel()
        for key in [key for key in self._connections if key[1] == lane]:
            self._connections.pop(key).close()

    def living_lanes(self) -> list[str]:
        """The lane of each connection that is not lost."""
        return [lane for (_, lane), connection in self._connections.items() if not connection.is_lost]

    def any_shared(self) -> Connection | None:
        """One of those that all share, if any is not lost."""
        for (_, lane), connection in self._connections.items():
            if lane == MAIN_LANE and not connection.is_lost:
                return connection
        return None

    def get_nowait(self, address: Address, lane: str = MAIN_LANE) -> Connection | None:
        """The one that there is, unless it is lost."""
        connection = self._connections.get((address, lane))
        return connection if connection is not None and not connection.is_lost else None

    async def get(self, address: Address, lane: str = MAIN_LANE) -> Connection:
        """The one that there is, or a new one. ConnectionLost if nobody answers there."""
        connection = self.get_nowait(address, lane)
        if connection is not None:
            return connection
        # Shielded: one caller that gives up must not take the connection from the others.
        return await asyncio.shield(self.open_soon(address, lane))

    def open_soon(self, address: Address, lane: str = MAIN_LANE) -> asyncio.Task[Connection]:
        """Begin to open one, if nobody has; it can be awaited."""
        key = (address, lane)
        opening = self._opening.get(key)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(key), name=f"connect to {address}")
            self._opening[key] = opening
            opening.add_done_callback(lambda _: self._opening.pop(key, None))
            opening.add_done_callback(look_at_result)
        return opening

    async def _open(self, key: tuple[Address, str]) -> Connection:
        connection = await self._open_connection(key[0])
        self._connections[key] = connection
        self.reached[connection.address] = None
        return connection


def look_at_result(task: asyncio.Task[T]) -> None:
    """Everybody who waited may have given up; asyncio would complain about an error that nobody saw."""
    if not task.cancelled():
        task.exception()

"""A connection that is not read from for a while, because its client has used more than it may (KIP-219)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.servers.kafka.connections.connection import Connection

LOOK_S: Final = 10.0  # how late somebody may hear that quotas have changed; ten thousand who wait cost 2 % of a core
SPREAD: Final = 64  # parts into which the looks of those are spread who were muted together


class Muting:
    """Of one connection. It has one timer at most, however often it is muted anew."""

    __slots__ = ("_connection", "_timer", "_until_s", "is_on")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_on = False

    def mute(self, wait_s: float) -> None:
        """What has come already and is not begun waits as well; what is begun is answered."""
        connection = self._connection
        self._until_s = max(self._until_s, connection.clock.monotonic_s() + wait_s)
        self.is_on = True
        connection.pause()
        if self._timer is None:
            self._set_timer()

    def end(self) -> None:
        """Also if it is not muted: the connection is gone, or another rule holds."""
        self.is_on = False
        self._until_s = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        connection = self._connection
        left_s = self._until_s - connection.clock.monotonic_s()
        look_s = LOOK_S * (1 - connection.link.peer.port % SPREAD / (2 * SPREAD))
        self._timer = asyncio.get_running_loop().call_later(min(left_s, look_s), self._look)

    def _look(self) -> None:
        self._timer = None
        connection = self._connection
        if connection.clock.monotonic_s() < self._until_s and not connection.meter.has_other_quotas:
            self._set_timer()
            return
        self.end()
        connection.last_active_s = connection.clock.monotonic_s()  # it could not say anything before
        connection.keep_pace()

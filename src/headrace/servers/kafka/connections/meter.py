"""What a connection's client uses is counted here, and the connection muted where that is too much.

A client is answered at once, told how long to wait, and not read from for that long (KIP-219). Where no client has a
quota all of this costs one look per turn.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from headrace.servers.kafka.handlers.records import produce

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterable

    from headrace.access.identity import Identity
    from headrace.broker.access.client_quotas import ClientQuotas, ClientUsage
    from headrace.runtime.clock import Clock
    from headrace.servers.kafka.connections.connection import Connection
    from headrace.servers.kafka.interfaces import Request

THROTTLE_MS_MAX: Final = 2**31 - 1  # what the field holds

T = TypeVar("T")


class Meter:
    """Of one connection. Without quotas, as where nodes listen for each other, nothing is counted."""

    __slots__ = ("_client_id", "_connection", "_counted_until_s", "_identity", "_in_force", "_quotas", "_usage")

    def __init__(self, connection: Connection, quotas: ClientQuotas | None) -> None:
        self._connection = connection
        self._quotas = quotas
        self._in_force: object = None
        self._identity: Identity | None = None
        self._client_id: bytes | bytearray | str = ""
        self._usage: ClientUsage | None = None
        self._counted_until_s = 0.0

    @property
    def has_other_quotas(self) -> bool:
        """Than when something was last counted, if ever something was."""
        quotas = self._quotas
        if quotas is None or self._identity is None:
            return False
        return not quotas.are_any or quotas.in_force is not self._in_force

    # ---- one turn of the connection

    def begins_turn(self, now_s: float) -> bool:
        """Where any client has a quota. False if nothing of this turn is to be counted."""
        self._counted_until_s = now_s
        return self._is_counting

    def ends_turn(self) -> None:
        self._spend()

    def staged(
        self, pending: produce.PendingProduce | produce.Frame, client_id: bytes | bytearray, size: int
    ) -> produce.PendingProduce | produce.Frame:
        """One Produce request of so many bytes."""
        self._look_up(client_id)
        if self._usage is None:
            return pending
        throttle_ms = self.mute(self._usage.produced(size))
        if isinstance(pending, produce.Frame):
            return pending._replace(throttle_ms=throttle_ms)
        pending.throttle_ms = throttle_ms
        return pending

    async def counted(self, work: Coroutine[Any, Any, None]) -> None:
        """The beginning of a Produce request that takes several turns."""
        usage = self._usage if self._is_counting else None
        if usage is None:
            await work
            return
        steps = Steps(work, self._connection.clock)
        await steps
        self.mute(usage.spent(steps.took_s))

    def wrote(self, produces: Iterable[produce.PendingProduce]) -> None:
        """To check and to write them took time; they are not answered yet."""
        throttle_ms = self._spend()
        if throttle_ms:
            for pending in produces:
                pending.throttle_ms = max(pending.throttle_ms, throttle_ms)

    # ---- other requests

    def usage_of(self, request: Request) -> ClientUsage | None:
        """What a handler counts itself; it then mutes the connection."""
        if not self._is_counting:
            return None
        self._look_up(request.client_id)
        return self._usage

    def mute(self, wait_s: float) -> int:
        """From now on; in milliseconds, as clients are told."""
        if wait_s <= 0:
            return 0
        self._connection.muting.mute(wait_s)
        return min(ceil(wait_s * 1000), THROTTLE_MS_MAX)

    def handled(self, answer: Any, request: Request) -> Any:
        """In the turn in which the request has come. What is to be encoded."""
        self._look_up(request.client_id)
        return self._told(answer, self._spend())

    async def served(self, work: Coroutine[Any, Any, Any], request: Request) -> Any:
        """The answer of a handler that takes several turns."""
        usage = self.usage_of(request)
        if usage is None:
            return self._told(await work, 0)
        steps = Steps(work, self._connection.clock)
        answer = await steps
        return self._told(answer, self.mute(usage.spent(steps.took_s)))

    def _told(self, answer: Any, throttle_ms: int) -> Any:
        """The answer with the time. A handler may have put another into it, for a quota that it has looked at; and may
        give the same answer to others."""
        decided_ms = getattr(answer, "throttle_time_ms", 0)
        if decided_ms > throttle_ms:
            self.mute(decided_ms / 1000)
        elif throttle_ms and hasattr(answer, "throttle_time_ms"):
            return replace(answer, throttle_time_ms=throttle_ms)
        return answer

    # ---- what all share

    @property
    def _is_counting(self) -> bool:
        """Who is not let in yet is nobody whose quota is known; a login has limits of its own."""
        return self._quotas is not None and self._quotas.are_any and self._connection.kept_out_by is None

    def _look_up(self, client_id: bytes | bytearray | str) -> None:
        quotas, identity = self._quotas, self._connection.identity
        assert quotas is not None, "where nodes listen for each other nothing is counted"
        if client_id == self._client_id and identity is self._identity and quotas.in_force is self._in_force:
            return
        name = client_id if isinstance(client_id, str) else client_id.decode(errors="replace")
        self._usage = quotas.usage_of(identity, name)
        self._client_id, self._identity, self._in_force = client_id, identity, quotas.in_force

    def _spend(self) -> int:
        """What has passed since this was last asked."""
        now_s = self._connection.clock.monotonic_s()
        took_s, self._counted_until_s = now_s - self._counted_until_s, now_s
        return 0 if self._usage is None else self.mute(self._usage.spent(took_s))


class Steps(Generic[T]):
    """Awaits a coroutine, and counts how long the loop was busy with it."""

    __slots__ = ("_clock", "_work", "took_s")

    def __init__(self, work: Coroutine[Any, Any, T], clock: Clock) -> None:
        self._work = work
        self._clock = clock
        self.took_s = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        work, clock = self._work, self._clock
        step = partial(work.send, None)
        while True:
            began_s = clock.monotonic_s()
            try:
                awaited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.took_s += clock.monotonic_s() - began_s
            try:
                step = partial(work.send, (yield awaited))
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever awaited this
                step = partial(work.throw, error)

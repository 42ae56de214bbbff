"""Requests that are not done in the turn in which they come: their connection waits for them.

Nothing of the same client overtakes one, so a connection has one at a time. Its bytes stay where they are in the
receive buffer: nothing is read into that while the connection is paused.
"""

from __future__ import annotations

from functools import partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from headrace.model.errors import DiskFailure
from headrace.servers.kafka.handlers.records import produce
from headrace.wire.api import ApiKey
from headrace.wire.frames import encode_response
from headrace.wire.primitives import Malformed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from headrace.servers.kafka.connections.connection import Connection
    from headrace.servers.kafka.interfaces import Api, Request
    from headrace.servers.kafka.slot import Slot
    from headrace.wire.primitives import Reader

READING = "large-requests"  # a thread of its own: who sends many of them holds up nobody's disk
LARGE_ANSWERS = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_ACLS,
    }
)
"""Encoded beside the loop, if they are not answered at once: with tens of thousands of members or partitions that takes
30 to 90 ms. Nobody asks for them often."""


class SlowRequests:
    """Those of one connection."""

    __slots__ = ("_connection", "is_one_under_way", "produce_task")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.is_one_under_way = False
        """The connection takes no more requests until it is answered, or begun if it is a Produce."""
        self.produce_task: asyncio.Task[None] | None = None
        """Begins a Produce request that has to wait before it can begin, and lies in the buffer meanwhile."""

    # ---- Produce requests that wait before they begin

    def begin_produce(self, frame: produce.Frame) -> None:
        connection = self._connection
        self.is_one_under_way = True
        connection.pause()
        self.produce_task = connection.server.tasks.start(self._begin_in_turn(frame), f"produce {connection.link.peer}")
        self.produce_task.add_done_callback(self._has_begun)

    def _has_begun(self, task: asyncio.Task[None]) -> None:
        """Its client may have gone meanwhile. The memory that holds a request counts as taken until it has begun."""
        if self.produce_task is task:  # the next one may wait already
            self.produce_task = None
        connection = self._connection
        if connection.is_gone and self.produce_task is None:
            connection.let_go_of_memory()
            connection.server.has_served(connection)

    async def _begin_in_turn(self, frame: produce.Frame) -> None:
        connection = self._connection
        try:
            await connection.meter.counted((self._serve_crowd if frame.is_crowd else self._begin_one)(frame))
        except Malformed as error:
            connection.refuse(str(error))
        except DiskFailure as failure:
            connection.server.parts.health.failure.fail(failure)
        except Exception:  # noqa: BLE001 - a bug met by one client must not reach the others
            connection.met_a_bug("the beginning of a Produce request")
        self.is_one_under_way = False
        self.produce_task = None
        connection.send_ready()
        connection.keep_pace()

    async def _begin_one(self, frame: produce.Frame) -> None:
        connection = self._connection
        pending = await produce.begin_slowly(connection.server.parts.produce, connection, frame)
        if pending.acks and not connection.is_gone:
            connection.stand_in_line(pending)
        pending.finish(connection)

    async def _serve_crowd(self, frame: produce.Frame) -> None:
        """Few of those at a time, and each to its end."""
        connection = self._connection
        async with connection.server.crowds.turn(connection.address):
            await produce.serve_crowd(connection.server.parts.produce, connection, frame)

    # ---- all others

    def begin(self, slot: Slot, work: Coroutine[Any, Any, Any], name: str, api_key: int, request: Request) -> None:
        """`work` gives the answer that belongs into the slot."""
        connection = self._connection
        self.is_one_under_way = True
        connection.server.tasks.start(self._serve(slot, work, api_key, request), f"{name} {connection.link.peer}")

    async def handle_large(self, api: Api, reader: Reader, request: Request) -> Any:
        """Tens of thousands of names take a tenth of a second to read: not on the loop."""
        decode = partial(api.request.decode, reader, request.version)
        message = await self._connection.server.parts.world.threads.run(decode, lane=READING)
        outcome = api.handle(message, request)
        return await outcome if iscoroutine(outcome) else outcome

    async def _serve(self, slot: Slot, work: Coroutine[Any, Any, Any], api_key: int, request: Request) -> None:
        connection = self._connection
        try:
            answer = await (self._large_answer if api_key in LARGE_ANSWERS else self._answer)(work, api_key, request)
        except Malformed as error:
            connection.refuse(str(error))
        except DiskFailure as failure:
            connection.server.parts.health.failure.fail(failure)
        except Exception:  # noqa: BLE001 - a bug met by one client must not reach the others
            connection.met_a_bug(f"api key {api_key} version {request.version}")
        else:
            self.is_one_under_way = False
            connection.answer_later(slot, (answer,))
        finally:
            work.close()  # if it never came to its turn

    async def _answer(self, work: Coroutine[Any, Any, Any], api_key: int, request: Request) -> bytes:
        answer = await self._connection.meter.served(work, request)
        return encode_response(request.correlation_id, api_key, request.version, answer)

    async def _large_answer(self, work: Coroutine[Any, Any, Any], api_key: int, request: Request) -> bytes:
        """Few at a time: each may take some 32 MiB, and is counted only when it is there."""
        connection = self._connection
        async with connection.server.large_answers.turn(connection.address):
            await connection.server.answers.has_room()
            answer = await connection.meter.served(work, request)
            encode = partial(encode_response, request.correlation_id, api_key, request.version, answer)
            return await connection.server.parts.world.threads.run(encode)

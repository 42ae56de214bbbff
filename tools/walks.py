"""`python -m tools.walks`: the way of a request through the house, as a node really goes it, and how long it is.

One node in this process, durable as ever; one request at a time, and every call between two of our functions is noted
while it is under way. A *stop* is a file that is entered; a *hop* is a call from one file to another; an *entry* is
when the event loop or a thread calls in: more than one means that the request has come back to wait. Codecs (`wire/`)
and words (`model/`) are where every way stops all the time, so they are not counted. Of several tries the shortest is
shown: in the others somebody else had something to do as well.
"""

from __future__ import annotations

import argparse
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench import wire
from headrace.testing.broker import Broker
from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import FrameType

    from headrace.wire.primitives import Encodable

HOUSE: Final = str(Path(__file__).parents[1] / "src" / "headrace") + "/"
NOT_COUNTED: Final = ("wire/", "model/")
TRIES: Final = 9
TOPIC: Final = "walked"


class Call(NamedTuple):
    caller: str
    """The file that calls; empty if nobody of the house does."""
    file: str
    function: str


class Walk(NamedTuple):
    calls: list[Call]

    @property
    def hops(self) -> list[Call]:
        return [call for call in self.calls if call.caller and call.caller != call.file]

    @property
    def entries(self) -> int:
        return sum(not call.caller for call in self.calls)

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(call.file for call in self.calls))

    def __str__(self) -> str:
        return (
            f"{len(self.hops)} hops, {len(self.files)} files, {len(self.calls)} calls, the loop called in "
            f"{self.entries} times"
        )


class Tracer:
    """Notes calls in the thread that it is set for."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        file = _file_of(frame)
        if file and frame.f_code.co_name not in {"<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}:
            self.calls.append(Call(_caller_of(frame), file, frame.f_code.co_qualname))


def _file_of(frame: FrameType) -> str:
    name = frame.f_code.co_filename
    if not name.startswith(HOUSE):
        return ""
    file = name.removeprefix(HOUSE)
    return "" if file.startswith(NOT_COUNTED) else file


def _caller_of(frame: FrameType) -> str:
    """The nearest file of the house that is counted, up to where the loop or a thread has called in."""
    caller = frame.f_back
    while caller is not None:
        file = _file_of(caller)
        if file:
            return file
        if not caller.f_code.co_filename.startswith(HOUSE) and "asyncio" in caller.f_code.co_filename:
            return ""
        caller = caller.f_back
    return ""


def walked(broker: Broker, ask: Callable[[], object]) -> Walk:
    tracer = Tracer()
    _in_loop(broker, lambda: sys.setprofile(tracer))
    try:
        ask()
    finally:
        _in_loop(broker, lambda: sys.setprofile(None))
    # From the first byte that is received on: what came before is not of this request.
    first = next(place for place, call in enumerate(tracer.calls) if call.file.startswith("servers/kafka/"))
    return Walk(tracer.calls[first:])


def _in_loop(broker: Broker, work: Callable[[], object]) -> None:
    done = threading.Event()

    def run() -> None:
        work()
        done.set()

    broker._loop.call_soon_threadsafe(run)
    done.wait()


def shortest(broker: Broker, ask: Callable[[int], object]) -> Walk:
    tries = [walked(broker, partial(ask, number)) for number in range(TRIES)]
    return min(tries, key=lambda walk: len(walk.calls))


def walks(broker: Broker) -> dict[str, Walk]:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with wire.connect(port, within_s=10) as connection:
        wire.create_topic(connection, TOPIC, 1)
        wire.produce_one(connection, TOPIC, b"first")  # opens what is opened once
        return {
            "Produce, acks=all": shortest(broker, lambda _: wire.produce_one(connection, TOPIC, b"value")),
            "Fetch": shortest(broker, lambda _: _fetch(connection)),
            "CreateTopics": shortest(broker, lambda number: _create(connection, number)),
        }


def _fetch(connection: socket.socket) -> None:
    wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    _ask(connection, 1, 11, FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(TOPIC, partitions=[wanted])]))


def _create(connection: socket.socket, number: int) -> None:
    _ask(connection, 19, 5, CreateTopicsRequest([CreatableTopic(f"made-{number}", 1, 1)], 30_000))


def _ask(connection: socket.socket, key: int, version: int, message: Encodable) -> None:
    connection.sendall(encode_request(RequestHeader(key, version, 1, "walks"), message))
    size = int.from_bytes(wire._receive(connection, 4), "big")
    wire._receive(connection, size)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.walks", description=__doc__)
    parser.add_argument("--stops", action="store_true", help="name every stop, in order")
    asked = parser.parse_args()
    with Broker(is_durable=True) as broker:
        for name, walk in walks(broker).items():
            print(f"{name}: {walk}")
            if asked.stops:
                for call in walk.calls:
                    print(f"  {'  ' if call.caller else ''}{call.file}  {call.function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

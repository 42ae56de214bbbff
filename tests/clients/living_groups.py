"""A consumer group at work: members in threads or processes of their own, and one history of what they saw."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from headrace.client.groups.consumer_protocol import decode_assignment
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from tests.clients.group_clients import FLAVOURS, MODERN, Membership, Place
from tests.clients.group_history import Event, GroupHistory, Kind
from tests.clients.nodes import new_name
from tests.clients.raw_connection import RawConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection
    from types import TracebackType
    from typing import Self

    from tests.clients.group_clients import Face, Positions, Timing
    from tests.clients.nodes import NodeProcess

LEAVE = "leave"
PATIENCE_S = 120.0  # against hangs only; everything waited for here takes a few seconds
LOOK_EVERY_S = 0.05
COMMIT_TRIES_MAX = 20  # a member of the newer protocol may have to hear of its next epoch first


# ---- in the member's thread or process


class Reporter:
    """Follows where a member is, and reports it as it happens."""

    def __init__(self, name: str, pipe: Connection) -> None:
        self._name = name
        self._pipe = pipe
        self._positions: Positions = {}
        self._committed: Positions = {}

    def gained(self, places: Iterable[Place]) -> None:
        self._report(Kind.GAINED, places)

    def gives_up(self, places: Iterable[Place]) -> Positions:
        given = list(places)
        self._report(Kind.GAVE_UP, given)
        return self._take(given)

    def lost(self, places: Iterable[Place]) -> None:
        given = list(places)
        self._report(Kind.LOST, given)
        self._take(given)

    def read(self, place: Place, offset: int) -> None:
        self._positions[place] = offset + 1
        self._report(Kind.READ, [place], offset)

    def failed(self, problem: str) -> None:
        self._report(Kind.FAILED, problem=problem)

    def uncommitted(self) -> Positions:
        return {place: at for place, at in self._positions.items() if self._committed.get(place) != at}

    def committed(self, positions: Positions) -> None:
        self._committed.update(positions)

    def gone(self) -> None:
        self._report(Kind.GONE)

    def _take(self, places: Iterable[Place]) -> Positions:
        return {place: self._positions.pop(place) for place in places if place in self._positions}

    def _report(self, kind: Kind, places: Iterable[Place] = (), offset: int = -1, problem: str = "") -> None:
        self._pipe.send(Event(time.monotonic(), self._name, kind, tuple(places), offset, problem))


def run_member(name: str, membership: Membership, pipe: Connection) -> None:
    """Read, and commit what was read, until told to leave."""
    reporter = Reporter(name, pipe)
    face = FLAVOURS[membership.flavour](membership, reporter)
    face.subscribe(membership.topics)
    while True:
        if pipe.poll():
            order = pipe.recv()
            if order == LEAVE:
                break
            face.subscribe(order)
        face.poll()
        _commit(face, reporter, tries_max=1)
    _commit(face, reporter, tries_max=COMMIT_TRIES_MAX)
    reporter.gone()
    face.close()
    pipe.close()


def _commit(face: Face, reporter: Reporter, tries_max: int) -> None:
    for _ in range(tries_max):
        positions = reporter.uncommitted()
        if not positions:
            return
        if face.commit(positions):
            reporter.committed(positions)


# ---- in the test


@dataclass
class LivingMember:
    name: str
    membership: Membership
    runner: threading.Thread | Any
    """A thread, or a process of multiprocessing."""
    pipe: Connection
    listener: threading.Thread


class LivingGroup:
    """Use it with `with`: whatever happens, nobody is left behind."""

    def __init__(self, node: NodeProcess, flavour: str, topics: dict[str, int], timing: Timing) -> None:
        self.history = GroupHistory(may_overlap=flavour == MODERN)
        self.written: dict[Place, int] = {}
        self.name = new_name("group")
        self.topics = topics
        """The subscription, with the number of partitions of each topic."""
        self._node = node
        self._membership = Membership(flavour, node.bootstrap_servers, self.name, tuple(topics), timing)
        self._members: dict[str, LivingMember] = {}
        self._joined = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in list(self._members.values()):
            self.thaw(member.name)
            with suppress(OSError):
                member.pipe.send(LEAVE)
        for member in list(self._members.values()):
            self._wait_gone(member)

    @property
    def places(self) -> set[Place]:
        return {Place(topic, number) for topic, count in self.topics.items() for number in range(count)}

    @property
    def flavour(self) -> str:
        return self._membership.flavour

    # Members

    def join(self, *, instance_id: str | None = None, timing: Timing | None = None, in_process: bool = False) -> str:
        """A new member, by its name. It has not yet joined when this returns."""
        self._joined += 1
        name = f"member-{self._joined}"
        membership = replace(
            self._membership,
            instance_id=instance_id,
            topics=tuple(self.topics),
            timing=timing or self._membership.timing,
        )
        ours, theirs = multiprocessing.Pipe()
        runner: Any
        if in_process:
            runner = multiprocessing.get_context("spawn").Process(target=run_member, args=(name, membership, theirs))
            runner.start()
            theirs.close()
        else:
            runner = threading.Thread(target=run_member, args=(name, membership, theirs), name=name, daemon=True)
            runner.start()
        listener = threading.Thread(target=self._listen, args=(ours,), daemon=True)
        listener.start()
        self._members[name] = LivingMember(name, membership, runner, ours, listener)
        return name

    def _listen(self, pipe: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                self.history.add(pipe.recv())

    def leave(self, name: str) -> None:
        member = self._members[name]
        member.pipe.send(LEAVE)
        self._wait_gone(member)

    def kill(self, name: str) -> None:
        """SIGKILL: it says goodbye to nobody."""
        member = self._members[name]
        member.runner.kill()
        self._wait_gone(member)
        self.history.add(Event(time.monotonic(), name, Kind.GONE))

    def freeze(self, name: str) -> None:
        """Neither polls nor sends heartbeats any more, and does not know it."""
        os.kill(self._members[name].runner.pid, signal.SIGSTOP)
        self.history.add(Event(time.monotonic(), name, Kind.GONE))

    def thaw(self, name: str) -> None:
        pid = getattr(self._members[name].runner, "pid", None)
        if pid is not None:
            os.kill(pid, signal.SIGCONT)

    def subscribe(self, name: str, topics: Iterable[str]) -> None:
        self._members[name].pipe.send(tuple(topics))

    def _wait_gone(self, member: LivingMember) -> None:
        del self._members[member.name]
        member.runner.join(PATIENCE_S)
        assert not member.runner.is_alive(), f"{member.name} does not end\n{self.history}"
        member.listener.join(PATIENCE_S)
        member.pipe.close()

    # Messages

    def write(self, count: int) -> None:
        """So many messages to each partition of each topic."""
        producer = Producer({"bootstrap.servers": self._node.bootstrap_servers, "linger.ms": 5})
        failures: list[str] = []
        for place in sorted(self.places):
            for _ in range(count):
                producer.produce(
                    place.topic,
                    b"message",
                    partition=place.partition,
                    on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
                )
            self.written[place] = self.written.get(place, 0) + count
        assert producer.flush(PATIENCE_S) == 0
        assert not failures, failures

    def wait_all_read(self) -> None:
        written = [(place, offset) for place, count in self.written.items() for offset in range(count)]
        self.wait_until(lambda: not self.history.missing(written), "all messages are read")

    # Ownership

    def wait_settled(self, *names: str) -> None:
        """Until these members, and only they, have all partitions, each of them some, and the node says the same."""
        self.wait_until(lambda: self._is_settled(set(names)), f"{names} share everything")

    def _is_settled(self, names: set[str]) -> bool:
        owned = self.history.owned()
        if owned.keys() != names or set().union(*owned.values()) != self.places:
            return False
        known = self.known_to_the_node()
        return sorted(map(sorted, known.values())) == sorted(map(sorted, owned.values()))

    def known_to_the_node(self) -> dict[str, set[Place]]:
        """What each member, by its member id, is assigned. Raises AssertionError if something is assigned twice."""
        with RawConnection(self._node.bootstrap_servers) as connection:
            describe = _described_modern if self.flavour == MODERN else _described_classic
            known = describe(connection, self.name)
        places = [place for assigned in known.values() for place in assigned]
        assert len(places) == len(set(places)), f"assigned twice: {known}\n{self.history}"
        return known

    def last_move_s(self) -> float:
        """When somebody gained or gave up something for the last time."""
        return max(event.at_s for event in self.history.events(Kind.GAINED, Kind.GAVE_UP, Kind.LOST))

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline_s, (
                f"waited in vain until {what}\nthe node knows {self.known_to_the_node()}\n"
                f"the members saw\n{self.history}"
            )
            time.sleep(LOOK_EVERY_S)


def _described_classic(connection: RawConnection, group: str) -> dict[str, set[Place]]:
    described = connection.ask(DescribeGroupsRequest([group])).groups[0]
    return {
        member.member_id: {Place(*name) for name in decode_assignment(member.member_assignment)}
        for member in described.members
    }


def _described_modern(connection: RawConnection, group: str) -> dict[str, set[Place]]:
    described = connection.ask(ConsumerGroupDescribeRequest([group])).groups[0]
    return {
        member.member_id: {
            Place(topic.topic_name, number)
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        }
        for member in described.members
    }

"""Several minds in a small world: disks that forget, a network that loses, a clock that jumps, one seed of chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.model.names import NodeId, Offset
from headrace.raft.log import EMPTY_SNAPSHOT, NO_TERM, Snapshot
from headrace.raft.membership import Membership, ReplicaKey, Voter
from headrace.raft.node import RaftNode
from headrace.raft.ready import Role
from tests.unit.raft.raft_disk import RaftDisk
from tests.unit.raft.raft_judge import Judge, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.raft.messages import OutboundMessage
    from headrace.raft.ready import Ready

ANY_LIFE = -1
EVENTS_MAX = 200_000  # a world that goes on longer is caught in a storm of messages


@dataclass(slots=True)
class Weather:
    """How the network and the disks behave."""

    delay_ms: tuple[int, int] = (1, 1)
    flush_ms: tuple[int, int] = (1, 1)
    loss: float = 0.0
    doubles: float = 0.0
    stragglers: float = 0.0
    """How many messages come late by whole seconds."""


class Host:
    """One machine: a disk that stays, and a mind that lives from start to crash."""

    def __init__(self, world: World, node_id: NodeId, directory: bytes) -> None:
        self.world = world
        self.node_id = node_id
        self.disk = RaftDisk(directory, world.first_snapshot(node_id))
        self.life = 0
        self.is_up = False
        self.is_flushing = False
        self.paused_until_ms = 0
        self.tick_at_ms = -1
        self.flush_ms: int | None = None
        self.chance: Callable[[], float] = world.chance.random

    @property
    def me(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.disk.directory)

    @property
    def is_leader(self) -> bool:
        return self.is_up and self.node.role is Role.LEADER

    def start(self) -> None:
        self.life += 1
        self.is_up, self.is_flushing, self.tick_at_ms = True, False, -1
        self.disk.settle()
        self.state = self.disk.snapshot.payload
        self.commit_end = Offset(0)
        self.node = RaftNode(
            self.me, self.disk.log(), self.disk.hard_state, now_ms=self.world.now_ms, chance=self.chance
        )
        self.world.pump(self)

    def crash(self) -> None:
        self.is_up = False
        self.disk.crash(self.world.chance)

    def summed_up(self) -> Snapshot:
        """A snapshot of everything that is applied here."""
        log = self.node.log
        term = log.term_before(log.commit_end)
        assert term is not None
        return Snapshot(log.commit_end, term, log.membership_at(log.commit_end), self.state)


class World:
    def __init__(
        self,
        seed: int = 0,
        *,
        voters: Iterable[int] = (1, 2, 3),
        others: Iterable[int] = (),
        weather: Weather | None = None,
    ) -> None:
        self.chance = Random(seed)
        self.weather = weather or Weather()
        self.now_ms = 1_000_000
        self.judge = Judge()
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.figures: Counter[str] = Counter()
        self.watchers: list[Callable[[Host, Ready], None]] = []
        self._bootstrap = Membership(tuple(Voter(NodeId(voter)) for voter in voters))
        self._events: list[tuple[int, int, int, int, Callable[[Host], None]]] = []
        self._event_count = 0
        self._serial = 0
        self.disks: dict[ReplicaKey, RaftDisk] = {}  # also those that were replaced: their word counted while it lasted
        self.hosts: dict[NodeId, Host] = {}
        for node_id in [*self._bootstrap.voter_ids, *map(NodeId, others)]:
            host = self.hosts[node_id] = Host(self, node_id, b"disk-%d" % node_id)
            self.disks[host.me] = host.disk

    def first_snapshot(self, node_id: NodeId) -> Snapshot:
        """Who was named at the beginning knows the others; who joins later knows nobody."""
        is_founder = node_id in self._bootstrap.voter_ids
        return Snapshot(Offset(0), NO_TERM, self._bootstrap, b"") if is_founder else EMPTY_SNAPSHOT

    def start(self) -> World:
        for host in self.hosts.values():
            host.start()
        return self

    # ---- time

    def at(self, delay_ms: int, host: Host, act: Callable[[Host], None]) -> None:
        """Later, unless the host's life is over by then."""
        self._at(delay_ms, host, host.life, act)

    def _at(self, delay_ms: int, host: Host, life: int, act: Callable[[Host], None]) -> None:
        self._serial += 1
        heappush(self._events, (self.now_ms + delay_ms, self._serial, host.node_id, life, act))

    def run(self, duration_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Returns whether it has come to that."""
        end_ms = self.now_ms + duration_ms
        while not until():
            if not self._events or self._events[0][0] > end_ms:
                self.now_ms = end_ms
                return until()
            self._turn()
        return True

    def _turn(self) -> None:
        self._event_count += 1
        expect(self._event_count < EVENTS_MAX, "a storm")
        at_ms, _, node_id, life, act = heappop(self._events)
        self.now_ms = max(self.now_ms, at_ms)
        host = self.hosts[NodeId(node_id)]
        if life not in {ANY_LIFE, host.life} or not host.is_up:
            return
        if host.paused_until_ms > self.now_ms:
            self._at(host.paused_until_ms - self.now_ms, host, life, act)
            return
        act(host)
        self.pump(host)

    # ---- what the shell does

    def pump(self, host: Host) -> None:
        while (ready := host.node.ready()) is not None:
            self._perform(host, ready)
        self.judge.saw_node(host)
        deadline_ms = host.node.next_deadline_ms()
        if host.tick_at_ms < self.now_ms or deadline_ms < host.tick_at_ms:
            host.tick_at_ms = max(deadline_ms, self.now_ms + 1)
            self.at(host.tick_at_ms - self.now_ms, host, self._tick)

    def _tick(self, host: Host) -> None:
        host.tick_at_ms = -1
        host.node.tick(self.now_ms)

    def _perform(self, host: Host, ready: Ready) -> None:
        for watcher in self.watchers:
            watcher(host, ready)
        self.judge.saw_role(host, ready)
        self.judge.saw_saving(host, ready)
        for outbound in ready.messages:
            self.judge.saw_message(host.disk, outbound)
            self._send(host, outbound)
        if not ready.saving.is_empty:
            host.disk.unflushed.append(ready.saving)
            self._flush_soon(host)
        if ready.installed is not None:
            self.figures["snapshots"] += 1
            self.judge.saw_installed(host, ready.installed.end, ready.installed.payload)
        self.judge.saw_committed(host, ready.committed, self.disks)
        for read_state in ready.read_states:
            self.figures["reads"] += 1
            self.judge.saw_readable(read_state)
        for token in ready.lost_reads:
            self.judge.lost_read(token)

    def _flush_soon(self, host: Host) -> None:
        if not host.is_flushing and host.disk.unflushed:
            host.is_flushing = True
            self.at(host.flush_ms or self.chance.randint(*self.weather.flush_ms), host, self._flush)

    def _flush(self, host: Host) -> None:
        """One sync may cover several savings."""
        for _ in range(self.chance.randint(1, len(host.disk.unflushed))):
            host.node.flushed(host.disk.flush(), self.now_ms)
        host.is_flushing = False
        self._flush_soon(host)

    # ---- the network

    def _send(self, host: Host, outbound: OutboundMessage) -> None:
        if (host.node_id, outbound.target) in self.cuts or self.chance.random() < self.weather.loss:
            return
        for _ in range(2 if self.chance.random() < self.weather.doubles else 1):
            delay_ms = self.chance.randint(*self.weather.delay_ms)
            if self.chance.random() < self.weather.stragglers:
                delay_ms += self.chance.randint(1000, 5000)
            self._deliver_in(delay_ms, outbound, host.node_id)

    def _deliver_in(self, delay_ms: int, outbound: OutboundMessage, source: NodeId) -> None:
        def deliver(host: Host) -> None:
            if (source, outbound.target) not in self.cuts:
                host.node.step(outbound.message, self.now_ms)

        self._at(
            delay_ms, self.hosts[outbound.target], ANY_LIFE, deliver
        )  # a message may outlive the process that it was sent to

    def cut(self, *parts: Iterable[int]) -> None:
        """The parts no longer hear each other."""
        places = {NodeId(node_id): place for place, part in enumerate(parts) for node_id in part}
        self.cuts = {(a, b) for a in places for b in places if places[a] != places[b]}

    # ---- what is asked of it

    @property
    def leader(self) -> Host | None:
        """Of the latest term."""
        return max((host for host in self.up() if host.is_leader), key=lambda host: host.node.term, default=None)

    def up(self) -> list[Host]:
        return [host for host in self.hosts.values() if host.is_up]

    def ask(self, host: Host, act: Callable[[RaftNode], object]) -> bool:
        """Whether the node was willing."""
        if not host.is_up or host.paused_until_ms > self.now_ms:
            return False
        try:
            act(host.node)
        except Refusal:
            return False
        finally:
            self.pump(host)
        return True

    def propose(self, host: Host, payload: bytes) -> bool:
        width = 1 + len(payload) % 3
        return self.ask(host, lambda node: node.propose(payload, width))

    def read(self, host: Host) -> bool:
        token = object()
        self.judge.asked_read(token)
        is_willing = self.ask(host, lambda node: node.read(token, self.now_ms))
        if not is_willing:
            self.judge.lost_read(token)
        return is_willing

    def snapshot(self, host: Host, keep: int = 0) -> None:
        """Sum up what is decided, and let go of the entries but for the last few offsets."""
        log = host.node.log
        if log.commit_end > log.snapshot.end and not host.disk.unflushed:
            snapshot = host.summed_up()
            host.node.compact(snapshot, Offset(max(0, snapshot.end - keep)))
            host.disk.compact(snapshot, log.start)

    def replace_disk(self, node_id: NodeId) -> None:
        host = self.hosts[node_id]
        if host.is_up:
            host.crash()
        self._serial += 1
        # Who founded a cluster alone must join it now: it would found another one.
        founded_alone = len(self._bootstrap.voters) == 1
        first = EMPTY_SNAPSHOT if founded_alone else self.first_snapshot(node_id)
        host.disk = RaftDisk(b"disk-%d-%d" % (node_id, self._serial), first)
        self.disks[host.me] = host.disk

    # ---- when all is well again

    def heal(self) -> None:
        self.cuts = set()
        self.weather = Weather(delay_ms=(1, 20), flush_ms=(1, 10))
        for host in self.hosts.values():
            host.paused_until_ms = 0
            if not host.is_up:
                host.start()

    def expect_progress(self) -> None:
        """Everybody is up and can talk: soon somebody leads, and what is proposed is decided and known everywhere."""
        self.heal()
        self.run(6000)  # what was still on its way, to stand for election perhaps, has arrived
        voted = self.run(30_000, lambda: self.leader is not None and self._is_followed(self.leader))
        expect(voted, "no leader within 30 s")
        leader = self.leader
        assert leader is not None
        ends: list[Offset] = []
        for number in range(20):
            payload = b"late %d" % number
            if not self.ask(leader, partial(_propose_late, payload, ends)):
                self.run(3000)  # it was about to hand over
            leader = self.leader or leader
        self.run(10_000, lambda: all(host.node.log.commit_end >= ends[-1] for host in self._members()))
        for host in self._members():
            expect(host.node.log.commit_end >= ends[-1], host.me, "has", host.node.log.commit_end, "of", ends[-1])

    def _is_followed(self, leader: Host) -> bool:
        return all(host.node.get_leader() == leader.node_id for host in self._members())

    def _members(self) -> list[Host]:
        leader = self.leader
        everybody = leader.node.membership.everybody if leader else tuple(self.hosts)
        return [self.hosts[node_id] for node_id in everybody]


def _propose_late(payload: bytes, ends: list[Offset], node: RaftNode) -> None:
    ends.append(node.propose(payload))
